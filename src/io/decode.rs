//! From the bytes of a file to float32 in SI units, in one pass: byte order, shuffling, packing, missing values, units.
//!
//! Every way of reading ends here, so that all of them give the same bits.

use super::info::{Linear, Number, VariableInfo};

/// How the bytes of a run of numbers are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrangement {
    LittleEndian,
    BigEndian,
    /// HDF5's shuffle of little-endian numbers: all first bytes, then all second bytes, ...
    Shuffled,
}

impl Arrangement {
    /// How this machine arranges numbers in memory.
    pub(super) const NATIVE: Self =
        if cfg!(target_endian = "big") { Self::BigEndian } else { Self::LittleEndian };
}

/// Turns stored numbers into values.
#[derive(Debug, Clone)]
pub(super) struct Decoder {
    number: Number,
    scale: Linear,
    conversion: Linear,
    low: f64,
    high: f64,
    /// The first two numbers that mean "missing"; NaN, which equals nothing, where there are fewer.
    missing: [f64; 2],
    /// The others, hardly ever any.
    more_missing: Vec<f64>,
    /// Numbers that are float32 values in SI units already need no float64; those that mean "missing".
    plain: Option<[f32; 2]>,
}

impl Decoder {
    pub fn new(variable: &VariableInfo) -> Self {
        let packing = &variable.packing;
        let nth = |n: usize| packing.missing.get(n).copied().unwrap_or(f64::NAN);
        Self {
            number: packing.number,
            scale: packing.scale,
            conversion: variable.conversion,
            low: packing.valid_min.unwrap_or(f64::NEG_INFINITY),
            high: packing.valid_max.unwrap_or(f64::INFINITY),
            missing: [nth(0), nth(1)],
            more_missing: packing.missing.iter().skip(2).copied().collect(),
            plain: None,
        }
        .seen_through()
    }

    /// Finds out whether the stored numbers are the values.
    fn seen_through(mut self) -> Self {
        let as_stored = self.number == Number::F32
            && [self.scale, self.conversion] == [Linear::IDENTITY; 2]
            && self.low == f64::NEG_INFINITY
            && self.high == f64::INFINITY
            && self.more_missing.is_empty();
        // A float64 that is no float32 equals none of the stored numbers, and neither may what it is rounded to.
        let exact = |x: f64| if f64::from(x as f32) == x { x as f32 } else { f32::NAN };
        self.plain = as_stored.then_some(self.missing.map(exact));
        self
    }

    /// Decodes the numbers `start, start + stride, ...` of `bytes` into all of `out`, in SI units with NaN for
    /// missing. The caller has checked that `bytes` holds them.
    pub fn decode(&self, bytes: &[u8], how: Arrangement, start: usize, stride: usize, out: &mut [f32]) {
        let place = (how, start, stride);
        if let Some(missing) = self.plain {
            return numbers(bytes, place, out, |b| value_or_missing(f32::from_le_bytes(b), missing));
        }
        if self.more_missing.is_empty() {
            self.decode_each(bytes, place, out, |stored| self.value(stored));
        } else {
            self.decode_each(bytes, place, out, |stored| self.value_among_many(stored));
        }
    }

    #[inline(always)]
    fn decode_each(
        &self,
        bytes: &[u8],
        place: (Arrangement, usize, usize),
        out: &mut [f32],
        value: impl Fn(f64) -> f32,
    ) {
        match self.number {
            Number::I8 => numbers(bytes, place, out, |b: [u8; 1]| value(i8::from_le_bytes(b).into())),
            Number::U8 => numbers(bytes, place, out, |b: [u8; 1]| value(b[0].into())),
            Number::I16 => numbers(bytes, place, out, |b| value(i16::from_le_bytes(b).into())),
            Number::U16 => numbers(bytes, place, out, |b| value(u16::from_le_bytes(b).into())),
            Number::I32 => numbers(bytes, place, out, |b| value(i32::from_le_bytes(b).into())),
            Number::U32 => numbers(bytes, place, out, |b| value(u32::from_le_bytes(b).into())),
            Number::I64 => numbers(bytes, place, out, |b| value(i64::from_le_bytes(b) as f64)),
            Number::U64 => numbers(bytes, place, out, |b| value(u64::from_le_bytes(b) as f64)),
            Number::F32 => numbers(bytes, place, out, |b| value(f32::from_le_bytes(b).into())),
            Number::F64 => numbers(bytes, place, out, |b| value(f64::from_le_bytes(b))),
        }
    }

