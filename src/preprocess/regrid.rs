//! From one grid to another by sparse weights, built once per pair of grids.
//!
//! ```text
//! y_i = sum_j w_ij x_j / sum_j w_ij        over the x_j that are not missing
//! ```
//!
//! Both methods are products of a rule for rows and a rule for columns. First-order conservative: `w` is the area that
//! source and target cell share, a difference of sines times a difference of longitudes (Jones 1999,
//! doi:10.1175/1520-0493(1999)127<2204:FASOCR>2.0.CO;2), so that the integral is kept where the grids cover the same
//! region. Bilinear: the four points around. A target whose sources are missing by more than half is missing.

use super::plan::RegridMethod;
use crate::device::Sparse;
use crate::error::{Error, Result};
use crate::grid::{COORDINATE_TOLERANCE, Grid};

/// The share of a target coordinate that the source has to cover.
const MINIMUM_COVER: f64 = 0.5;

/// Weights from `source` to `target` grid.
#[derive(Debug, Clone)]
pub struct Regrid {
    target: Grid,
    source_points: usize,
    product: Sparse,
}

/// For each target coordinate, source indices and their weights; and how much weight a full cover would have.
struct Axis {
    weights: Vec<Vec<(usize, f64)>>,
    full: Vec<f64>,
}

impl Regrid {
    /// An error when the target reaches beyond the source.
    pub fn new(source: &Grid, target: &Grid, method: RegridMethod) -> Result<Self> {
        let (rows, columns) = match method {
            RegridMethod::Conservative => (overlap_rows(source, target), overlap_columns(source, target)),
            RegridMethod::Bilinear => (between_rows(source, target), between_columns(source, target)),
        };
        for (axis, coordinates, name) in
            [(&rows, &target.latitude, "latitude"), (&columns, &target.longitude, "longitude")]
        {
            let covered = |i: &usize| {
                axis.weights[*i].iter().map(|w| w.1).sum::<f64>() >= MINIMUM_COVER * axis.full[*i]
                    && axis.full[*i] > 0.0
            };
            if let Some(outside) = (0..coordinates.len()).find(|i| !covered(i)) {
                return Err(Error::input(format!(
                    "the target grid ({}) reaches beyond the data ({}): {name} {} is not covered",
                    target.describe(),
                    source.describe(),
                    coordinates[outside]
                ))
                .hint("choose bounds for [data] grid inside those of the files"));
            }
        }
        let product = Sparse::new(rows.weights.iter().flat_map(|row| {
            columns.weights.iter().map(|column| {
                let across = |&(j, wj): &(usize, f64)| {
                    column.iter().map(move |&(i, wi)| ((j * source.columns() + i) as u32, wj * wi))
                };
                row.iter().flat_map(across).collect()
            })
        }));
        let product = product.ok_or_else(|| {
            Error::input(format!("{} and {} have too many points", source.describe(), target.describe()))
                .hint("choose a coarser [data] grid")
        })?;
        Ok(Self { target: target.clone(), source_points: source.points(), product })
    }

    pub fn target(&self) -> &Grid {
        &self.target
    }

    pub fn source_points(&self) -> usize {
        self.source_points
    }

    /// Overwrites `target`, `[lat, lon]` of the target grid, from `source`, `[lat, lon]` of the source grid; NaN is
    /// missing.
    pub fn apply(&self, source: &[f32], target: &mut [f32]) {
        for (i, out) in target.iter_mut().enumerate() {
            *out = self.product.value(i, |j| f64::from(source[j])) as f32;
        }
    }

    /// For a device.
    pub(super) fn product(&self) -> &Sparse {
        &self.product
    }
}

/// Row boundaries, drawn to a pole that the outermost row is next to.
fn row_bounds(grid: &Grid) -> Vec<f64> {
    let mut bounds = grid.latitude_bounds();
    if grid.touches_south_pole() {
        bounds[0] = -90.0;
    }
    if grid.touches_north_pole()
        && let Some(last) = bounds.last_mut()
    {
        *last = 90.0;
    }
    bounds
}

fn overlap_rows(source: &Grid, target: &Grid) -> Axis {
    let sines = |grid| row_bounds(grid).iter().map(|b| b.to_radians().sin()).collect::<Vec<f64>>();
    let (from, to) = (sines(source), sines(target));
    let weights = to.windows(2).map(|cell| overlaps(&from, cell[0], cell[1], 0.0).collect()).collect();
    Axis { weights, full: to.windows(2).map(|cell| cell[1] - cell[0]).collect() }
}

