//! The loop of a verification: every initial time, every competitor, every lead, against the truth.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use crate::climatology::Climatology;
use crate::error::{Context, Result};
use crate::field::State;
use crate::forecast::{Analyses, rollout};
use crate::io::forecast_file;
use crate::preprocess::Span;
use crate::stepper::Stepper;
use crate::time::{InitTime, LeadTime, ValidTime, valid_time};
use crate::verify::{Comparer, Competitor, Role, Statistics};

use super::progress::Progress;

/// Makes the forecast from the input frames of an initial time and hands its states on, lead by lead, each with the number
/// of the competitor that it belongs to; the number given is how many steps are wanted.
pub type Forecaster<'s> = Box<dyn FnMut(&[State], usize, &mut Taker<'_>) -> Result<()> + 's>;
type Taker<'a> = dyn FnMut(usize, LeadTime, &State) -> Result<()> + 'a;

/// Where the forecasts of a competitor come from.
pub enum Source<'s> {
    Stepper(Forecaster<'s>),
    Files(BTreeMap<InitTime, PathBuf>),
}

/// Who takes part: one competitor, or several that are made by one run.
pub struct Entrant<'s> {
    pub competitors: Vec<(String, Role)>,
    pub source: Source<'s>,
}

/// One forecast in full, to look at.
pub struct Example {
    pub init: InitTime,
    /// Lead, forecast and analysis.
    pub states: Vec<(LeadTime, State, Arc<State>)>,
}

/// What forecasts are held against.
pub struct Scoring {
    pub comparer: Arc<Comparer>,
    truth: Analyses,
    climatology: Option<Arc<Climatology>>,
    /// Initial and valid times must lie in it.
    span: Span,
    step: LeadTime,
    /// The longest lead that counts.
    lead: LeadTime,
    /// Initial times from which steppers start, ascending.
    starts: Arc<Vec<InitTime>>,
    /// The climatology of dates that come again.
    usual: BTreeMap<ValidTime, Arc<Vec<f32>>>,
}

/// Initial times that one thread takes at a time; neighbours share their analyses.
const CHUNK: usize = 16;

impl<'s> Entrant<'s> {
    /// Any stepper; it is given as many of the last input frames as it wants.
    pub fn stepper<S: Stepper + 's>(name: String, role: Role, mut stepper: S) -> Self {
        let forecaster: Forecaster = Box::new(move |frames, steps, take| {
            let wanted = stepper.info().input_frames.min(frames.len());
            let step = stepper.info().step;
            for (n, state) in rollout(&mut stepper, &frames[frames.len() - wanted..], steps)?.enumerate() {
                take(0, step.times(n), &state?)?;
            }
            Ok(())
        });
        Self { competitors: vec![(name, role)], source: Source::Stepper(forecaster) }
    }

    fn name(&self) -> &str {
        self.competitors.first().map_or("nobody", |c| &c.0)
    }
}

impl Scoring {
    pub fn new(
        comparer: Comparer,
        truth: Analyses,
        climatology: Option<Arc<Climatology>>,
        span: Span,
        [step, lead]: [LeadTime; 2],
    ) -> Self {
        let comparer = Arc::new(comparer);
        Self {
            comparer,
            truth,
            climatology,
            span,
            step,
            lead,
            starts: Arc::default(),
            usual: BTreeMap::new(),
        }
    }

    /// The same, for another thread.
    fn fork(&self) -> Self {
        Self {
            comparer: self.comparer.clone(),
            truth: self.truth.fork(),
            climatology: self.climatology.clone(),
            starts: self.starts.clone(),
            usual: BTreeMap::new(),
            ..*self
        }
    }

    /// Whether any of these leads counts from an initial time, and has an analysis.
    pub fn has_truth(&self, init: InitTime, leads: impl IntoIterator<Item = LeadTime>) -> bool {
        leads.into_iter().any(|lead| self.counts(init, lead) && self.truth.has(valid_time(init, lead)))
    }

    /// Finds out from which of these initial times steppers start; returns how many analyses lack a whole quantity.
    pub fn choose_starts(&mut self, inits: &[InitTime]) -> Result<usize> {
        let there: Vec<InitTime> = inits.iter().copied().filter(|&init| self.truth.starts(init)).collect();
        let count = there.len();
        let starts = self.truth.complete(there)?;
        let left_out = count - starts.len();
        self.starts = Arc::new(starts);
        Ok(left_out)
    }

