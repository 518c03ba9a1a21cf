//! A latitude-longitude grid in the one orientation used inside wxsim: south to north, eastward.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Rows south to north, columns eastward and contiguous; degrees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Strictly increasing, -90 to 90 [degrees_north].
    pub latitude: Vec<f64>,
    /// Strictly increasing; starts in [0, 360), or lower for a regional grid across Greenwich [degrees_east].
    pub longitude: Vec<f64>,
}

/// How a file stores the grid, so that output files can repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Orientation {
    /// Rows run north to south.
    pub latitude_descending: bool,
    /// How many columns the file's first column lies after the first one inside wxsim.
    pub longitude_shift: usize,
    /// The file writes western longitudes as negative numbers.
    pub longitude_signed: bool,
}

/// A named part of the globe; bounds inclusive, degrees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Region {
    pub name: String,
    pub south: f64,
    pub north: f64,
    /// Western and eastern edge; `west > east` crosses Greenwich.
    pub west: f64,
    pub east: f64,
}

/// Coordinates in files are often float32: two that differ by less than this are the same [degrees].
pub const COORDINATE_TOLERANCE: f64 = 1e-3;

impl Grid {
    /// Checks monotony and range.
    pub fn new(latitude: Vec<f64>, longitude: Vec<f64>) -> Result<Self> {
        let increasing = |v: &[f64]| v.windows(2).all(|w| w[1] > w[0]);
        let finite = |v: &[f64]| !v.is_empty() && v.iter().all(|x| x.is_finite());
        if !finite(&latitude) || !increasing(&latitude) {
            return Err(Error::input("latitudes must be finite and strictly monotonic"));
        }
        if latitude[0] < -90.0 - COORDINATE_TOLERANCE
            || latitude[latitude.len() - 1] > 90.0 + COORDINATE_TOLERANCE
        {
            return Err(Error::input(format!(
                "latitudes must lie in [-90, 90], found {} to {}",
                latitude[0],
                latitude[latitude.len() - 1]
            )));
        }
        if !finite(&longitude) || !increasing(&longitude) {
            return Err(Error::input("longitudes must be finite and strictly monotonic"));
        }
        let span = longitude[longitude.len() - 1] - longitude[0];
        if span >= 360.0 - COORDINATE_TOLERANCE {
            return Err(Error::input(format!(
                "longitudes span {span} degrees: the first column comes again"
            ))
            .hint("drop the repeated columns"));
        }
        Ok(Self { latitude, longitude })
    }

    pub fn rows(&self) -> usize {
        self.latitude.len()
    }

    pub fn columns(&self) -> usize {
        self.longitude.len()
    }

    pub fn points(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Whether the columns close around the earth.
    pub fn is_periodic(&self) -> bool {
        let n = self.columns();
        if n < 2 {
            return false;
        }
        let step = (self.longitude[n - 1] - self.longitude[0]) / (n - 1) as f64;
        (step * n as f64 - 360.0).abs() < COORDINATE_TOLERANCE * n as f64
    }

    /// Whether the southernmost row reaches the pole: by a row on it, or within one row spacing of it.
    pub fn touches_south_pole(&self) -> bool {
        self.rows() > 1 && self.latitude[0] - (self.latitude[1] - self.latitude[0]) <= -90.0
    }

    /// Whether the northernmost row reaches the pole.
    pub fn touches_north_pole(&self) -> bool {
        let n = self.rows();
        n > 1 && 2.0 * self.latitude[n - 1] - self.latitude[n - 2] >= 90.0
    }

    /// Whether the first or last row lies on a pole.
    pub fn has_pole_rows(&self) -> bool {
        let edge = |x: f64| (x.abs() - 90.0).abs() < COORDINATE_TOLERANCE;
        edge(self.latitude[0]) || edge(self.latitude[self.rows() - 1])
    }

    /// Row boundaries, `rows + 1` of them: mid-points, and at the edges half a spacing outward, within the poles.
    /// (The rule of WeatherBench-X; that of WeatherBench 2 overweights the edges of regional grids.)
    pub fn latitude_bounds(&self) -> Vec<f64> {
        bounds(&self.latitude).into_iter().map(|b| b.clamp(-90.0, 90.0)).collect()
    }

    /// Column boundaries, `columns + 1` of them.
    pub fn longitude_bounds(&self) -> Vec<f64> {
        bounds(&self.longitude)
    }

    /// Weight of each row, proportional to the area of its cells, mean 1.
    pub fn latitude_weights(&self) -> Vec<f64> {
        let sines: Vec<f64> = self.latitude_bounds().iter().map(|b| b.to_radians().sin()).collect();
        let mut weights: Vec<f64> = sines.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        if mean > 0.0 {
            weights.iter_mut().for_each(|w| *w /= mean);
        } else {
            weights.fill(1.0); // one row on a point: nothing to weigh
        }
        weights
    }

    /// Whether two grids have the same points, to float32 accuracy.
    pub fn matches(&self, other: &Grid) -> bool {
        let same = |a: &[f64], b: &[f64]| {
            a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < COORDINATE_TOLERANCE)
        };
        same(&self.latitude, &other.latitude) && same(&self.longitude, &other.longitude)
    }

