//! `wxsim config`: the settings, as they would be used.

use std::path::PathBuf;

use crate::commands::output;
use crate::config::{Config, Overrides};
use crate::error::{Error, Result};

/// Print a configuration as it would be used, or all settings with their defaults.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to resolve.
    config: Option<PathBuf>,
    /// Print every setting with its default value.
    #[arg(long, conflicts_with = "config")]
    defaults: bool,
    #[command(flatten)]
    overrides: Overrides,
}

pub fn run(args: &Args) -> Result<()> {
    let config = match (&args.config, args.defaults) {
        (Some(path), _) => Config::load(path, &args.overrides)?,
        (None, true) => Config::from_text("", &args.overrides)?,
        (None, false) => {
            return Err(Error::input("there is nothing to print").hint("name a file, or say --defaults"));
        }
    };
    output::print(&config.to_toml()?)
}
