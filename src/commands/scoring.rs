//! The loop of a verification: every initial time, every competitor, every lead, against the truth.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::climatology::Climatology;
use crate::error::{Context, Error, Result};
use crate::field::{Layout, State};
use crate::forecast::{Analyses, rollout};
use crate::io::forecast_file;
use crate::preprocess::Span;
use crate::stepper::Stepper;
use crate::time::{InitTime, LeadTime, ValidTime, valid_time};
use crate::verify::{Comparer, Competitor, Role, Statistics};

use super::progress::Progress;

/// Makes the forecast from the input frames of an initial time and hands its states on, lead by lead; the number is how
/// many steps are wanted.
pub type Forecaster = Box<dyn FnMut(&[State], usize, &mut Taker<'_>) -> Result<()>>;
type Taker<'a> = dyn FnMut(LeadTime, &State) -> Result<()> + 'a;

/// Where the forecasts of a competitor come from.
pub enum Source {
    Stepper(Forecaster),
    Files(BTreeMap<InitTime, PathBuf>),
}

/// Who takes part.
pub struct Entrant {
    pub name: String,
    pub role: Role,
    pub source: Source,
}

/// One forecast in full, to look at.
pub struct Example {
    pub init: InitTime,
    /// Lead, forecast and analysis.
    pub states: Vec<(LeadTime, State, Arc<State>)>,
}

/// What forecasts are held against.
pub struct Scoring {
    pub comparer: Comparer,
    pub truth: Analyses,
    pub climatology: Option<Arc<Climatology>>,
    /// Initial and valid times must lie in it.
    pub span: Span,
    pub step: LeadTime,
    /// The longest lead that counts.
    pub lead: LeadTime,
    /// The climatology of dates that come again.
    usual: BTreeMap<ValidTime, Arc<Vec<f32>>>,
}

/// Any stepper as a forecaster; it is given as many of the last input frames as it wants.
pub fn forecaster<S: Stepper + 'static>(mut stepper: S) -> Forecaster {
    Box::new(move |frames, steps, take| {
        let wanted = stepper.info().input_frames.min(frames.len());
        let step = stepper.info().step;
        for (n, state) in rollout(&mut stepper, &frames[frames.len() - wanted..], steps)?.enumerate() {
            take(step.times(n), &state?)?;
        }
        Ok(())
    })
}

impl Scoring {
    pub fn new(
        comparer: Comparer,
        truth: Analyses,
        climatology: Option<Arc<Climatology>>,
        span: Span,
        [step, lead]: [LeadTime; 2],
    ) -> Self {
        Self { comparer, truth, climatology, span, step, lead, usual: BTreeMap::new() }
    }

    /// Scores all entrants at all initial times (ascending); the example is the first entrant's forecast from
    /// `shown`.
    pub fn run(
        &mut self,
        mut entrants: Vec<Entrant>,
        inits: &[InitTime],
        shown: InitTime,
    ) -> Result<(Vec<Competitor>, Example)> {
        let mut statistics = vec![Statistics::default(); entrants.len()];
        let mut example = Example { init: shown, states: Vec::new() };
        let usable = self.truth.usable();
        let mut progress = Progress::new(inits.len(), "initial times");
        for &init in inits {
            self.usual = self.usual.split_off(&init.0);
            let frames = match usable.binary_search(&init) {
                Ok(_) => Some(self.truth.of(init)?),
                Err(_) => None,
            };
            for (index, (entrant, statistics)) in entrants.iter_mut().zip(&mut statistics).enumerate() {
                let mut kept = (index == 0 && init == shown).then_some(&mut example.states);
                let mut take = |scoring: &mut Self, lead: LeadTime, state: &State| {
                    scoring.take(statistics, init, lead, state, kept.as_deref_mut())
                };
                let doing = || format!("{}, forecast from {init}", entrant.name);
                match &mut entrant.source {
                    Source::Stepper(forecaster) => {
                        let Some(frames) = &frames else { continue };
                        let steps = self.steps(init);
                        forecaster(frames, steps, &mut |lead, state| take(self, lead, state))
                            .context(doing)?;
                    }
                    Source::Files(files) => {
                        let Some(path) = files.get(&init) else { continue };
                        let mut file = forecast_file::open(path)?;
                        for index in 0..file.leads().len() {
                            let lead = file.leads()[index];
                            if self.counts(init, lead) {
                                let state = file.read(index)?.arranged(self.comparer.layout());
                                take(self, lead, &state.context(|| path.display().to_string())?)
                                    .context(doing)?;
                            }
                        }
                    }
                }
            }
            progress.advance();
        }
        progress.finish();
        let competitors = entrants.into_iter().zip(statistics);
        let competitors = competitors
            .map(|(e, statistics)| Competitor { name: e.name, role: e.role, statistics })
            .collect();
        Ok((competitors, example))
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
        let truth = self.truth.state(valid)?;
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

/// Forecast files of one maker: one folder.
pub struct ForecastSet {
    pub name: String,
    pub files: BTreeMap<InitTime, PathBuf>,
    pub layout: Arc<Layout>,
    /// The shortest lead after the analysis, and the longest.
    pub leads: [LeadTime; 2],
}

/// Sorts forecast files by folder and initial time, reading nothing but their heads.
pub fn forecast_sets(paths: &[PathBuf]) -> Result<Vec<ForecastSet>> {
    let mut sets: BTreeMap<PathBuf, ForecastSet> = BTreeMap::new();
    for path in paths {
        let file = forecast_file::open(path)?;
        let ahead = file.leads().iter().copied().filter(|l| l.seconds > 0);
        let (Some(shortest), Some(longest)) = (ahead.clone().min(), ahead.max()) else {
            return Err(Error::input(format!("{} looks nowhere ahead of its initial time", path.display())));
        };
        let folder = path.parent().unwrap_or(path).to_owned();
        let set = sets.entry(folder).or_insert_with(|| ForecastSet {
            name: String::new(),
            files: BTreeMap::new(),
            layout: file.layout().clone(),
            leads: [shortest, longest],
        });
        set.leads = [set.leads[0].min(shortest), set.leads[1].max(longest)];
        if let Some(twin) = set.files.insert(file.init(), path.clone()) {
            return Err(Error::input(format!(
                "{} and {} both start at {}",
                twin.display(),
                path.display(),
                file.init()
            ))
            .hint("keep the forecasts of different models in different folders"));
        }
    }
    let alone = sets.len() == 1;
    Ok(sets
        .into_iter()
        .map(|(folder, set)| {
            let last = folder.file_name().map(|n| n.to_string_lossy().into_owned());
            let name =
                if alone { "forecast".into() } else { last.unwrap_or_else(|| folder.display().to_string()) };
            ForecastSet { name, ..set }
        })
        .collect())
}