fn overlap_columns(source: &Grid, target: &Grid) -> Axis {
    let (from, to) = (source.longitude_bounds(), target.longitude_bounds());
    let cell = |cell: &[f64]| {
        let shifts = [-720.0, -360.0, 0.0, 360.0, 720.0];
        shifts.iter().flat_map(|&shift| overlaps(&from, cell[0], cell[1], shift)).collect()
    };
    Axis {
        weights: to.windows(2).map(cell).collect(),
        full: to.windows(2).map(|cell| cell[1] - cell[0]).collect(),
    }
}

/// The source cells, moved by `shift`, that share something with the interval from `low` to `high`.
fn overlaps(bounds: &[f64], low: f64, high: f64, shift: f64) -> impl Iterator<Item = (usize, f64)> {
    bounds.windows(2).enumerate().filter_map(move |(i, cell)| {
        let shared = high.min(cell[1] + shift) - low.max(cell[0] + shift);
        // below rounding: cells that only touch
        (shared > 1e-12).then_some((i, shared))
    })
}

fn between_rows(source: &Grid, target: &Grid) -> Axis {
    let bounds = row_bounds(source);
    let weights = target.latitude.iter().map(|&y| between(&source.latitude, &bounds, y)).collect();
    Axis { weights, full: vec![1.0; target.rows()] }
}

fn between_columns(source: &Grid, target: &Grid) -> Axis {
    let n = source.columns();
    let periodic = source.is_periodic();
    let west = source.longitude[0];
    let bounds = source.longitude_bounds();
    let column = |&x: &f64| {
        if periodic {
            let mut cyclic = source.longitude.clone();
            cyclic.push(west + 360.0);
            let x = west + (x - west).rem_euclid(360.0);
            let mut weights = between(&cyclic, &cyclic, x);
            weights.iter_mut().for_each(|w| w.0 %= n);
            return weights;
        }
        // The turn that brings the target nearest to the middle of the region.
        let middle = (west + source.longitude[n - 1]) / 2.0;
        between(&source.longitude, &bounds, x - 360.0 * ((x - middle) / 360.0).round())
    };
    Axis { weights: target.longitude.iter().map(column).collect(), full: vec![1.0; target.columns()] }
}

