//! Between the grid of the analyses and the cells of a model: linear in latitude and longitude.
//!
//! A model has evenly spaced rows, none of them on a pole, and perhaps fewer of them than the analyses. What is between
//! is interpolated on the way there and on the way back, which damps short waves each time: bring back changes, not states.

use crate::constants::EARTH_RADIUS;
use crate::error::{Error, Result};
use crate::grid::{COORDINATE_TOLERANCE, Grid};

use super::Sphere;
use super::selection::is_global;

/// What happens to a field across a pole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Scalar,
    /// Changes its sign.
    WindComponent,
}

/// The cells of a model for the grid of some analyses.
#[derive(Debug, Clone)]
pub(super) struct GridMap {
    sphere: Sphere,
    to: Interpolation,
    back: Interpolation,
}

/// Values at new places as weighted means of the old ones, along columns and then along rows.
#[derive(Debug, Clone)]
struct Interpolation {
    /// Of the source.
    columns: usize,
    along_columns: Vec<Vec<(Row, f64)>>,
    along_rows: Vec<Vec<(usize, f64)>>,
    /// Target rows that lie on a pole.
    on_pole: Vec<usize>,
}

/// A row of the source, seen from the other side of the globe when it lies across the pole.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    index: usize,
    across: bool,
}

impl GridMap {
    /// Cells `coarsen` times as large as those of `grid`, on the earth.
    pub fn new(grid: &Grid, coarsen: usize) -> Result<Self> {
        let sphere = if is_global(grid) { globe(grid, coarsen)? } else { part(grid, coarsen)? };
        let cells = sphere.grid()?;
        let to = Interpolation::new(grid, &cells, coarsen);
        let back = Interpolation::new(&cells, grid, 1);
        Ok(Self { sphere, to, back })
    }

    pub fn sphere(&self) -> &Sphere {
        &self.sphere
    }

    /// From the points of the analyses, `[lat, lon]`, to the centres of the cells.
    pub fn to_cells(&self, values: &[f64], kind: Kind) -> Vec<f64> {
        self.to.apply(values, kind)
    }

    /// From the centres of the cells to the points of the analyses.
    pub fn to_points(&self, values: &[f64], kind: Kind) -> Vec<f64> {
        self.back.apply(values, kind)
    }
}

/// The whole globe, the first column where that of the grid is.
fn globe(grid: &Grid, coarsen: usize) -> Result<Sphere> {
    let rows = if grid.has_pole_rows() { grid.rows() - 1 } else { grid.rows() };
    // Across a pole lies the column half way around: their number is even.
    let columns = if coarsen == 1 { grid.columns() } else { grid.columns() / coarsen / 2 * 2 };
    let sphere = Sphere::global(rows / coarsen, columns, EARTH_RADIUS)
        .map_err(|error| error.context(format!("physics on {}, {coarsen} times coarser", grid.describe())))?;
    Ok(Sphere { west: grid.longitude[0].to_radians(), ..sphere })
}

/// A box with the outermost points of the grid as its outermost centres.
fn part(grid: &Grid, coarsen: usize) -> Result<Sphere> {
    if coarsen == 1 {
        return Sphere::regional(grid, EARTH_RADIUS);
    }
    let fewer = |coordinates: &[f64]| -> Vec<f64> {
        let count = ((coordinates.len() - 1) / coarsen + 1).max(2);
        let (first, last) = (coordinates[0], coordinates[coordinates.len() - 1]);
        (0..count).map(|n| first + (last - first) * n as f64 / (count - 1) as f64).collect()
    };
    if grid.rows() < 2 || grid.columns() < 2 {
        return Err(Error::input(format!("the grid {} has no inside", grid.describe())));
    }
    let coarse = Grid::new(fewer(&grid.latitude), fewer(&grid.longitude))?;
    Sphere::regional(&coarse, EARTH_RADIUS)
        .map_err(|error| error.context(format!("physics on {}, {coarsen} times coarser", grid.describe())))
}

impl Interpolation {
    /// The mean over `parts` x `parts` places in each cell of the target.
    fn new(source: &Grid, target: &Grid, parts: usize) -> Self {
        let global = is_global(source);
        let rows = lattice_rows(source, global);
        let columns = lattice_columns(source);
        let on_pole = |latitude: &f64| global && (latitude.abs() - 90.0).abs() < COORDINATE_TOLERANCE;
        Self {
            columns: source.columns(),
            along_columns: means(&target.latitude, &rows, parts),
            along_rows: means(&target.longitude, &columns, parts),
            on_pole: (0..target.rows()).filter(|&j| on_pole(&target.latitude[j])).collect(),
        }
    }

