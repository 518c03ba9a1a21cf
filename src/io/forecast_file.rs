//! A forecast as a CF-1.11 NetCDF-4 file: one file per initial time.
//!
//! ```text
//! 20081019T1200.nc
//!   time(time)                     valid time; the first entry is the analysis
//!   lead_time(time)                hours since the initial time
//!   forecast_reference_time        the initial time
//!   z(time, level, latitude, longitude), msl(time, latitude, longitude), ...
//! ```
//!
//! Rows, columns and units are those of the files that the forecast started from. A horizontal field is a compressed
//! chunk, so that the memory needed does not depend on the length of the forecast.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use netcdf::{FileMut, VariableMut};

use super::atomic::Pending;
use super::forecast_contents::{self as contents, Coordinate, to_file_order};
pub use super::forecast_reader::{ForecastReader, open};
use super::forecast_variables::{FileVariable, plan_variables};
use super::info::Linear;
use crate::error::{Context, Error, Result};
use crate::field::{Layout, State};
use crate::grid::{Grid, Orientation};
use crate::time::{InitTime, LeadTime, ValidTime, valid_time};

/// What a forecast file says of itself.
#[derive(Debug, Clone)]
pub struct ForecastHead {
    pub layout: Arc<Layout>,
    /// Of the files that the forecast started from.
    pub orientation: Orientation,
    /// One per channel, as in those files; empty for SI units throughout.
    pub units: Vec<FileUnits>,
    pub init: InitTime,
    pub step: LeadTime,
    /// How many steps follow the analysis.
    pub steps: usize,
    /// `convlstm`, `persistence`, ...
    pub model: String,
    /// Where the model came from: its run folder or configuration.
    pub origin: String,
    /// How the file was made: the command line.
    pub history: String,
}

/// Units of a quantity in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileUnits {
    pub units: String,
    /// From these units to SI units.
    pub conversion: Linear,
}

impl ForecastHead {
    /// `20081019T1200.nc`
    pub fn file_name(&self) -> String {
        format!("{}.nc", self.init.0.file_stamp())
    }

    /// `20081019T1200.zarr`
    pub fn store_name(&self) -> String {
        format!("{}.zarr", self.init.0.file_stamp())
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.step.seconds <= 0 {
            return Err(Error::input(format!("a forecast cannot advance by steps of {}", self.step)));
        }
        if !self.units.is_empty() && self.units.len() != self.layout.channels() {
            return Err(Error::run(format!(
                "{} units were given for {} channels",
                self.units.len(),
                self.layout.channels()
            )));
        }
        Ok(())
    }

    /// Refuses to keep a forecast of which only so many states were written.
    pub(super) fn check_whole(&self, written: usize, target: &Path) -> Result<()> {
        if written == self.steps + 1 {
            return Ok(());
        }
        let states = self.steps + 1;
        Err(Error::run(format!("{} holds {written} of {states} states and is not kept", target.display())))
    }

    /// The valid time of the state that comes after `written` others, if it is this one.
    pub(super) fn expects(&self, written: usize, state: &State) -> Result<ValidTime> {
        let expected = valid_time(self.init, self.step.times(written));
        if written > self.steps {
            return Err(Error::run(format!("it already holds all of its {} steps", self.steps)));
        }
        if *state.layout != *self.layout || state.valid != expected {
            return Err(Error::run(format!(
                "it expects the state of {expected} next and was given one of {} ({})",
                state.valid,
                state.layout.grid.describe()
            )));
        }
        Ok(expected)
    }
}

/// The library does not say why it could not write.
const FULL: &str = "see whether the disk is full (df -h) and the folder writable";

/// A forecast file being written; dropped before [`finish`](ForecastFile::finish), it leaves nothing behind.
pub struct ForecastFile {
    // Declared before `pending`, so that the file is closed before it is removed.
    file: FileMut,
    pending: Pending,
    head: ForecastHead,
    variables: Vec<FileVariable>,
    written: usize,
    /// One horizontal field in the file's orientation.
    buffer: Vec<f32>,
}

