//! `wxsim serve`: the operational loop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::commands::devices::{Choice, PreciseDeviceArgs};
use crate::commands::forecast_files::steps_of;
use crate::commands::providers::ProviderArgs;
use crate::commands::run_folder;
use crate::config::serve::DevicesConfig;
use crate::config::{Config, Overrides};
use crate::device::cuda::{Library, Monitor};
use crate::error::{Context, Error, Result};
use crate::io::Indexer;
use crate::preprocess::Distribution;
use crate::runner::{NetworkStepper, Trained};
use crate::serve::{
    Clock, Decoder, Event, Ledger, Level, Listener, ModelPlan, Reading, Reference, ServePlan, Served,
    Service, Until, Watch, init,
};
use crate::time::{Calendar, ValidTime};
use crate::train::{Interrupt, Line};

/// Forecast whenever analyses arrive, or on a schedule, around the clock.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A configuration with the table [serve]
    config: PathBuf,
    /// Shadow the model with this run: see [serve.canary]
    #[arg(long, value_name = "RUN")]
    canary: Option<PathBuf>,
    /// End when everything that can be done now is done, for cron jobs
    #[arg(long)]
    once: bool,
    /// Rehearse: the clock of the schedule starts at this date
    #[arg(long, value_name = "TIME")]
    rehearse: Option<String>,
    /// How many times as fast as the world's the clock of a rehearsal goes
    #[arg(long, requires = "rehearse", default_value_t = 1.0)]
    speed: f64,
    #[command(flatten)]
    overrides: Overrides,
}

pub fn run(args: &Args) -> Result<()> {
    let mut config = Config::load(&args.config, &args.overrides)?.serve;
    if let Some(run) = &args.canary {
        config.shadow(run)?;
    }
    let plan = config.plan(|model| {
        let folder = run_folder::folder(&model.run)?;
        Ok(run_folder::config(&folder)?.forecast.lead)
    })?;
    let models = models(&plan)?;
    let devices = config.devices.clone();
    let open = move |model: &Served, device: &str| open(model, device, &devices);
    let decoder = Decoder { program: Indexer::find()?.program, time_limit: plan.inbox.time_limit };
    let stop = stop_on_signals()?;
    let until = if args.once { Until::Done } else { Until::Stopped };
    let clock = clock(args)?;
    let (inbox, served) = (plan.inbox.folder.display().to_string(), names(&models));
    let mut watched = plan.watch.clone();
    if args.once {
        // Nobody asks a service that ends at once.
        watched.address = None;
    }
    let (out, references, read) = (plan.out.clone(), references(&models), read_gpus(&plan.devices.names));
    let folders = [plan.inbox.folder.clone(), plan.state.clone(), plan.out.clone()];
    let mut service = Service::new(plan, models, clock, Arc::new(open), stop)?;
    let (watch, address) = Watch::new(watched, out, &folders, references, read, Box::new(say))?;
    eprintln!("serving {served} from {inbox}");
    if let Some(address) = address {
        eprintln!("status: http://{address}/");
    }
    let given_up = Arc::new(AtomicUsize::new(0));
    let count = Failures(given_up.clone());
    service.run(&decoder, until, vec![Box::new(Log), Box::new(watch), Box::new(count)])?;
    match (until, given_up.load(Ordering::SeqCst)) {
        (Until::Stopped, _) => eprintln!("the service ends; what was under way waits in its ledger"),
        (Until::Done, 0) => eprintln!("all is done that can be done now"),
        (Until::Done, 1) => return Err(failed("a cycle has", &args.config)),
        (Until::Done, count) => return Err(failed(&format!("{count} cycles have"), &args.config)),
    }
    Ok(())
}

/// The networks: of a model whose canary was promoted, the canary's.
fn models(plan: &ServePlan) -> Result<Vec<Served>> {
    let ledger = Ledger::find(&plan.state)?;
    let mut models = Vec::new();
    for model in &plan.models {
        let promoted = ledger.as_ref().map(|ledger| ledger.promoted(&model.name, &model.run)).transpose()?;
        let run = promoted.flatten().map_or_else(|| model.run.clone(), PathBuf::from);
        models.push(served(ModelPlan { run, ..model.clone() }, None)?);
    }
    let Some(canary) = &plan.canary else { return Ok(models) };
    let judgement = ledger.as_ref().map(|ledger| ledger.judgement(&canary.of, &canary.run)).transpose()?;
    if let Some((promoted, reason)) = judgement.flatten() {
        let how = if promoted { "promoted" } else { "rejected" };
        eprintln!("note: the canary {} has been {how}: {reason}", canary.run.display());
        return Ok(models);
    }
    let Some(of) = models.iter().find(|model| model.plan.name == canary.of) else { return Ok(models) };
    let own = canary.run.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{}.canary.{own}", canary.of);
    let plan = ModelPlan { name, run: canary.run.clone(), priority: i32::MIN, ..of.plan.clone() };
    let shadow = served(plan, Some(canary.of.clone()))?;
    if shadow.trained.info.layout != of.trained.info.layout
        || shadow.trained.info.step != of.trained.info.step
    {
        return Err(Error::input(format!(
            "serve.canary: {} forecasts other quantities, on another grid or by other steps than {}",
            canary.run.display(),
            of.plan.run.display()
        ))
        .hint("serve it as a model of its own"));
    }
    models.push(shadow);
    Ok(models)
}

