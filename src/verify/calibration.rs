//! A model's forecast made as good as two numbers can make it: regressed on the training span, together with
//! persistence, around the climatology,
//!
//! ```text
//! f = C(t0 + lead) + a1 (m - C(t0 + lead)) + a2 (o(t0) - C(t0))
//! ```
//!
//! with the model's forecast m, the analysis o of the initial time, the climatology C, and one pair (a1, a2) per quantity
//! and lead for the whole grid. A model that drifts, or whose anomalies outlive their skill, is damped; where persistence
//! knows something that the model has lost, it is taken. The fairest form of a physics baseline: damped persistence is
//! the same with a1 = 0, climatology with both 0. (Williams 1958 corrected barotropic forecasts by their recent mean error
//! in the same spirit.)

use std::sync::Arc;

use ndarray::Array3;

use crate::climatology::Climatology;
use crate::error::{Error, Result};
use crate::field::{Layout, State};

use super::baselines::evaluate;

/// How to calibrate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationPlan {
    /// Initial times of the training span, evenly spaced; all when there are fewer.
    pub starts: usize,
}

impl Default for CalibrationPlan {
    fn default() -> Self {
        // Two numbers per quantity and lead: half a thousand days, years apart, know them to a few percent.
        Self { starts: 500 }
    }
}

/// The fitted regression.
#[derive(Debug, Clone)]
pub struct Calibration {
    layout: Arc<Layout>,
    climatology: Arc<Climatology>,
    /// `(a1, a2)` for 1, 2, ... steps and each channel.
    by_step: Vec<Vec<[f64; 2]>>,
}

/// Fits a [`Calibration`] by least squares over points (weighted by area) and initial times. Fits of different initial
/// times merge in any order.
#[derive(Debug, Clone)]
pub struct CalibrationFit {
    layout: Arc<Layout>,
    climatology: Arc<Climatology>,
    weights: Vec<f64>,
    by_step: Vec<Vec<Normal>>,
}

/// Normal equations of one quantity and lead, with the anomalies x of the forecast, p of the analysis and y of the truth.
#[derive(Debug, Clone, Copy, Default)]
struct Normal {
    xx: f64,
    xp: f64,
    pp: f64,
    xy: f64,
    py: f64,
}

/// Two predictors of which less than this share of the variance is not common to both are taken for one.
const COLLINEAR: f64 = 1e-9;

impl CalibrationFit {
    /// For forecasts of `layout`, whose climatology is `climatology`, of 1 to `steps` steps.
    pub fn new(layout: Arc<Layout>, climatology: Arc<Climatology>, steps: usize) -> Self {
        let weights = layout.grid.latitude_weights();
        let by_step = vec![vec![Normal::default(); layout.channels()]; steps];
        Self { layout, climatology, weights, by_step }
    }

    /// Adds a forecast of `steps` steps from `analysis` with the analysis of its valid time. Points where one of them is
    /// missing do not count, nor does a lead beyond the fit's.
    pub fn add(&mut self, steps: usize, analysis: &State, forecast: &State, truth: &State) -> Result<()> {
        let Some(normal) = steps.checked_sub(1).and_then(|s| self.by_step.get_mut(s)) else { return Ok(()) };
        if forecast.valid != truth.valid || *forecast.layout != *self.layout {
            return Err(Error::run(format!(
                "a forecast valid at {} cannot be calibrated against the analysis of {}",
                forecast.valid, truth.valid
            )));
        }
        let anomaly = |state: &State| -> Result<Array3<f32>> {
            let mut anomaly = evaluate(&self.climatology, &self.layout, state.valid)?;
            let state = state.arranged(&self.layout)?;
            anomaly.zip_mut_with(&state.values, |usual, &value| *usual = value - *usual);
            Ok(anomaly)
        };
        let (x, p, y) = (anomaly(forecast)?, anomaly(analysis)?, anomaly(truth)?);
        ndarray::Zip::indexed(&x).and(&p).and(&y).for_each(|(row, _, channel), &x, &p, &y| {
            let (x, p, y) = (f64::from(x), f64::from(p), f64::from(y));
            if (x + p + y).is_finite() {
                normal[channel].add(self.weights[row], x, p, y);
            }
        });
        Ok(())
    }

