//! `wxsim verify`: how good forecasts are, and against what.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commands::candidates::Candidates;
use crate::commands::devices::PreciseDeviceArgs;
use crate::commands::progress::Progress;
use crate::commands::scoring::{Entrant, Scoring, Source};
use crate::commands::verify_data::{Data, Fitted, Wanted};
use crate::commands::verify_physics::Contender;
use crate::commands::{output, report_page, run_folder, score_table};
use crate::config::verify::BaselineConfig;
use crate::config::{Config, Overrides, PhysicsConfig};
use crate::device::cpu::Cpu;
use crate::error::{Context, Error, Result};
use crate::export::onnx::Extent;
use crate::export::{OnnxForecaster, OnnxRuntime, Trained};
use crate::field::Layout;
use crate::forecast::Analyses;
use crate::io::atomic::write_whole;
use crate::preprocess::Span;
use crate::report;
use crate::stepper::{Stepper, StepperInfo};
use crate::time::{InitTime, LeadTime};
use crate::verify::{
    Baseline, ClimatologyForecast, Comparer, DampedPersistence, Gate, Headline, Persistence, Role, ScorePlan,
    Scores, demand, summarise,
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
    /// Graphs of one step that wxsim export made of this network: ONNX Runtime's forecasts compete with wxsim's own
    #[arg(long, num_args = 1.., value_name = "FILE", requires = "model")]
    graph: Vec<PathBuf>,
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
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    device: PreciseDeviceArgs,
}

pub fn run(args: &Args) -> Result<()> {
    let (config, forecasts) = sort_inputs(args)?;
    // Without a configuration there are still settings, those of the command line.
    let settings = config.clone().map_or_else(|| Config::from_text("", &args.overrides), Ok)?;
    let plan = settings.verify.plan()?;
    let asked = args.baseline.as_ref().map(|list| list.iter().map(|b| b.baseline()).collect());
    let mut wanted = Wanted::new(asked, &plan, config.is_some())?;
    let network = args.model.as_deref().map(|model| run_folder::network(model, args.device)).transpose()?;
    let physics = wanted.has(Baseline::Physics);
    let candidates = Candidates::find(network, &forecasts, config.as_ref(), args.lead, physics)?;

    let data = Data::open(&args.truth, config.as_ref(), &candidates)?;
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
    let fitted = Fitted::fit(&data, &plan, &mut wanted, &layout, candidates.step, steps)?;
    let physics = physics_contender(&settings.physics, &data, &fitted, &mut wanted, candidates.step, steps)?;
    let comparer = Comparer::new(ScorePlan {
        layout: layout.clone(),
        regions: plan.regions.clone(),
        missing: plan.missing,
        nyquist: plan.nyquist,
    });
    let usable = truth.usable();
    let reach = [candidates.step, candidates.lead];
    let mut scoring = Scoring::new(comparer, truth, fitted.climatology.clone(), data.span, reach);
    let inits = initial_times(&candidates, usable, &scoring, data.span)?;
    let left_out = scoring.choose_starts(&inits)?;
    if left_out > 0 {
        wanted.note(format!(
            "nothing starts from {left_out} of {} initial times: their analyses lack a whole quantity (data.missing)",
            inits.len()
        ));
    }
    let headline = Headline {
        climatology: fitted.description.clone(),
        test_span: match config {
            Some(_) => data.span.to_string(),
            None => "not said by a configuration: every date of the truth".into(),
        },
        notes: wanted.notes.clone(),
    };
    let shown = inits[inits.len() / 2];
    let role = if candidates.is_physics() { Role::Model } else { Role::Baseline };
    let mut entrants = entrants(candidates, &wanted.baselines, &fitted, &layout, reach[0])?;
    if let Some(model) = &args.model {
        // Behind the network itself.
        entrants.splice(1..1, graphs(model, &args.graph)?);
    }
    let mut progress = Progress::new(inits.len(), "initial times");
    let (mut competitors, mut example) = scoring.run(entrants, &inits, shown, || progress.advance())?;
    progress.finish();
    if let Some(physics) = &physics {
        let progress = Progress::new(inits.len(), "initial times of the physics");
        let (mut more, its_example) =
            scoring.run_parallel(|| physics.entrant(role), &inits, shown, progress)?;
        if role == Role::Model {
            std::mem::swap(&mut competitors, &mut more);
            example = its_example;
        }
        competitors.extend(more);
    }
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
        ([], Some(model)) => {
            let path = run_folder::folder(model)?.join("config.toml");
            Some(Config::load(&path, &args.overrides)?)
        }
        ([path], _) => Some(Config::load(path, &args.overrides)?),
        _ => return Err(Error::input("one configuration at a time, please")),
    };
    Ok((config, forecasts.into_iter().cloned().collect()))
}

