//! `wxsim verify`: how good forecasts are, and against what.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::climatology::Climatology;
use crate::commands::output;
use crate::commands::scoring::{Entrant, ForecastSet, Scoring, Source, forecast_sets, forecaster};
use crate::commands::{inputs, report_page, run_folder, score_table};
use crate::config::verify::BaselineConfig;
use crate::config::{Config, Overrides, VerifyConfig};
use crate::error::{Context, Error, Result};
use crate::field::Layout;
use crate::forecast::Analyses;
use crate::io::atomic::write_whole;
use crate::preprocess::{Catalogue, DataPlan, Span, TrainingView, fit_climatology};
use crate::report;
use crate::runner::NetworkStepper;
use crate::stepper::{Stepper, StepperInfo};
use crate::time::{InitTime, LeadTime};
use crate::verify::{
    Baseline, ClimatologyForecast, Comparer, DampedFit, DampedPersistence, Gate, Headline, Persistence, Role,
    ScorePlan, Scores, VerifyPlan, demand, summarise,
};

/// Score forecasts against analyses and against simple forecasts.
///
/// Forecasts come from files, or with --model from a network that is run from every initial time of the test span. A
/// forecast counts when its initial and its valid time both lie in the test span of the configuration; climatology and
/// damped persistence are fitted on its training span alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A configuration (.toml) and forecast files; each folder of forecasts is a competitor
    #[arg(value_name = "[CONFIG] FORECAST")]
    inputs: Vec<PathBuf>,
    /// A run folder: its network is run from every initial time of the test span
    #[arg(long, value_name = "RUN")]
    model: Option<PathBuf>,
    /// Files with the analyses to compare with [default: the data of the configuration]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    truth: Vec<PathBuf>,
    /// What to compare with [default: verify.baselines of the configuration]
    #[arg(long, value_enum, value_delimiter = ',')]
    baseline: Option<Vec<BaselineConfig>>,
    /// Longest lead, as 24h or 5d [default: that of the forecasts, or forecast.lead for --model]
    #[arg(long)]
    lead: Option<LeadTime>,
    /// Folder for the report: a page to open, and the scores as JSON and CSV
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Let the table give all points the same weight, instead of their area
    #[arg(long)]
    unweighted: bool,
    /// Print all scores as JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// The forecasts to judge.
struct Candidates {
    network: Option<NetworkStepper>,
    sets: Vec<ForecastSet>,
    layout: Arc<Layout>,
    step: LeadTime,
    lead: LeadTime,
    input_frames: usize,
}

pub fn run(args: &Args) -> Result<()> {
    let (config, forecasts) = sort_inputs(args)?;
    let candidates = candidates(args, config.as_ref(), &forecasts)?;
    let plan = config.as_ref().map_or_else(|| VerifyConfig::default().plan(), |c| c.verify.plan())?;
    let baselines = baselines(args, &plan, config.is_some())?;

    let data = Data::open(args, config.as_ref(), &candidates)?;
    let info = StepperInfo {
        name: "the comparison".into(),
        origin: String::new(),
        layout: candidates.layout.clone(),
        step: candidates.step,
        input_frames: candidates.input_frames,
    };
    let truth = Analyses::new(data.truth.clone(), &info)?;
    let steps = candidates.lead.steps_of(candidates.step)?;
    let layout = data.truth.layout().clone();
    let fitted = Fitted::fit(&data, &plan, &baselines, &layout, candidates.step, steps)?;
    let comparer = Comparer::new(ScorePlan {
        layout: layout.clone(),
        regions: plan.regions.clone(),
        missing: plan.missing,
        nyquist: plan.nyquist,
    });
    let headline = Headline {
        climatology: fitted.as_ref().map(|f| f.description.clone()),
        test_span: match config {
            Some(_) => data.span.to_string(),
            None => "not said by a configuration: every date of the truth".into(),
        },
    };
    let climatology = fitted.as_ref().map(|f| f.climatology.clone());
    let inits = initial_times(&candidates, &truth, data.span)?;
    let reach = [candidates.step, candidates.lead];
    let entrants = entrants(candidates, &baselines, fitted.as_ref(), &layout, reach[0])?;
    let mut scoring = Scoring::new(comparer, truth, climatology, data.span, reach);
    let (competitors, example) = scoring.run(entrants, &inits, inits[inits.len() / 2])?;
    let scores = summarise(&scoring.comparer, &competitors, &plan.bootstrap, &headline)?;

    if let Some(folder) = &args.report {
        write_scores(folder, &scores)?;
        let run = args.model.as_deref().map(run_folder::folder).transpose()?;
        let page = folder.join("report.html");
        report::write_html(&page, &report_page::report(&scores, &example, run.as_deref())?)?;
        eprintln!("wrote {}", page.display());
    }
    if args.json {
        output::print_line(&json(&scores)?)?;
    } else {
        output::print(&score_table::table(&scores, !args.unweighted))?;
    }
    pass_gates(&plan.gates, &scores)
}

