//! Reads what forecasts start from and, for scores, the truth; each state once, as far as memory of a few steps allows.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::field::State;
use crate::preprocess::{Catalogue, MissingPolicy, absent};
use crate::stepper::StepperInfo;
use crate::time::{InitTime, ValidTime};

use super::rollout::check_layout;

/// Analyses of a catalogue, for one stepper.
pub struct Analyses {
    catalogue: Arc<Catalogue>,
    info: StepperInfo,
    /// The states of the dates around the last initial time.
    kept: BTreeMap<ValidTime, Arc<State>>,
    /// Of those the ones in which the truth was put together from the dates around.
    truths: BTreeMap<ValidTime, Arc<State>>,
}

impl Analyses {
    /// Refuses a catalogue that lacks a variable of the stepper, or has another grid or step.
    pub fn new(catalogue: Arc<Catalogue>, info: &StepperInfo) -> Result<Self> {
        check_layout(info, catalogue.layout())?;
        // Who starts from one analysis may step as it likes.
        if info.input_frames > 1 && info.step.seconds % catalogue.step().seconds.max(1) != 0 {
            return Err(Error::input(format!(
                "{} steps by {}, and the input has a state every {}",
                info.name,
                info.step,
                catalogue.step()
            ))
            .hint("a model forecasts only at the time step that it was trained on"));
        }
        Ok(Self { catalogue, info: info.clone(), kept: BTreeMap::new(), truths: BTreeMap::new() })
    }

    /// The same analyses for another thread.
    pub fn fork(&self) -> Self {
        Self {
            catalogue: self.catalogue.clone(),
            info: self.info.clone(),
            kept: BTreeMap::new(),
            truths: BTreeMap::new(),
        }
    }

    /// Times whose analysis, and all input frames before it, are there; ascending.
    pub fn usable(&self) -> Vec<InitTime> {
        self.catalogue.times().iter().map(|&t| InitTime(t)).filter(|&init| self.starts(init)).collect()
    }

    /// Whether the analysis of this time, and all input frames before it, are there.
    pub fn starts(&self, init: InitTime) -> bool {
        self.frames(init).into_iter().all(|valid| self.catalogue.has(valid))
    }

    /// The input frames of an initial time, oldest first.
    pub fn of(&mut self, init: InitTime) -> Result<Vec<State>> {
        let frames = self.frames(init);
        // Initial times ascend, so what lies before the oldest frame is not asked for again.
        if let Some(oldest) = frames.first() {
            self.kept = self.kept.split_off(oldest);
            self.truths = self.truths.split_off(oldest);
        }
        frames.into_iter().map(|valid| self.state(valid).map(|s| (*s).clone())).collect()
    }

    /// Of these initial times those whose frames have some value of every quantity: nothing can start from the others.
    /// Where the configuration lets nothing be missing none is left out, and what is missing is an error later on.
    pub fn complete(&mut self, inits: Vec<InitTime>) -> Result<Vec<InitTime>> {
        if self.catalogue.missing() == MissingPolicy::Error {
            return Ok(inits);
        }
        let mut complete = Vec::with_capacity(inits.len());
        for init in inits {
            if self.of(init)?.iter().all(|state| !absent(state).contains(&true)) {
                complete.push(init);
            }
        }
        self.kept.clear();
        Ok(complete)
    }

    /// Whether there is an analysis of this date.
    pub fn has(&self, valid: ValidTime) -> bool {
        self.catalogue.has(valid)
    }

    /// The state of a date to hold forecasts against.
    pub fn truth(&mut self, valid: ValidTime) -> Result<Arc<State>> {
        if let Some(state) = self.truths.get(&valid) {
            return Ok(state.clone());
        }
        let state = self.state(valid)?;
        let bridges = self.catalogue.missing() == MissingPolicy::Interpolate;
        let state = match bridges && absent(&state).contains(&true) {
            true => Arc::new(self.catalogue.read_truth(valid)?.arranged(&self.info.layout)?),
            false => return Ok(state),
        };
        self.truths.insert(valid, state.clone());
        Ok(state)
    }

    /// The analysis of a date.
    fn state(&mut self, valid: ValidTime) -> Result<Arc<State>> {
        if let Some(state) = self.kept.get(&valid) {
            return Ok(state.clone());
        }
        let state = Arc::new(self.catalogue.read(valid)?.arranged(&self.info.layout)?);
        self.kept.insert(valid, state.clone());
        Ok(state)
    }

    fn frames(&self, init: InitTime) -> Vec<ValidTime> {
        let back = |n: usize| init.0.after(self.info.step.times(n).negative());
        (0..self.info.input_frames).rev().map(back).collect()
    }
}
