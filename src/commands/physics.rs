//! `wxsim physics`: forecasts with finite differences, from analyses in files to forecasts in files.

use std::path::PathBuf;
use std::sync::Arc;

use crate::climatology::{Climatology, ClimatologyFit};
use crate::commands::devices::DeviceArgs;
use crate::commands::forecast_files::{self, Wanted};
use crate::commands::physics_inputs::{Chosen, later};
use crate::commands::ranks::RankArgs;
use crate::commands::{inputs, nature_run, physics_case};
use crate::config::{Config, Overrides};
use crate::error::{Error, Result, chain};
use crate::forecast::InitTimes;
use crate::preprocess::{Catalogue, DataPlan};
use crate::shallow_water::{Boundary, Devices, PhysicsPlan, PhysicsStepper, Selection};
use crate::time::LeadTime;

/// Forecast with finite-difference physics, one CF NetCDF file per initial time; or run a published case; or make weather to
/// train on.
///
/// The table [physics] of the configuration says how; without a configuration the layer stands for z, u and v at 500 hPa,
/// as far as the files of --init hold them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A configuration (.toml): its data and its table [physics]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Files that hold the analyses to start from [default: the data of the configuration]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    init: Vec<PathBuf>,
    /// Initial times: 2008-10-19T12, or a range 2008-10-19..2010-12-28 (its end does not belong), which /2d thins out
    /// [default: the newest]
    #[arg(long, num_args = 1.., value_name = "TIME")]
    init_time: Vec<String>,
    /// How far ahead, as 24h or 5d [default: forecast.lead, or the published length of a case]
    #[arg(long)]
    lead: Option<LeadTime>,
    /// Time between the states that are written [default: data.step, or 6h without a configuration]
    #[arg(long)]
    step: Option<LeadTime>,
    /// Folder for the forecasts, or for the file and the picture of a case
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print what was written, or the figures of a case, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    case: physics_case::CaseArgs,
    #[command(flatten)]
    nature: nature_run::NatureRunArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    ranks: RankArgs,
}

/// Time between the states of a forecast that no configuration describes.
const USUAL_STEP: LeadTime = LeadTime { seconds: 6 * 3600 };

pub fn run(args: &Args) -> Result<()> {
    let config = match &args.config {
        Some(path) => Config::load(path, &args.overrides)?,
        None => Config::from_text("", &args.overrides)?,
    };
    let plan = config.physics.plan()?;
    let chosen = Arc::new(Chosen::among(args.device.device, None, args.ranks));
    if args.nature.is_asked() {
        let folder = args.out.as_deref().ok_or_else(without_folder)?;
        chosen.check_shared()?;
        return nature_run::run(&args.nature, folder, args.json, &*chosen);
    }
    if args.case.is_asked() {
        let (lead, step, folder) = (args.lead, args.step, args.out.as_deref());
        return physics_case::run(
            &args.case,
            &plan,
            &physics_case::Wanted { lead, step, folder, json: args.json },
            &chosen,
        );
    }
    let inits = InitTimes::parse(&args.init_time)?;
    let folder = args.out.as_ref().ok_or_else(without_folder)?;
    let data = data(args, &config, &plan)?;
    let step = args.step.unwrap_or(if args.config.is_some() { data.step } else { USUAL_STEP });
    let lead = args.lead.unwrap_or(config.forecast.lead);
    forecast_files::steps_of(lead, step)?;

    let catalogue = Catalogue::build(&data)?;
    let usual = climatology(&config, &plan, &catalogue)?;
    let layout = catalogue.layout();
    let devices: Arc<dyn Devices> = chosen.clone();
    let mut stepper = PhysicsStepper::new(&plan, layout, step, usual.as_ref(), &devices)?;
    chosen.check_shared()?;
    if plan.boundary == Boundary::Driven {
        eprintln!(
            "warning: driven boundaries are told the later analyses: this is a hindcast, and no forecast could have known them"
        );
        stepper.drive(later(catalogue.clone(), |_| true));
    }
    let wanted = Wanted { inits, lead, folder, json: args.json, zarr: false };
    forecast_files::write(&mut stepper, chosen.describe(), &catalogue, &wanted)
}

fn without_folder() -> Error {
    Error::input("it is not said where the files go").hint("name a folder with --out")
}

/// Where the analyses are. Forecasts start wherever there is one.
fn data(args: &Args, config: &Config, plan: &PhysicsPlan) -> Result<DataPlan> {
    if args.config.is_some() {
        let data = DataPlan { split: None, ..config.data.plan()? };
        return if args.init.is_empty() { Ok(data) } else { inputs::with_files(&data, &args.init) };
    }
    if args.init.is_empty() {
        return Err(Error::input("there is nothing to start from")
            .hint("name files with --init, a configuration, or a published case with --case"));
    }
    inputs::of_level(&args.init, plan.level)
}

/// What is usual of the scalars that are carried, from the training span, where a configuration names one that covers the
/// year.
fn climatology(
    config: &Config,
    plan: &PhysicsPlan,
    catalogue: &Arc<Catalogue>,
) -> Result<Option<Climatology>> {
    let layout = catalogue.layout();
    let carried = Selection::of(plan, layout)?.carried;
    if carried.is_empty() {
        return Ok(None);
    }
    let labels: Vec<String> = carried.iter().map(|c| layout.quantities[c.channel].to_string()).collect();
    let without = |reason: &str| {
        eprintln!(
            "note: {} carried as a whole and not as a departure from the usual: {reason}",
            labels.join(", ")
        );
    };
    if config.data.split.is_none() {
        without("there is no training span");
        return Ok(None);
    }
    let known = DataPlan { quantities: layout.quantities.clone(), ..config.data.plan()? };
    let training = Catalogue::build(&known)?.training()?;
    eprintln!("fitting the climatology of {} on {}", labels.join(", "), training.span());
    let mut fit = ClimatologyFit::new(training.layout().clone(), config.input.climatology);
    training.visit(|state| fit.add(state))?;
    match fit.finish() {
        Ok(climatology) => Ok(Some(climatology)),
        Err(reason) => {
            without(&chain(&reason));
            Ok(None)
        }
    }
}
