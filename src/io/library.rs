//! NetCDF-4 files through the NetCDF library: opening them, and their header. Only the child process of
//! [`super::probe`] comes here with a file that nobody has tried before.

use std::path::Path;

use netcdf::AttributeValue as Value;
use netcdf::types::{FloatType, IntType, NcVariableType};

use super::info::{Format, Number};
use super::schema::{Attribute, Attributes, RawDimension, RawVariable, Schema};
use crate::error::{Error, Result};

/// Opens a file to read.
pub fn open(path: &Path) -> netcdf::Result<netcdf::File> {
    quiet();
    netcdf::open(path)
}

/// Makes a new NetCDF-4 file.
pub fn create(path: &Path) -> netcdf::Result<netcdf::FileMut> {
    quiet();
    netcdf::create(path)
}

/// Keeps HDF5 from printing the stack of its errors, which come back as ours. It remembers this for each thread.
///
/// Called before the first file is opened, it also keeps HDF5 from cleaning up when the program ends (the binding
/// switches that off): after a write that failed, its cleaning crashes on the file that could not be closed.
pub fn quiet() {
    hdf5::silence_errors(true);
}

/// Reads what the header says.
pub fn schema(file: &netcdf::File, name: &str) -> Result<Schema> {
    let damaged = |error: netcdf::Error| {
        Error::input(format!("{name}: the NetCDF library cannot read its header"))
            .caused_by(error)
            .hint("the file may be damaged: copy or download it again")
    };
    let mut dimensions = Vec::new();
    for dimension in file.dimensions() {
        dimensions.push(RawDimension { name: dimension.name(), length: dimension.len() });
    }
    let mut variables = Vec::new();
    for variable in file.variables() {
        let mut ids = Vec::new();
        for dimension in variable.dimensions() {
            // Names are unique within the root group.
            let id = dimensions.iter().position(|d: &RawDimension| d.name == dimension.name());
            let id = id.ok_or_else(|| {
                Error::input(format!("{name}: variable '{}' has a dimension of no group", variable.name()))
                    .hint("the file may be damaged: copy or download it again")
            })?;
            ids.push(id);
        }
        let chunks = variable.chunking().map_err(damaged)?;
        variables.push(RawVariable {
            name: variable.name(),
            number: number(&variable.vartype()),
            dimensions: ids,
            attributes: attributes(variable.attributes()),
            chunks,
            place: None,
        });
    }
    let groups = file.groups().map_err(damaged)?.map(|g| g.name()).collect();
    Ok(Schema { format: Format::Hdf5, dimensions, variables, groups })
}

fn number(kind: &NcVariableType) -> Option<Number> {
    Some(match kind {
        NcVariableType::Int(IntType::I8) => Number::I8,
        NcVariableType::Int(IntType::U8) => Number::U8,
        NcVariableType::Int(IntType::I16) => Number::I16,
        NcVariableType::Int(IntType::U16) => Number::U16,
        NcVariableType::Int(IntType::I32) => Number::I32,
        NcVariableType::Int(IntType::U32) => Number::U32,
        NcVariableType::Int(IntType::I64) => Number::I64,
        NcVariableType::Int(IntType::U64) => Number::U64,
        NcVariableType::Float(FloatType::F32) => Number::F32,
        NcVariableType::Float(FloatType::F64) => Number::F64,
        _ => return None,
    })
}

/// Attributes of types that nothing here reads (compound, opaque) are left out.
fn attributes<'a>(all: impl Iterator<Item = netcdf::Attribute<'a>>) -> Attributes {
    let read = |attribute: netcdf::Attribute<'a>| {
        let name = attribute.name().to_string();
        attribute.value().ok().and_then(value).map(|value| (name, value))
    };
    Attributes(all.filter_map(read).collect())
}

fn value(value: Value) -> Option<Attribute> {
    fn list<T: Copy>(number: Number, values: &[T], wide: impl Fn(T) -> f64) -> Option<Attribute> {
        Some(Attribute::Numbers { values: values.iter().map(|v| wide(*v)).collect(), number })
    }
    match value {
        Value::Str(text) => Some(Attribute::Text(text)),
        Value::Strs(texts) => Some(Attribute::Text(texts.join(" "))),
        Value::Uchar(v) => list(Number::U8, &[v], f64::from),
        Value::Uchars(v) => list(Number::U8, &v, f64::from),
        Value::Schar(v) => list(Number::I8, &[v], f64::from),
        Value::Schars(v) => list(Number::I8, &v, f64::from),
        Value::Ushort(v) => list(Number::U16, &[v], f64::from),
        Value::Ushorts(v) => list(Number::U16, &v, f64::from),
        Value::Short(v) => list(Number::I16, &[v], f64::from),
        Value::Shorts(v) => list(Number::I16, &v, f64::from),
        Value::Uint(v) => list(Number::U32, &[v], f64::from),
        Value::Uints(v) => list(Number::U32, &v, f64::from),
        Value::Int(v) => list(Number::I32, &[v], f64::from),
        Value::Ints(v) => list(Number::I32, &v, f64::from),
        Value::Ulonglong(v) => list(Number::U64, &[v], |x| x as f64),
        Value::Ulonglongs(v) => list(Number::U64, &v, |x| x as f64),
        Value::Longlong(v) => list(Number::I64, &[v], |x| x as f64),
        Value::Longlongs(v) => list(Number::I64, &v, |x| x as f64),
        Value::Float(v) => list(Number::F32, &[v], f64::from),
        Value::Floats(v) => list(Number::F32, &v, f64::from),
        Value::Double(v) => list(Number::F64, &[v], |x| x),
        Value::Doubles(v) => list(Number::F64, &v, |x| x),
    }
}
