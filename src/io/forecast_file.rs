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
pub use super::forecast_reader::{ForecastReader, open};
use super::forecast_variables::{FileVariable, plan_variables};
use super::info::Linear;
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::{Grid, Orientation};
use crate::time::{InitTime, LeadTime, ValidTime, valid_time};
use crate::variable::Behaviour;

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
        check_head(head)?;
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
        let expected = valid_time(self.head.init, self.head.step.times(self.written));
        if self.written > self.head.steps {
            return Err(Error::run(format!("{target} already holds all of its {} steps", self.head.steps)));
        }
        if *state.layout != *self.head.layout || state.valid != expected {
            return Err(Error::run(format!(
                "{target} expects the state of {expected} next and was given one of {} ({})",
                state.valid,
                state.layout.grid.describe()
            )));
        }
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
        if self.written != self.head.steps + 1 {
            return Err(Error::run(format!(
                "{} holds {} of {} states and is not kept",
                target.display(),
                self.written,
                self.head.steps + 1
            )));
        }
        // A full disk may show only now, when the library writes what it held back.
        self.file
            .close()
            .map_err(|e| Error::run(format!("cannot write {}", target.display())).caused_by(e).hint(FULL))?;
        self.pending.commit()?;
        Ok(target)
    }
}

fn check_head(head: &ForecastHead) -> Result<()> {
    if head.step.seconds <= 0 {
        return Err(Error::input(format!("a forecast cannot advance by steps of {}", head.step)));
    }
    if !head.units.is_empty() && head.units.len() != head.layout.channels() {
        return Err(Error::run(format!(
            "{} units were given for {} channels",
            head.units.len(),
            head.layout.channels()
        )));
    }
    Ok(())
}

/// Copies one channel into the rows, columns and units of the file; missing stays NaN.
fn to_file_order(
    state: &State,
    channel: usize,
    orientation: Orientation,
    conversion: Option<Linear>,
    out: &mut [f32],
) {
    let field = state.channel(channel);
    let (rows, columns) = field.dim();
    for (file_row, line) in out.chunks_exact_mut(columns).enumerate() {
        let row = if orientation.latitude_descending { rows - 1 - file_row } else { file_row };
        for (file_column, value) in line.iter_mut().enumerate() {
            let si = field[[row, (file_column + orientation.longitude_shift) % columns]];
            *value = match conversion {
                None => si,
                Some(Linear { factor, offset }) => ((f64::from(si) - offset) / factor) as f32,
            };
        }
    }
}

/// Dimensions, coordinates, variables and attributes.
fn define(file: &mut FileMut, head: &ForecastHead, variables: &[FileVariable]) -> netcdf::Result<()> {
    let grid = &head.layout.grid;
    let accumulated = head.layout.quantities.iter().any(|q| q.behaviour() == Behaviour::Accumulated);
    file.add_attribute("Conventions", "CF-1.11")?;
    file.add_attribute("title", format!("Forecast from {} by {}", head.init, head.model))?;
    file.add_attribute(
        "source",
        format!("wxsim {}, {}, from {}", env!("CARGO_PKG_VERSION"), head.model, head.origin),
    )?;
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
    file.add_attribute("history", format!("{now}: {}", head.history))?;
    file.add_attribute("wxsim_model", head.model.as_str())?;
    file.add_attribute("wxsim_origin", head.origin.as_str())?;

    file.add_dimension("time", head.steps + 1)?;
    file.add_dimension("latitude", grid.rows())?;
    file.add_dimension("longitude", grid.columns())?;
    define_times(file, head, accumulated)?;
    define_grid(file, grid, head.orientation)?;
    for variable in variables {
        if let Some(dimension) = &variable.level_dimension
            && file.dimension(dimension).is_none()
        {
            file.add_dimension(dimension, variable.levels.len())?;
            let mut level = file.add_variable::<f64>(dimension, &[dimension])?;
            attributes(&mut level, &[("standard_name", "air_pressure"), ("long_name", "pressure level")])?;
            attributes(&mut level, &[("units", "hPa"), ("positive", "down"), ("axis", "Z")])?;
            level.put_values(&variable.levels, ..)?;
        }
        // Where the time axis has bounds for the sums, other quantities hold at the instant.
        let cell_methods = match variable.quantity.behaviour() {
            Behaviour::Accumulated => Some("time: sum"),
            _ if accumulated => Some("time: point"),
            _ => None,
        };
        let mut out = define_variable(file, grid, variable)?;
        if let Some(methods) = cell_methods {
            out.put_attribute("cell_methods", methods)?;
        }
        out.put_attribute("coordinates", "lead_time forecast_reference_time")?;
    }
    Ok(())
}

