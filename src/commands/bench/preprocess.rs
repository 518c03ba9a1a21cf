//! `wxsim bench preprocess`: each stage of the input alone, and all of them together with training.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::archive::{self, Archive};
use crate::commands::devices::{DeviceArgs, Opened};
use crate::commands::output;
use crate::config::model::Channels;
use crate::config::{Config, Overrides};
use crate::error::{Error, Result};
use crate::io::run_dir::RunDir;
use crate::preprocess::{Catalogue, Inputs, Normalizer};
use crate::train::{Training, rehearse};

/// Reading, copying, preparing and training: each alone, and all at once.
///
/// Data are streamed from their files, whatever train.cache_mebibytes says.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The configuration of a training, a TOML file [default: a global archive of packed 16-bit numbers is made]
    config: Option<PathBuf>,
    #[command(flatten)]
    archive: Archive,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    device: DeviceArgs,
    /// Threads to compute with [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Batches of each measurement, after two that do not count
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    batches: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// [ms] of one batch.
#[derive(Debug, Serialize)]
struct Row {
    device: String,
    /// Who decodes: the device or the processor.
    decodes: &'static str,
    reading: f64,
    giving: f64,
    copying: f64,
    preparing: f64,
    training: f64,
    together: f64,
    waiting: f64,
    /// Read from files [MB].
    megabytes: f64,
}

pub fn run(args: &Args) -> Result<()> {
    let folder =
        tempfile::tempdir().map_err(|error| Error::run("cannot make a temporary folder").caused_by(error))?;
    let config = match &args.config {
        Some(path) => Config::load(path, &args.overrides)?,
        None => Config::from_text(&archive::make(&args.archive, folder.path())?, &args.overrides)?,
    };
    let plan = config.train.plan(&config.loss)?;
    let catalogue = Catalogue::build(&config.data.plan()?)?;
    let (training, validation) = (catalogue.training()?, catalogue.validation()?);
    let mut opened = Opened::new(args.device.device, args.threads.map(usize::from))?;
    let inputs = Arc::new(Inputs::new(catalogue.layout().clone(), &config.input.inputs(&config.data)?)?);
    let architecture = config.model.architecture(Channels {
        prognostic: catalogue.layout().channels(),
        statics: inputs.static_names().len(),
        forcings: inputs.forcing_names().len(),
    })?;
    let normalizer = Arc::new(Normalizer::fit(&training, &config.input.normalizer()?)?);
    let training = Training {
        plan: &plan,
        architecture: &architecture,
        training: &training,
        validation: &validation,
        normalizer,
        inputs,
        threads: opened.threads.div_ceil(2),
        cache_bytes: 0,
        run: &RunDir::create(&folder.path().join("run"))?,
        parallel: config.parallel.plan()?,
        initial: None,
        resume: false,
        scales_loss: false,
    };
    let found = rehearse(&training, &mut *opened.device, args.batches as usize)?;
    let row = Row {
        device: opened.device.describe(),
        decodes: if found.is_raw { "the device" } else { "the processor" },
        reading: 1e3 * found.reading,
        giving: 1e3 * found.giving,
        copying: 1e3 * found.copying,
        preparing: 1e3 * found.preparing,
        training: 1e3 * found.training,
        together: 1e3 * found.together,
        waiting: 1e3 * found.waiting,
        megabytes: found.bytes / 1e6,
    };
    if args.json {
        let text = serde_json::to_string(&row).map_err(|e| Error::run("JSON").caused_by(e))?;
        return output::print_line(&text);
    }
    output::print_line(&format!(
        "{}; {} decodes; batches of {}, {:.1} MB of files each",
        row.device, row.decodes, plan.batch, row.megabytes
    ))?;
    let beside = if row.copying + row.preparing > 0.0 {
        format!(" (copies {:.2}, kernels {:.2})", row.copying, row.preparing)
    } else {
        String::new()
    };
    let waited = format!(" ({:.2} of them waiting for input)", row.waiting);
    for (what, time, more) in [
        ("reading alone", row.reading, ""),
        ("giving to the device alone", row.giving, beside.as_str()),
        ("training alone", row.training, ""),
        ("the three after each other", row.reading + row.giving + row.training, ""),
        ("all at once", row.together, waited.as_str()),
    ] {
        output::print_line(&format!("{what:28} {time:9.2} ms{more}"))?;
    }
    Ok(())
}
