//! A global archive of packed numbers to measure on, and the configuration of a training on it.

use std::path::Path;

use rayon::prelude::*;

use crate::error::{Error, Result};

/// What the archive is like.
#[derive(Debug, Clone, clap::Args)]
pub struct Archive {
    /// Grid of the archive that is made [degrees]
    #[arg(long, value_name = "DEGREES", default_value_t = 1.5, conflicts_with = "config")]
    grid: f64,
    /// States in the archive, six hours apart
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u32).range(20..),
        conflicts_with = "config")]
    states: u32,
    /// Deflate its chunks at this level; 0 leaves them as they are, for a disk that keeps up
    #[arg(long, value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=9),
        conflicts_with = "config")]
    deflate: u8,
}

/// Name, units, mean and half the range of each variable.
const VARIABLES: [(&str, &str, f64, f64); 4] = [
    ("t2m", "K", 285.0, 30.0),
    ("msl", "Pa", 101_300.0, 3000.0),
    ("u10", "m s-1", 0.0, 20.0),
    ("v10", "m s-1", 0.0, 20.0),
];

/// Largest packed number.
const MOST: f64 = 32_000.0;

/// Writes the archive into a folder; gives the text of a configuration.
pub(super) fn make(archive: &Archive, folder: &Path) -> Result<String> {
    let columns = (360.0 / archive.grid).round() as usize;
    if !(archive.grid > 0.0 && columns.is_multiple_of(4) && archive.grid * columns as f64 == 360.0) {
        return Err(Error::input(format!(
            "a grid of {} degrees does not close around the globe",
            archive.grid
        ))
        .hint("use --grid 1.5, 1 or 0.25"));
    }
    eprintln!("writing an archive of {} states on {} x {columns} points", archive.states, columns / 2 + 1);
    VARIABLES.par_iter().try_for_each(|variable| {
        write(&folder.join(format!("{}.nc", variable.0)), archive, columns, variable)
            .map_err(|error| Error::run("cannot write the archive").caused_by(error))
    })?;
    let sources: Vec<String> = VARIABLES
        .iter()
        .map(|(name, ..)| format!("{{ glob = \"{name}.nc\", variable = \"{name}\" }}"))
        .collect();
    let day = |state: u32| format!("2000-{:02}-{:02}", 1 + state / 4 / 28, 1 + state / 4 % 28);
    let (middle, end) = (archive.states * 3 / 4, archive.states);
    Ok(format!(
        r#"
        [data]
        root = "{}"
        step = "6h"
        sources = [{}]
        split.train = ["2000-01-01", "{}"]
        split.validation = ["{}", "{}"]
        [input]
        anomalies = false
        statics = ["cos_latitude"]
        forcings = ["solar", "local_time"]
        [model]
        patch = 2
        hidden = [64, 64]
        kernel = 3
        [train]
        batch = 4
        rollout = [[1, 2]]
        "#,
        folder.display(),
        sources.join(", "),
        day(middle),
        day(middle),
        day(end)
    ))
}

fn write(
    path: &Path,
    archive: &Archive,
    columns: usize,
    &(name, units, mean, range): &(&str, &str, f64, f64),
) -> netcdf::Result<()> {
    let (states, rows) = (archive.states as usize, columns / 2 + 1);
    let mut file = netcdf::create(path)?;
    for (name, length, units, first, step) in [
        ("time", states, "hours since 2000-01-01", 0.0, 6.0),
        ("latitude", rows, "degrees_north", 90.0, -archive.grid),
        ("longitude", columns, "degrees_east", 0.0, archive.grid),
    ] {
        file.add_dimension(name, length)?;
        let mut axis = file.add_variable::<f64>(name, &[name])?;
        axis.put_attribute("units", units)?;
        axis.put_values(&(0..length).map(|n| first + n as f64 * step).collect::<Vec<_>>(), ..)?;
    }
    let mut variable = file.add_variable::<i16>(name, &["time", "latitude", "longitude"])?;
    variable.set_chunking(&[1, rows, columns])?;
    if archive.deflate > 0 {
        variable.set_compression(i32::from(archive.deflate), true)?;
    }
    variable.put_attribute("units", units)?;
    variable.put_attribute("scale_factor", range / MOST)?;
    variable.put_attribute("add_offset", mean)?;
    let mut field = vec![0_i16; rows * columns];
    for state in 0..states {
        // Waves that travel around, of one length for each row.
        field.par_chunks_mut(columns).enumerate().for_each(|(row, line)| {
            let waves = (row % 9 + 1) as f64;
            for (column, out) in line.iter_mut().enumerate() {
                let angle = waves * (column as f64 * archive.grid).to_radians() - 0.3 * state as f64;
                *out = (0.9 * MOST * angle.sin() * (row as f64 / rows as f64 * 3.0).cos()) as i16;
            }
        });
        variable.put_values(&field, (state, .., ..))?;
    }
    file.close()
}