    /// Adds what another fit of the same forecasts has seen.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.by_step.iter_mut().flatten().zip(other.by_step.iter().flatten()) {
            mine.merge(theirs);
        }
    }

    /// An error when some lead has no forecast that could be compared.
    pub fn finish(self) -> Result<Calibration> {
        for (step, channels) in self.by_step.iter().enumerate() {
            if let Some(channel) = channels.iter().position(|n| n.xx == 0.0 && n.pp == 0.0) {
                return Err(Error::input(format!(
                    "the training span holds no pair of states from which the forecasts of {} after {} steps could be \
                     calibrated",
                    self.layout.quantities[channel],
                    step + 1
                ))
                .hint("ask for a shorter lead, or set physics.calibration = false"));
            }
        }
        let by_step = self.by_step.iter().map(|channels| channels.iter().map(Normal::solve).collect());
        Ok(Calibration { by_step: by_step.collect(), layout: self.layout, climatology: self.climatology })
    }
}

impl Normal {
    fn add(&mut self, weight: f64, x: f64, p: f64, y: f64) {
        self.xx += weight * x * x;
        self.xp += weight * x * p;
        self.pp += weight * p * p;
        self.xy += weight * x * y;
        self.py += weight * p * y;
    }

    fn merge(&mut self, o: &Self) {
        self.xx += o.xx;
        self.xp += o.xp;
        self.pp += o.pp;
        self.xy += o.xy;
        self.py += o.py;
    }

    fn solve(&self) -> [f64; 2] {
        let determinant = self.xx * self.pp - self.xp * self.xp;
        if determinant > COLLINEAR * self.xx * self.pp {
            let a1 = (self.pp * self.xy - self.xp * self.py) / determinant;
            let a2 = (self.xx * self.py - self.xp * self.xy) / determinant;
            [a1, a2]
        } else if self.xx > 0.0 {
            [self.xy / self.xx, 0.0]
        } else {
            [0.0, self.py / self.pp]
        }
    }
}

impl Calibration {
    /// The pairs (a1, a2), for 1, 2, ... steps and each channel.
    pub fn coefficients(&self) -> &[Vec<[f64; 2]>] {
        &self.by_step
    }

