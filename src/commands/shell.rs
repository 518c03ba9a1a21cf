//! `wxsim completions` and `wxsim man`: made from the definitions of the command line, so they cannot drift.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::commands::output;
use crate::error::{Context, Result};

/// Print the completions of a shell.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    shell: clap_complete::Shell,
}

/// Write the man pages of all commands into a folder.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    folder: PathBuf,
}

pub fn completions(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "wxsim", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

pub fn man_pages(args: &ManArgs) -> Result<()> {
    let what = || format!("writing man pages to {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).context(what)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).context(what)
}
