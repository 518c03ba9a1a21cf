//! What commands need of a run: its configuration and its network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commands::devices::{Opened, PreciseDeviceArgs};
use crate::commands::inputs;
use crate::config::{Config, Overrides};
use crate::error::{Error, Result};
use crate::export::{Int8, Trained};
use crate::field::Layout;
use crate::preprocess::{Catalogue, DataPlan};
use crate::runner::{Native, NetworkStepper};

/// The folder of the run that a checkpoint belongs to, or that is a run itself.
pub fn folder(model: &Path) -> Result<PathBuf> {
    let candidates = [Some(model), model.parent(), model.parent().and_then(Path::parent)];
    candidates
        .into_iter()
        .flatten()
        .find(|folder| folder.join("config.toml").is_file())
        .map(Path::to_owned)
        .ok_or_else(|| {
            Error::input(format!("{} is not a run: it has no config.toml", model.display()))
                .hint("name a folder that wxsim train made, or one of its checkpoints")
        })
}

/// The configuration that a run was trained with.
pub fn config(folder: &Path) -> Result<Config> {
    Config::load(&folder.join("config.toml"), &Overrides::default())
}

/// Its data, with relative paths as they were at training.
pub fn data(config: &Config) -> Result<DataPlan> {
    config.data.plan()
}

/// The analyses that its forecasts can start from: those of its data, or those in `files` where there are some.
pub fn catalogue(config: &Config, layout: &Layout, files: &[PathBuf]) -> Result<Arc<Catalogue>> {
    let mut plan = data(config)?;
    plan.quantities = layout.quantities.clone();
    // Forecasts start wherever there are analyses, and those of today lie in none of the spans.
    plan.split = None;
    if !files.is_empty() {
        plan = inputs::with_files(&plan, files)?;
    }
    Catalogue::build(&plan)
}

/// What one file gives to the analyses of a run.
pub fn part(config: &Config, file: &Path) -> Result<Arc<Catalogue>> {
    Catalogue::build(&inputs::with_part(&data(config)?, file)?)
}

pub fn network(model: &Path, args: PreciseDeviceArgs) -> Result<NetworkStepper> {
    let trained = Arc::new(Trained::open(model)?);
    let native = native(trained.clone(), &folder(model)?, args)?;
    Ok(NetworkStepper::alone(trained, native))
}

/// The network of the run in `folder`, by wxsim itself.
pub fn native(trained: Arc<Trained>, folder: &Path, args: PreciseDeviceArgs) -> Result<Native> {
    let (args, in_int8) = args.for_network();
    if !in_int8 {
        return Native::new(trained, Opened::new(args, None)?.device);
    }
    let int8 = Int8::read(&int8_file(folder), &trained)?;
    Native::in_int8(trained, Opened::new(args, None)?.device, &int8)
}

/// Where `wxsim export --precision int8` puts a run's whole numbers.
pub fn int8_file(folder: &Path) -> PathBuf {
    folder.join("export").join("step-int8.safetensors")
}