/// The configuration among the inputs, or that of the run; and the forecast files.
fn sort_inputs(args: &Args) -> Result<(Option<Config>, Vec<PathBuf>)> {
    let is_config = |path: &&PathBuf| path.extension().is_some_and(|e| e == "toml");
    let (configs, forecasts): (Vec<&PathBuf>, Vec<&PathBuf>) = args.inputs.iter().partition(is_config);
    let config = match (configs.as_slice(), &args.model) {
        ([], None) => None,
        ([], Some(model)) => Some(run_folder::config(&run_folder::folder(model)?)?),
        ([path], _) => Some(Config::load(path, &Overrides::default())?),
        _ => return Err(Error::input("one configuration at a time, please")),
    };
    Ok((config, forecasts.into_iter().cloned().collect()))
}

fn candidates(args: &Args, config: Option<&Config>, forecasts: &[PathBuf]) -> Result<Candidates> {
    let network = args.model.as_deref().map(run_folder::network).transpose()?;
    let sets = forecast_sets(forecasts)?;
    let (layout, step, input_frames) = match (&network, sets.first()) {
        (Some(network), _) => {
            let info = network.info();
            (info.layout.clone(), info.step, info.input_frames)
        }
        (None, Some(set)) => (set.layout.clone(), set.leads[0], 1),
        (None, None) => {
            return Err(
                Error::input("there is nothing to verify").hint("name forecast files, or a run with --model")
            );
        }
    };
    let longest = sets.iter().map(|s| s.leads[1]).max();
    let lead = match (args.lead, longest, config) {
        (Some(lead), _, _) => lead,
        (None, Some(longest), _) => longest,
        (None, None, Some(config)) => config.forecast.lead,
        (None, None, None) => step,
    };
    if lead < step {
        return Err(Error::input(format!("a lead of {lead} is shorter than a step of {step}")));
    }
    Ok(Candidates { network, sets, layout, step, lead, input_frames })
}

/// What to compare with; without a configuration nothing can be fitted.
fn baselines(args: &Args, plan: &VerifyPlan, has_config: bool) -> Result<Vec<Baseline>> {
    let asked = args.baseline.as_ref().map(|list| list.iter().map(|b| b.baseline()).collect::<Vec<_>>());
    let mut baselines = asked.clone().unwrap_or_else(|| plan.baselines.clone());
    baselines = Baseline::ALL.into_iter().filter(|b| baselines.contains(b)).collect();
    if has_config {
        return Ok(baselines);
    }
    if let Some(fitted) = asked.iter().flatten().find(|b| b.is_fitted()) {
        return Err(Error::input(format!("{} has to be fitted on training data", fitted.name()))
            .hint("name the configuration: its data and split.train say what that is"));
    }
    eprintln!("without a configuration there is no training data: no climatology, no anomaly correlation");
    baselines.retain(|b| !b.is_fitted());
    Ok(baselines)
}

/// The truth, the dates that count, and what may be learned from.
struct Data {
    truth: Arc<Catalogue>,
    training: Option<TrainingView>,
    span: Span,
}