impl ForecastFile {
    /// Begins the file of one initial time in `folder`, which is made when it is not there.
    pub fn create(folder: &Path, head: &ForecastHead) -> Result<Self> {
        head.check()?;
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::run(format!("cannot make the folder {}", folder.display())).caused_by(e))?;
        let pending = Pending::new(&folder.join(head.file_name()))?;
        let variables = plan_variables(&head.layout, &head.units);
        let cannot = |error: netcdf::Error| {
            Error::run(format!("cannot write {}", pending.target().display())).caused_by(error).hint(FULL)
        };
        let mut file = super::library::create(pending.path()).map_err(cannot)?;
        define(&mut file, head, &variables).map_err(cannot)?;
        let buffer = vec![0.0; head.layout.grid.points()];
        Ok(Self { file, pending, head: head.clone(), variables, written: 0, buffer })
    }

    /// Writes the next state, in order of lead time: first the analysis, then every step.
    pub fn write(&mut self, state: &State) -> Result<()> {
        let target = self.pending.target().display();
        let expected = self.head.expects(self.written, state).context(|| target.to_string())?;
        let cannot =
            |error| Error::run(format!("cannot write {expected} into {target}")).caused_by(error).hint(FULL);
        for variable in &self.variables {
            let mut out = self
                .file
                .variable_mut(&variable.name)
                .ok_or_else(|| cannot(netcdf::Error::NotFound(variable.name.clone())))?;
            for (index, &channel) in variable.channels.iter().enumerate() {
                to_file_order(state, channel, self.head.orientation, variable.conversion, &mut self.buffer);
                let (rows, columns) = (self.head.layout.grid.rows(), self.head.layout.grid.columns());
                if variable.level_dimension.is_some() {
                    out.put_values(&self.buffer, (self.written, index, 0..rows, 0..columns))
                        .map_err(cannot)?;
                } else {
                    out.put_values(&self.buffer, (self.written, 0..rows, 0..columns)).map_err(cannot)?;
                }
            }
        }
        self.written += 1;
        Ok(())
    }

    /// Says something about how the forecast was made, in the attribute `comment`.
    pub fn comment(&mut self, text: &str) -> Result<()> {
        let target = self.pending.target().display();
        self.file.add_attribute("comment", text).map_err(|error| {
            Error::run(format!("cannot write a comment into {target}")).caused_by(error).hint(FULL)
        })?;
        Ok(())
    }

    /// Gives the whole file its name and returns it.
    pub fn finish(self) -> Result<PathBuf> {
        let target = self.pending.target().to_owned();
        self.head.check_whole(self.written, &target)?;
        // A full disk may show only now, when the library writes what it held back.
        self.file
            .close()
            .map_err(|e| Error::run(format!("cannot write {}", target.display())).caused_by(e).hint(FULL))?;
        self.pending.commit()?;
        Ok(target)
    }
}

/// Dimensions, coordinates, variables and attributes.
fn define(file: &mut FileMut, head: &ForecastHead, variables: &[FileVariable]) -> netcdf::Result<()> {
    for (name, text) in contents::attributes(head) {
        file.add_attribute(name, text)?;
    }
    for (name, length) in contents::dimensions(head, variables) {
        file.add_dimension(&name, length)?;
    }
    for coordinate in contents::coordinates(head, variables) {
        define_coordinate(file, &coordinate)?;
    }
    for variable in variables {
        let mut out = define_variable(file, &head.layout.grid, variable)?;
        for (name, text) in contents::of_forecasts(head, variable) {
            out.put_attribute(name, text)?;
        }
    }
    Ok(())
}

fn define_coordinate(file: &mut FileMut, coordinate: &Coordinate) -> netcdf::Result<()> {
    let dimensions: Vec<&str> = coordinate.dimensions.iter().map(String::as_str).collect();
    let mut variable = file.add_variable::<f64>(&coordinate.name, &dimensions)?;
    for (name, text) in &coordinate.attributes {
        variable.put_attribute(name, text.as_str())?;
    }
    variable.put_values(&coordinate.values, ..)
}

pub(super) fn define_grid(file: &mut FileMut, grid: &Grid, orientation: Orientation) -> netcdf::Result<()> {
    contents::of_grid(grid, orientation).iter().try_for_each(|coordinate| define_coordinate(file, coordinate))
}

/// A variable along time, its levels and the grid, whose chunks are single fields.
pub(super) fn define_variable<'f>(
    file: &'f mut FileMut,
    grid: &Grid,
    variable: &FileVariable,
) -> netcdf::Result<VariableMut<'f>> {
    let mut dimensions = vec!["time"];
    let mut chunk = vec![1];
    if let Some(level) = &variable.level_dimension {
        dimensions.push(level);
        chunk.push(1);
    }
    dimensions.extend(["latitude", "longitude"]);
    chunk.extend([grid.rows(), grid.columns()]);
    let mut out = file.add_variable::<f32>(&variable.name, &dimensions)?;
    out.set_chunking(&chunk)?;
    // Most of a float's mantissa is noise: higher levels take several times as long and save a percent.
    out.set_compression(1, true)?;
    out.set_fill_value(f32::NAN)?;
    for (name, text) in contents::of_variable(variable) {
        out.put_attribute(name, text)?;
    }
    Ok(out)
}

pub(super) fn attributes(variable: &mut VariableMut<'_>, pairs: &[(&str, &str)]) -> netcdf::Result<()> {
    for (name, text) in pairs {
        variable.put_attribute(name, *text)?;
    }
    Ok(())
}
