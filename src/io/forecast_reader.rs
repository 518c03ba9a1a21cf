//! Reads back what [`ForecastFile`](super::forecast_file::ForecastFile) wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use netcdf::{AttributeValue, File};

use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Grid;
use crate::time::{Calendar, InitTime, LeadTime, ValidTime, valid_time};
use crate::variable::Quantity;

/// Opens a forecast file of wxsim.
pub fn open(path: &Path) -> Result<ForecastReader> {
    ForecastReader::open(path)
}

/// The forecast of one initial time, read lead by lead.
pub struct ForecastReader {
    path: PathBuf,
    file: File,
    init: InitTime,
    leads: Vec<LeadTime>,
    layout: Arc<Layout>,
    model: String,
    origin: String,
    /// Per channel: the variable and, where it has levels, the index of the level.
    places: Vec<(String, Option<usize>)>,
    rows_descend: bool,
    /// For each column of the file, the column of the layout.
    columns: Vec<usize>,
}
