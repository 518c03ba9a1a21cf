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
        Self {
            rows: layout.grid.rows(),
            columns: layout.grid.columns(),
            periodic: layout.grid.is_periodic(),
            weights: layout.grid.latitude_weights(),
            areas,
        }
    }

    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The sums over every area, in their order.
    pub fn sums(&self, fields: Fields<'_>, missing: Missing) -> Vec<Weighted> {
        let mut all = vec![Weighted::default(); self.areas.len()];
        for row in 0..self.rows {
            for column in 0..self.columns {
                self.add_point(&mut all, fields, missing, row, column);
                let next =
                    if column + 1 < self.columns { Some(column + 1) } else { self.periodic.then_some(0) };
                if let Some(next) = next {
                    self.add_pair(&mut all, fields, missing, [row, column], [row, next]);
                }
                if row + 1 < self.rows {
                    self.add_pair(&mut all, fields, missing, [row, column], [row + 1, column]);
                }
            }
        }
        if fields.climatology.is_none() {
            for sums in all.iter_mut().flat_map(|w| [&mut w.by_area, &mut w.by_point]) {
                sums.anomaly_weight = f64::NAN;
            }
        }
        all
    }

    fn add_point(
        &self,
        all: &mut [Weighted],
        fields: Fields<'_>,
        missing: Missing,
        row: usize,
        column: usize,
    ) {
        let point = row * self.columns + column;
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
        let by_area = unit.scaled(self.weights[row]);
        for (sums, area) in all.iter_mut().zip(&self.areas) {
            if area.mask[point] {
                sums.by_area += by_area;
                sums.by_point += unit;
            }
        }
    }

    fn add_pair(
        &self,
        all: &mut [Weighted],
        fields: Fields<'_>,
        missing: Missing,
        [row, column]: [usize; 2],
        [other_row, other_column]: [usize; 2],
    ) {
        let here = row * self.columns + column;
        let there = other_row * self.columns + other_column;
        let df = fields.forecast[there] - fields.forecast[here];
        let d_o = fields.truth[there] - fields.truth[here];
        let error = (df - d_o).abs();
        if error.is_nan() && missing == Missing::Skip {
            return;
        }
        let unit = Sums { gradient_error: error, gradient: df.abs().max(d_o.abs()), ..Sums::default() };
        let weight = (self.weights[row] + self.weights[other_row]) / 2.0;
        for (sums, area) in all.iter_mut().zip(&self.areas) {
            if area.mask[here] && area.mask[there] {
                sums.by_area.gradient_error += weight * unit.gradient_error;
                sums.by_area.gradient += weight * unit.gradient;
                sums.by_point.gradient_error += unit.gradient_error;
                sums.by_point.gradient += unit.gradient;
            }
        }
    }
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