/// The physics, if it is wanted, and its calibration; where nobody asked for it by name, it is left out of what it cannot
/// forecast.
fn physics_contender(
    settings: &PhysicsConfig,
    data: &Data,
    fitted: &Fitted,
    wanted: &mut Wanted,
    step: LeadTime,
    steps: usize,
) -> Result<Option<Contender>> {
    if !wanted.has(Baseline::Physics) {
        return Ok(None);
    }
    let (plan, calibration) = (settings.plan()?, settings.calibration()?);
    let layout = data.truth.layout().clone();
    let climatology = fitted.climatology.clone();
    let contender = Contender::new(plan, layout, step, climatology, data.truth.clone());
    let mut contender = match contender {
        Ok(contender) => contender,
        Err(reason) if wanted.is_asked() => return Err(reason),
        Err(reason) => {
            wanted.do_without(|b| b == Baseline::Physics, "no physics", reason)?;
            return Ok(None);
        }
    };
    wanted.note(contender.describe()?);
    if contender.is_driven() {
        wanted.note(format!(
            "warning: {} is a hindcast: the edge of its box is told the later analyses, which no forecast could have known; \
             compare it with nothing that is not told the same",
            contender.names()[0]
        ));
    }
    if let (Some(calibration), Some(training)) = (calibration, &data.training) {
        contender.calibrate(training, calibration, steps, wanted)?;
    }
    Ok(Some(contender))
}

/// Where forecasts start, within the test span and with an analysis to be held against at some lead.
fn initial_times(
    candidates: &Candidates,
    usable: Vec<InitTime>,
    scoring: &Scoring,
    span: Span,
) -> Result<Vec<InitTime>> {
    let files = candidates.sets.iter().flat_map(|set| set.files.keys().copied());
    let mut all: Vec<InitTime> = match &candidates.network {
        None if !candidates.is_physics() => files.collect(),
        _ => usable.into_iter().chain(files).collect(),
    };
    all.sort_unstable();
    all.dedup();
    let known = all.len();
    all.retain(|init| span.contains(init.0));
    if all.is_empty() {
        return Err(Error::input(format!("none of {known} forecasts starts in the test span, {span}"))
            .hint("forecasts from other times would be scored on days that were trained on"));
    }
    let inside = all.len();
    let leads = candidates.leads();
    all.retain(|&init| scoring.has_truth(init, leads.iter().copied()));
    if all.is_empty() {
        return Err(Error::input(format!(
            "none of {inside} forecasts has an analysis to be held against, up to a lead of {}",
            candidates.lead
        ))
        .hint("the truth must reach as far as the forecasts, inside the test span"));
    }
    if !candidates.sets.is_empty() && candidates.network.is_none() {
        if inside < known {
            eprintln!("{} of {known} forecasts start outside the test span and are left out", known - inside);
        }
        if all.len() < inside {
            eprintln!("{} of {inside} forecasts have no analysis to be held against", inside - all.len());
        }
    }
    Ok(all)
}

fn entrants(
    candidates: Candidates,
    baselines: &[Baseline],
    fitted: &Fitted,
    layout: &Arc<Layout>,
    step: LeadTime,
) -> Result<Vec<Entrant<'static>>> {
    let mut entrants = Vec::new();
    if let Some(network) = candidates.network {
        entrants.push(Entrant::stepper(network.info().name.clone(), Role::Model, network));
    }
    for set in candidates.sets {
        let competitors = vec![(set.name, Role::Model)];
        entrants.push(Entrant { competitors, source: Source::Files(set.files) });
    }
    for &baseline in baselines {
        let (name, layout) = (baseline.name().to_string(), layout.clone());
        let judge = Role::Baseline;
        let entrant = match (baseline, &fitted.climatology, &fitted.damped) {
            (Baseline::Persistence, _, _) => Entrant::stepper(name, judge, Persistence::new(layout, step)),
            (Baseline::Climatology, Some(usual), _) => {
                Entrant::stepper(name, judge, ClimatologyForecast::new(layout, step, usual.clone()))
            }
            (Baseline::Damped, Some(usual), Some(damped)) => {
                let stepper = DampedPersistence::new(layout, step, usual.clone(), damped.clone());
                Entrant::stepper(name, judge, stepper)
            }
            // It runs on all cores, apart from these.
            (Baseline::Physics, _, _) => continue,
            _ => return Err(Error::run(format!("{} was not fitted", baseline.name()))),
        };
        entrants.push(entrant);
    }
    Ok(entrants)
}

/// Exported graphs of a network as competitors.
fn graphs(model: &Path, files: &[PathBuf]) -> Result<Vec<Entrant<'static>>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let (trained, runtime) = (Arc::new(Trained::open(model)?), OnnxRuntime::open()?);
    let threads = Cpu::<f32>::new(None)?.threads();
    let of = |file: &PathBuf| {
        let graph = std::fs::read(file).map_err(|error| {
            Error::input(format!("the graph {} cannot be read", file.display())).caused_by(error)
        })?;
        let forecaster = OnnxForecaster::new(trained.clone(), &runtime, &graph, Extent::Step, threads)
            .map_err(|error| {
                error.context(format!("{} is no graph of {}", file.display(), trained.info.origin))
            })?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Entrant::stepper(format!("{} {stem}", trained.info.name), Role::Model, forecaster))
    };
    files.iter().map(of).collect()
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
