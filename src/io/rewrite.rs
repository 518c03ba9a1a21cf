//! A variable of a file, rewritten in pieces whose chunks are single fields.
//!
//! Names, attributes, number types, packing, orientation: all stay as they are, so that whoever read the old file reads
//! the pieces. Each piece is a file of its own that appears when it is whole: a run that was killed goes on behind the
//! last one.

use std::ops::Range;
use std::path::Path;

use netcdf::types::{FloatType, IntType, NcVariableType};
use netcdf::{Extent, Extents, File, FileMut, Variable};

use super::atomic::Pending;
use super::info::{FileInfo, Format, Role, VariableInfo};
use super::{library, rewrite_grib};
use crate::error::{Error, Result};

/// Larger companions of a field (2-D coordinates and the like) are not needed by a grid of rows and columns [numbers].
const MOST_COMPANION: usize = 1 << 20;

/// The steps of each piece (indices of the file's time dimension), so that one fits into `memory` bytes. A single piece
/// `0..1` for a variable that does not change with time.
pub fn pieces(variable: &VariableInfo, memory: usize) -> Vec<Range<usize>> {
    let Some((at, steps)) = variable.dimension(Role::Time) else { return std::iter::once(0..1).collect() };
    let step_bytes: usize = variable
        .dimensions
        .iter()
        .filter(|d| d.role != Role::Time)
        .map(|d| d.length)
        .fold(variable.packing.number.size(), usize::saturating_mul);
    let fit = (memory / step_bytes.max(1)).max(1);
    // A piece of whole chunks reads each of them once.
    let chunk = variable.chunks.as_ref().and_then(|chunks| chunks.get(at)).copied().unwrap_or(1).max(1);
    let length = if fit >= chunk { fit / chunk * chunk } else { fit };
    (0..steps).step_by(length).map(|first| first..steps.min(first + length)).collect()
}

/// Writes some steps of a variable, and the coordinates that belong to them, to the new file `target`.
pub fn write_piece(
    info: &FileInfo,
    variable: &VariableInfo,
    steps: &Range<usize>,
    target: &Path,
) -> Result<()> {
    if info.format == Format::Grib2 {
        return rewrite_grib::write_piece(info, variable, steps, target);
    }
    let cannot = |error: netcdf::Error| {
        Error::run(format!(
            "cannot rewrite '{}' of {} as {}",
            variable.name,
            info.path.display(),
            target.display()
        ))
        .caused_by(error)
    };
    let pending = Pending::new(target)?;
    let time = variable.dimensions.iter().find(|d| d.role == Role::Time).map(|d| d.name.clone());
    let source = library::open(&info.path).map_err(cannot)?;
    let piece = Piece { source: &source, info, variable, time, steps: steps.clone() };
    let mut file = library::create(pending.path()).map_err(cannot)?;
    piece.write(&mut file).map_err(cannot)?;
    file.close().map_err(cannot)?;
    pending.commit()
}

struct Piece<'a> {
    source: &'a File,
    info: &'a FileInfo,
    variable: &'a VariableInfo,
    /// Name of the time dimension.
    time: Option<String>,
    steps: Range<usize>,
}

impl Piece<'_> {
    fn write(&self, file: &mut FileMut) -> netcdf::Result<()> {
        let absent = || netcdf::Error::NotFound(self.variable.name.clone());
        let field = self.source.variable(&self.variable.name).ok_or_else(absent)?;
        let companions: Vec<Variable<'_>> =
            self.source.variables().filter(|other| self.is_companion(&field, other)).collect();
        for variable in companions.iter().chain([&field]) {
            for dimension in variable.dimensions() {
                let name = dimension.name();
                if file.dimension(&name).is_none() {
                    file.add_dimension(&name, self.length(&name, dimension.len()))?;
                }
            }
        }
        for attribute in self.source.attributes() {
            file.add_attribute(attribute.name(), attribute.value()?)?;
        }
        let old = self.source.attribute("history").and_then(|a| a.value().ok());
        let old = old.and_then(|value| String::try_from(value).ok()).unwrap_or_default();
        let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
        let line = format!("{now}: wxsim prepare: steps {:?} of {}", self.steps, self.info.path.display());
        file.add_attribute("history", format!("{line}\n{old}").trim_end())?;
        for variable in &companions {
            self.copy(variable, file, None)?;
        }
        let horizontal = |role| matches!(role, Role::Latitude | Role::Longitude);
        let chunk: Vec<usize> =
            self.variable.dimensions.iter().map(|d| if horizontal(d.role) { d.length } else { 1 }).collect();
        self.copy(&field, file, Some(&chunk))
    }

    /// Coordinates, their bounds, scalars: whatever lies along dimensions of the field and is small.
    fn is_companion(&self, field: &Variable<'_>, other: &Variable<'_>) -> bool {
        let inner = field.dimensions();
        let shared = other.dimensions().iter().filter(|d| inner.iter().any(|f| f.name() == d.name())).count();
        let own = other.dimensions().len() - shared;
        let is_field = self.info.variables.iter().any(|v| v.name == other.name());
        // One dimension of its own at most: the corners of bounds.
        let fits = shared <= 1 && own <= usize::from(shared == 1) && other.len() <= MOST_COMPANION;
        !is_field && fits && matches!(other.vartype(), NcVariableType::Int(_) | NcVariableType::Float(_))
    }

    fn length(&self, dimension: &str, whole: usize) -> usize {
        if self.time.as_deref() == Some(dimension) { self.steps.len() } else { whole }
    }

    /// Copies a variable with its attributes, in compressed chunks when it is given some.
    fn copy(&self, from: &Variable<'_>, file: &mut FileMut, chunk: Option<&[usize]>) -> netcdf::Result<()> {
        let names: Vec<String> = from.dimensions().iter().map(netcdf::Dimension::name).collect();
        let dimensions: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut to = file.add_variable_with_type(&from.name(), &dimensions, &from.vartype())?;
        if let Some(chunk) = chunk {
            to.set_chunking(chunk)?;
            // Higher levels of compression write several times slower and read no faster.
            to.set_compression(1, true)?;
        }
        for attribute in from.attributes() {
            to.put_attribute(attribute.name(), attribute.value()?)?;
        }
        let mut source = Vec::new();
        let mut target = Vec::new();
        for (name, dimension) in names.iter().zip(from.dimensions()) {
            let count = self.length(name, dimension.len());
            let start = if self.time.as_ref() == Some(name) { self.steps.start } else { 0 };
            source.push(Extent::SliceCount { start, count, stride: 1 });
            target.push(Extent::SliceCount { start: 0, count, stride: 1 });
        }
        let (source, target) = (Extents::from(source), Extents::from(target));
        macro_rules! numbers {
            ($($kind:pat => $type:ty),*) => {
                match from.vartype() {
                    $($kind => to.put_values(&from.get_values::<$type, _>(source)?, target),)*
                    _ => Err(netcdf::Error::TypeMismatch),
                }
            };
        }
        numbers!(
            NcVariableType::Int(IntType::I8) => i8,
            NcVariableType::Int(IntType::U8) => u8,
            NcVariableType::Int(IntType::I16) => i16,
            NcVariableType::Int(IntType::U16) => u16,
            NcVariableType::Int(IntType::I32) => i32,
            NcVariableType::Int(IntType::U32) => u32,
            NcVariableType::Int(IntType::I64) => i64,
            NcVariableType::Int(IntType::U64) => u64,
            NcVariableType::Float(FloatType::F32) => f32,
            NcVariableType::Float(FloatType::F64) => f64
        )
    }
}