fn served(plan: ModelPlan, shadows: Option<String>) -> Result<Served> {
    let named = || format!("serve.models, {}", plan.name);
    let trained = Arc::new(Trained::open(&plan.run).context(named)?);
    let steps = steps_of(plan.lead, trained.info.step).context(named)?;
    let config = run_folder::config(&run_folder::folder(&plan.run)?)?;
    let latitude_weights = config.loss.latitude_weights;
    let data = Config { data: config.data, ..Config::default() }.to_toml()?;
    Ok(Served { plan, trained, steps, latitude_weights, shadows, data })
}

fn names(models: &[Served]) -> String {
    models.iter().map(|model| model.plan.name.clone()).collect::<Vec<String>>().join(", ")
}

fn clock(args: &Args) -> Result<Clock> {
    let Some(start) = &args.rehearse else { return Ok(Clock::of_the_world()) };
    if !(args.speed > 0.0 && args.speed <= 1e9) {
        return Err(Error::input(format!("--speed {} is no speed of a clock", args.speed)));
    }
    let start = ValidTime::parse(start, Calendar::Standard)?;
    Ok(Clock::rehearsal(init(start.seconds), args.speed))
}

/// A model on a device, with the providers that the configuration allows there.
fn open(model: &Served, device: &str, devices: &DevicesConfig) -> Result<NetworkStepper> {
    let device = device.parse().map_err(|error: String| Error::input(error))?;
    let device = PreciseDeviceArgs { device, precision: devices.precision };
    let providers = ProviderArgs { provider: devices.provider, device };
    let candidates = providers.candidates(&run_folder::folder(&model.plan.run)?)?;
    let network = NetworkStepper::with_providers(model.trained.clone(), candidates)?;
    network.refusals().iter().for_each(|refusal| eprintln!("note: {refusal}"));
    Ok(network)
}

/// Set by ctrl-C and SIGTERM; a second signal ends the process at once.
fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let interrupt = Interrupt::on_signals()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let watch = move || {
        while !interrupt.is_requested() {
            std::thread::sleep(Duration::from_millis(50));
        }
        flag.store(true, Ordering::SeqCst);
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .context(|| "cannot start a thread".into())?;
    Ok(stop)
}

/// What the models were like at training, as far as their runs say so.
fn references(models: &[Served]) -> BTreeMap<String, Reference> {
    let of = |model: &Served| {
        let folder = run_folder::folder(&model.plan.run).ok();
        let read = |name: &str| std::fs::read_to_string(folder.as_ref()?.join(name)).ok();
        let distribution = read(Distribution::FILE).and_then(|text| serde_json::from_str(&text).ok());
        if distribution.is_none() {
            eprintln!(
                "note: {} has no {}: whether analyses drift from its training data is not watched",
                model.plan.run.display(),
                Distribution::FILE
            );
        }
        let lines = read("metrics.jsonl").unwrap_or_default();
        let best = lines.lines().rev().find_map(|line| match serde_json::from_str(line) {
            Ok(Line::Validation(line)) if line.best => Some(line.rmse),
            _ => None,
        });
        (model.plan.name.clone(), Reference { distribution, errors: best.unwrap_or_default() })
    };
    models.iter().map(of).collect()
}

/// The GPUs among the devices.
fn read_gpus(names: &[String]) -> Box<dyn Fn() -> Vec<Reading> + Send> {
    let monitor = |name: &String| match name.parse() {
        Ok(Choice::Cuda(number)) => Some((name.clone(), Monitor::new(number))),
        Ok(Choice::Auto) if Library::Driver.find().is_ok() => Some((name.clone(), Monitor::new(0))),
        _ => None,
    };
    let monitors: Vec<(String, Monitor)> = names.iter().filter_map(monitor).collect();
    Box::new(move || {
        let read = |(device, monitor): &(String, Monitor)| {
            let load = monitor.latest()?;
            let device = device.clone();
            Some(Reading { device, memory: load.used, power: load.power, energy: load.energy })
        };
        monitors.iter().filter_map(read).collect()
    })
}

fn failed(which: &str, config: &Path) -> Error {
    Error::run(format!("{which} failed"))
        .hint(format!("see why with: wxsim cycles {}; mend it, then: wxsim cycles rerun", config.display()))
}

/// Counts the cycles that are given up.
struct Failures(Arc<AtomicUsize>);

impl Listener for Failures {
    fn hear(&mut self, event: &Event, _ledger: &Ledger) -> Result<()> {
        if let Event::Failed { again: None, .. } = event {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// One line for each event, on stderr.
struct Log;

impl Listener for Log {
    fn hear(&mut self, event: &Event, _ledger: &Ledger) -> Result<()> {
        say(event.level(), &event.describe());
        Ok(())
    }
}

fn say(level: Level, text: &str) {
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
    let word = match level {
        Level::Info => "",
        Level::Warning => "warning: ",
        Level::Error => "error: ",
    };
    // Names of files are told, and whoever brings a file names it.
    let text = text.replace(char::is_control, "\u{fffd}");
    eprintln!("{now} {word}{text}");
}
