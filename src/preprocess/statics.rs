//! Static fields: read from a file, made from the coastlines, or from the grid alone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::RegridMethod;
use super::regrid::Regrid;
use crate::constants::STANDARD_GRAVITY;
use crate::error::{Context, Error, Result};
use crate::grid::Grid;
use crate::io::coastlines::{Ring, rings};
use crate::io::{self, FileInfo, VariableInfo};
use crate::variable::Variable;

/// A static input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StaticField {
    /// Height of the ground from a file, mean 0 and deviation 1 over the grid.
    Orography,
    /// Share of land, 0 to 1: from a file, or made from the bundled coastlines.
    LandSeaMask,
    CosLatitude,
    /// Sine and cosine.
    Longitude,
}

/// A static input, and the file that holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPlan {
    pub field: StaticField,
    pub file: Option<StaticFile>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StaticFile {
    pub path: PathBuf,
    /// The file's name for it; `None` where the canonical name or an alias will do.
    pub variable: Option<String>,
}

/// Points for each side of a cell at which the coastlines are asked.
const SAMPLES: usize = 8;

impl StaticField {
    /// One name per channel.
    pub fn channels(self) -> &'static [&'static str] {
        match self {
            Self::Orography => &["orography"],
            Self::LandSeaMask => &["land_sea_mask"],
            Self::CosLatitude => &["cos_latitude"],
            Self::Longitude => &["sin_longitude", "cos_longitude"],
        }
    }
}

impl StaticPlan {
    /// `[lat, lon]` for each channel.
    pub fn fields(&self, grid: &Grid) -> Result<Vec<Vec<f32>>> {
        let at_points = |value: &dyn Fn(f64, f64) -> f64| -> Vec<f32> {
            let row = |y: &f64| grid.longitude.iter().map(|x| value(*y, *x) as f32).collect::<Vec<f32>>();
            grid.latitude.iter().flat_map(row).collect()
        };
        Ok(match (self.field, &self.file) {
            (StaticField::Orography, Some(file)) => vec![standardised(file.read("orog", grid)?)],
            (StaticField::Orography, None) => {
                return Err(Error::input("the static field 'orography' needs a file").hint(
                    "add to [input]: orography = { file = \"orography.nc\" }, or leave it out of statics",
                ));
            }
            (StaticField::LandSeaMask, Some(file)) => vec![file.read("lsm", grid)?],
            (StaticField::LandSeaMask, None) => vec![land_share(grid, &rings()?)],
            (StaticField::CosLatitude, _) => vec![at_points(&|y, _| y.to_radians().cos())],
            (StaticField::Longitude, _) => {
                vec![at_points(&|_, x| x.to_radians().sin()), at_points(&|_, x| x.to_radians().cos())]
            }
        })
    }
}

impl StaticFile {
    /// The field on `grid`, regridded where the file's grid is another one.
    fn read(&self, quantity: &str, grid: &Grid) -> Result<Vec<f32>> {
        let info = io::inspect_file(&self.path)?;
        let variable = self.find(&info, quantity)?;
        let mut values = vec![0.0; variable.grid.points()];
        io::Reader::open(&info)?
            .read(variable, 0, 0, &mut values)
            .context(|| format!("reading the static field '{}' of {}", variable.name, self.path.display()))?;
        if quantity == "orog" && variable.quantity_name == "z" {
            values.iter_mut().for_each(|z| *z = (f64::from(*z) / STANDARD_GRAVITY) as f32);
        }
        if !variable.grid.matches(grid) {
            let regrid = Regrid::new(&variable.grid, grid, RegridMethod::Conservative)
                .context(|| format!("bringing {} to the grid of the data", self.path.display()))?;
            let mut regridded = vec![0.0; grid.points()];
            regrid.apply(&values, &mut regridded);
            values = regridded;
        }
        let missing = values.iter().filter(|x| !x.is_finite()).count();
        if missing > 0 {
            return Err(Error::input(format!(
                "{}: the static field '{}' is missing at {missing} of {} points",
                self.path.display(),
                variable.name,
                values.len()
            ))
            .hint("a static field must be whole: fill it, or leave it out of [input] statics"));
        }
        Ok(values)
    }

    fn find<'a>(&self, info: &'a FileInfo, quantity: &str) -> Result<&'a VariableInfo> {
        let wanted = self.variable.as_deref();
        let is_wanted = |v: &&VariableInfo| match wanted {
            Some(name) => v.name == name,
            // the geopotential of the surface is how ECMWF ships orography
            None => {
                v.quantity_name == quantity
                    || (quantity == "orog" && v.quantity_name == "z" && v.levels.is_empty())
            }
        };
        info.variables.iter().find(is_wanted).ok_or_else(|| {
            let aliases = Variable::find(quantity).map_or(String::new(), |v| v.aliases.join(", "));
            not_found(&self.path, wanted.unwrap_or(quantity), info)
                .hint(format!("name the variable: variable = \"...\" (known without: {quantity}, {aliases})"))
        })
    }
}

/// The error for a variable that a file does not hold.
pub(super) fn not_found(path: &Path, wanted: &str, info: &FileInfo) -> Error {
    let names: Vec<&str> = info.variables.iter().map(|v| v.name.as_str()).collect();
    Error::input(format!("{}: there is no variable '{wanted}', only {}", path.display(), names.join(", ")))
}

