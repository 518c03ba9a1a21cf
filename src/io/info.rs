//! What a file holds, as far as wxsim understood it: plain values that can be stored, compared and printed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::grib::Messages;
use crate::grid::{Grid, Orientation};
use crate::time::{LeadTime, ValidTime};
use crate::variable::{Behaviour, Quantity, Variable};

/// How the bytes of a file are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    #[serde(rename = "NetCDF-3 classic")]
    Classic,
    #[serde(rename = "NetCDF-3 64-bit offset")]
    Offset64,
    #[serde(rename = "NetCDF-3 CDF-5")]
    Cdf5,
    #[serde(rename = "NetCDF-4 (HDF5)")]
    Hdf5,
    #[serde(rename = "GRIB2")]
    Grib2,
}

/// How much a problem matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing has to be done.
    Note,
    /// The file is read, but training refuses it unless the configuration says what to do.
    Warning,
    /// This part of the file is not read.
    Refused,
}

/// One thing that is wrong with a file, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub severity: Severity,
    /// The variable of the file that it concerns, `None` for the file as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    pub sentence: String,
    pub remedy: String,
}

/// A file, and what is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileInfo {
    pub path: PathBuf,
    pub format: Format,
    /// [bytes]
    pub size: u64,
    /// Changes when the file does: size, time of modification and a hash of the header.
    pub fingerprint: String,
    /// The fields that can be read.
    pub variables: Vec<VariableInfo>,
    /// Everything that is odd about the file, fields that cannot be read among it.
    pub problems: Vec<Problem>,
    /// The analysis time that a forecast file names (CF `forecast_reference_time`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_reference_time: Option<ValidTime>,
    /// Where the fields of a GRIB file are; it is indexed in the process that reads it.
    #[serde(skip)]
    pub messages: Option<Arc<Messages>>,
}

/// `converted = value * factor + offset`, in float64.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    pub factor: f64,
    pub offset: f64,
}

/// The number type of a variable in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// How stored numbers become values in the file's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Packing {
    /// As stored; `_Unsigned` is already applied.
    pub number: Number,
    /// `scale_factor` and `add_offset`.
    pub scale: Linear,
    /// Stored numbers that mean "missing" (NaN always does).
    pub missing: Vec<f64>,
    /// Stored numbers outside these bounds are missing.
    pub valid_min: Option<f64>,
    pub valid_max: Option<f64>,
}

/// What the points of a grid are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GridKind {
    /// Evenly spaced latitudes.
    Regular,
    /// Latitudes at the roots of a Legendre polynomial.
    Gaussian,
    /// Latitudes with another spacing.
    Irregular,
}

/// What a dimension of a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Time,
    Level,
    Latitude,
    Longitude,
    /// ERA5 beside ERA5T (`expver`): the first version that has a value counts.
    Version,
    /// A dimension of length 1 that says nothing (`number`, `bnds` of a scalar, ...).
    Single,
}

/// A dimension of a variable, in the file's order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    pub name: String,
    pub length: usize,
    pub role: Role,
}

/// A field, and where its numbers lie.
///
/// `times`, `levels` and `grid` are in wxsim's own order; the `*_index` lists say which index of the file's dimension
/// each entry is (empty: the same).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariableInfo {
    /// The file's name for it.
    pub name: String,
    /// A name of [`crate::variable::VARIABLES`], or else the file's own.
    pub quantity_name: String,
    pub standard_name: Option<String>,
    pub long_name: Option<String>,
    /// As the file writes them, empty when it does not.
    pub file_units: String,
    /// SI units of what [`Reader`](super::Reader) gives.
    pub units: String,
    /// From the file's units to `units`.
    pub conversion: Linear,
    /// Why values cannot be given in `units` (no unit, or one that does not fit) until
    /// [`assume`](Self::assume) says what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    pub packing: Packing,
    /// Pressure levels by decreasing pressure [hPa]; empty for a field without levels.
    pub levels: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub level_index: Vec<usize>,
    /// Height above ground where the file names one [m].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<f64>,
    /// In the order of the file; empty for a static field.
    #[serde(with = "super::time_runs")]
    pub times: Vec<ValidTime>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_index: Vec<usize>,
    pub grid: Grid,
    pub grid_kind: GridKind,
    pub orientation: Orientation,
    /// The file's column for each column of `grid`.
    pub columns: Vec<usize>,
    /// In the order of the file.
    pub dimensions: Vec<Dimension>,
    /// Chunk shape of a chunked NetCDF-4 variable, in the order of `dimensions`.
    pub chunks: Option<Vec<usize>>,
    /// What a value of an accumulated, mean or extreme quantity covers: this long, ending at its valid time.
    pub period: Option<LeadTime>,
    /// `sum`, `mean`, `maximum`, ... over `period`; `None` for an instantaneous value.
    pub statistic: Option<String>,
}

