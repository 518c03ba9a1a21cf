//! The sums of which every metric is made: of one forecast field against one analysis, over one area.
//!
//! With weights w of the points (their area, mean 1 over the grid's rows; or 1), forecast f, analysis o and climatology c of the
//! valid time: `sum w`, `sum w (f-o)`, `sum w |f-o|`, `sum w (f-o)^2`, and of the anomalies f' = f-c, o' = o-c
//! `sum w f'^2`, `sum w o'^2`, `sum w f'o'`. For S1, over neighbours in x and y that both lie in the area:
//! `sum w |D(f-o)|` and `sum w max(|Df|, |Do|)`; w is that of the row, or the mean of the two rows.

use std::ops::AddAssign;

use crate::field::Layout;

use super::regions::Area;

/// What to do where a value is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// One missing value makes the score of its time, and so the mean over time, missing (WeatherBench 2's default).
    #[default]
    Propagate,
    /// Points where forecast or analysis is missing are dropped, weight and all.
    Skip,
}

/// Sums over one area with one weighting; they add.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    pub weight: f64,
    pub error: f64,
    pub absolute: f64,
    pub square: f64,
    pub anomaly_weight: f64,
    pub forecast_anomaly: f64,
    pub truth_anomaly: f64,
    pub product: f64,
    pub gradient_error: f64,
    pub gradient: f64,
}

/// By area, and all points the same.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Weighted {
    pub by_area: Sums,
    pub by_point: Sums,
}

impl Sums {
    /// Of a quantity that the forecast does not hold: whatever is added, it stays missing.
    pub const ABSENT: Self = Self {
        weight: f64::NAN,
        error: f64::NAN,
        absolute: f64::NAN,
        square: f64::NAN,
        anomaly_weight: f64::NAN,
        forecast_anomaly: f64::NAN,
        truth_anomaly: f64::NAN,
        product: f64::NAN,
        gradient_error: f64::NAN,
        gradient: f64::NAN,
    };

    /// Whether the forecast did not hold the quantity; the weights of the points are never missing otherwise.
    pub fn is_absent(&self) -> bool {
        self.weight.is_nan()
    }
}

impl Weighted {
    pub const ABSENT: Self = Self { by_area: Sums::ABSENT, by_point: Sums::ABSENT };
}

impl AddAssign for Sums {
    fn add_assign(&mut self, o: Self) {
        self.weight += o.weight;
        self.error += o.error;
        self.absolute += o.absolute;
        self.square += o.square;
        self.anomaly_weight += o.anomaly_weight;
        self.forecast_anomaly += o.forecast_anomaly;
        self.truth_anomaly += o.truth_anomaly;
        self.product += o.product;
        self.gradient_error += o.gradient_error;
        self.gradient += o.gradient;
    }
}

impl AddAssign for Weighted {
    fn add_assign(&mut self, o: Self) {
        self.by_area += o.by_area;
        self.by_point += o.by_point;
    }
}

/// The geometry of the sums: who is whose neighbour, and what a point weighs.
#[derive(Debug, Clone)]
pub struct Geometry {
    rows: usize,
    columns: usize,
    periodic: bool,
    /// `[lat]`
    weights: Vec<f64>,
    areas: Vec<Area>,
    /// Per row, what of it belongs to which area.
    points: Vec<Vec<Run>>,
    /// The same of pairs of neighbours in a row (`i` stands for columns `i` and `i + 1`) ...
    pairs_in_row: Vec<Vec<Run>>,
    /// ... and of a row and the next one north.
    pairs_north: Vec<Vec<Run>>,
}

/// Columns `start..end` of a row belong to an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    area: usize,
    start: usize,
    end: usize,
}

/// One field of each kind, `[lat * lon]`; without a climatology the anomalies' sums are missing.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    pub forecast: &'a [f64],
    pub truth: &'a [f64],
    pub climatology: Option<&'a [f64]>,
}

