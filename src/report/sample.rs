//! The value of a field at a place between its grid points.

use crate::grid::Grid;
use crate::report::view::View;

/// A grid's rows and columns as a view shows them: columns in view order, repeated beyond the edges of a
/// periodic grid; otherwise the edge values hold as far as the edge of the view.
pub struct Sampler<'a> {
    view: &'a View,
    latitudes: Vec<f64>,
    longitudes: Vec<f64>,
    /// The grid's row of each of `latitudes`, and column of each of `longitudes`.
    rows: Vec<usize>,
    columns: Vec<usize>,
    width: usize,
}

/// A place along one axis: the two neighbours and the share of the second.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    low: usize,
    high: usize,
    share: f64,
}

impl<'a> Sampler<'a> {
    pub fn new(grid: &Grid, view: &'a View) -> Self {
        let mut columns: Vec<(f64, usize)> = Vec::new();
        for (column, longitude) in grid.longitude.iter().enumerate() {
            if grid.is_periodic() {
                let turned = (longitude - view.west).rem_euclid(360.0) + view.west;
                columns.extend([-360.0, 0.0, 360.0].map(|shift| (turned + shift, column)));
            } else {
                // a regional view is its grid moved by a whole turn or not at all
                let shift = ((view.west + view.east) / 2.0
                    - (grid.longitude[0] + grid.longitude[grid.columns() - 1]) / 2.0)
                    .round();
                columns.push((longitude + shift, column));
            }
        }
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        if grid.is_periodic() {
            // one column beyond either edge is all that interpolation needs
            let first = columns.partition_point(|c| c.0 < view.west).saturating_sub(1);
            let last = (columns.partition_point(|c| c.0 <= view.east) + 1).min(columns.len());
            columns = columns[first..last].to_vec();
        } else {
            hold(&mut columns, view.west, view.east);
        }
        let mut rows: Vec<(f64, usize)> = grid.latitude.iter().copied().zip(0..).collect();
        hold(&mut rows, view.south, view.north);
        Self {
            view,
            latitudes: rows.iter().map(|r| r.0).collect(),
            longitudes: columns.iter().map(|c| c.0).collect(),
            rows: rows.iter().map(|r| r.1).collect(),
            columns: columns.iter().map(|c| c.1).collect(),
            width: grid.columns(),
        }
    }

    /// The longitudes and latitudes of the nodes.
    pub fn lattice(&self) -> (Vec<f64>, Vec<f64>) {
        (self.longitudes.clone(), self.latitudes.clone())
    }

    /// The value at a node of the lattice.
    pub fn node(&self, values: &[f32], row: usize, column: usize) -> f64 {
        values.get(self.rows[row] * self.width + self.columns[column]).map_or(f64::NAN, |v| f64::from(*v))
    }

    /// The columns around a pixel position.
    pub fn column(&self, x: f64) -> Place {
        place(&self.longitudes, self.view.longitude(x))
    }

    /// The rows around a pixel position.
    pub fn row(&self, y: f64) -> Place {
        place(&self.latitudes, self.view.latitude(y))
    }

    pub fn nearest(&self, values: &[f32], row: &Place, column: &Place) -> Option<f64> {
        let value = self.node(values, row.nearest(), column.nearest());
        value.is_finite().then_some(value)
    }

    /// Bilinear between the neighbours that are not missing; missing where the nearest of them is.
    pub fn bilinear(&self, values: &[f32], row: &Place, column: &Place) -> Option<f64> {
        self.nearest(values, row, column)?;
        let (mut sum, mut total) = (0.0, 0.0);
        for (i, a) in [(row.low, 1.0 - row.share), (row.high, row.share)] {
            for (j, b) in [(column.low, 1.0 - column.share), (column.high, column.share)] {
                let value = self.node(values, i, j);
                if value.is_finite() {
                    sum += a * b * value;
                    total += a * b;
                }
            }
        }
        (total > 0.0).then(|| sum / total)
    }
}

impl Place {
    fn nearest(&self) -> usize {
        if self.share > 0.5 { self.high } else { self.low }
    }
}

/// Repeats the first and last grid line at the edges of the view, half a cell away.
fn hold(lines: &mut Vec<(f64, usize)>, low: f64, high: f64) {
    let (first, last) = (lines[0], lines[lines.len() - 1]);
    if low < first.0 {
        lines.insert(0, (low, first.1));
    }
    if high > last.0 {
        lines.push((high, last.1));
    }
}

/// Beyond the first and last coordinate the edge value holds.
fn place(coordinates: &[f64], at: f64) -> Place {
    let high = coordinates.partition_point(|c| *c <= at);
    if high == 0 || high == coordinates.len() {
        let edge = high.min(coordinates.len() - 1);
        return Place { low: edge, high: edge, share: 0.0 };
    }
    let (a, b) = (coordinates[high - 1], coordinates[high]);
    Place { low: high - 1, high, share: (at - a) / (b - a) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_field_is_reproduced_and_the_date_line_has_no_gap() {
        let grid = Grid::new(vec![-45.0, 0.0, 45.0], (0..8).map(|i| 45.0 * f64::from(i)).collect()).unwrap();
        let view = View::of(&grid, 0.0, 0.0, 360.0);
        let sampler = Sampler::new(&grid, &view);
        let values: Vec<f32> = grid
            .latitude
            .iter()
            .flat_map(|lat| grid.longitude.iter().map(move |lon| (lon.to_radians().cos() + lat) as f32))
            .collect();
        let at = |lon: f64, lat: f64| {
            sampler.bilinear(&values, &sampler.row(view.y(lat)), &sampler.column(view.x(lon))).unwrap()
        };
        let half = f64::midpoint(45_f64.to_radians().cos(), 1.0);
        assert!((at(22.5, 10.0) - half - 10.0).abs() < 1e-5);
        assert!((at(179.9, 0.0) - at(-179.9, 0.0)).abs() < 1e-5);
        assert!((at(179.0, 0.0) + 1.0).abs() < 0.01);
    }

    #[test]
    fn missing_values_stay_missing_and_do_not_spread() {
        let grid = Grid::new(vec![0.0, 1.0], vec![0.0, 1.0]).unwrap();
        let view = View::of(&grid, 0.0, 0.0, 200.0);
        let sampler = Sampler::new(&grid, &view);
        let values = [f32::NAN, 3.0, 3.0, 3.0];
        let at = |lon: f64, lat: f64| {
            sampler.bilinear(&values, &sampler.row(view.y(lat)), &sampler.column(view.x(lon)))
        };
        assert_eq!(at(0.2, 0.2), None);
        assert_eq!(at(0.8, 0.7), Some(3.0));
    }
}
