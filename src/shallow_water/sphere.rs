//! The staggered latitude-longitude grid of the finite differences and its measures.
//!
//! Arakawa's C grid with cell-centred rows: depth at the centre of a cell, eastward wind on its west face, northward
//! wind on its south face, vorticity at its south-west corner. A pole is a row of south faces of length zero.
//! (Arakawa and Lamb 1981, doi:10.1175/1520-0493(1981)109<0018:APEAEC>2.0.CO;2.)

use std::f64::consts::{FRAC_PI_2, TAU};

use crate::error::{Error, Result};
use crate::grid::{COORDINATE_TOLERANCE, Grid};

/// Rows and columns of cells of equal angular size; angles in radians.
#[derive(Debug, Clone, PartialEq)]
pub struct Sphere {
    /// Rows of cells.
    pub rows: usize,
    /// Columns of cells.
    pub columns: usize,
    /// South edge of the southernmost row.
    pub south: f64,
    /// Centre of the westernmost column.
    pub west: f64,
    /// Height of a cell.
    pub dp: f64,
    /// Width of a cell.
    pub dl: f64,
    /// Radius [m].
    pub a: f64,
    /// Whether the columns close around the axis and the rows reach both poles.
    pub global: bool,
}

impl Sphere {
    /// The whole globe: `rows` rows from pole to pole, `columns` columns from longitude 0, on a sphere of radius `a` [m].
    pub fn global(rows: usize, columns: usize, a: f64) -> Result<Self> {
        if rows < 4 || columns < 4 || columns % 2 == 1 {
            return Err(Error::input(format!(
                "finite differences on the globe need at least 4 rows and an even number of at least 4 columns, found \
                 {rows} x {columns}"
            ))
            .hint("regrid to an even number of longitudes"));
        }
        let (dp, dl) = (TAU / 2.0 / rows as f64, TAU / columns as f64);
        Ok(Self { rows, columns, south: -FRAC_PI_2, west: 0.0, dp, dl, a, global: true })
    }

    /// A box whose cells have their centres on the points of an evenly spaced regional grid.
    pub fn regional(grid: &Grid, a: f64) -> Result<Self> {
        let (rows, columns) = (grid.rows(), grid.columns());
        if rows < 5 || columns < 5 {
            return Err(Error::input(format!(
                "finite differences in a box need at least 5 x 5 points, found {rows} x {columns}"
            )));
        }
        let dp = spacing(&grid.latitude, "latitudes")?.to_radians();
        let dl = spacing(&grid.longitude, "longitudes")?.to_radians();
        let south = grid.latitude[0].to_radians() - dp / 2.0;
        let north = south + rows as f64 * dp;
        if south < -FRAC_PI_2 - 1e-9 || north > FRAC_PI_2 + 1e-9 {
            return Err(Error::input(format!("the box {} reaches a pole", grid.describe()))
                .hint("cut the rows next to the pole off, or use the whole globe"));
        }
        Ok(Self { rows, columns, south, west: grid.longitude[0].to_radians(), dp, dl, a, global: false })
    }

    /// Latitude of the centres of row `j`; `j` may lie in the halo.
    pub fn latitude(&self, j: isize) -> f64 {
        self.south + (j as f64 + 0.5) * self.dp
    }

    /// Latitude of the south faces of row `j`.
    pub fn face_latitude(&self, j: isize) -> f64 {
        self.south + j as f64 * self.dp
    }

    /// Longitude of the centres of column `i`.
    pub fn longitude(&self, i: isize) -> f64 {
        self.west + i as f64 * self.dl
    }

    /// Longitude of the west faces of column `i`.
    pub fn face_longitude(&self, i: isize) -> f64 {
        self.west + (i as f64 - 0.5) * self.dl
    }

    /// Width of the cells of row `j` at their centres [m].
    pub fn dxu(&self, j: isize) -> f64 {
        self.a * self.latitude(j).cos() * self.dl
    }

