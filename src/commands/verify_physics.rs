//! The physics as a competitor: raw, and calibrated on the training span.

use std::sync::Arc;

use rayon::prelude::*;

use crate::climatology::Climatology;
use crate::commands::devices::Choice;
use crate::commands::physics_inputs::{Chosen, later};
use crate::commands::progress::Progress;
use crate::commands::scoring::{Entrant, Forecaster, Source};
use crate::commands::verify_data::Wanted;
use crate::error::{Result, chain};
use crate::field::{Layout, State};
use crate::forecast::rollout;
use crate::preprocess::{Catalogue, TrainingView};
use crate::shallow_water::{Boundary, Devices, Later, PhysicsPlan, PhysicsStepper};
use crate::stepper::Stepper;
use crate::time::{LeadTime, ValidTime};
use crate::verify::{Baseline, Calibration, CalibrationFit, CalibrationPlan, Role};

/// Initial times that one thread takes at a time.
const CHUNK: usize = 8;

/// What every thread makes its own stepper from.
pub struct Contender {
    plan: PhysicsPlan,
    layout: Arc<Layout>,
    step: LeadTime,
    climatology: Option<Arc<Climatology>>,
    truth: Arc<Catalogue>,
    calibration: Option<Calibration>,
}

impl Contender {
    /// An error when the physics can forecast nothing of `layout`. `climatology` is on that layout; `truth` holds what
    /// driven boundaries are told.
    pub fn new(
        plan: PhysicsPlan,
        layout: Arc<Layout>,
        step: LeadTime,
        climatology: Option<Arc<Climatology>>,
        truth: Arc<Catalogue>,
    ) -> Result<Self> {
        let contender = Self { plan, layout, step, climatology, truth, calibration: None };
        contender.stepper(None)?;
        Ok(contender)
    }

    /// `physics (barotropic, 500 hPa, ...)`
    pub fn describe(&self) -> Result<String> {
        Ok(format!("{}: {}", self.names()[0], self.stepper(None)?.info().origin))
    }

    /// Raw and calibrated. A hindcast is called one wherever its name stands.
    pub fn names(&self) -> [&'static str; 2] {
        match self.plan.boundary {
            Boundary::Frozen => [Baseline::Physics.name(), Baseline::CALIBRATED_PHYSICS],
            Boundary::Driven => ["driven physics (hindcast)", "calibrated driven physics (hindcast)"],
        }
    }

    /// Whether it is told what no forecast knows.
    pub fn is_driven(&self) -> bool {
        self.plan.boundary == Boundary::Driven
    }

    fn stepper(&self, later: Option<Later>) -> Result<PhysicsStepper> {
        let usual = self.climatology.as_deref();
        // Forecasts from several dates are made side by side, each on a core of its own.
        let devices: Arc<dyn Devices> = Arc::new(Chosen::new(Choice::Cpu, Some(1)));
        let mut stepper = PhysicsStepper::new(&self.plan, &self.layout, self.step, usual, &devices)?;
        if let Some(later) = later {
            stepper.drive(later);
        }
        Ok(stepper)
    }

    /// Regresses the forecasts on the training span. Needs a climatology.
    pub fn calibrate(
        &mut self,
        training: &TrainingView,
        plan: CalibrationPlan,
        steps: usize,
        wanted: &mut Wanted,
    ) -> Result<()> {
        let [raw, name] = self.names();
        let Some(climatology) = &self.climatology else {
            wanted.note(format!("no {name}: there is no climatology to regress about"));
            return Ok(());
        };
        let output = self.stepper(None)?.output().clone();
        let channels: Vec<usize> = output
            .quantities
            .iter()
            .map(|quantity| self.layout.channel(&quantity.to_string()))
            .collect::<Result<_>>()?;
        let usual = Arc::new(climatology.select(&channels)?);
        let empty = || CalibrationFit::new(output.clone(), usual.clone(), steps);

        let all: Vec<ValidTime> =
            training.times().iter().copied().filter(|t| has(training, t.after(self.step))).collect();
        let chosen = plan.starts.min(all.len());
        let starts: Vec<ValidTime> = (0..chosen).map(|n| all[n * all.len() / chosen]).collect();
        eprintln!("calibrating {raw} with forecasts from {chosen} of {} training dates", all.len());
        let mut progress = Progress::new(chosen.div_ceil(CHUNK), "blocks of training dates");
        let view = training.clone();
        let later = later(training.catalogue().clone(), move |valid| view.may_read(valid));
        let fits: Vec<Result<CalibrationFit>> = starts
            .par_chunks(CHUNK)
            .map(|chunk| {
                let mut fit = empty();
                let mut stepper = self.stepper(self.is_driven().then(|| later.clone()))?;
                for &start in chunk {
                    self.add_start(&mut stepper, training, start, steps, &mut fit)?;
                }
                Ok(fit)
            })
            .collect();
        let mut whole = empty();
        for fit in fits {
            whole.merge(&fit?);
            progress.advance();
        }
        progress.finish();
        self.calibration = match whole.finish() {
            Ok(calibration) => Some(calibration),
            Err(reason) => {
                wanted.note(format!("no {name}: {}", chain(&reason)));
                return Ok(());
            }
        };
        wanted.note(format!(
            "{name}: C + a1 (physics - C) + a2 (today - C), two coefficients per variable and lead, fitted on forecasts \
             from {chosen} of {} dates of {}",
            all.len(),
            training.span()
        ));
        Ok(())
    }

    fn add_start(
        &self,
        stepper: &mut PhysicsStepper,
        training: &TrainingView,
        start: ValidTime,
        steps: usize,
        fit: &mut CalibrationFit,
    ) -> Result<()> {
        let analysis = training.read(start)?.arranged(&stepper.info().layout)?;
        if analysis.values.iter().any(|value| !value.is_finite()) {
            return Ok(());
        }
        let valid = |n: usize| start.after(self.step.times(n));
        let steps = (1..=steps).take_while(|&n| !self.is_driven() || has(training, valid(n))).count();
        for (n, state) in rollout(stepper, std::slice::from_ref(&analysis), steps)?.enumerate().skip(1) {
            let state = state?;
            if has(training, state.valid) {
                fit.add(n, &analysis, &state, &training.read(state.valid)?)?;
            }
        }
        Ok(())
    }

    /// The competitors that one run makes.
    pub fn entrant(&self, role: Role) -> Result<Entrant<'_>> {
        let [raw, calibrated] = self.names();
        let mut competitors = vec![(raw.to_string(), role)];
        if self.calibration.is_some() {
            competitors.push((calibrated.to_string(), role));
        }
        let later = later(self.truth.clone(), |_| true);
        let mut stepper = self.stepper(self.is_driven().then_some(later))?;
        let forecaster: Forecaster<'_> = Box::new(move |frames, steps, take| {
            let Some(analysis) = frames.last() else { return Ok(()) };
            let there = |n: usize| self.truth.has(analysis.valid.after(self.step.times(n)));
            let steps = (1..=steps).take_while(|&n| !self.is_driven() || there(n)).count();
            for (n, state) in rollout(&mut stepper, std::slice::from_ref(analysis), steps)?.enumerate() {
                let (state, lead): (State, LeadTime) = (state?, self.step.times(n));
                take(0, lead, &state)?;
                if let Some(calibration) = &self.calibration {
                    take(1, lead, &calibration.apply(n, analysis, &state)?)?;
                }
            }
            Ok(())
        });
        Ok(Entrant { competitors, source: Source::Stepper(forecaster) })
    }
}

fn has(training: &TrainingView, valid: ValidTime) -> bool {
    training.may_read(valid) && training.catalogue().has(valid)
}