    /// `((stored * scale + offset) * factor + offset)`, in float64, rounded once.
    #[inline(always)]
    fn value(&self, stored: f64) -> f32 {
        // NaN fails the comparisons, and so becomes the one NaN that stands for missing. All are made, whatever the
        // first ones say: without branches the loop around runs in SIMD.
        let good = (stored >= self.low) & (stored <= self.high);
        let named = (stored == self.missing[0]) | (stored == self.missing[1]);
        let value = self.conversion.apply(self.scale.apply(stored)) as f32;
        if good & !named { value } else { f32::NAN }
    }

    /// As [`value`](Self::value), where more than two numbers mean "missing".
    fn value_among_many(&self, stored: f64) -> f32 {
        if self.more_missing.contains(&stored) { f32::NAN } else { self.value(stored) }
    }
}

/// A float32 as it is stored, or the one NaN that stands for missing. An offset of zero turns -0 into 0, as it does in
/// float64.
#[inline(always)]
fn value_or_missing(stored: f32, missing: [f32; 2]) -> f32 {
    let named = stored == missing[0] || stored == missing[1];
    if named || stored.is_nan() { f32::NAN } else { stored + 0.0 }
}

/// Decodes `out.len()` numbers; `value` makes a value from the little-endian bytes of one.
#[inline(always)]
fn numbers<const N: usize>(
    bytes: &[u8],
    (how, start, stride): (Arrangement, usize, usize),
    out: &mut [f32],
    value: impl Fn([u8; N]) -> f32,
) {
    if stride != 1 {
        for (n, out) in out.iter_mut().enumerate() {
            *out = value(one(bytes, how, start + n * stride));
        }
        return;
    }
    let count = out.len();
    match how {
        Arrangement::Shuffled => {
            // One stream per byte of the number; the loop over them is unrolled, so that it runs in SIMD.
            let whole = bytes.len() / N;
            let streams: [&[u8]; N] = std::array::from_fn(|k| &bytes[k * whole + start..][..count]);
            for (n, out) in out.iter_mut().enumerate() {
                *out = value(std::array::from_fn(|k| streams[k][n]));
            }
        }
        Arrangement::LittleEndian => {
            let (numbers, _) = bytes[start * N..][..count * N].as_chunks::<N>();
            for (out, raw) in out.iter_mut().zip(numbers) {
                *out = value(*raw);
            }
        }
        Arrangement::BigEndian => {
            let (numbers, _) = bytes[start * N..][..count * N].as_chunks::<N>();
            for (out, raw) in out.iter_mut().zip(numbers) {
                let mut raw = *raw;
                raw.reverse();
                *out = value(raw);
            }
        }
    }
}