/// The points around `x`; beyond the outermost one but inside its cell, that one alone; nothing further out.
fn between(points: &[f64], bounds: &[f64], x: f64) -> Vec<(usize, f64)> {
    let n = points.len();
    if x < bounds[0] - COORDINATE_TOLERANCE || x > bounds[bounds.len() - 1] + COORDINATE_TOLERANCE {
        return Vec::new();
    }
    let right = points.partition_point(|&p| p < x);
    if right == 0 || right == n {
        return vec![(right.min(n - 1), 1.0)];
    }
    let share = (x - points[right - 1]) / (points[right] - points[right - 1]);
    [(right - 1, 1.0 - share), (right, share)].into_iter().filter(|w| w.1 > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globe(rows: usize, columns: usize) -> Grid {
        let step = 180.0 / rows as f64;
        let latitude = (0..rows).map(|j| -90.0 + (j as f64 + 0.5) * step).collect();
        let longitude = (0..columns).map(|i| i as f64 * 360.0 / columns as f64).collect();
        Grid::new(latitude, longitude).unwrap()
    }

    fn region(south: f64, west: f64, step: f64, rows: usize, columns: usize) -> Grid {
        let latitude = (0..rows).map(|j| south + j as f64 * step).collect();
        let longitude = (0..columns).map(|i| west + i as f64 * step).collect();
        Grid::new(latitude, longitude).unwrap()
    }

    /// Points and a field that varies on every scale.
    fn rough(grid: &Grid) -> Vec<f64> {
        (0..grid.points()).map(|i| ((i * 7919) % 1013) as f64 / 100.0 - 3.0).collect()
    }

    fn apply(regrid: &Regrid, source: &[f64]) -> Vec<f64> {
        (0..regrid.target().points()).map(|i| regrid.product.value(i, |j| source[j])).collect()
    }

    fn integral(grid: &Grid, field: &[f64]) -> f64 {
        let sines: Vec<f64> = row_bounds(grid).iter().map(|b| b.to_radians().sin()).collect();
        let widths: Vec<f64> = grid.longitude_bounds().windows(2).map(|b| b[1] - b[0]).collect();
        let cell = |i: usize| {
            let (row, column) = (i / grid.columns(), i % grid.columns());
            (sines[row + 1] - sines[row]) * widths[column]
        };
        field.iter().enumerate().map(|(i, x)| cell(i) * x).sum()
    }

    #[test]
    fn constants_stay_exactly() {
        for method in [RegridMethod::Conservative, RegridMethod::Bilinear] {
            for (source, target) in [
                (globe(37, 73), globe(16, 32)),
                (globe(16, 32), globe(37, 73)),
                (region(30.0, -20.0, 1.5, 21, 24), region(33.0, 343.0, 2.3, 9, 11)),
            ] {
                let regrid = Regrid::new(&source, &target, method).unwrap();
                let mut out = vec![0.0; target.points()];
                regrid.apply(&vec![273.15; source.points()], &mut out);
                assert!(out.iter().all(|&x| x == 273.15), "{method:?}");
            }
        }
    }

    #[test]
    fn conservative_keeps_the_integral_both_ways() {
        // Gaussian-like rows that end short of the poles, a grid with rows on the poles, odd sizes.
        let uneven = Grid::new(vec![-85.8, -60.0, -20.0, 5.0, 47.0, 85.8], globe(5, 9).longitude).unwrap();
        let poles =
            Grid::new((0..13).map(|j| -90.0 + 15.0 * j as f64).collect(), globe(5, 24).longitude).unwrap();
        let grids = [globe(37, 73), globe(16, 32), uneven, poles];
        for source in &grids {
            for target in &grids {
                let field = rough(source);
                let regrid = Regrid::new(source, target, RegridMethod::Conservative).unwrap();
                let (before, after) = (integral(source, &field), integral(target, &apply(&regrid, &field)));
                assert!(((after - before) / before).abs() < 1e-12, "{before} {after}");
            }
        }
    }

    #[test]
    fn bilinear_is_exact_on_a_linear_field() {
        let source = region(30.0, -20.0, 1.5, 21, 24);
        let target = region(31.1, 341.0, 0.7, 37, 43);
        let linear = |grid: &Grid| -> Vec<f64> {
            let signed = |x: f64| (x + 180.0).rem_euclid(360.0) - 180.0;
            let value = |y: &f64, x: &f64| 2.0 * y - 3.0 * signed(*x) + 0.5 * y * signed(*x);
            grid.latitude.iter().flat_map(|y| grid.longitude.iter().map(move |x| value(y, x))).collect()
        };
        let regrid = Regrid::new(&source, &target, RegridMethod::Bilinear).unwrap();
        for (x, expected) in apply(&regrid, &linear(&source)).iter().zip(linear(&target)) {
            assert!((x - expected).abs() < 1e-10, "{x} {expected}");
        }
    }

    #[test]
    fn bilinear_closes_around_the_earth() {
        let source = globe(4, 8);
        let target = Grid::new(source.latitude.clone(), vec![337.5]).unwrap();
        let regrid = Regrid::new(&source, &target, RegridMethod::Bilinear).unwrap();
        let field: Vec<f64> = (0..source.points()).map(|i| (i % 8) as f64).collect();
        assert!(apply(&regrid, &field).iter().all(|&x| (x - 3.5).abs() < 1e-12)); // between 7 and 0
    }

    #[test]
    fn missing_values_are_left_out_and_more_than_half_is_missing() {
        let (source, target) = (globe(8, 16), globe(4, 8));
        let regrid = Regrid::new(&source, &target, RegridMethod::Conservative).unwrap();
        let mut field = vec![5.0_f32; source.points()];
        for (i, x) in field.iter_mut().enumerate() {
            let (row, column) = (i / 16, i % 16);
            // columns 0..=7: whole of target columns 1..=3; columns 8 and on: one of the two rows
            if column < 8 || (row % 2 == 0 && row < 4) {
                *x = f32::NAN;
            }
        }
        let mut out = vec![0.0; target.points()];
        regrid.apply(&field, &mut out);
        assert!(out[1..4].iter().all(|x| x.is_nan()));
        // in the south the row that is left is the nearer to the equator: more than half of the area
        assert!(out[5..8].iter().all(|&x| x == 5.0), "{out:?}");
    }

    #[test]
    fn a_target_beyond_the_data_is_refused() {
        let source = region(30.0, -20.0, 1.5, 21, 24);
        for method in [RegridMethod::Conservative, RegridMethod::Bilinear] {
            let error = Regrid::new(&source, &region(20.0, -20.0, 1.5, 21, 24), method).unwrap_err();
            assert!(error.to_string().contains("latitude 20 is not covered"), "{error}");
            assert!(Regrid::new(&source, &globe(4, 8), method).is_err());
        }
    }
}
