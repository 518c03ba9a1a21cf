//! The header of the classic formats (CDF-1, CDF-2, CDF-5), read by ourselves and checked against the file's length.
//!
//! The grammar is that of the NetCDF file format specification (NUG, appendix B). Every count is compared with the
//! bytes that are left before anything of its size is allocated, so that damage costs an error and no memory.

use std::io::{BufReader, Read};

use super::info::{Format, Number};
use super::schema::{Attribute, Attributes, Place, RawDimension, RawVariable, Schema};
use crate::error::{Error, Result};

const DIMENSIONS: u64 = 10;
const VARIABLES: u64 = 11;
const ATTRIBUTES: u64 = 12;
/// What the NetCDF library allows in one variable (NC_MAX_VAR_DIMS).
const MOST_DIMENSIONS: u64 = 1024;
/// More dimensions, variables or attributes than any file has: such a list is damage, and would take long to study.
const LONGEST_LIST: u64 = 8192;

/// Reads the header of a classic file that is `size` bytes long. `name` is for messages.
pub fn parse(source: impl Read, size: u64, name: &str) -> Result<Schema> {
    let mut cursor = Cursor { source: BufReader::new(source), at: 0, size, wide: false, name };
    let magic = cursor.take(4)?;
    let format = match magic.as_slice() {
        b"CDF\x01" => Format::Classic,
        b"CDF\x02" => Format::Offset64,
        b"CDF\x05" => Format::Cdf5,
        _ => return Err(cursor.broken("it does not begin with CDF and 1, 2 or 5")),
    };
    cursor.wide = format == Format::Cdf5;
    let streaming = if cursor.wide { u64::MAX } else { u64::from(u32::MAX) };
    let records = cursor.count()?;
    let mut record_dimension = None;
    let mut dimensions = Vec::new();
    for index in 0..cursor.list(DIMENSIONS, "dimensions")? {
        let name = cursor.text_name()?;
        let length = cursor.count()?;
        if length == 0 && record_dimension.replace(index as usize).is_some() {
            return Err(cursor.broken("it has two record dimensions"));
        }
        let length = usize::try_from(length).map_err(|_| cursor.broken("a dimension is too long"))?;
        dimensions.push(RawDimension { name, length });
    }
    cursor.attributes()?; // of the file as a whole: nothing here depends on them
    let mut variables = Vec::new();
    for _ in 0..cursor.list(VARIABLES, "variables")? {
        variables.push(cursor.variable(format, dimensions.len())?);
    }
    let header_end = cursor.at;
    let mut schema = Schema { format, dimensions, variables, groups: Vec::new() };
    place(
        &mut schema,
        Records { said: records, streaming, dimension: record_dimension },
        header_end,
        size,
        name,
    )?;
    Ok(schema)
}

struct Cursor<'a, R> {
    source: BufReader<R>,
    at: u64,
    size: u64,
    /// CDF-5: counts are 64 bits wide.
    wide: bool,
    name: &'a str,
}