impl Geometry {
    pub fn new(layout: &Layout, areas: Vec<Area>) -> Self {
        let (rows, columns) = (layout.grid.rows(), layout.grid.columns());
        let periodic = layout.grid.is_periodic();
        let runs = |belongs: &dyn Fn(&[bool], usize, usize) -> bool| -> Vec<Vec<Run>> {
            (0..rows)
                .map(|row| {
                    let of_area = |(area, a): (usize, &Area)| {
                        let inside: Vec<bool> = (0..columns).map(|i| belongs(&a.mask, row, i)).collect();
                        runs_of(area, &inside)
                    };
                    areas.iter().enumerate().flat_map(of_area).collect()
                })
                .collect()
        };
        let points = runs(&|mask, row, i| mask[row * columns + i]);
        let pairs_in_row = runs(&|mask, row, i| {
            let next = if i + 1 < columns { Some(i + 1) } else { periodic.then_some(0) };
            next.is_some_and(|next| mask[row * columns + i] && mask[row * columns + next])
        });
        let pairs_north =
            runs(&|mask, row, i| row + 1 < rows && mask[row * columns + i] && mask[(row + 1) * columns + i]);
        let weights = layout.grid.latitude_weights();
        Self { rows, columns, periodic, weights, areas, points, pairs_in_row, pairs_north }
    }

    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The sums over every area, in their order.
    pub fn sums(&self, fields: Fields<'_>, missing: Missing) -> Vec<Weighted> {
        let mut all = vec![Weighted::default(); self.areas.len()];
        let mut units = vec![Sums::default(); self.columns];
        for row in 0..self.rows {
            let first = row * self.columns;
            let weight = self.weights[row];
            for (column, unit) in units.iter_mut().enumerate() {
                *unit = point(fields, missing, first + column);
            }
            add_runs(&mut all, &units, &self.points[row], weight);

            let neighbours = if self.periodic { self.columns } else { self.columns - 1 };
            for (column, unit) in units.iter_mut().enumerate().take(neighbours) {
                let next = if column + 1 < self.columns { column + 1 } else { 0 };
                *unit = pair(fields, missing, first + column, first + next);
            }
            add_runs(&mut all, &units, &self.pairs_in_row[row], weight);

            if row + 1 < self.rows {
                for (column, unit) in units.iter_mut().enumerate() {
                    *unit = pair(fields, missing, first + column, first + self.columns + column);
                }
                let weight = (weight + self.weights[row + 1]) / 2.0;
                add_runs(&mut all, &units, &self.pairs_north[row], weight);
            }
        }
        if fields.climatology.is_none() {
            for sums in all.iter_mut().flat_map(|w| [&mut w.by_area, &mut w.by_point]) {
                sums.anomaly_weight = f64::NAN;
            }
        }
        all
    }
}

fn runs_of(area: usize, inside: &[bool]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (i, _) in inside.iter().enumerate().filter(|(_, inside)| **inside) {
        match runs.last_mut() {
            Some(run) if run.end == i => run.end += 1,
            _ => runs.push(Run { area, start: i, end: i + 1 }),
        }
    }
    runs
}

/// Adds what one row gives; all of it weighs the same.
fn add_runs(all: &mut [Weighted], units: &[Sums], runs: &[Run], weight: f64) {
    for run in runs {
        let mut sum = Sums::default();
        for unit in &units[run.start..run.end] {
            sum += *unit;
        }
        all[run.area].by_point += sum;
        all[run.area].by_area += sum.scaled(weight);
    }
}

/// What one point adds, unweighted.
fn point(fields: Fields<'_>, missing: Missing, point: usize) -> Sums {
    let (f, o) = (fields.forecast[point], fields.truth[point]);
    let error = f - o;
    let mut unit = Sums::default();
    if !(error.is_nan() && missing == Missing::Skip) {
        unit.weight = 1.0;
        unit.error = error;
        unit.absolute = error.abs();
        unit.square = error * error;
    }
    if let Some(climatology) = fields.climatology {
        let (fa, oa) = (f - climatology[point], o - climatology[point]);
        let product = fa * oa;
        if !(product.is_nan() && missing == Missing::Skip) {
            unit.anomaly_weight = 1.0;
            unit.forecast_anomaly = fa * fa;
            unit.truth_anomaly = oa * oa;
            unit.product = product;
        }
    }
    unit
}

/// What two neighbours add, unweighted.
fn pair(fields: Fields<'_>, missing: Missing, here: usize, there: usize) -> Sums {
    let df = fields.forecast[there] - fields.forecast[here];
    let d_o = fields.truth[there] - fields.truth[here];
    let error = (df - d_o).abs();
    if error.is_nan() && missing == Missing::Skip {
        return Sums::default();
    }
    Sums { gradient_error: error, gradient: df.abs().max(d_o.abs()), ..Sums::default() }
}