impl Data {
    fn open(args: &Args, config: Option<&Config>, candidates: &Candidates) -> Result<Self> {
        let Some(config) = config else {
            if args.truth.is_empty() {
                return Err(Error::input("there is nothing to compare the forecasts with")
                    .hint("name the analyses with --truth, or a configuration"));
            }
            let plan = inputs::from_files(&candidates.layout, candidates.step, &args.truth)?;
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
        let truth = if args.truth.is_empty() {
            known
        } else {
            // The truth need not reach over the spans that the configuration's own data are split into.
            let plan = DataPlan { split: None, ..plan };
            Catalogue::build(&inputs::with_files(&plan, &args.truth)?)?
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

/// What was learned from the training span.
struct Fitted {
    climatology: Arc<Climatology>,
    damped: Option<Arc<crate::verify::DampedCoefficients>>,
    description: String,
}

impl Fitted {
    fn fit(
        data: &Data,
        plan: &VerifyPlan,
        baselines: &[Baseline],
        layout: &Arc<Layout>,
        step: LeadTime,
        steps: usize,
    ) -> Result<Option<Self>> {
        let Some(training) = &data.training else { return Ok(None) };
        eprintln!("fitting the climatology on {}", training.span());
        let climatology = Arc::new(fit_climatology(training, plan.climatology)?);
        let mut damped = None;
        if baselines.contains(&Baseline::Damped) {
            let mut fit = DampedFit::new(layout.clone(), climatology.clone(), step, steps);
            training.visit(|state| fit.add(state))?;
            damped = Some(Arc::new(fit.finish()?));
        }
        let description = format!("{}, fitted on {}", climatology.describe(), training.span());
        Ok(Some(Self { climatology, damped, description }))
    }
}

/// Where forecasts start, within the test span.
fn initial_times(candidates: &Candidates, truth: &Analyses, span: Span) -> Result<Vec<InitTime>> {
    let files = candidates.sets.iter().flat_map(|set| set.files.keys().copied());
    let mut all: Vec<InitTime> = match &candidates.network {
        Some(_) => truth.usable().into_iter().chain(files).collect(),
        None => files.collect(),
    };
    all.sort_unstable();
    all.dedup();
    let known = all.len();
    all.retain(|init| span.contains(init.0));
    if all.is_empty() {
        return Err(Error::input(format!("none of {known} forecasts starts in the test span, {span}"))
            .hint("forecasts from other times would be scored on days that were trained on"));
    }
    if candidates.network.is_none() && all.len() < known {
        eprintln!("{} of {known} forecasts start outside the test span and are left out", known - all.len());
    }
    Ok(all)
}

fn entrants(
    candidates: Candidates,
    baselines: &[Baseline],
    fitted: Option<&Fitted>,
    layout: &Arc<Layout>,
    step: LeadTime,
) -> Result<Vec<Entrant>> {
    let mut entrants = Vec::new();
    if let Some(network) = candidates.network {
        let name = network.info().name.clone();
        entrants.push(Entrant { name, role: Role::Model, source: Source::Stepper(forecaster(network)) });
    }
    for set in candidates.sets {
        entrants.push(Entrant { name: set.name, role: Role::Model, source: Source::Files(set.files) });
    }
    for &baseline in baselines {
        let source = match (baseline, fitted) {
            (Baseline::Persistence, _) => forecaster(Persistence::new(layout.clone(), step)),
            (Baseline::Climatology, Some(fitted)) => {
                forecaster(ClimatologyForecast::new(layout.clone(), step, fitted.climatology.clone()))
            }
            (Baseline::Damped, Some(Fitted { climatology, damped: Some(damped), .. })) => {
                forecaster(DampedPersistence::new(layout.clone(), step, climatology.clone(), damped.clone()))
            }
            _ => return Err(Error::run(format!("{} was not fitted", baseline.name()))),
        };
        entrants.push(Entrant {
            name: baseline.name().into(),
            role: Role::Baseline,
            source: Source::Stepper(source),
        });
    }
    Ok(entrants)
}

fn json(scores: &Scores) -> Result<String> {
    serde_json::to_string_pretty(scores)
        .map_err(|error| Error::run("the scores cannot be written as JSON").caused_by(error))
}

fn write_scores(folder: &Path, scores: &Scores) -> Result<()> {
    std::fs::create_dir_all(folder).context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, text) in [("scores.json", json(scores)?), ("scores.csv", scores.to_csv())] {
        let path = folder.join(name);
        write_whole(&path, |file| {
            file.write_all(text.as_bytes()).context(|| format!("cannot write {}", path.display()))
        })?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn pass_gates(gates: &[Gate], scores: &Scores) -> Result<()> {
    let passages = gates.iter().map(|gate| gate.try_pass(scores)).collect::<Result<Vec<_>>>()?;
    passages.iter().filter(|p| p.passed).for_each(|p| eprintln!("{p}"));
    demand(&passages)
}
