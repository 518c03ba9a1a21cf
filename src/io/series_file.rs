//! A stretch of states as a CF-1.11 NetCDF-4 file, as analyses come: `time`, `latitude`, `longitude`, one variable per
//! quantity, and fields that do not change beside them.

use std::path::Path;

use super::atomic::Pending;
use super::forecast_file::{attributes, define_grid, define_variable};
use super::forecast_variables::plan_variables;
use super::library;
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Orientation;
use crate::variable::Quantity;

/// What a file of states says of itself.
#[derive(Debug, Clone)]
pub struct SeriesHead {
    pub title: String,
    pub source: String,
    /// How the file was made: the command line.
    pub history: String,
}

/// Writes states of one layout without pressure levels, in the order of time, with `statics`, `[lat, lon]` each. The file
/// appears under its name when it is whole; one that was there is replaced.
pub fn write_series(
    target: &Path,
    head: &SeriesHead,
    states: &[State],
    statics: &[(Quantity, Vec<f32>)],
) -> Result<()> {
    let Some(first) = states.first() else {
        return Err(Error::run(format!("there is no state to write into {}", target.display())));
    };
    let layout = first.layout.clone();
    if let Some(other) = states.iter().find(|state| *state.layout != *layout) {
        return Err(Error::run(format!("the state of {} has another layout than the first", other.valid)));
    }
    if let Some(quantity) = layout.quantities.iter().find(|q| q.level.is_some()) {
        return Err(Error::run(format!("{quantity} lies on a level, and this file has none")));
    }
    let pending = Pending::new(target)?;
    write(pending.path(), head, &layout, states, statics).map_err(|error| {
        Error::run(format!("cannot write {}", target.display()))
            .caused_by(error)
            .hint("see whether the disk is full (df -h) and the folder writable")
    })?;
    pending.commit()
}

fn write(
    path: &Path,
    head: &SeriesHead,
    layout: &Layout,
    states: &[State],
    statics: &[(Quantity, Vec<f32>)],
) -> netcdf::Result<()> {
    let grid = &layout.grid;
    let mut file = library::create(path)?;
    file.add_attribute("Conventions", "CF-1.11")?;
    file.add_attribute("title", head.title.as_str())?;
    file.add_attribute("source", head.source.as_str())?;
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
    file.add_attribute("history", format!("{now}: {}", head.history))?;
    file.add_dimension("time", states.len())?;
    file.add_dimension("latitude", grid.rows())?;
    file.add_dimension("longitude", grid.columns())?;
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    attributes(&mut time, &[("standard_name", "time"), ("long_name", "valid time"), ("axis", "T")])?;
    attributes(&mut time, &[("units", "hours since 1970-01-01 00:00:00")])?;
    time.put_attribute("calendar", states[0].valid.calendar.cf_name())?;
    time.put_values(&states.iter().map(|state| state.valid.seconds as f64 / 3600.0).collect::<Vec<_>>(), ..)?;
    define_grid(&mut file, grid, Orientation::default())?;
    for variable in plan_variables(layout, &[]) {
        let mut out = define_variable(&mut file, grid, &variable)?;
        for (n, state) in states.iter().enumerate() {
            let field: Vec<f32> = state.channel(variable.channels[0]).iter().copied().collect();
            out.put_values(&field, (n, .., ..))?;
        }
    }
    for (quantity, values) in statics {
        let mut out = file.add_variable::<f32>(&quantity.name, &["latitude", "longitude"])?;
        if let Some(known) = quantity.variable() {
            attributes(&mut out, &[("standard_name", known.standard_name), ("long_name", known.long_name)])?;
            attributes(&mut out, &[("units", known.units)])?;
        }
        out.put_values(values, (.., ..))?;
    }
    file.close()
}
