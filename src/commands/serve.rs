//! `wxsim serve`: the operational loop.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::commands::devices::PreciseDeviceArgs;
use crate::commands::forecast_files::steps_of;
use crate::commands::providers::ProviderArgs;
use crate::commands::run_folder;
use crate::config::serve::DevicesConfig;
use crate::config::{Config, Overrides};
use crate::error::{Context, Error, Result};
use crate::io::Indexer;
use crate::runner::{NetworkStepper, Trained};
use crate::serve::{
    Clock, Decoder, Event, Ledger, Level, Listener, ModelPlan, ServePlan, Served, Service, Until, init,
};
use crate::time::{Calendar, ValidTime};
use crate::train::Interrupt;

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
    eprintln!("serving {} from {}", names(&models), plan.inbox.folder.display());
    let until = if args.once { Until::Done } else { Until::Stopped };
    let mut service = Service::new(plan, models, clock(args)?, Arc::new(open), vec![Box::new(Log)], stop)?;
    service.run(&decoder, until)?;
    eprintln!("the service ends; what was under way waits in its ledger");
    Ok(())
}

/// The networks: of a model whose canary was promoted, the canary's.
fn models(plan: &ServePlan) -> Result<Vec<Served>> {
    let ledger = Ledger::open(&plan.state)?;
    let mut models = Vec::new();
    for model in &plan.models {
        let run = ledger.promoted(&model.name, &model.run)?.map_or_else(|| model.run.clone(), PathBuf::from);
        models.push(served(ModelPlan { run, ..model.clone() }, None)?);
    }
    let Some(canary) = &plan.canary else { return Ok(models) };
    if let Some((promoted, reason)) = ledger.judgement(&canary.of, &canary.run)? {
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
    let latitude_weights = run_folder::config(&run_folder::folder(&plan.run)?)?.loss.latitude_weights;
    Ok(Served { plan, trained, steps, latitude_weights, shadows })
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

/// One line for each event, on stderr.
struct Log;

impl Listener for Log {
    fn hear(&mut self, event: &Event, _ledger: &Ledger) -> Result<()> {
        let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ");
        let word = match event.level() {
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Error => "error: ",
        };
        eprintln!("{now} {word}{}", event.describe());
        Ok(())
    }
}
