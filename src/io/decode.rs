//! From the bytes of a file to float32 in SI units, in one pass: byte order, shuffling, packing, missing values, units.
//!
//! Every way of reading ends here, so that all of them give the same bits.

use super::info::{Linear, Number, VariableInfo};

/// How the bytes of a run of numbers are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrangement {
    LittleEndian,
    BigEndian,
    /// HDF5's shuffle of little-endian numbers: all first bytes, then all second bytes, ...
    Shuffled,
}

impl Arrangement {
    /// How this machine arranges numbers in memory.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::BigEndian } else { Self::LittleEndian };
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
        }
    }

    /// Decodes the numbers `start, start + stride, ...` of `bytes` into all of `out`, in SI units with NaN for
    /// missing. The caller has checked that `bytes` holds them.
    pub fn decode(&self, bytes: &[u8], how: Arrangement, start: usize, stride: usize, out: &mut [f32]) {
        match self.number {
            Number::I8 => {
                self.numbers(bytes, how, start, stride, out, |b: [u8; 1]| i8::from_le_bytes(b).into())
            }
            Number::U8 => self.numbers(bytes, how, start, stride, out, |b: [u8; 1]| b[0].into()),
            Number::I16 => self.numbers(bytes, how, start, stride, out, |b| i16::from_le_bytes(b).into()),
            Number::U16 => self.numbers(bytes, how, start, stride, out, |b| u16::from_le_bytes(b).into()),
            Number::I32 => self.numbers(bytes, how, start, stride, out, |b| i32::from_le_bytes(b).into()),
            Number::U32 => self.numbers(bytes, how, start, stride, out, |b| u32::from_le_bytes(b).into()),
            Number::I64 => self.numbers(bytes, how, start, stride, out, |b| i64::from_le_bytes(b) as f64),
            Number::U64 => self.numbers(bytes, how, start, stride, out, |b| u64::from_le_bytes(b) as f64),
            Number::F32 => self.numbers(bytes, how, start, stride, out, |b| f32::from_le_bytes(b).into()),
            Number::F64 => self.numbers(bytes, how, start, stride, out, f64::from_le_bytes),
        }
    }

    /// `number` makes a stored number from its little-endian bytes.
    #[inline(always)]
    fn numbers<const N: usize>(
        &self,
        bytes: &[u8],
        how: Arrangement,
        start: usize,
        stride: usize,
        out: &mut [f32],
        number: impl Fn([u8; N]) -> f64,
    ) {
        if stride != 1 {
            for (n, value) in out.iter_mut().enumerate() {
                *value = self.value(number(one(bytes, how, start + n * stride)));
            }
            return;
        }
        let count = out.len();
        match how {
            Arrangement::Shuffled => {
                // One stream per byte of the number; the loop over them is unrolled, so that it runs in SIMD.
                let whole = bytes.len() / N;
                let streams: [&[u8]; N] = std::array::from_fn(|k| &bytes[k * whole + start..][..count]);
                for (n, value) in out.iter_mut().enumerate() {
                    *value = self.value(number(std::array::from_fn(|k| streams[k][n])));
                }
            }
            Arrangement::LittleEndian => {
                let (numbers, _) = bytes[start * N..][..count * N].as_chunks::<N>();
                for (value, raw) in out.iter_mut().zip(numbers) {
                    *value = self.value(number(*raw));
                }
            }
            Arrangement::BigEndian => {
                let (numbers, _) = bytes[start * N..][..count * N].as_chunks::<N>();
                for (value, raw) in out.iter_mut().zip(numbers) {
                    let mut raw = *raw;
                    raw.reverse();
                    *value = self.value(number(raw));
                }
            }
        }
    }

    /// `((stored * scale + offset) * factor + offset)`, in float64, rounded once.
    #[inline(always)]
    fn value(&self, stored: f64) -> f32 {
        // NaN fails the comparisons, and so becomes the one NaN that stands for missing.
        let good = stored >= self.low && stored <= self.high;
        let named = stored == self.missing[0] || stored == self.missing[1];
        if !good || named || (!self.more_missing.is_empty() && self.more_missing.contains(&stored)) {
            f32::NAN
        } else {
            self.conversion.apply(self.scale.apply(stored)) as f32
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
        let mut decoder = decoder(Number::F32, &[-999.0]);
        (decoder.scale, decoder.low) = (Linear::IDENTITY, f64::NEG_INFINITY);
        let stored = [1.1_f32, -0.0, f32::from_bits(0x7fc0_1234), -999.0, 1e-40, f32::MAX];
        let bytes: Vec<u8> = stored.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut out = [0.0; 6];
        decoder.decode(&shuffle(&bytes, 4), Arrangement::Shuffled, 0, 1, &mut out);
        let nan = f32::NAN.to_bits();
        let expected = [stored[0].to_bits(), 0, nan, nan, stored[4].to_bits(), stored[5].to_bits()];
        // Adding an offset of zero turns -0 into 0, in whichever way it is read.
        assert_eq!(out.map(f32::to_bits), expected);
    }
}
