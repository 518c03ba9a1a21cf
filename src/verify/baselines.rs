//! What a forecast has to beat, as [`Stepper`]s like any other: persistence, climatology, damped persistence.

use std::collections::VecDeque;
use std::sync::Arc;

use ndarray::Array3;

use crate::climatology::Climatology;
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::stepper::{Stepper, StepperInfo};
use crate::time::{LeadTime, ValidTime};

use super::plan::Baseline;

/// Nothing changes: `f(t0 + lead) = o(t0)`.
#[derive(Debug, Clone)]
pub struct Persistence {
    info: StepperInfo,
}

impl Persistence {
    pub fn new(layout: Arc<Layout>, step: LeadTime) -> Self {
        Self { info: info(Baseline::Persistence, "the analysis of the initial time", layout, step) }
    }
}

impl Stepper for Persistence {
    type Inner = State;

    fn info(&self) -> &StepperInfo {
        &self.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<State> {
        last(analyses).cloned()
    }

    fn step(&mut self, inner: &mut State) -> Result<()> {
        inner.valid = inner.valid.after(self.info.step);
        Ok(())
    }

    fn observe(&self, inner: &State) -> Result<State> {
        Ok(inner.clone())
    }
}

/// What is usual at the valid time: `f = C(t0 + lead)`.
#[derive(Debug, Clone)]
pub struct ClimatologyForecast {
    info: StepperInfo,
    climatology: Arc<Climatology>,
}

/// The analysis and how many steps were made from it.
#[derive(Debug, Clone)]
pub struct Progress {
    analysis: State,
    steps: usize,
}

impl Progress {
    fn valid(&self, step: LeadTime) -> ValidTime {
        self.analysis.valid.after(step.times(self.steps))
    }
}

impl ClimatologyForecast {
    pub fn new(layout: Arc<Layout>, step: LeadTime, climatology: Arc<Climatology>) -> Self {
        Self { info: info(Baseline::Climatology, climatology.describe(), layout, step), climatology }
    }
}

impl Stepper for ClimatologyForecast {
    type Inner = Progress;

    fn info(&self) -> &StepperInfo {
        &self.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<Progress> {
        Ok(Progress { analysis: last(analyses)?.clone(), steps: 0 })
    }

    fn step(&mut self, inner: &mut Progress) -> Result<()> {
        inner.steps += 1;
        Ok(())
    }

    fn observe(&self, inner: &Progress) -> Result<State> {
        if inner.steps == 0 {
            return Ok(inner.analysis.clone());
        }
        let valid = inner.valid(self.info.step);
        let values = evaluate(&self.climatology, &self.info.layout, valid)?;
        Ok(State { layout: self.info.layout.clone(), valid, values })
    }
}

/// The anomaly of the analysis fades: `f = C(t0 + lead) + a(lead) (o(t0) - C(t0))`, with one `a` per quantity and lead
/// for the whole grid.
#[derive(Debug, Clone)]
pub struct DampedPersistence {
    info: StepperInfo,
    climatology: Arc<Climatology>,
    coefficients: Arc<DampedCoefficients>,
}

/// `a`, for 1, 2, ... steps and each channel.
#[derive(Debug, Clone, PartialEq)]
pub struct DampedCoefficients {
    pub by_step: Vec<Vec<f64>>,
}

impl DampedPersistence {
    pub fn new(
        layout: Arc<Layout>,
        step: LeadTime,
        climatology: Arc<Climatology>,
        coefficients: Arc<DampedCoefficients>,
    ) -> Self {
        let origin = "one coefficient per variable and lead, fitted on training anomalies";
        Self { info: info(Baseline::Damped, origin, layout, step), climatology, coefficients }
    }
}

impl Stepper for DampedPersistence {
    type Inner = Progress;

