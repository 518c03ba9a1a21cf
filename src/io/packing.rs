//! Stored numbers to values: `scale_factor`, `add_offset`, and everything that means "missing".

use super::decode::{Arrangement, Decoder};
use super::info::{Dimension, Linear, Number, Packing, Role, VariableInfo};
use super::schema::{Attribute, RawVariable};
use crate::error::{Error, Result};

/// Reads the packing attributes of a variable (CF conventions 8.1 and 2.5.1; NUG appendix A). The sentences are
/// attributes that were ignored.
pub fn packing(raw: &RawVariable, number: Number) -> Result<(Packing, Vec<String>)> {
    let mut ignored = Vec::new();
    let attributes = &raw.attributes;
    let mut single = |name: &str| -> Option<(f64, Number)> {
        match attributes.get(name)? {
            Attribute::Numbers { values, number } => values.first().map(|v| (*v, *number)),
            Attribute::Text(text) => match text.trim().parse() {
                Ok(value) => Some((value, Number::F64)),
                Err(_) => {
                    ignored.push(format!("attribute {name} of '{}' is text, '{text}': ignored", raw.name));
                    None
                }
            },
        }
    };
    let scale_factor = single("scale_factor").map_or(1.0, |(v, _)| v);
    let add_offset = single("add_offset").map_or(0.0, |(v, _)| v);
    let (mut low, mut high) = (single("valid_min"), single("valid_max"));
    if !scale_factor.is_finite() || scale_factor == 0.0 || !add_offset.is_finite() {
        return Err(Error::input(format!(
            "variable '{}' has scale_factor {scale_factor} and add_offset {add_offset}: its numbers cannot be unpacked",
            raw.name
        ))
        .hint("set the attributes right (`ncatted`) or download the file again"));
    }
    if let Some((range, kind)) = attributes.numbers("valid_range")
        && let [a, b] = range
    {
        low = Some((*a, kind));
        high = Some((*b, kind));
    }
    let number = match (attributes.get("_Unsigned"), number) {
        (Some(Attribute::Text(text)), n) if text.trim().eq_ignore_ascii_case("true") => unsigned(n),
        (_, n) => n,
    };
    // Bounds of the packed numbers' type are packed; bounds in a float type beside packed integers are not (NUG).
    let stored = |bound: Option<(f64, Number)>| {
        bound.filter(|(v, _)| v.is_finite()).map(|(v, kind)| {
            let unpacked = is_float(kind) && !is_float(number) && (scale_factor != 1.0 || add_offset != 0.0);
            if unpacked { (v - add_offset) / scale_factor } else { as_stored(v, number) }
        })
    };
    let (mut valid_min, mut valid_max) = (stored(low), stored(high));
    if let (Some(a), Some(b)) = (valid_min, valid_max)
        && a > b
    {
        (valid_min, valid_max) = (Some(b), Some(a)); // a negative scale turns the bounds round
    }
    let mut missing: Vec<f64> = Vec::new();
    for name in ["_FillValue", "missing_value"] {
        for value in attributes.numbers(name).map_or(&[][..], |(values, _)| values) {
            let value = as_stored(*value, number);
            if value.is_finite() && !missing.contains(&value) {
                missing.push(value);
            }
        }
    }
    if attributes.get("_FillValue").is_none()
        && let Some(fill) = default_fill(number)
        && !missing.contains(&fill)
    {
        missing.push(fill);
    }
    let scale = Linear { factor: scale_factor, offset: add_offset };
    Ok((Packing { number, scale, missing, valid_min, valid_max }, ignored))
}

fn is_float(number: Number) -> bool {
    matches!(number, Number::F32 | Number::F64)
}

fn unsigned(number: Number) -> Number {
    match number {
        Number::I8 => Number::U8,
        Number::I16 => Number::U16,
        Number::I32 => Number::U32,
        Number::I64 => Number::U64,
        other => other,
    }
}

/// An attribute's value as it would be stored among numbers of this type.
fn as_stored(value: f64, number: Number) -> f64 {
    match number {
        Number::F32 => f64::from(value as f32),
        Number::U8 if value < 0.0 => value + 256.0,
        Number::U16 if value < 0.0 => value + 65_536.0,
        Number::U32 if value < 0.0 => value + 4_294_967_296.0,
        _ => value,
    }
}

