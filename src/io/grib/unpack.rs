//! Packed numbers to values (sections 5 to 7, templates 5.0, 5.2, 5.3, 5.4, 5.40, 5.41 and 5.42).
//!
//! ```text
//! value = (R + X * 2^E) / 10^D
//! ```
//!
//! with the reference R, the scales E and D, and the whole number X. It is computed in float64: in float32 the sum alone
//! would lose what half of a step of a 24-bit packing is.

use super::bits::{Bits, to_byte};
use super::codecs;
use super::product::Refusal;
use super::sections::Octets;

/// Widths of packed numbers are up to this [bits].
const WIDEST: u32 = 32;

/// Whether fields packed in this way are read; `Err` has a sentence's end and a remedy.
pub fn supported(packing: Octets<'_>) -> Result<(), Refusal> {
    let template = packing.u16(10);
    let name = match template {
        2 | 3 if packing.u8(22) != 1 => "complex packing without groups of its own",
        0 | 2 | 3 | 4 | 40 | 41 | 42 => return Ok(()),
        1 => "matrices of values",
        50 | 51 | 53 => "spectral packing",
        61 => "packing of logarithms",
        200 => "run lengths",
        _ => "in a way that is not read",
    };
    Err((
        format!("is packed by {name} (data template 5.{template})"),
        "pack it anew: grib_set -r -s packingType=grid_simple FILE OUT".to_string(),
    ))
}

/// How whole numbers become values.
#[derive(Clone, Copy)]
struct Scale {
    reference: f64,
    binary: f64,
    decimal: i32,
    power: f64,
}

impl Scale {
    fn read(packing: Octets<'_>) -> Self {
        let decimal = i32::from(packing.i16(18));
        Self {
            reference: packing.f32(12).into(),
            binary: 2_f64.powi(packing.i16(16).into()),
            decimal,
            power: 10_f64.powi(decimal.abs()),
        }
    }

    #[inline]
    fn value(self, x: f64) -> f32 {
        let sum = self.reference + x * self.binary;
        (if self.decimal >= 0 { sum / self.power } else { sum * self.power }) as f32
    }
}

/// The values of a field of `points` points in the order of its message, NaN where it has none. Takes the sections 5, 6
/// (where there is a bitmap) and 7 as they stand in the file; `Err` is the end of a sentence about the message.
pub fn unpack(
    packing: &[u8],
    bitmap: Option<&[u8]>,
    values: &[u8],
    points: usize,
) -> Result<Vec<f32>, String> {
    let packing = Octets(packing);
    let count = packing.u32(6) as usize;
    let bitmap = bitmap.map(|section| Bits(section.get(6..).unwrap_or(&[])));
    let present = match bitmap {
        None => points,
        Some(bits) if bits.count() < points as u64 => {
            return Err(format!("has a bitmap of {} bits for {points} points", bits.count()));
        }
        Some(bits) => (0..points as u64).map(|at| bits.get(at, 1) as usize).sum(),
    };
    if count != present {
        return Err(format!("has {count} values for {present} points"));
    }
    if count == 0 {
        return Ok(vec![f32::NAN; points]);
    }
    let data = values.get(5..).unwrap_or(&[]);
    let numbers = numbers(packing, data, count)?;
    let Some(bits) = bitmap else { return Ok(numbers) };
    let mut numbers = numbers.into_iter();
    let point = |at| if bits.get(at, 1) == 1 { numbers.next().unwrap_or(f32::NAN) } else { f32::NAN };
    Ok((0..points as u64).map(point).collect())
}

fn numbers(packing: Octets<'_>, data: &[u8], count: usize) -> Result<Vec<f32>, String> {
    let template = packing.u16(10);
    if template == 4 {
        return ieee(packing, data, count);
    }
    let scale = Scale::read(packing);
    let width = u32::from(packing.u8(20));
    if matches!(template, 2 | 3) {
        return complex(packing, scale, width, data, count);
    }
    if width == 0 {
        return Ok(vec![scale.value(0.0); count]);
    }
    if width > WIDEST {
        return Err(format!("has numbers of {width} bits"));
    }
    match template {
        0 => {
            enough(data, count as u64 * u64::from(width))?;
            let bits = Bits(data);
            let number = |n| scale.value(bits.get(n * u64::from(width), width).into());
            Ok((0..count as u64).map(number).collect())
        }
        40 => {
            let mut numbers = codecs::jpeg2000(data, count)?;
            numbers.iter_mut().for_each(|x| *x = scale.value(f64::from(*x)));
            Ok(numbers)
        }
        41 => {
            let image = codecs::png(data, width, count)?;
            let bits = Bits(&image.bytes);
            let number = |n: usize| {
                let start = (n / image.columns) as u64 * to_byte(image.columns as u64 * u64::from(width));
                scale.value(bits.get(start + (n % image.columns) as u64 * u64::from(width), width).into())
            };
            Ok((0..count).map(number).collect())
        }
        42 => {
            let bytes = codecs::ccsds(packing, data, count)?;
            let each = bytes.len() / count;
            let number = |b: &[u8]| b.iter().fold(0_u32, |x, byte| x << 8 | u32::from(*byte));
            Ok(bytes.chunks_exact(each).map(|b| scale.value(number(b).into())).collect())
        }
        _ => Err(format!("is packed by the template 5.{template}, which is not read")),
    }
}

fn enough(data: &[u8], bits: u64) -> Result<(), String> {
    let needed = bits.div_ceil(8);
    if needed > data.len() as u64 {
        return Err(format!("needs {needed} bytes of data and has {}", data.len()));
    }
    Ok(())
}