    /// Scores all entrants at all initial times (ascending); the example is the first competitor's forecast from
    /// `shown`.
    pub fn run(
        &mut self,
        mut entrants: Vec<Entrant<'_>>,
        inits: &[InitTime],
        shown: InitTime,
        mut advance: impl FnMut(),
    ) -> Result<(Vec<Competitor>, Example)> {
        let mut statistics: Vec<Vec<Statistics>> =
            entrants.iter().map(|e| vec![Statistics::default(); e.competitors.len()]).collect();
        let mut example = Example { init: shown, states: Vec::new() };
        for &init in inits {
            self.usual = self.usual.split_off(&init.0);
            let starts = self.starts.binary_search(&init).is_ok();
            let frames = if starts { Some(self.truth.of(init)?) } else { None };
            for (index, (entrant, statistics)) in entrants.iter_mut().zip(&mut statistics).enumerate() {
                let doing = format!("{}, forecast from {init}", entrant.name());
                let mut kept = (index == 0 && init == shown).then_some(&mut example.states);
                let mut take = |scoring: &mut Self, number: usize, lead: LeadTime, state: &State| {
                    let kept = kept.as_deref_mut().filter(|_| number == 0);
                    scoring.take(&mut statistics[number], init, lead, state, kept)
                };
                match &mut entrant.source {
                    Source::Stepper(forecaster) => {
                        let Some(frames) = &frames else { continue };
                        let steps = self.steps(init);
                        forecaster(frames, steps, &mut |number, lead, state| take(self, number, lead, state))
                            .context(|| doing)?;
                    }
                    Source::Files(files) => {
                        let Some(path) = files.get(&init) else { continue };
                        let mut file = forecast_file::open(path)?;
                        for index in 0..file.leads().len() {
                            let lead = file.leads()[index];
                            if self.counts(init, lead) {
                                take(self, 0, lead, &file.read(index)?)
                                    .context(|| format!("{doing}: {}", path.display()))?;
                            }
                        }
                    }
                }
            }
            advance();
        }
        let competitors = entrants.into_iter().map(|e| e.competitors).zip(statistics);
        let competitors = competitors.flat_map(|(names, statistics)| {
            let each = names.into_iter().zip(statistics);
            each.map(|((name, role), statistics)| Competitor { name, role, statistics })
        });
        Ok((competitors.collect(), example))
    }

    /// [`run`](Self::run) on all cores: every thread makes an entrant of its own and takes initial times in turn.
    pub fn run_parallel<'s>(
        &self,
        entrant: impl Fn() -> Result<Entrant<'s>> + Sync,
        inits: &[InitTime],
        shown: InitTime,
        progress: Progress,
    ) -> Result<(Vec<Competitor>, Example)> {
        let progress = Mutex::new(progress);
        let locked = || progress.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<(Vec<Competitor>, Example)> = inits
            .par_chunks(CHUNK)
            .map(|chunk| self.fork().run(vec![entrant()?], chunk, shown, || locked().advance()))
            .collect::<Result<_>>()?;
        locked().finish();
        let mut whole: Option<(Vec<Competitor>, Example)> = None;
        for (competitors, example) in parts {
            match &mut whole {
                None => whole = Some((competitors, example)),
                Some((all, shown)) => {
                    let pairs = all.iter_mut().zip(competitors);
                    pairs.for_each(|(mine, theirs)| mine.statistics.merge(theirs.statistics));
                    shown.states.extend(example.states);
                }
            }
        }
        Ok(whole.unwrap_or_else(|| (Vec::new(), Example { init: shown, states: Vec::new() })))
    }

    /// Steps from here until the test span, or the wanted lead, ends.
    fn steps(&self, init: InitTime) -> usize {
        (1..).take_while(|&n| self.counts(init, self.step.times(n))).count()
    }

    fn counts(&self, init: InitTime, lead: LeadTime) -> bool {
        lead.seconds > 0
            && lead <= self.lead
            && self.span.contains(init.0)
            && self.span.contains(valid_time(init, lead))
    }

    fn take(
        &mut self,
        statistics: &mut Statistics,
        init: InitTime,
        lead: LeadTime,
        state: &State,
        kept: Option<&mut Vec<(LeadTime, State, Arc<State>)>>,
    ) -> Result<()> {
        let valid = valid_time(init, lead);
        if !self.counts(init, lead) || !self.truth.has(valid) {
            return Ok(());
        }
        let truth = self.truth.truth(valid)?;
        let usual = self.usual(valid)?;
        let comparison = self.comparer.compare(state, &truth, usual.as_ref().map(|u| u.as_slice()))?;
        statistics.add(init, lead, comparison);
        if let Some(kept) = kept {
            kept.push((lead, state.clone(), truth));
        }
        Ok(())
    }

    fn usual(&mut self, valid: ValidTime) -> Result<Option<Arc<Vec<f32>>>> {
        let Some(climatology) = &self.climatology else { return Ok(None) };
        if let Some(known) = self.usual.get(&valid) {
            return Ok(Some(known.clone()));
        }
        let layout = self.comparer.layout();
        let mut values = vec![0.0; layout.grid.points() * layout.channels()];
        climatology.evaluate(valid, &mut values)?;
        let values = Arc::new(values);
        self.usual.insert(valid, values.clone());
        Ok(Some(values))
    }
}