/// The times of the file, in the coarsest unit that writes them as whole numbers.
fn define_times(file: &mut FileMut, head: &ForecastHead, accumulated: bool) -> netcdf::Result<()> {
    let whole_hours = head.init.0.seconds % 3600 == 0 && head.step.seconds % 3600 == 0;
    let (unit, seconds) = if whole_hours { ("hours", 3600) } else { ("seconds", 1) };
    let units = format!("{unit} since 1970-01-01 00:00:00");
    let number = |time: ValidTime| time.seconds as f64 / f64::from(seconds);
    let calendar = head.init.0.calendar.cf_name();
    let leads: Vec<LeadTime> = (0..=head.steps).map(|n| head.step.times(n)).collect();
    let times: Vec<f64> = leads.iter().map(|&lead| number(valid_time(head.init, lead))).collect();

    let mut time = file.add_variable::<f64>("time", &["time"])?;
    attributes(&mut time, &[("standard_name", "time"), ("long_name", "valid time"), ("units", &units)])?;
    attributes(&mut time, &[("calendar", calendar), ("axis", "T")])?;
    if accumulated {
        time.put_attribute("bounds", "time_bnds")?;
    }
    time.put_values(&times, ..)?;

    let mut lead = file.add_variable::<f64>("lead_time", &["time"])?;
    attributes(&mut lead, &[("standard_name", "forecast_period"), ("long_name", "lead time")])?;
    lead.put_attribute("units", "hours")?;
    lead.put_values(&leads.iter().map(|lead| lead.hours()).collect::<Vec<f64>>(), ..)?;

    let mut init = file.add_variable::<f64>("forecast_reference_time", &[])?;
    attributes(&mut init, &[("standard_name", "forecast_reference_time"), ("units", &units)])?;
    attributes(&mut init, &[("long_name", "initial time of the forecast"), ("calendar", calendar)])?;
    init.put_values(&[number(head.init.0)], ())?;

    if accumulated {
        // Sums are over the step that ends at the valid time.
        file.add_dimension("bnds", 2)?;
        let begin =
            |lead: LeadTime| valid_time(head.init, LeadTime { seconds: lead.seconds - head.step.seconds });
        let bounds: Vec<f64> =
            leads.iter().zip(&times).flat_map(|(&lead, &end)| [number(begin(lead)), end]).collect();
        let mut variable = file.add_variable::<f64>("time_bnds", &["time", "bnds"])?;
        variable.put_values(&bounds, (.., ..))?;
    }
    Ok(())
}

pub(super) fn define_grid(file: &mut FileMut, grid: &Grid, orientation: Orientation) -> netcdf::Result<()> {
    let mut rows = grid.latitude.clone();
    if orientation.latitude_descending {
        rows.reverse();
    }
    let mut latitude = file.add_variable::<f64>("latitude", &["latitude"])?;
    attributes(&mut latitude, &[("standard_name", "latitude"), ("long_name", "latitude")])?;
    attributes(&mut latitude, &[("units", "degrees_north"), ("axis", "Y")])?;
    latitude.put_values(&rows, ..)?;

    let mut longitude = file.add_variable::<f64>("longitude", &["longitude"])?;
    attributes(&mut longitude, &[("standard_name", "longitude"), ("long_name", "longitude")])?;
    attributes(&mut longitude, &[("units", "degrees_east"), ("axis", "X")])?;
    longitude.put_values(&file_longitudes(grid, orientation), ..)
}

/// Longitudes in the file's order and sign, and increasing as CF demands of a coordinate.
fn file_longitudes(grid: &Grid, orientation: Orientation) -> Vec<f64> {
    let n = grid.columns();
    let mut columns = Vec::with_capacity(n);
    for column in 0..n {
        let inside = grid.longitude[(column + orientation.longitude_shift) % n];
        let written = if orientation.longitude_signed {
            (inside + 180.0).rem_euclid(360.0) - 180.0
        } else {
            inside.rem_euclid(360.0)
        };
        let unwrapped = match columns.last() {
            Some(&before) if written < before => written + 360.0,
            _ => written,
        };
        columns.push(unwrapped);
    }
    columns
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
    if let Some(name) = variable.standard_name {
        out.put_attribute("standard_name", name)?;
    }
    attributes(&mut out, &[("long_name", &variable.long_name), ("units", &variable.file_units)])?;
    Ok(out)
}

pub(super) fn attributes(variable: &mut VariableMut<'_>, pairs: &[(&str, &str)]) -> netcdf::Result<()> {
    for (name, text) in pairs {
        variable.put_attribute(name, *text)?;
    }
    Ok(())
}