/// What the NetCDF library writes where nobody wrote (`netcdf.h`, `NC_FILL_*`); bytes have none by convention.
fn default_fill(number: Number) -> Option<f64> {
    Some(match number {
        Number::I8 | Number::U8 => return None,
        Number::I16 => -32_767.0,
        Number::U16 => 65_535.0,
        Number::I32 => -2_147_483_647.0,
        Number::U32 => 4_294_967_295.0,
        Number::I64 => -9_223_372_036_854_775_806_i64 as f64,
        Number::U64 => 18_446_744_073_709_551_614_u64 as f64,
        Number::F32 | Number::F64 => f64::from(9.969_21e36_f32),
    })
}

impl Packing {
    /// The value of a stored number in the file's units, NaN when it means "missing".
    #[inline]
    pub fn unpack(&self, stored: f64) -> f64 {
        let missing = self.missing.contains(&stored)
            || self.valid_min.is_some_and(|low| stored < low)
            || self.valid_max.is_some_and(|high| stored > high);
        if missing { f64::NAN } else { self.scale.apply(stored) }
    }
}

/// Stored numbers in the machine's byte order, as float64.
pub fn numbers(number: Number, bytes: &[u8]) -> Vec<f64> {
    fn all<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|b| value(*b)).collect()
    }
    match number {
        Number::I8 => all(bytes, |b| f64::from(i8::from_ne_bytes(b))),
        Number::U8 => all(bytes, |b| f64::from(u8::from_ne_bytes(b))),
        Number::I16 => all(bytes, |b| f64::from(i16::from_ne_bytes(b))),
        Number::U16 => all(bytes, |b| f64::from(u16::from_ne_bytes(b))),
        Number::I32 => all(bytes, |b| f64::from(i32::from_ne_bytes(b))),
        Number::U32 => all(bytes, |b| f64::from(u32::from_ne_bytes(b))),
        Number::I64 => all(bytes, |b| i64::from_ne_bytes(b) as f64),
        Number::U64 => all(bytes, |b| u64::from_ne_bytes(b) as f64),
        Number::F32 => all(bytes, |b| f64::from(f32::from_ne_bytes(b))),
        Number::F64 => all(bytes, f64::from_ne_bytes),
    }
}

impl VariableInfo {
    /// Bytes of the slab of one time and level ([`slab`](Self::slab)).
    pub fn slab_bytes(&self) -> usize {
        let versions = self.dimension(Role::Version).map_or(1, |(_, length)| length);
        let whole = |role| self.dimension(role).map_or(1, |(_, length)| length);
        versions
            .saturating_mul(whole(Role::Latitude))
            .saturating_mul(whole(Role::Longitude))
            .saturating_mul(self.packing.number.size())
    }

    /// Decodes a slab of one time and level: stored numbers in the file's order and the machine's byte order, to
    /// canonical orientation, SI units, NaN for missing. Overwrites `out`, `[lat * lon]`.
    ///
    /// # Panics
    /// When `slab` or `out` has not the size that the variable says.
    pub fn decode(&self, slab: &[u8], out: &mut [f32]) {
        assert_eq!(slab.len(), self.slab_bytes(), "a slab of '{}'", self.name);
        assert_eq!(out.len(), self.grid.points(), "a field of '{}'", self.name);
        let stride = |role| {
            let Some((at, _)) = self.dimension(role) else { return 0 };
            let whole = |d: &&Dimension| matches!(d.role, Role::Latitude | Role::Longitude | Role::Version);
            self.dimensions[at + 1..].iter().filter(whole).map(|d| d.length).product::<usize>()
        };
        let (row_stride, column_stride, version_stride) =
            (stride(Role::Latitude), stride(Role::Longitude), stride(Role::Version));
        let versions = self.dimension(Role::Version).map_or(1, |(_, length)| length);
        let decoder = Decoder::new(self);
        let rows = self.grid.rows();
        let mut later = vec![0.0; if versions > 1 { self.grid.columns() } else { 0 }];
        for (row, line) in out.chunks_exact_mut(self.grid.columns()).enumerate() {
            let file_row = if self.orientation.latitude_descending { rows - 1 - row } else { row };
            let decode_row = |version: usize, line: &mut [f32]| {
                // Neighbouring columns of the file are decoded together: one run, or two where the circle is cut.
                let mut line = line;
                for run in self.columns.chunk_by(|a, b| a + 1 == *b) {
                    let (piece, rest) = line.split_at_mut(run.len());
                    let start = version * version_stride + file_row * row_stride + run[0] * column_stride;
                    decoder.decode(slab, Arrangement::NATIVE, start, column_stride, piece);
                    line = rest;
                }
            };
            decode_row(0, line);
            for version in 1..versions {
                decode_row(version, &mut later);
                line.iter_mut().zip(&later).filter(|(x, _)| x.is_nan()).for_each(|(x, y)| *x = *y);
            }
        }
    }
}