impl FileInfo {
    /// The variable with this name in the file.
    pub fn variable(&self, name: &str) -> Option<&VariableInfo> {
        self.variables.iter().find(|v| v.name == name)
    }
}

impl VariableInfo {
    /// The quantity at the level of this index (index 0 for a field without levels).
    pub fn quantity(&self, level: usize) -> Quantity {
        Quantity::new(self.quantity_name.clone(), self.levels.get(level).copied())
    }

    /// The row of the table of known quantities.
    pub fn known(&self) -> Option<&'static Variable> {
        crate::variable::VARIABLES.iter().find(|v| v.name == self.quantity_name)
    }

    pub fn is_accumulated(&self) -> bool {
        self.known().is_some_and(|v| v.behaviour == Behaviour::Accumulated)
            || self.statistic.as_deref() == Some("sum")
    }

    /// How many fields there are in time: 1 for a static one.
    pub fn time_count(&self) -> usize {
        self.times.len().max(1)
    }

    /// How many fields there are on levels: 1 without levels.
    pub fn level_count(&self) -> usize {
        self.levels.len().max(1)
    }

    /// Length and position of the dimension with this role.
    pub fn dimension(&self, role: Role) -> Option<(usize, usize)> {
        self.dimensions.iter().position(|d| d.role == role).map(|at| (at, self.dimensions[at].length))
    }

    /// Where the field of a time and a level lies in the file, in the order of `dimensions`: the first index and the
    /// number of entries along each. Time and level count 1; latitude, longitude and version are whole.
    /// `None` when there is no such time or level.
    pub fn slab(&self, time: usize, level: usize) -> Option<(Vec<usize>, Vec<usize>)> {
        if time >= self.time_count() || level >= self.level_count() {
            return None;
        }
        let mapped = |index: &[usize], at: usize| index.get(at).copied().unwrap_or(at);
        let pick = |d: &Dimension| match d.role {
            Role::Time => (mapped(&self.time_index, time), 1),
            Role::Level => (mapped(&self.level_index, level), 1),
            Role::Single => (0, 1),
            Role::Latitude | Role::Longitude | Role::Version => (0, d.length),
        };
        Some(self.dimensions.iter().map(pick).unzip())
    }
}

impl Linear {
    pub const IDENTITY: Self = Self { factor: 1.0, offset: 0.0 };

    pub fn apply(self, value: f64) -> f64 {
        value * self.factor + self.offset
    }

    pub fn is_identity(self) -> bool {
        self == Self::IDENTITY
    }
}

impl Number {
    /// Size of one number [bytes].
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I16 => "int16",
            Self::U16 => "uint16",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::I64 => "int64",
            Self::U64 => "uint64",
            Self::F32 => "float32",
            Self::F64 => "float64",
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "NetCDF-3 classic",
            Self::Offset64 => "NetCDF-3 64-bit offset",
            Self::Cdf5 => "NetCDF-3 CDF-5",
            Self::Hdf5 => "NetCDF-4 (HDF5)",
            Self::Grib2 => "GRIB2",
        })
    }
}

impl fmt::Display for GridKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular",
            Self::Gaussian => "Gaussian",
            Self::Irregular => "irregular",
        })
    }
}
