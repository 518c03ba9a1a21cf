//! The network of a run folder in physical units, computed by a chain of providers: when one breaks, the next goes on.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::native::Native;
use super::provider::{Candidate, Kept, Provider};
use crate::device::Device;
use crate::error::{Error, Kind, Result, chain};
use crate::export::Trained;
use crate::field::State;
use crate::grid::Orientation;
use crate::stepper::{Stepper, StepperInfo};
use crate::time::ValidTime;

/// Steps between two copies of the recurrent state, where another provider could go on from them and nothing else is asked for.
pub const KEEP_EVERY: usize = 4;

/// Forecasts with the averaged weights of a checkpoint, from one initial time at a time. A provider that breaks is given
/// up, its state with it; the next one goes on from the last copy and computes again what was already given.
pub struct NetworkStepper {
    trained: Arc<Trained>,
    /// Absent only while the next one is opened.
    current: Option<Box<dyn Provider>>,
    rest: VecDeque<Candidate>,
    /// Those that did not open, and why.
    refusals: Vec<String>,
    /// Steps between two copies of the recurrent state.
    keep_every: usize,
    /// Counts forecasts, so that one which is no longer on the device is noticed.
    started: u64,
}

/// A forecast under way.
pub struct Forecast {
    /// Which one of its stepper's.
    number: u64,
    /// Steps given.
    steps: usize,
    /// Steps that the current provider has done; `None` when it has not heard of this forecast.
    done: Option<usize>,
    analyses: Vec<State>,
    state: State,
    /// The last copy that is on the host, and after how many steps it was taken.
    kept: Option<(usize, Kept)>,
    /// After how many steps the copy under way was taken.
    keeping: Option<usize>,
    remarks: Vec<String>,
}

impl NetworkStepper {
    /// Opens a run folder (its best checkpoint) or a checkpoint folder, for one device.
    pub fn open(path: &Path, device: Box<dyn Device<f32>>) -> Result<Self> {
        Self::of(Arc::new(Trained::open(path)?), device)
    }

    pub fn of(trained: Arc<Trained>, device: Box<dyn Device<f32>>) -> Result<Self> {
        let native = Native::new(trained.clone(), device)?;
        Ok(Self::alone(trained, native))
    }

    /// Computed by this provider of the network, and by no other.
    pub fn alone(trained: Arc<Trained>, provider: impl Provider + 'static) -> Self {
        let current: Option<Box<dyn Provider>> = Some(Box::new(provider));
        Self { current, ..Self::without_provider(trained, VecDeque::new()) }
    }

    /// The first of the candidates that opens computes; the others stand by.
    pub fn with_providers(trained: Arc<Trained>, candidates: Vec<Candidate>) -> Result<Self> {
        let mut stepper = Self::without_provider(trained, candidates.into());
        stepper.open_next()?;
        Ok(stepper)
    }

    fn without_provider(trained: Arc<Trained>, rest: VecDeque<Candidate>) -> Self {
        Self { trained, current: None, rest, refusals: Vec::new(), keep_every: KEEP_EVERY, started: 0 }
    }

    /// Has the recurrent state copied to the host after so many steps, at least 1: what the next provider would have to compute
    /// again is about as much.
    pub fn keeping_every(self, steps: usize) -> Self {
        Self { keep_every: steps.max(1), ..self }
    }

    /// How the training data lay in their files.
    pub fn orientation(&self) -> Orientation {
        self.trained.orientation
    }

    /// The network that it computes.
    pub fn trained(&self) -> &Arc<Trained> {
        &self.trained
    }

    /// What it runs on.
    pub fn device(&self) -> String {
        self.current.as_ref().map_or_else(|| "nothing".into(), |provider| provider.describe())
    }

    /// A sentence for each provider that did not open.
    pub fn refusals(&self) -> &[String] {
        &self.refusals
    }

    /// Opens the next candidate that opens.
    fn open_next(&mut self) -> Result<()> {
        // The old one goes first: the next may need its memory.
        self.current = None;
        let mut last = Error::run("there is nothing left to compute the network with");
        while let Some(Candidate { name, open }) = self.rest.pop_front() {
            match open(self.trained.clone()) {
                Ok(provider) => {
                    self.current = Some(provider);
                    return Ok(());
                }
                // What was asked for is wrong, and no other provider will make it right.
                Err(error) if self.rest.is_empty() => last = error,
                Err(error) => {
                    let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
                    self.refusals.push(format!("{name} does not open: {}{advice}", chain(&error)));
                }
            }
        }
        Err(last)
    }

    fn provider(&mut self) -> Result<&mut dyn Provider> {
        match &mut self.current {
            Some(provider) => Ok(&mut **provider),
            None => Err(Error::run("every provider of this network is broken")),
        }
    }

    /// Lets the next provider take over from one that failed; the failure comes back where there is none, or where
    /// nothing is broken.
    fn take_over(&mut self, forecast: &mut Forecast, failure: Error) -> Result<()> {
        if failure.kind() != Kind::Run || self.rest.is_empty() {
            return Err(failure);
        }
        let old = self.device();
        // What arrived before the failure is whole; what did not is lost with its device.
        let _ = self.collect(forecast);
        (forecast.done, forecast.keeping) = (None, None);
        self.open_next().map_err(|error| error.context(format!("{old} failed ({})", chain(&failure))))?;
        let lead = self.trained.info.step.times(forecast.steps + 1);
        forecast.remarks.push(format!(
            "computed by {} from a lead of {lead} on, because {old} failed: {}",
            self.device(),
            chain(&failure)
        ));
        Ok(())
    }