impl<R: Read> Cursor<'_, R> {
    fn broken(&self, what: &str) -> Error {
        Error::input(format!("{}: the NetCDF header is damaged near byte {}: {what}", self.name, self.at))
            .hint("copy or download the file again")
    }

    /// Refuses a header that needs another `bytes` where the file has fewer.
    fn expect(&self, bytes: u64) -> Result<()> {
        let left = self.size.saturating_sub(self.at);
        if bytes > left {
            return Err(Error::input(format!(
                "{}: the file ends inside its header: at byte {} at least {bytes} more were expected, {left} found",
                self.name, self.at
            ))
            .hint("the file is truncated: copy or download it again"));
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<Vec<u8>> {
        self.expect(bytes)?;
        let mut buffer = vec![0; bytes as usize];
        self.source.read_exact(&mut buffer).map_err(|error| {
            Error::input(format!("{}: cannot read the header", self.name)).caused_by(error)
        })?;
        self.at += bytes;
        Ok(buffer)
    }

    fn u32(&mut self) -> Result<u64> {
        Ok(self.take(4)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(self.take(8)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    fn count(&mut self) -> Result<u64> {
        if self.wide { self.u64() } else { self.u32() }
    }

    /// Tag and length of a list. Each entry takes at least 8 bytes, which bounds the length.
    fn list(&mut self, tag: u64, what: &str) -> Result<u64> {
        let found = self.u32()?;
        let count = self.count()?;
        if found == 0 && count == 0 {
            return Ok(0);
        }
        if found != tag {
            return Err(self.broken(&format!("the list of {what} should start here")));
        }
        if count > LONGEST_LIST {
            return Err(self.broken(&format!("{count} {what} are more than any file has")));
        }
        self.expect(count * 8)?;
        Ok(count)
    }

    /// Bytes padded to a multiple of 4.
    fn padded(&mut self, bytes: u64) -> Result<Vec<u8>> {
        let mut value = self.take(bytes)?;
        self.take((4 - bytes % 4) % 4)?;
        value.truncate(bytes as usize);
        Ok(value)
    }

    fn text_name(&mut self) -> Result<String> {
        let length = self.count()?;
        let bytes = self.padded(length)?;
        let name = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string();
        if name.is_empty() {
            return Err(self.broken("a name is empty"));
        }
        Ok(name)
    }

    /// `None`: characters.
    fn number(&mut self) -> Result<Option<Number>> {
        let code = self.u32()?;
        Ok(match code {
            1 => Some(Number::I8),
            2 => None,
            3 => Some(Number::I16),
            4 => Some(Number::I32),
            5 => Some(Number::F32),
            6 => Some(Number::F64),
            7 if self.wide => Some(Number::U8),
            8 if self.wide => Some(Number::U16),
            9 if self.wide => Some(Number::U32),
            10 if self.wide => Some(Number::I64),
            11 if self.wide => Some(Number::U64),
            _ => return Err(self.broken(&format!("there is no number type {code}"))),
        })
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let mut list = Vec::new();
        for _ in 0..self.list(ATTRIBUTES, "attributes")? {
            let name = self.text_name()?;
            let number = self.number()?;
            let count = self.count()?;
            let width = number.map_or(1, Number::size) as u64;
            let bytes = count.checked_mul(width).ok_or_else(|| self.broken("an attribute is too long"))?;
            let bytes = self.padded(bytes)?;
            let value = match number {
                None => Attribute::Text(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()),
                Some(number) => {
                    let values = bytes.chunks_exact(number.size()).map(|b| big_endian(number, b)).collect();
                    Attribute::Numbers { values, number }
                }
            };
            list.push((name, value));
        }
        Ok(Attributes(list))
    }

    fn variable(&mut self, format: Format, dimension_count: usize) -> Result<RawVariable> {
        let name = self.text_name()?;
        let rank = self.count()?;
        if rank > MOST_DIMENSIONS {
            return Err(self.broken(&format!("variable '{name}' has {rank} dimensions")));
        }
        let mut dimensions = Vec::new();
        for _ in 0..rank {
            let id = self.count()? as usize;
            if id >= dimension_count {
                return Err(
                    self.broken(&format!("variable '{name}' names dimension {id} of {dimension_count}"))
                );
            }
            dimensions.push(id);
        }
        let attributes = self.attributes()?;
        let number = self.number()?;
        self.count()?; // the stored size overflows for large variables: it is computed from the shape instead
        let begin = if format == Format::Classic { self.u32()? } else { self.u64()? };
        let place = Some(Place { begin, record_stride: None });
        Ok(RawVariable { name, number, dimensions, attributes, chunks: None, place })
    }
}

struct Records {
    said: u64,
    streaming: u64,
    dimension: Option<usize>,
}

/// Checks that every variable lies inside the file, and fills in the number and stride of the records.
fn place(schema: &mut Schema, records: Records, header_end: u64, size: u64, name: &str) -> Result<()> {
    let damaged = |what: String| {
        Error::input(format!("{name}: the NetCDF header is damaged: {what}"))
            .hint("copy or download the file again")
    };
    // Bytes of a whole variable, or of one of its records.
    let mut sizes = Vec::with_capacity(schema.variables.len());
    let mut recorded = Vec::with_capacity(schema.variables.len());
    for variable in &schema.variables {
        let is_record =
            records.dimension.is_some() && variable.dimensions.first() == records.dimension.as_ref();
        let inner = &variable.dimensions[usize::from(is_record)..];
        if inner.iter().any(|d| Some(*d) == records.dimension) {
            return Err(damaged(format!("the record dimension of '{}' is not its first", variable.name)));
        }
        let width = variable.number.map_or(1, Number::size) as u64;
        let bytes = inner
            .iter()
            .try_fold(width, |product, d| product.checked_mul(schema.dimensions[*d].length as u64));
        sizes.push(bytes.ok_or_else(|| damaged(format!("the size of '{}' overflows", variable.name)))?);
        recorded.push(is_record);
    }
    let record_variables = recorded.iter().filter(|r| **r).count();
    let mut stride = 0_u64;
    for (bytes, _) in sizes.iter().zip(&recorded).filter(|(_, r)| **r) {
        // A single record variable is stored without padding between its records.
        let padded = if record_variables == 1 { Some(*bytes) } else { bytes.checked_next_multiple_of(4) };
        stride = padded
            .and_then(|p| stride.checked_add(p))
            .ok_or_else(|| damaged("the size of a record overflows".into()))?;
    }
    let first_record = schema
        .variables
        .iter()
        .zip(&recorded)
        .filter(|(_, r)| **r)
        .filter_map(|(v, _)| v.place)
        .map(|p| p.begin)
        .min();
    let count = match (records.said == records.streaming, first_record) {
        (false, _) => records.said,
        // Written as a stream: as many records as there are bytes.
        (true, Some(begin)) if stride > 0 => size.saturating_sub(begin) / stride,
        (true, _) => 0,
    };
    if let Some(at) = records.dimension {
        schema.dimensions[at].length =
            usize::try_from(count).map_err(|_| damaged("it claims too many records".into()))?;
    }
    for ((variable, bytes), is_record) in schema.variables.iter_mut().zip(&sizes).zip(&recorded) {
        let Some(place) = &mut variable.place else { continue };
        let length = match (is_record, count) {
            (true, 0) => 0,
            (true, _) => u128::from(count - 1) * u128::from(stride) + u128::from(*bytes),
            (false, _) => u128::from(*bytes),
        };
        place.record_stride = is_record.then_some(stride);
        if length == 0 {
            continue;
        }
        if place.begin < header_end {
            return Err(damaged(format!("'{}' would begin inside the header", variable.name)));
        }
        let end = u128::from(place.begin) + length;
        if end > u128::from(size) {
            let whole = if *is_record && stride > 0 {
                let left = size.saturating_sub(place.begin).saturating_sub(*bytes);
                let fits = if size >= place.begin + bytes { left / stride + 1 } else { 0 };
                format!("; {fits} of its {count} records are whole")
            } else {
                String::new()
            };
            return Err(Error::input(format!(
                "{name}: variable '{}' is cut off: expected a file of at least {end} bytes, found {size}{whole}",
                variable.name
            ))
            .hint("the file is truncated: copy or download it again"));
        }
    }
    Ok(())
}

/// One stored number of a classic file or attribute.
pub fn big_endian(number: Number, bytes: &[u8]) -> f64 {
    let bits = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    match number {
        Number::I8 => f64::from(bits as u8 as i8),
        Number::U8 => f64::from(bits as u8),
        Number::I16 => f64::from(bits as u16 as i16),
        Number::U16 => f64::from(bits as u16),
        Number::I32 => f64::from(bits as u32 as i32),
        Number::U32 => f64::from(bits as u32),
        Number::I64 => bits as i64 as f64,
        Number::U64 => bits as f64,
        Number::F32 => f64::from(f32::from_bits(bits as u32)),
        Number::F64 => f64::from_bits(bits),
    }
}