    fn info(&self) -> &StepperInfo {
        &self.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<Progress> {
        Ok(Progress { analysis: last(analyses)?.clone(), steps: 0 })
    }

    fn step(&mut self, inner: &mut Progress) -> Result<()> {
        let fitted = self.coefficients.by_step.len();
        if inner.steps == fitted {
            return Err(Error::input(format!(
                "damped persistence was fitted for leads up to {} and cannot go on",
                self.info.step.times(fitted)
            )));
        }
        inner.steps += 1;
        Ok(())
    }

    fn observe(&self, inner: &Progress) -> Result<State> {
        if inner.steps == 0 {
            return Ok(inner.analysis.clone());
        }
        let valid = inner.valid(self.info.step);
        let layout = &self.info.layout;
        let usual_then = evaluate(&self.climatology, layout, inner.analysis.valid)?;
        let mut values = evaluate(&self.climatology, layout, valid)?;
        let factors = &self.coefficients.by_step[inner.steps - 1];
        ndarray::Zip::indexed(&mut values).and(&usual_then).and(&inner.analysis.values).for_each(
            |(_, _, channel), value, &then, &analysis| *value += factors[channel] as f32 * (analysis - then),
        );
        Ok(State { layout: layout.clone(), valid, values })
    }
}

/// Fits [`DampedCoefficients`] in one pass over the training states, in the order of time:
/// `a = sum w x(t) x(t + lead) / sum w x(t)^2` over all points and times, x the anomaly, w the area of the point.
pub struct DampedFit {
    layout: Arc<Layout>,
    climatology: Arc<Climatology>,
    step: LeadTime,
    weights: Vec<f64>,
    /// Anomalies of the last states, newest first.
    recent: VecDeque<(ValidTime, Array3<f32>)>,
    /// `sum w x(t) x(t + lead)` and `sum w x(t)^2`, per step and channel.
    sums: Vec<Vec<(f64, f64)>>,
}

impl DampedFit {
    /// For leads of 1 to `steps` steps.
    pub fn new(layout: Arc<Layout>, climatology: Arc<Climatology>, step: LeadTime, steps: usize) -> Self {
        Self {
            weights: layout.grid.latitude_weights(),
            sums: vec![vec![(0.0, 0.0); layout.channels()]; steps],
            recent: VecDeque::with_capacity(steps + 1),
            layout,
            climatology,
            step,
        }
    }

    pub fn add(&mut self, state: &State) -> Result<()> {
        let mut anomaly = evaluate(&self.climatology, &self.layout, state.valid)?;
        anomaly.zip_mut_with(&state.values, |usual, &value| *usual = value - *usual);
        let oldest = state.valid.after(self.step.times(self.sums.len()).negative());
        self.recent.retain(|(valid, _)| *valid >= oldest);
        for (valid, earlier) in &self.recent {
            // Dates off the steps (a data set with gaps) make no pair.
            let Ok(steps) = state.valid.since(*valid).steps_of(self.step) else { continue };
            let Some(sums) = steps.checked_sub(1).and_then(|s| self.sums.get_mut(s)) else { continue };
            ndarray::Zip::indexed(earlier).and(&anomaly).for_each(|(row, _, channel), &x, &y| {
                let (x, y) = (f64::from(x), f64::from(y));
                if !(x * y).is_nan() {
                    let (product, square) = &mut sums[channel];
                    *product += self.weights[row] * x * y;
                    *square += self.weights[row] * x * x;
                }
            });
        }
        self.recent.push_front((state.valid, anomaly));
        Ok(())
    }