    /// Length of the south faces of row `j` [m]; exactly 0 at a pole.
    pub fn dxv(&self, j: isize) -> f64 {
        if self.global && (j == 0 || j == self.rows as isize) {
            return 0.0;
        }
        self.a * self.face_latitude(j).cos() * self.dl
    }

    /// Height of a cell [m].
    pub fn dy(&self) -> f64 {
        self.a * self.dp
    }

    /// Area of a cell of row `j` [m2].
    pub fn area(&self, j: isize) -> f64 {
        self.a * self.a * self.dl * (self.face_latitude(j + 1).sin() - self.face_latitude(j).sin())
    }

    /// Area about a south-west corner of row `j`, not on a pole [m2].
    pub fn corner_area(&self, j: isize) -> f64 {
        (self.area(j) + self.area(j - 1)) / 2.0
    }

    /// Area of the cap of half a row about a pole [m2].
    pub fn cap_area(&self) -> f64 {
        TAU * self.a * self.a * (1.0 - (self.dp / 2.0).cos())
    }

    /// The centres as a grid of files and forecasts.
    pub fn grid(&self) -> Result<Grid> {
        let degrees =
            |n: usize, at: &dyn Fn(isize) -> f64| (0..n as isize).map(|i| at(i).to_degrees()).collect();
        Grid::new(degrees(self.rows, &|j| self.latitude(j)), degrees(self.columns, &|i| self.longitude(i)))
    }

    /// Area mean of values at the centres, `[lat, lon]`.
    pub fn mean(&self, centres: &[f64]) -> f64 {
        let (mut sum, mut area) = (0.0, 0.0);
        for (j, row) in centres.chunks_exact(self.columns).enumerate() {
            let cell = self.area(j as isize);
            sum += cell * row.iter().sum::<f64>();
            area += cell * row.len() as f64;
        }
        sum / area
    }
}

/// The even spacing of coordinates [degrees].
fn spacing(x: &[f64], what: &str) -> Result<f64> {
    let step = (x[x.len() - 1] - x[0]) / (x.len() - 1) as f64;
    match x.windows(2).find(|w| (w[1] - w[0] - step).abs() > 2.0 * COORDINATE_TOLERANCE) {
        None => Ok(step),
        Some(w) => Err(Error::input(format!(
            "finite differences need evenly spaced {what}, found a step from {} to {} where {step} is the mean",
            w[0], w[1]
        ))
        .hint("regrid with data.grid = { step = ... }")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_of_the_globe_cover_it() {
        let sphere = Sphere::global(12, 22, 2.0).unwrap();
        let area: f64 = (0..12).map(|j| sphere.area(j) * 22.0).sum();
        assert!((area / (16.0 * std::f64::consts::PI) - 1.0).abs() < 1e-14);
        assert_eq!((sphere.dxv(0), sphere.dxv(12)), (0.0, 0.0));
        assert!((sphere.mean(&[3.0; 264]) - 3.0).abs() < 1e-14);
        assert!((sphere.latitude(6) - sphere.dp / 2.0).abs() < 1e-15);
    }

    #[test]
    fn a_box_takes_the_points_of_its_grid_and_refuses_uneven_ones() {
        let even =
            |n: usize, first: f64, step: f64| (0..n).map(|i| first + step * i as f64).collect::<Vec<_>>();
        let grid = Grid::new(even(7, 30.0, 2.5), even(9, -20.0, 2.5)).unwrap();
        let sphere = Sphere::regional(&grid, 1.0).unwrap();
        assert!(sphere.grid().unwrap().matches(&grid));
        let mut latitude = even(7, 30.0, 2.5);
        latitude[3] += 0.5;
        let uneven = Grid::new(latitude, even(9, -20.0, 2.5)).unwrap();
        assert!(Sphere::regional(&uneven, 1.0).unwrap_err().to_string().contains("evenly spaced latitudes"));
        assert!(Sphere::global(8, 9, 1.0).is_err());
        let polar = Grid::new(even(7, 75.0, 2.5), even(9, 0.0, 2.5)).unwrap();
        assert!(Sphere::regional(&polar, 1.0).is_err());
    }
}