/// The little-endian bytes of one number.
#[inline(always)]
fn one<const N: usize>(bytes: &[u8], how: Arrangement, index: usize) -> [u8; N] {
    match how {
        Arrangement::LittleEndian => std::array::from_fn(|k| bytes[index * N + k]),
        Arrangement::BigEndian => std::array::from_fn(|k| bytes[index * N + N - 1 - k]),
        Arrangement::Shuffled => std::array::from_fn(|k| bytes[k * (bytes.len() / N) + index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(number: Number, missing: &[f64]) -> Decoder {
        let nth = |n: usize| missing.get(n).copied().unwrap_or(f64::NAN);
        Decoder {
            number,
            scale: Linear { factor: 0.5, offset: 100.0 },
            conversion: Linear::IDENTITY,
            low: -1000.0,
            high: f64::INFINITY,
            missing: [nth(0), nth(1)],
            more_missing: missing.iter().skip(2).copied().collect(),
            plain: None,
        }
    }

    fn shuffle(bytes: &[u8], size: usize) -> Vec<u8> {
        (0..size).flat_map(|k| bytes.iter().skip(k).step_by(size).copied()).collect()
    }

    #[test]
    fn every_arrangement_and_stride_gives_the_same_values() {
        let stored: Vec<i16> = vec![0, -3, 7, i16::MIN, -999, 5, 6, 1234, -1001, 9];
        let little: Vec<u8> = stored.iter().flat_map(|v| v.to_le_bytes()).collect();
        let big: Vec<u8> = stored.iter().flat_map(|v| v.to_be_bytes()).collect();
        let decoder = decoder(Number::I16, &[-32768.0, 6.0, 7.0]);
        let nan = f32::NAN;
        let expected = [100.0, 98.5, nan, nan, -399.5, 102.5, nan, 717.0, nan, 104.5];
        for (bytes, how) in [
            (&little, Arrangement::LittleEndian),
            (&big, Arrangement::BigEndian),
            (&shuffle(&little, 2), Arrangement::Shuffled),
        ] {
            for stride in 1..4 {
                for start in 0..3 {
                    let wanted: Vec<f32> = expected.iter().skip(start).step_by(stride).copied().collect();
                    let mut out = vec![0.0; wanted.len()];
                    decoder.decode(bytes, how, start, stride, &mut out);
                    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
                    assert_eq!(bits(&out), bits(&wanted), "{how:?}, stride {stride}, start {start}");
                }
            }
        }
    }

    #[test]
    fn floats_without_packing_keep_their_bits_and_any_nan_is_missing() {
        let mut wide = decoder(Number::F32, &[-999.0, 1e300]);
        (wide.scale, wide.low) = (Linear::IDENTITY, f64::NEG_INFINITY);
        let direct = wide.clone().seen_through();
        // 1e300 is no float32: infinity, to which it would be rounded, is a value.
        assert!(matches!(direct.plain, Some([missing, none]) if missing == -999.0 && none.is_nan()));
        let stored = [1.1_f32, -0.0, f32::from_bits(0x7fc0_1234), -999.0, 1e-40, f32::MAX, f32::INFINITY];
        let bytes: Vec<u8> = stored.iter().flat_map(|v| v.to_le_bytes()).collect();
        let nan = f32::NAN.to_bits();
        // Adding an offset of zero turns -0 into 0, in whichever way it is read.
        let mut expected = stored.map(f32::to_bits);
        (expected[1], expected[2], expected[3]) = (0, nan, nan);
        for decoder in [wide, direct] {
            let mut out = [0.0; 7];
            decoder.decode(&shuffle(&bytes, 4), Arrangement::Shuffled, 0, 1, &mut out);
            assert_eq!(out.map(f32::to_bits), expected);
        }
    }

    #[test]
    fn floats_with_a_unit_a_range_or_many_names_for_missing_are_not_taken_as_they_are() {
        let mut decoder = decoder(Number::F32, &[]);
        (decoder.scale, decoder.low) = (Linear::IDENTITY, f64::NEG_INFINITY);
        assert!(decoder.clone().seen_through().plain.is_some());
        assert!(Decoder { low: 0.0, ..decoder.clone() }.seen_through().plain.is_none());
        assert!(Decoder { more_missing: vec![7.0], ..decoder.clone() }.seen_through().plain.is_none());
        assert!(Decoder { number: Number::I32, ..decoder.clone() }.seen_through().plain.is_none());
        let celsius = Linear { factor: 1.0, offset: 100.0 };
        assert!(Decoder { conversion: celsius, ..decoder }.seen_through().plain.is_none());
    }
}
