//! A variable of a GRIB file as pieces of NetCDF: names, units and orientation stay, the numbers are float32.

use std::ops::Range;
use std::path::Path;

use netcdf::FileMut;

use super::atomic::Pending;
use super::forecast_file::{attributes, define_grid};
use super::info::{FileInfo, Linear, VariableInfo};
use super::library;
use super::reader::Reader;
use crate::error::{Error, Result};

/// Writes some steps of a variable to the new file `target`.
pub(super) fn write_piece(
    info: &FileInfo,
    variable: &VariableInfo,
    steps: &Range<usize>,
    target: &Path,
) -> Result<()> {
    let cannot = |error: netcdf::Error| {
        Error::run(format!(
            "cannot rewrite '{}' of {} as {}",
            variable.name,
            info.path.display(),
            target.display()
        ))
        .caused_by(error)
    };
    // In the file's own units: what the configuration says of them holds for the piece as well.
    let stored = VariableInfo { conversion: Linear::IDENTITY, ..variable.clone() };
    let mut reader = Reader::open(info)?;
    let pending = Pending::new(target)?;
    let mut file = library::create(pending.path()).map_err(cannot)?;
    define(&mut file, info, &stored, steps).map_err(cannot)?;
    let points = stored.grid.points();
    let mut field = vec![0.0; points];
    let mut placed = vec![0.0; points];
    for (n, time) in steps.clone().enumerate() {
        for level in 0..stored.level_count() {
            reader.read(&stored, time, level, &mut field)?;
            to_file_order(&stored, &field, &mut placed);
            let mut out = file.variable_mut(&stored.name).ok_or_else(|| {
                Error::run(format!("{}: '{}' was not defined", target.display(), stored.name))
            })?;
            let put = match stored.levels.is_empty() {
                true => out.put_values(&placed, (n, .., ..)),
                false => out.put_values(&placed, (n, level, .., ..)),
            };
            put.map_err(cannot)?;
        }
    }
    file.close().map_err(cannot)?;
    pending.commit()
}

fn to_file_order(variable: &VariableInfo, field: &[f32], out: &mut [f32]) {
    let (rows, columns) = (variable.grid.rows(), variable.grid.columns());
    let orientation = variable.orientation;
    for (file_row, line) in out.chunks_exact_mut(columns).enumerate() {
        let row = if orientation.latitude_descending { rows - 1 - file_row } else { file_row };
        for (file_column, value) in line.iter_mut().enumerate() {
            *value = field[row * columns + (file_column + orientation.longitude_shift) % columns];
        }
    }
}

fn define(
    file: &mut FileMut,
    info: &FileInfo,
    variable: &VariableInfo,
    steps: &Range<usize>,
) -> netcdf::Result<()> {
    file.add_attribute("Conventions", "CF-1.11")?;
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
    file.add_attribute(
        "history",
        format!("{now}: wxsim prepare: steps {steps:?} of {}", info.path.display()),
    )?;
    let times = variable.times.get(steps.clone()).unwrap_or(&[]);
    file.add_dimension("time", times.len())?;
    let mut time = file.add_variable::<f64>("time", &["time"])?;
    attributes(&mut time, &[("standard_name", "time"), ("units", "seconds since 1970-01-01 00:00:00")])?;
    if let Some(first) = times.first() {
        time.put_attribute("calendar", first.calendar.cf_name())?;
    }
    if variable.period.is_some() {
        time.put_attribute("bounds", "time_bounds")?;
    }
    let ends: Vec<f64> = times.iter().map(|time| time.seconds as f64).collect();
    time.put_values(&ends, ..)?;
    if let Some(period) = variable.period {
        file.add_dimension("ends", 2)?;
        let bounds: Vec<f64> = ends.iter().flat_map(|end| [end - period.seconds as f64, *end]).collect();
        file.add_variable::<f64>("time_bounds", &["time", "ends"])?.put_values(&bounds, (.., ..))?;
    }
    let mut dimensions = vec!["time"];
    let mut chunk = vec![1];
    if !variable.levels.is_empty() {
        file.add_dimension("level", variable.levels.len())?;
        let mut level = file.add_variable::<f64>("level", &["level"])?;
        attributes(&mut level, &[("standard_name", "air_pressure"), ("units", "hPa"), ("positive", "down")])?;
        level.put_values(&variable.levels, ..)?;
        dimensions.push("level");
        chunk.push(1);
    }
    let (rows, columns) = (variable.grid.rows(), variable.grid.columns());
    file.add_dimension("latitude", rows)?;
    file.add_dimension("longitude", columns)?;
    define_grid(file, &variable.grid, variable.orientation)?;
    dimensions.extend(["latitude", "longitude"]);
    chunk.extend([rows, columns]);
    if let Some(height) = variable.height {
        let mut scalar = file.add_variable::<f64>("height", &[])?;
        attributes(&mut scalar, &[("standard_name", "height"), ("units", "m"), ("positive", "up")])?;
        scalar.put_values(&[height], ())?;
    }
    let mut out = file.add_variable::<f32>(&variable.name, &dimensions)?;
    out.set_chunking(&chunk)?;
    // Higher levels of compression write several times slower and read no faster.
    out.set_compression(1, true)?;
    let texts = [
        ("standard_name", variable.standard_name.clone()),
        ("long_name", variable.long_name.clone()),
        ("units", Some(variable.file_units.clone()).filter(|units| !units.is_empty())),
        ("cell_methods", variable.statistic.as_ref().map(|method| format!("time: {method}"))),
        ("coordinates", variable.height.map(|_| "height".to_string())),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            out.put_attribute(name, text)?;
        }
    }
    Ok(())
}