impl Sums {
    fn scaled(self, w: f64) -> Self {
        Self {
            weight: w * self.weight,
            error: w * self.error,
            absolute: w * self.absolute,
            square: w * self.square,
            anomaly_weight: w * self.anomaly_weight,
            forecast_anomaly: w * self.forecast_anomaly,
            truth_anomaly: w * self.truth_anomaly,
            product: w * self.product,
            gradient_error: w * self.gradient_error,
            gradient: w * self.gradient,
        }
    }

    /// `<(f-o)^2>`
    pub fn mean_square(&self) -> f64 {
        self.square / self.weight
    }

    /// `<|f-o|>`
    pub fn mean_absolute(&self) -> f64 {
        self.absolute / self.weight
    }

    /// `<f-o>`
    pub fn mean_error(&self) -> f64 {
        self.error / self.weight
    }

    /// `<f'o'>`, `<f'^2>`, `<o'^2>`; the mean of the anomalies is not taken away.
    pub fn covariance(&self) -> [f64; 3] {
        [self.product, self.forecast_anomaly, self.truth_anomaly].map(|s| s / self.anomaly_weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::variable::Quantity;
    use crate::verify::regions::areas;

    fn geometry(periodic: bool) -> Geometry {
        let longitude = if periodic { vec![0.0, 120.0, 240.0] } else { vec![0.0, 10.0, 20.0] };
        let grid = Grid::new(vec![-30.0, 30.0], longitude).unwrap();
        let (areas, _) = areas(&grid, &[]);
        Geometry::new(&Layout { grid, quantities: vec![Quantity::new("msl", None)] }, areas)
    }

    #[test]
    fn s1_by_hand_on_two_rows_of_three() {
        // f - o = [[1, 0, 0], [0, 0, 2]]
        let forecast = [2.0, 3.0, 5.0, 0.0, 1.0, 6.0];
        let truth = [1.0, 3.0, 5.0, 0.0, 1.0, 4.0];
        let fields = Fields { forecast: &forecast, truth: &truth, climatology: None };
        let sums = geometry(false).sums(fields, Missing::Propagate)[0].by_point;
        // x: |d(f-o)| = 1, 0 | 0, 2     y: 1, 0, 2
        // x: max(|df|, |do|) = 2, 2 | 1, 5     y: max(2, 1), max(2, 2), max(1, 1)
        assert_eq!(sums.gradient_error, 1.0 + 2.0 + 1.0 + 2.0);
        assert_eq!(sums.gradient, 10.0 + 2.0 + 2.0 + 1.0);
        // around the globe the last column meets the first: |d(f-o)| = 1 | 2; max = max(3, 4) | max(6, 4)
        let sums = geometry(true).sums(fields, Missing::Propagate)[0].by_point;
        assert_eq!(sums.gradient_error, 6.0 + 1.0 + 2.0);
        assert_eq!(sums.gradient, 15.0 + 4.0 + 6.0);
    }

    #[test]
    fn a_missing_value_propagates_or_is_dropped_and_never_leaves_its_region() {
        let forecast = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let truth = [f64::NAN, 0.0, 0.0, 0.0, 0.0, 0.0];
        let fields = Fields { forecast: &forecast, truth: &truth, climatology: Some(&[0.0; 6]) };
        let geometry = geometry(true);
        let names: Vec<&str> = geometry.areas().iter().map(|a| a.name.as_str()).collect();
        let north = names.iter().position(|n| *n == "northern-hemisphere").unwrap();

        let propagated = geometry.sums(fields, Missing::Propagate);
        assert!(propagated[0].by_area.mean_square().is_nan());
        assert!(propagated[0].by_point.gradient_error.is_nan());
        assert_eq!(propagated[north].by_area.mean_square(), 1.0);

        let skipped = geometry.sums(fields, Missing::Skip);
        assert_eq!(skipped[0].by_point.weight, 5.0);
        assert_eq!(skipped[0].by_area.mean_square(), 1.0);
        assert_eq!(skipped[0].by_point.gradient_error, 0.0);
    }
}