    fn apply(&self, values: &[f64], kind: Kind) -> Vec<f64> {
        let n = self.columns;
        let mut result = Vec::with_capacity(self.along_columns.len() * self.along_rows.len());
        let mut line = vec![0.0; n];
        for (j, parts) in self.along_columns.iter().enumerate() {
            line.fill(0.0);
            for &(row, weight) in parts {
                let source = &values[row.index * n..][..n];
                let turn = if row.across { n / 2 } else { 0 };
                let weight = if row.across && kind == Kind::WindComponent { -weight } else { weight };
                line.iter_mut().enumerate().for_each(|(i, x)| *x += weight * source[(i + turn) % n]);
            }
            if kind == Kind::Scalar && self.on_pole.contains(&j) {
                // One place, one value: not what rounding makes of the weights of each column.
                let mean = line.iter().sum::<f64>() / n as f64;
                result.resize(result.len() + self.along_rows.len(), mean);
                continue;
            }
            let along = self.along_rows.iter();
            result.extend(along.map(|parts| parts.iter().map(|&(i, weight)| weight * line[i]).sum::<f64>()));
        }
        result
    }
}

/// The rows of a grid with their latitudes; on the globe with those across the poles.
fn lattice_rows(grid: &Grid, global: bool) -> Vec<(f64, Row)> {
    let here = |j: usize| (grid.latitude[j], Row { index: j, across: false });
    let mut rows: Vec<(f64, Row)> = (0..grid.rows()).map(here).collect();
    if global {
        let across = |j: usize, pole: f64| (2.0 * pole - grid.latitude[j], Row { index: j, across: true });
        let last = grid.rows() - 1;
        rows.extend((0..2).flat_map(|j| [across(j, -90.0), across(last - j, 90.0)]));
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.dedup_by(|a, b| (a.0 - b.0).abs() < COORDINATE_TOLERANCE);
    }
    rows
}

/// The columns of a grid with their longitudes; those of a closed circle once more on either side.
fn lattice_columns(grid: &Grid) -> Vec<(f64, usize)> {
    let turns: &[f64] = if grid.is_periodic() { &[-360.0, 0.0, 360.0] } else { &[0.0] };
    let of_turn = |turn: &f64| grid.longitude.iter().map(move |x| x + turn).zip(0..).collect::<Vec<_>>();
    turns.iter().flat_map(of_turn).collect()
}