/// Plain float32 or float64 (template 5.4).
fn ieee(packing: Octets<'_>, data: &[u8], count: usize) -> Result<Vec<f32>, String> {
    let wide = match packing.u8(12) {
        1 => false,
        2 => true,
        other => return Err(format!("has IEEE numbers of precision {other}, which is not read")),
    };
    enough(data, count as u64 * if wide { 64 } else { 32 })?;
    Ok(if wide {
        data.as_chunks::<8>().0[..count].iter().map(|b| f64::from_be_bytes(*b) as f32).collect()
    } else {
        data.as_chunks::<4>().0[..count].iter().map(|b| f32::from_be_bytes(*b)).collect()
    })
}

/// Numbers in groups, each with a reference and a width of its own (template 5.2); with `spatial` differences they are
/// what remains of each number after those before it (template 5.3).
fn complex(
    packing: Octets<'_>,
    scale: Scale,
    width: u32,
    data: &[u8],
    count: usize,
) -> Result<Vec<f32>, String> {
    let spatial = packing.u16(10) == 3;
    let kinds_of_missing = packing.u8(23);
    let groups = u64::from(packing.u32(32));
    let (least_width, bits_of_widths) = (u64::from(packing.u8(36)), u32::from(packing.u8(37)));
    let (least_length, length_step) = (u64::from(packing.u32(38)), u64::from(packing.u8(42)));
    let (last_length, bits_of_lengths) = (u64::from(packing.u32(43)), u32::from(packing.u8(47)));
    if groups == 0 {
        return Ok(vec![scale.value(0.0); count]);
    }
    if groups > count as u64
        || width > WIDEST
        || bits_of_widths > WIDEST
        || bits_of_lengths > WIDEST
        || kinds_of_missing > 2
    {
        return Err(format!("has {groups} groups of packed numbers that cannot be"));
    }
    let bits = Bits(data);
    let (mut differences, references_at) = match spatial {
        false => (None, 0),
        true => {
            let (order, octets) = (packing.u8(48), u32::from(packing.u8(49)));
            if !(1..=2).contains(&order) || octets > 4 {
                return Err(format!("has spatial differences of order {order} in {octets} octets"));
            }
            let descriptors = (u64::from(order) + 1) * u64::from(octets) * 8;
            enough(data, descriptors)?;
            (Some(Differences::read(bits, order, octets * 8)), descriptors)
        }
    };
    let widths_at = to_byte(references_at + groups * u64::from(width));
    let lengths_at = to_byte(widths_at + groups * u64::from(bits_of_widths));
    let mut at = to_byte(lengths_at + groups * u64::from(bits_of_lengths));
    enough(data, at)?;
    let mut numbers = Vec::with_capacity(count);
    for group in 0..groups {
        let reference = bits.get(references_at + group * u64::from(width), width);
        let own =
            least_width + u64::from(bits.get(widths_at + group * u64::from(bits_of_widths), bits_of_widths));
        let length = match group + 1 == groups {
            true => last_length,
            false => {
                let steps = bits.get(lengths_at + group * u64::from(bits_of_lengths), bits_of_lengths);
                least_length + length_step * u64::from(steps)
            }
        };
        if own > WIDEST.into() || length > (count - numbers.len()) as u64 {
            return Err(format!("has a group of {length} numbers of {own} bits that cannot be"));
        }
        let own = own as u32;
        enough(data, at + length * u64::from(own))?;
        // "Missing" is written as the largest number of the width, the second kind as the one below; in a group without
        // bits, by its reference.
        let all_ones = |width: u32| (1_u64 << width) - 1;
        for _ in 0..length {
            let stored = bits.get(at, own);
            at += u64::from(own);
            let (tested, most) = match own {
                0 => (u64::from(reference), all_ones(width)),
                _ => (u64::from(stored), all_ones(own)),
            };
            let missing =
                (kinds_of_missing >= 1 && tested == most) || (kinds_of_missing == 2 && tested + 1 == most);
            numbers.push(if missing {
                f32::NAN
            } else {
                let x = i64::from(reference) + i64::from(stored);
                scale.value(differences.as_mut().map_or(x, |d| d.next(x)) as f64)
            });
        }
    }
    if numbers.len() != count {
        return Err(format!("has {} numbers in its groups, and {count} are expected", numbers.len()));
    }
    Ok(numbers)
}

/// Undoes spatial differences: `x[n] = d[n] + minimum + x[n-1]`, or `+ 2 x[n-1] - x[n-2]`. Missing numbers are passed
/// over. Sums wrap where the numbers of a damaged message are beyond all bounds.
struct Differences {
    order: u8,
    minimum: i64,
    first: [i64; 2],
    seen: u8,
    before: [i64; 2],
}

impl Differences {
    fn read(bits: Bits<'_>, order: u8, width: u32) -> Self {
        let number = |n: u32| bits.get(u64::from(n * width), width);
        let last = number(order.into());
        let sign = 1_u32.checked_shl(width.saturating_sub(1)).unwrap_or(0);
        let magnitude = i64::from(last & !sign);
        Self {
            order,
            minimum: if width > 0 && last & sign != 0 { -magnitude } else { magnitude },
            first: [number(0).into(), number(1).into()],
            seen: 0,
            before: [0; 2],
        }
    }

    fn next(&mut self, difference: i64) -> i64 {
        let [last, last_but_one] = self.before;
        let x = if self.seen < self.order {
            self.seen += 1;
            self.first[usize::from(self.seen - 1)]
        } else {
            let expected = match self.order {
                1 => last,
                _ => last.wrapping_mul(2).wrapping_sub(last_but_one),
            };
            difference.wrapping_add(self.minimum).wrapping_add(expected)
        };
        self.before = [x, last];
        x
    }
}
