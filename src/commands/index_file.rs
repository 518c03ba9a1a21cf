//! `wxsim index-file`: the child process in which NetCDF-4 files are opened first. Not for people.

use std::path::PathBuf;

use crate::error::Result;
use crate::io::{self, Effort};

/// Index files for another wxsim process: one line of JSON each.
#[derive(Debug, clap::Args)]
pub struct Args {
    paths: Vec<PathBuf>,
    /// Read a sample of the data.
    #[arg(long)]
    survey: bool,
    /// Read all data.
    #[arg(long)]
    survey_all: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let effort = match (args.survey, args.survey_all) {
        (_, true) => Some(Effort::Everything),
        (true, false) => Some(Effort::Sample),
        (false, false) => None,
    };
    io::answer_for(&args.paths, effort)
}
