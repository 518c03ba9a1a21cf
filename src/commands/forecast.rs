//! `wxsim forecast`: from analyses in files to forecasts in files.

use std::path::PathBuf;
use std::sync::Arc;

use crate::commands::forecast_files::{self, Wanted};
use crate::commands::providers::ProviderArgs;
use crate::commands::run_folder;
use crate::error::Result;
use crate::export::Trained;
use crate::forecast::InitTimes;
use crate::runner::NetworkStepper;
use crate::stepper::Stepper;
use crate::time::LeadTime;

/// Forecast with a trained network, one CF NetCDF file per initial time.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run folder that wxsim train made, or one of its checkpoints
    #[arg(long)]
    model: PathBuf,
    /// Files that hold the analyses to start from [default: those that the run was trained on]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    init: Vec<PathBuf>,
    /// Initial times: 2008-10-19T12, or a range 2008-10-19..2010-12-28 (its end does not belong), which /2d thins out
    /// [default: the newest that the files allow]
    #[arg(long, num_args = 1.., value_name = "TIME")]
    init_time: Vec<String>,
    /// How far ahead, as 24h or 5d [default: forecast.lead of the run's configuration]
    #[arg(long)]
    lead: Option<LeadTime>,
    /// Folder for the forecasts; each file is named by its initial time
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// Write each forecast as a Zarr store (version 3), too
    #[arg(long)]
    zarr: bool,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    providers: ProviderArgs,
}

pub fn run(args: &Args) -> Result<()> {
    let inits = InitTimes::parse(&args.init_time)?;
    let folder = run_folder::folder(&args.model)?;
    let config = run_folder::config(&folder)?;
    let lead = args.lead.unwrap_or(config.forecast.lead);
    let trained = Arc::new(Trained::open(&args.model)?);
    let mut network = NetworkStepper::with_providers(trained, args.providers.candidates(&folder)?)?
        .keeping_every(config.forecast.keep_every);
    network.refusals().iter().for_each(|refusal| eprintln!("note: {refusal}"));
    forecast_files::steps_of(lead, network.info().step)?;

    let catalogue = run_folder::catalogue(&config, &network.info().layout, &args.init)?;
    let wanted = Wanted { inits, lead, folder: &args.out, json: args.json, zarr: args.zarr };
    let device = network.device();
    forecast_files::write(&mut network, &device, &catalogue, &wanted)
}