    /// Does what the current provider has not done of the first `steps` steps.
    fn reach(&mut self, forecast: &mut Forecast, steps: usize) -> Result<State> {
        let (analysis, step) = (forecast.analysis(), self.trained.info.step);
        let at = |steps: usize| analysis.after(step.times(steps));
        let provider = self.provider()?;
        let mut done = match (forecast.done, &forecast.kept) {
            (Some(done), _) => done,
            (None, Some((kept_after, kept))) => {
                provider.resume(kept, at(*kept_after))?;
                *kept_after
            }
            (None, None) => {
                provider.start(&forecast.analyses)?;
                0
            }
        };
        while done < steps {
            provider.step(at(done))?;
            done += 1;
        }
        forecast.done = Some(done);
        provider.state(at(steps))
    }

    /// A forecast that goes on from what one kept at the valid time of `state`, instead of warming up on analyses.
    pub fn resume(&mut self, kept: Kept, state: State) -> Result<Forecast> {
        self.trained.check_state(&state)?;
        self.started += 1;
        let mut forecast = Forecast {
            number: self.started,
            steps: 0,
            done: None,
            analyses: vec![state.clone()],
            state,
            kept: Some((0, kept)),
            keeping: None,
            remarks: Vec::new(),
        };
        while let Err(failure) = self.reach(&mut forecast, 0) {
            self.take_over(&mut forecast, failure)?;
        }
        Ok(forecast)
    }

    /// All that the next steps of a forecast depend on.
    pub fn kept(&mut self, forecast: &mut Forecast) -> Result<Kept> {
        self.current(forecast)?;
        let valid = forecast.state.valid;
        loop {
            match self.keep_now(forecast, valid) {
                Ok(kept) => return Ok(kept),
                Err(failure) => self.take_over(forecast, failure)?,
            }
        }
    }

    /// Waits for a copy of the state after the last step.
    fn keep_now(&mut self, forecast: &mut Forecast, valid: ValidTime) -> Result<Kept> {
        let steps = forecast.steps;
        self.reach(forecast, steps)?;
        let under_way = forecast.keeping.take().is_some();
        let provider = self.provider()?;
        if under_way {
            provider.kept(true)?;
        }
        provider.keep(valid)?;
        provider.kept(true)?.ok_or_else(|| Error::run("no copy of the state has come"))
    }

    /// What was kept, as if `analysis` had been found to be true at its time.
    pub fn corrected(&self, kept: Kept, analysis: &State) -> Result<Kept> {
        self.trained.check_state(analysis)?;
        let mut fields = vec![0.0; kept.fields.len()];
        self.trained.normalizer.normalize(analysis, &mut fields)?;
        Ok(Kept { fields, ..kept })
    }

    /// Has the recurrent state copied, where anybody could need it and no copy is under way. Nothing waits for it.
    fn keep(&mut self, forecast: &mut Forecast) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        self.collect(forecast)?;
        let last = forecast.kept.as_ref().map_or(0, |&(after, _)| after);
        if forecast.keeping.is_none() && forecast.steps >= last + self.keep_every {
            let valid = forecast.state.valid;
            self.provider()?.keep(valid)?;
            forecast.keeping = Some(forecast.steps);
            self.collect(forecast)?;
        }
        Ok(())
    }

    /// Takes the copy under way if it has arrived.
    fn collect(&mut self, forecast: &mut Forecast) -> Result<()> {
        if let Some(after) = forecast.keeping
            && let Some(kept) = self.provider()?.kept(false)?
        {
            forecast.kept = Some((after, kept));
            forecast.keeping = None;
        }
        Ok(())
    }

    /// Refuses a forecast that another one has replaced on the device.
    fn current(&self, forecast: &Forecast) -> Result<()> {
        if forecast.number != self.started {
            return Err(Error::run("another forecast has been started on this network since"));
        }
        Ok(())
    }
}

impl Forecast {
    fn analysis(&self) -> ValidTime {
        self.analyses[self.analyses.len() - 1].valid
    }
}

impl Stepper for NetworkStepper {
    type Inner = Forecast;

    fn info(&self) -> &StepperInfo {
        &self.trained.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<Forecast> {
        self.trained.check(analyses)?;
        let analysis = analyses.last().ok_or_else(|| Error::input("a forecast needs an analysis"))?;
        self.started += 1;
        let mut forecast = Forecast {
            number: self.started,
            steps: 0,
            done: None,
            analyses: analyses.to_vec(),
            state: analysis.clone(),
            kept: None,
            keeping: None,
            remarks: Vec::new(),
        };
        while let Err(failure) = self.provider().and_then(|provider| provider.start(analyses)) {
            self.take_over(&mut forecast, failure)?;
        }
        forecast.done = Some(0);
        Ok(forecast)
    }

    fn step(&mut self, forecast: &mut Forecast) -> Result<()> {
        self.current(forecast)?;
        let steps = forecast.steps + 1;
        let state = loop {
            match self.reach(forecast, steps) {
                Ok(state) => break state,
                Err(failure) => self.take_over(forecast, failure)?,
            }
        };
        // Another provider would find the same.
        if !self.trained.is_whole(&state) {
            return Err(Error::run(format!(
                "the forecast from {} is not finite after {}",
                forecast.analysis(),
                self.trained.info.step.times(steps)
            ))
            .hint("train longer rollouts, or forecast fewer steps"));
        }
        (forecast.steps, forecast.state) = (steps, state);
        match self.keep(forecast) {
            Ok(()) => Ok(()),
            Err(failure) => self.take_over(forecast, failure),
        }
    }

    fn observe(&self, forecast: &Forecast) -> Result<State> {
        self.current(forecast)?;
        Ok(forecast.state.clone())
    }

    fn remarks(&self, forecast: &Forecast) -> Vec<String> {
        forecast.remarks.clone()
    }
}