fn standardised(mut values: Vec<f32>) -> Vec<f32> {
    let n = values.len() as f64;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
    let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    values.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) / deviation) as f32);
    values
}

/// The share of land in each cell, `[lat, lon]`.
///
/// A point is land when its meridian crosses an odd number of shores between it and the north pole, which is sea. That
/// holds for rings across the date line and around the south pole too.
pub fn land_share(grid: &Grid, shores: &[Ring]) -> Vec<f32> {
    let (rows, columns) = (grid.latitude_bounds(), grid.longitude_bounds());
    let inside = |bounds: &[f64], sample: usize| {
        let share = (sample % SAMPLES) as f64 + 0.5;
        let cell = sample / SAMPLES;
        bounds[cell] + (bounds[cell + 1] - bounds[cell]) * share / SAMPLES as f64
    };
    let mut counts = vec![0_u32; grid.points()];
    let mut crossings = Vec::new();
    for x_sample in 0..grid.columns() * SAMPLES {
        let longitude = inside(&columns, x_sample);
        crossings.clear();
        for edge in shores.iter().flat_map(|ring| ring.windows(2)) {
            crossings.extend(crossing(edge[0], edge[1], longitude));
        }
        crossings.sort_by(f64::total_cmp);
        for y_sample in 0..grid.rows() * SAMPLES {
            let latitude = inside(&rows, y_sample);
            let north = crossings.len() - crossings.partition_point(|&y| y < latitude);
            if north % 2 == 1 {
                counts[y_sample / SAMPLES * grid.columns() + x_sample / SAMPLES] += 1;
            }
        }
    }
    counts.iter().map(|&n| n as f32 / (SAMPLES * SAMPLES) as f32).collect()
}

/// The latitude at which the edge from `a` to `b`, taken the short way around, crosses a meridian. An end that lies on it
/// counts for the edge that goes on eastward, so that a crossing is counted once.
fn crossing(a: [f64; 2], b: [f64; 2], longitude: f64) -> Option<f64> {
    let turn = |degrees: f64| (degrees + 180.0).rem_euclid(360.0) - 180.0;
    let width = turn(b[0] - a[0]);
    // Distances from the meridian, both measured from `a`.
    let start = turn(a[0] - longitude);
    let end = start + width;
    // The edge may also reach the meridian a turn away when `start` is near the date line of this frame.
    [0.0, 360.0, -360.0].into_iter().find_map(|meridian| {
        let (start, end) = (start - meridian, end - meridian);
        ((start < 0.0) != (end < 0.0)).then(|| a[1] + (b[1] - a[1]) * start / (start - end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of land at one place, in a cell of a tenth of a degree.
    fn land_at(latitude: f64, longitude: f64) -> f32 {
        let grid = Grid::new(vec![latitude, latitude + 0.1], vec![longitude, longitude + 0.1]).unwrap();
        land_share(&grid, &rings().unwrap())[0]
    }

    #[test]
    fn well_known_places_are_where_they_should_be() {
        for (name, latitude, longitude, land) in [
            ("Paris", 48.9, 2.3, 1.0),
            ("Lake Chad's Sahara", 20.0, 10.0, 1.0),
            ("Chukotka beyond the date line", 67.0, 184.0, 1.0),
            ("eastern Siberia", 67.0, 179.0, 1.0),
            ("Antarctica", -80.0, 100.0, 1.0),
            ("the south pole", -89.5, 10.0, 1.0),
            ("Australia", -25.0, 134.0, 1.0),
            ("the Atlantic", 30.0, 320.0, 0.0),
            ("the Pacific at the date line", 0.0, 179.95, 0.0),
            ("the north pole", 89.5, 0.0, 0.0),
            ("the Caspian Sea", 42.0, 50.5, 0.0),
            ("the North Sea", 56.0, 3.0, 0.0),
            ("the Southern Ocean", -60.0, 200.0, 0.0),
        ] {
            assert_eq!(land_at(latitude, longitude), land, "{name}");
        }
    }

    #[test]
    fn the_earth_is_land_to_29_percent() {
        let latitude: Vec<f64> = (0..60).map(|j| -88.5 + 3.0 * j as f64).collect();
        let longitude: Vec<f64> = (0..120).map(|i| 3.0 * i as f64).collect();
        let grid = Grid::new(latitude, longitude).unwrap();
        let weights = grid.latitude_weights();
        let share = land_share(&grid, &rings().unwrap());
        let rows = share.chunks(120).zip(&weights);
        let mean: f64 = rows.map(|(row, w)| row.iter().map(|&x| f64::from(x)).sum::<f64>() * w).sum::<f64>()
            / grid.points() as f64;
        // 29.2 percent (CIA World Factbook); Natural Earth counts the Antarctic ice shelves as land
        assert!((0.285..0.30).contains(&mean), "{mean}");
    }

    #[test]
    fn a_named_field_without_its_file_is_an_error() {
        let grid = Grid::new(vec![0.0, 1.0], vec![0.0, 1.0]).unwrap();
        let plan = StaticPlan { field: StaticField::Orography, file: None };
        assert!(plan.fields(&grid).unwrap_err().advice().unwrap().contains("orography"));
        let file = StaticFile { path: "no/such/file.nc".into(), variable: None };
        assert!(StaticPlan { file: Some(file), ..plan }.fields(&grid).is_err());
    }
}