    /// An error when some lead has no pair of training states.
    pub fn finish(self) -> Result<DampedCoefficients> {
        let mut by_step = Vec::with_capacity(self.sums.len());
        for (i, channels) in self.sums.iter().enumerate() {
            if let Some(channel) = channels.iter().position(|s| s.1 <= 0.0) {
                return Err(Error::input(format!(
                    "no two training states of {} lie {} apart: damped persistence cannot be fitted",
                    self.layout.quantities[channel],
                    self.step.times(i + 1)
                ))
                .hint("ask for a shorter lead, or leave out the baseline 'damped'"));
            }
            by_step.push(channels.iter().map(|(product, square)| product / square).collect());
        }
        Ok(DampedCoefficients { by_step })
    }
}

/// `[lat, lon, channel]` at a moment.
pub(super) fn evaluate(climatology: &Climatology, layout: &Layout, valid: ValidTime) -> Result<Array3<f32>> {
    let mut values = vec![0.0; layout.grid.points() * layout.channels()];
    climatology.evaluate(valid, &mut values)?;
    Array3::from_shape_vec(layout.shape(), values)
        .map_err(|e| Error::run("the climatology has another shape than the data").caused_by(e))
}

fn info(baseline: Baseline, origin: &str, layout: Arc<Layout>, step: LeadTime) -> StepperInfo {
    StepperInfo { name: baseline.name().into(), origin: origin.into(), layout, step, input_frames: 1 }
}

fn last(analyses: &[State]) -> Result<&State> {
    analyses.last().ok_or_else(|| Error::run("a forecast needs an analysis to start from"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::climatology::{ClimatologyFit, ClimatologyKind};
    use crate::grid::Grid;
    use crate::time::Calendar;
    use crate::variable::Quantity;
    use crate::verify::bootstrap::SplitMix;

    fn layout() -> Arc<Layout> {
        let grid = Grid::new(vec![-10.0, 10.0], vec![0.0, 10.0, 20.0]).unwrap();
        Arc::new(Layout { grid, quantities: vec![Quantity::new("msl", None), Quantity::parse("t850")] })
    }

    /// Two years whose anomaly is an AR(1) process of correlation 0.8 (msl) and 0.5 (t850) a day.
    fn years() -> Vec<State> {
        let layout = layout();
        let mut random = SplitMix(3);
        let mut noise = move || (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
        let mut anomaly = Array3::<f64>::zeros(layout.shape());
        let start = ValidTime::parse("2001-01-01T12", Calendar::Standard).unwrap();
        (0..730)
            .map(|day| {
                let valid = start.after(LeadTime::from_hours(24 * day));
                for ((_, _, channel), a) in anomaly.indexed_iter_mut() {
                    *a = [0.8, 0.5][channel] * *a + noise();
                }
                let season = 20.0 * (std::f64::consts::TAU * valid.year_fraction()).cos();
                State { layout: layout.clone(), valid, values: anomaly.mapv(|a| (250.0 + season + a) as f32) }
            })
            .collect()
    }

    fn run<S: Stepper>(mut stepper: S, analysis: &State, steps: usize) -> State {
        let mut inner = stepper.start(std::slice::from_ref(analysis)).unwrap();
        assert_eq!(
            stepper.observe(&inner).unwrap().values,
            analysis.values,
            "before the first step: the analysis"
        );
        for _ in 0..steps {
            stepper.step(&mut inner).unwrap();
        }
        stepper.observe(&inner).unwrap()
    }

    #[test]
    fn damped_persistence_finds_the_correlation_of_each_quantity_and_lead() {
        let (states, layout, step) = (years(), layout(), LeadTime::from_hours(24));
        let mut fit = ClimatologyFit::new(layout.clone(), ClimatologyKind::Harmonic);
        states.iter().for_each(|s| fit.add(s).unwrap());
        let climatology = Arc::new(fit.finish().unwrap());
        let mut fit = DampedFit::new(layout.clone(), climatology.clone(), step, 3);
        states.iter().for_each(|s| fit.add(s).unwrap());
        let coefficients = fit.finish().unwrap();
        for (steps, by_channel) in coefficients.by_step.iter().enumerate() {
            for (found, correlation) in by_channel.iter().zip([0.8_f64, 0.5]) {
                let expected = correlation.powi(steps as i32 + 1);
                // the standard error of an autocorrelation of 6 x 730 values is below 0.03
                assert!((found - expected).abs() < 0.06, "{found} {expected}");
            }
        }

        let analysis = &states[100];
        let valid = analysis.valid.after(step.times(2));
        let usual = run(ClimatologyForecast::new(layout.clone(), step, climatology.clone()), analysis, 2);
        let persisted = run(Persistence::new(layout.clone(), step), analysis, 2);
        assert_eq!((usual.valid, persisted.valid), (valid, valid));
        assert_eq!(persisted.values, analysis.values);
        let coefficients = Arc::new(coefficients);
        let stepper = DampedPersistence::new(layout.clone(), step, climatology.clone(), coefficients.clone());
        let damped = run(stepper, analysis, 2);
        let then = evaluate(&climatology, &layout, analysis.valid).unwrap();
        let a = coefficients.by_step[1][1] as f32;
        let by_hand = usual.values[[1, 2, 1]] + a * (analysis.values[[1, 2, 1]] - then[[1, 2, 1]]);
        assert_eq!(damped.values[[1, 2, 1]], by_hand);
        assert_eq!(damped.valid, valid);

        let mut stepper = DampedPersistence::new(layout, step, climatology, coefficients);
        let mut inner = stepper.start(std::slice::from_ref(analysis)).unwrap();
        (0..3).for_each(|_| stepper.step(&mut inner).unwrap());
        assert!(stepper.step(&mut inner).unwrap_err().to_string().contains("up to 3d"));
    }
}
