//! What a verification compares with: the truth, the dates that count, and what is learned from the training span.

use std::path::PathBuf;
use std::sync::Arc;

use crate::climatology::{Climatology, ClimatologyFit};
use crate::config::Config;
use crate::error::{Error, Result, chain};
use crate::field::Layout;
use crate::preprocess::{Catalogue, DataPlan, Span, TrainingView};
use crate::time::LeadTime;
use crate::verify::{Baseline, DampedCoefficients, DampedFit, VerifyPlan};

use super::candidates::Candidates;
use super::{inputs, run_folder};

/// The truth, the dates that count, and what may be learned from.
pub struct Data {
    pub truth: Arc<Catalogue>,
    pub training: Option<TrainingView>,
    pub span: Span,
}

impl Data {
    /// `truth` names files that take the place of the configuration's own data.
    pub fn open(truth: &[PathBuf], config: Option<&Config>, candidates: &Candidates) -> Result<Self> {
        let Some(config) = config else {
            if truth.is_empty() {
                return Err(Error::input("there is nothing to compare the forecasts with")
                    .hint("name the analyses with --truth, or a configuration"));
            }
            let plan = inputs::from_files(&candidates.layout, candidates.step, truth)?;
            let truth = Catalogue::build(&plan)?;
            let span = all_of(&truth)?;
            return Ok(Self { truth, training: None, span });
        };
        let plan = DataPlan { quantities: candidates.layout.quantities.clone(), ..run_folder::data(config)? };
        let span = plan.split.as_ref().and_then(|s| s.test).ok_or_else(|| {
            Error::input("the configuration has no split.test: which forecasts may count is not said").hint(
                "add to [data]: split.test = [\"2009-01-01\", \"2011-01-01\"] (the end does not belong)",
            )
        })?;
        let known = Catalogue::build(&plan)?;
        let training = Some(known.training()?);
        let truth = if truth.is_empty() {
            known
        } else {
            // The truth need not reach over the spans that the configuration's own data are split into.
            let plan = DataPlan { split: None, ..plan };
            Catalogue::build(&inputs::with_files(&plan, truth)?)?
        };
        Ok(Self { truth, training, span })
    }
}

fn all_of(catalogue: &Catalogue) -> Result<Span> {
    match (catalogue.times().first(), catalogue.times().last()) {
        (Some(&first), Some(&last)) => Span::new(first, last.after(LeadTime { seconds: 1 })),
        _ => Err(Error::input("the truth holds no date with all variables of the forecasts")),
    }
}

/// What to compare with.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub baselines: Vec<Baseline>,
    /// By the command line: then what cannot be had is an error, and not left out.
    asked: bool,
    /// What a reader of the scores has to know.
    pub notes: Vec<String>,
}

impl Wanted {
    /// `asked` are the baselines of the command line. Without a configuration nothing can be fitted.
    pub fn new(asked: Option<Vec<Baseline>>, plan: &VerifyPlan, has_config: bool) -> Result<Self> {
        let is_asked = asked.is_some();
        let named = asked.unwrap_or_else(|| plan.baselines.clone());
        let baselines = Baseline::ALL.into_iter().filter(|b| named.contains(b)).collect();
        let mut wanted = Self { baselines, asked: is_asked, notes: Vec::new() };
        if !has_config {
            let reason = Error::input("without a configuration there is no training data")
                .hint("name the configuration: its data and split.train say what that is");
            wanted.do_without(Baseline::is_fitted, "no climatology, no anomaly correlation", reason)?;
        }
        Ok(wanted)
    }

    /// Whether the command line named the baselines.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    pub fn has(&self, baseline: Baseline) -> bool {
        self.baselines.contains(&baseline)
    }

    /// Says what is missing for which reason, and leaves the baselines out that need it; where they were asked for, that
    /// is an error.
    pub fn do_without(
        &mut self,
        needs: impl Fn(Baseline) -> bool,
        missing: &str,
        reason: Error,
    ) -> Result<()> {
        let left_out: Vec<&str> = self.baselines.iter().filter(|b| needs(**b)).map(|b| b.name()).collect();
        if self.asked
            && let Some(first) = left_out.first()
        {
            return Err(reason.context(format!("{first} has to be fitted on training data")));
        }
        let names =
            if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
        self.note(format!("{}: {missing}{names}", chain(&reason)));
        self.baselines.retain(|b| !needs(*b));
        Ok(())
    }

    /// Says something now, and again with the scores.
    pub fn note(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        eprintln!("note: {sentence}");
        self.notes.push(sentence);
    }
}

/// What was learned from the training span.
#[derive(Default)]
pub struct Fitted {
    pub climatology: Option<Arc<Climatology>>,
    pub damped: Option<Arc<DampedCoefficients>>,
    /// Of the climatology.
    pub description: Option<String>,
}

impl Fitted {
    /// A training span too short for a climatology leaves out what needs one, unless that was asked for by name.
    pub fn fit(
        data: &Data,
        plan: &VerifyPlan,
        wanted: &mut Wanted,
        layout: &Arc<Layout>,
        step: LeadTime,
        steps: usize,
    ) -> Result<Self> {
        let Some(training) = &data.training else { return Ok(Self::default()) };
        eprintln!("fitting the climatology on {}", training.span());
        let mut fit = ClimatologyFit::new(layout.clone(), plan.climatology);
        training.visit(|state| fit.add(state))?;
        let climatology = match fit.finish() {
            Ok(climatology) => Arc::new(climatology),
            Err(reason) => {
                wanted.do_without(Baseline::is_fitted, "no climatology, no anomaly correlation", reason)?;
                return Ok(Self::default());
            }
        };
        let mut damped = None;
        if wanted.has(Baseline::Damped) {
            let mut fit = DampedFit::new(layout.clone(), climatology.clone(), step, steps);
            training.visit(|state| fit.add(state))?;
            match fit.finish() {
                Ok(coefficients) => damped = Some(Arc::new(coefficients)),
                Err(reason) => wanted.do_without(|b| b == Baseline::Damped, "no damping", reason)?,
            }
        }
        let description = Some(format!("{}, fitted on {}", climatology.describe(), training.span()));
        Ok(Self { climatology: Some(climatology), damped, description })
    }
}