    /// The calibrated form of a forecast of `steps` steps from `analysis`; of no step, the analysis itself.
    pub fn apply(&self, steps: usize, analysis: &State, forecast: &State) -> Result<State> {
        let analysis = analysis.arranged(&self.layout)?;
        if steps == 0 {
            return Ok(analysis);
        }
        let pairs = self.by_step.get(steps - 1).ok_or_else(|| {
            Error::input(format!(
                "the calibration was fitted for {} steps and cannot go on to {steps}",
                self.by_step.len()
            ))
        })?;
        let then = evaluate(&self.climatology, &self.layout, analysis.valid)?;
        let mut values = evaluate(&self.climatology, &self.layout, forecast.valid)?;
        ndarray::Zip::indexed(&mut values).and(&forecast.values).and(&analysis.values).and(&then).for_each(
            |(_, _, channel), value, &forecast, &analysis, &then| {
                let [a1, a2] = pairs[channel].map(|a| a as f32);
                *value += a1 * (forecast - *value) + a2 * (analysis - then);
            },
        );
        Ok(State { layout: self.layout.clone(), valid: forecast.valid, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::climatology::{ClimatologyFit, ClimatologyKind};
    use crate::grid::Grid;
    use crate::time::{Calendar, LeadTime, ValidTime};
    use crate::variable::Quantity;
    use crate::verify::bootstrap::SplitMix;

    fn layout() -> Arc<Layout> {
        let grid = Grid::new(vec![-10.0, 10.0], vec![0.0, 10.0, 20.0]).unwrap();
        Arc::new(Layout { grid, quantities: vec![Quantity::parse("z500"), Quantity::parse("t850")] })
    }

    fn day(number: i64) -> ValidTime {
        let start = ValidTime::parse("2001-01-01T12", Calendar::Standard).unwrap();
        start.after(LeadTime::from_hours(24 * number))
    }

    /// A constant field of 100 as climatology.
    fn climatology() -> Arc<Climatology> {
        let mut fit = ClimatologyFit::new(layout(), ClimatologyKind::Harmonic);
        (0..730).for_each(|d| fit.add_values(day(d), &[100.0; 12]).unwrap());
        Arc::new(fit.finish().unwrap())
    }

    fn state(number: i64, values: impl FnMut() -> f32) -> State {
        let mut state = State::missing(layout(), day(number));
        let mut values = values;
        state.values.mapv_inplace(|_| 100.0 + values());
        state
    }

    #[test]
    fn the_pair_that_made_the_truth_is_found_again() {
        let mut random = SplitMix(5);
        let mut noise = || random.next() as f32 / u64::MAX as f32 - 0.5;
        let (mut all, mut other) = (
            CalibrationFit::new(layout(), climatology(), 2),
            CalibrationFit::new(layout(), climatology(), 2),
        );
        for d in 0..300 {
            let (analysis, forecast) = (state(d, &mut noise), state(d + 2, &mut noise));
            let mut truth = state(d + 2, &mut noise);
            ndarray::Zip::indexed(&mut truth.values).and(&forecast.values).and(&analysis.values).for_each(
                |(_, _, channel), y, &x, &p| {
                    let pair = [[0.7, 0.2], [0.1, 0.5]][channel];
                    *y = 100.0 + pair[0] * (x - 100.0) + pair[1] * (p - 100.0) + 0.1 * (*y - 100.0);
                },
            );
            let fit = if d % 2 == 0 { &mut all } else { &mut other };
            for steps in [1, 2, 3] {
                fit.add(steps, &analysis, &forecast, &truth).unwrap();
            }
        }
        all.merge(&other);
        let calibration = all.finish().unwrap();
        assert_eq!(calibration.coefficients().len(), 2);
        for (channel, expected) in [[0.7, 0.2], [0.1, 0.5]].into_iter().enumerate() {
            for (found, expected) in calibration.coefficients()[1][channel].iter().zip(expected) {
                // 1800 values with a noise of a tenth of the predictors': standard error 0.1 / sqrt(1800) = 0.0024
                assert!((found - expected).abs() < 0.01, "{found} {expected}");
            }
        }
        let (analysis, forecast) = (state(0, || 10.0), state(2, || 20.0));
        let applied = calibration.apply(2, &analysis, &forecast).unwrap();
        let [a1, a2] = calibration.coefficients()[1][0];
        assert!((f64::from(applied.values[[1, 1, 0]]) - (100.0 + 20.0 * a1 + 10.0 * a2)).abs() < 1e-4);
        assert_eq!(calibration.apply(0, &analysis, &forecast).unwrap().values, analysis.values);
        assert!(calibration.apply(3, &analysis, &forecast).is_err());
    }

    #[test]
    fn a_model_that_is_persistence_gets_one_coefficient_and_no_states_are_an_error() {
        let mut fit = CalibrationFit::new(layout(), climatology(), 1);
        assert!(fit.clone().finish().unwrap_err().to_string().contains("z500 after 1 steps"));
        let mut sign = 1.0;
        let analysis = state(0, || {
            sign = -sign;
            10.0 * sign
        });
        let forecast = State { valid: day(1), ..analysis.clone() };
        let mut truth = forecast.clone();
        truth.values.mapv_inplace(|v| 100.0 + 0.8 * (v - 100.0));
        truth.values[[0, 0, 0]] = f32::NAN;
        fit.add(1, &analysis, &forecast, &truth).unwrap();
        assert!(fit.add(1, &analysis, &analysis, &truth).is_err(), "times must agree");
        let calibration = fit.finish().unwrap();
        for [a1, a2] in &calibration.coefficients()[0] {
            assert!((a1 - 0.8).abs() < 1e-6 && *a2 == 0.0, "{a1} {a2}");
        }
    }
}
