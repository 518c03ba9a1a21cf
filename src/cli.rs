//! The command line: every command, and nothing else. Completions and man pages are made from it.

use clap::{Parser, Subcommand};

use crate::commands;
use crate::error::Result;

/// Neural weather simulation: reanalysis files in, a ConvLSTM forecaster, its forecasts and honest scores out.
#[derive(Debug, Parser)]
#[command(name = "wxsim", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Doctor(commands::doctor::Args),
    Inspect(commands::inspect::Args),
    #[command(hide = true)]
    IndexFile(commands::index_file::Args),
    #[command(hide = true)]
    DecodeAnalysis(commands::decode_analysis::Args),
    Prepare(commands::prepare::Args),
    Train(commands::train::Args),
    Forecast(commands::forecast::Args),
    Physics(commands::physics::Args),
    Export(commands::export::Args),
    Serve(commands::serve::Args),
    Cycles(commands::cycles::Args),
    Plan(commands::plan::Args),
    Verify(commands::verify::Args),
    Plot(commands::plot::Args),
    Bench(commands::bench::Args),
    Config(commands::config::Args),
    Completions(commands::shell::CompletionArgs),
    Man(commands::shell::ManArgs),
}

/// Runs one command.
pub fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Prepare(args) => commands::prepare::run(args),
        Command::Train(args) => commands::train::run(args),
        Command::Forecast(args) => commands::forecast::run(args),
        Command::Physics(args) => commands::physics::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Cycles(args) => commands::cycles::run(args),
        Command::DecodeAnalysis(args) => commands::decode_analysis::run(args),
        Command::Plan(args) => commands::plan::run(args),
        Command::Verify(args) => commands::verify::run(args),
        Command::Plot(args) => commands::plot::run(args),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::IndexFile(args) => commands::index_file::run(args),
        Command::Bench(args) => commands::bench::run(args),
        Command::Config(args) => commands::config::run(args),
        Command::Completions(args) => commands::shell::completions(args),
        Command::Man(args) => commands::shell::man_pages(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_another_way_to_do_physics_are_refused() {
        let parses = |flags: &str| Cli::try_parse_from(flags.split(' ')).is_ok();
        assert!(parses("wxsim physics --case williamson2 --rows 32 --angle 45"));
        assert!(parses("wxsim physics --nature-run --years 2 --seed 5 --out x"));
        for flag in ["--rows 32", "--angle 45", "--years 2", "--seed 5", "--model-rows 32", "--average 4"] {
            assert!(!parses(&format!("wxsim physics europe.toml {flag}")), "{flag}");
        }
        assert!(!parses("wxsim physics --nature-run --rows 32"));
        assert!(!parses("wxsim physics --case williamson2 --seed 5"));
    }
}