/// For each target the weights of the sources: the mean of linear interpolation to `parts` places of its cell. Beyond the
/// first and the last source, their values hold.
fn means<P: Copy + PartialEq>(targets: &[f64], sources: &[(f64, P)], parts: usize) -> Vec<Vec<(P, f64)>> {
    let width = match targets.len() {
        0 | 1 => 0.0,
        n => (targets[n - 1] - targets[0]) / (n - 1) as f64,
    };
    let share = 1.0 / parts as f64;
    let at = |target: &f64| {
        let mut weights: Vec<(P, f64)> = Vec::new();
        let mut add = |place: P, weight: f64| match weights.iter_mut().find(|w| w.0 == place) {
            Some(known) => known.1 += weight,
            None => weights.push((place, weight)),
        };
        for part in 0..parts {
            let x = target + width * ((part as f64 + 0.5) * share - 0.5);
            let high = sources.partition_point(|s| s.0 <= x).clamp(1, sources.len() - 1);
            let ((a, low), (b, high)) = (sources[high - 1], sources[high]);
            let weight = ((x - a) / (b - a)).clamp(0.0, 1.0);
            add(low, share * (1.0 - weight));
            add(high, share * weight);
        }
        weights.retain(|w| w.1 != 0.0);
        weights
    };
    targets.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(n: usize, first: f64, step: f64) -> Vec<f64> {
        (0..n).map(|i| first + step * i as f64).collect()
    }

    fn sample(grid: &Grid, f: &dyn Fn(f64, f64) -> f64) -> Vec<f64> {
        let points = grid.latitude.iter().flat_map(|y| grid.longitude.iter().map(move |x| (x, y)));
        points.map(|(x, y)| f(x.to_radians(), y.to_radians())).collect()
    }

    fn largest(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    /// A wave of length 1 over both poles.
    fn height(x: f64, y: f64) -> f64 {
        y.sin() + y.cos() * x.cos()
    }

    /// The eastward part of a wind that blows straight over the poles.
    fn wind(x: f64, y: f64) -> f64 {
        -x.sin() * y.sin()
    }

    #[test]
    fn on_its_own_cells_nothing_changes() {
        let grid = Grid::new(even(12, -82.5, 15.0), even(24, 7.5, 15.0)).unwrap();
        let map = GridMap::new(&grid, 1).unwrap();
        assert!(map.sphere().grid().unwrap().matches(&grid));
        let field = sample(&grid, &height);
        assert!(largest(&map.to_cells(&field, Kind::Scalar), &field) < 1e-12);
        assert!(largest(&map.to_points(&field, Kind::WindComponent), &field) < 1e-12);
        let grid = Grid::new(even(8, 30.0, 1.5), even(9, -20.0, 2.5)).unwrap();
        let field = sample(&grid, &height);
        assert_eq!(GridMap::new(&grid, 1).unwrap().to_cells(&field, Kind::Scalar), field);
    }

    #[test]
    fn rows_on_the_poles_and_gaussian_rows_are_met_across_the_pole() {
        // Linear interpolation misses a wave of wavenumber 1 by at most (d^2 / 8), d = 5.6 degrees, in either direction.
        let bound = 2.0 * 5.6_f64.to_radians().powi(2) / 8.0;
        let with_poles = Grid::new(even(33, -90.0, 5.625), even(64, 0.0, 5.625)).unwrap();
        let gaussian: Vec<f64> = (0..32).map(|j| (f64::from(j) - 15.5) * 5.533).collect();
        let gaussian = Grid::new(gaussian, even(64, 0.0, 5.625)).unwrap();
        for grid in [with_poles, gaussian] {
            let map = GridMap::new(&grid, 1).unwrap();
            assert_eq!((map.sphere().rows, map.sphere().columns), (32, 64));
            let cells = map.sphere().grid().unwrap();
            for (kind, f) in
                [(Kind::Scalar, &height as &dyn Fn(f64, f64) -> f64), (Kind::WindComponent, &wind)]
            {
                let (points, centres) = (sample(&grid, f), sample(&cells, f));
                let there = largest(&map.to_cells(&points, kind), &centres);
                let back = largest(&map.to_points(&centres, kind), &points);
                println!("{kind:?}: {there:.2e} there, {back:.2e} back, at most {bound:.2e}");
                assert!(there < bound && back < 1.5 * bound);
            }
        }
    }

    #[test]
    fn a_pole_has_one_height() {
        let grid = Grid::new(even(33, -90.0, 5.625), even(64, 0.0, 5.625)).unwrap();
        let map = GridMap::new(&grid, 1).unwrap();
        let cells = sample(&map.sphere().grid().unwrap(), &|x, y| height(x, y) + (2.0 * x).cos());
        let points = map.to_points(&cells, Kind::Scalar);
        assert!(points[..64].iter().all(|&x| x == points[0]));
    }

    #[test]
    fn coarser_cells_take_the_mean_of_finer_points() {
        let grid = Grid::new(even(13, 30.0, 1.0), even(17, 0.0, 1.0)).unwrap();
        let map = GridMap::new(&grid, 2).unwrap();
        assert_eq!((map.sphere().rows, map.sphere().columns), (7, 9));
        let linear = sample(&grid, &|x, y| 3.0 * x - y);
        let coarse = sample(&map.sphere().grid().unwrap(), &|x, y| 3.0 * x - y);
        let inside = |k: &usize| (1..6).contains(&(k / 9)) && (1..8).contains(&(k % 9));
        let found = map.to_cells(&linear, Kind::Scalar);
        assert!((0..63).filter(inside).all(|k| (found[k] - coarse[k]).abs() < 1e-12));
        // A wave of two points is gone.
        let zigzag: Vec<f64> = (0..13 * 17).map(|k| if k % 17 % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let found = map.to_cells(&zigzag, Kind::Scalar);
        assert!((0..63).filter(inside).all(|k| found[k].abs() < 1e-12));

        let globe = Grid::new(even(32, -87.1875, 5.625), even(64, 0.0, 5.625)).unwrap();
        let map = GridMap::new(&globe, 3).unwrap();
        assert_eq!((map.sphere().rows, map.sphere().columns), (10, 20));
        assert!(GridMap::new(&globe, 20).is_err());
    }
}