    /// `21 x 24, 30N..60N, 20W..14.5E`
    pub fn describe(&self) -> String {
        let ns = |x: f64| match x {
            x if x < 0.0 => format!("{}S", trim(-x)),
            x => format!("{}N", trim(x)),
        };
        let ew = |x: f64| {
            let x = (x + 180.0).rem_euclid(360.0) - 180.0;
            if x < 0.0 { format!("{}W", trim(-x)) } else { format!("{}E", trim(x)) }
        };
        let east = self.longitude[self.columns() - 1];
        format!(
            "{} x {}, {}..{}, {}..{}",
            self.rows(),
            self.columns(),
            ns(self.latitude[0]),
            ns(self.latitude[self.rows() - 1]),
            ew(self.longitude[0]),
            ew(east)
        )
    }
}

fn trim(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

fn bounds(centres: &[f64]) -> Vec<f64> {
    let n = centres.len();
    if n == 1 {
        return vec![centres[0], centres[0]];
    }
    let mut bounds = Vec::with_capacity(n + 1);
    bounds.push(centres[0] - (centres[1] - centres[0]) / 2.0);
    bounds.extend(centres.windows(2).map(|w| (w[0] + w[1]) / 2.0));
    bounds.push(centres[n - 1] + (centres[n - 1] - centres[n - 2]) / 2.0);
    bounds
}

impl Region {
    pub fn contains(&self, latitude: f64, longitude: f64) -> bool {
        if latitude < self.south || latitude > self.north {
            return false;
        }
        let width = (self.east - self.west).rem_euclid(360.0);
        let whole = width == 0.0 && self.east != self.west;
        whole || (longitude - self.west).rem_euclid(360.0) <= width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a_global_grid_are_band_areas() {
        let grid = Grid::new(vec![-60.0, 0.0, 60.0], vec![0.0, 120.0, 240.0]).unwrap();
        // bands -90..-30, -30..30, 30..90: areas 1/2, 1, 1/2 of 2, mean 2/3
        let expected = [0.75, 1.5, 0.75];
        for (w, e) in grid.latitude_weights().iter().zip(expected) {
            assert!((w - e).abs() < 1e-12);
        }
        assert!(grid.is_periodic());
    }

    #[test]
    fn a_region_may_cross_greenwich() {
        let europe = Region { name: "europe".into(), south: 35.0, north: 75.0, west: -12.5, east: 42.5 };
        assert!(europe.contains(50.0, 350.0) && europe.contains(50.0, 0.0));
        assert!(!europe.contains(50.0, 300.0) && !europe.contains(20.0, 0.0));
    }

    #[test]
    fn repeated_and_unordered_coordinates_are_refused() {
        assert!(Grid::new(vec![0.0, 0.0], vec![0.0]).is_err());
        assert!(Grid::new(vec![0.0, f64::NAN], vec![0.0]).is_err());
        assert!(Grid::new(vec![0.0], vec![0.0, 180.0, 360.0]).is_err());
        assert!(Grid::new(vec![-91.0, 0.0], vec![0.0]).is_err());
    }
}
