//! `wxsim cycles`: what was served, and what will be.

use std::path::{Path, PathBuf};

use crate::commands::output;
use crate::config::{Config, Overrides};
use crate::error::{Error, Result};
use crate::serve::{Cycle, Ledger, init};
use crate::time::{Calendar, ValidTime};

/// List the cycles of a service, or ask for one to be made again.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Let a service make a cycle again, from the state that it started from
    Rerun(Rerun),
}

#[derive(Debug, clap::Args)]
struct List {
    /// The configuration of the service
    #[arg(required = true)]
    config: Option<PathBuf>,
    /// Only those of this model
    #[arg(long)]
    model: Option<String>,
    /// The newest so many
    #[arg(long, default_value_t = 20)]
    last: usize,
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: Overrides,
}

#[derive(Debug, clap::Args)]
struct Rerun {
    /// The configuration of the service
    config: PathBuf,
    model: String,
    /// The initial time of the cycle
    init_time: String,
    #[command(flatten)]
    overrides: Overrides,
}

pub fn run(args: &Args) -> Result<()> {
    match (&args.action, &args.list.config) {
        (Some(Action::Rerun(rerun)), _) => ask_again(rerun),
        (None, Some(config)) => print(config, &args.list),
        (None, None) => Err(Error::input("wxsim cycles needs the configuration of a service")),
    }
}

fn ask_again(args: &Rerun) -> Result<()> {
    let mut ledger = Ledger::existing(&Config::load(&args.config, &args.overrides)?.serve.state)?;
    let time = ValidTime::parse(&args.init_time, Calendar::Standard)?;
    ledger.rerun(&args.model, init(time.seconds))?;
    eprintln!("{time} of {} waits to be made again by the service", args.model);
    Ok(())
}

fn print(config: &Path, args: &List) -> Result<()> {
    let serve = Config::load(config, &args.overrides)?.serve;
    let ledger = Ledger::existing(&serve.state)?;
    let cycles = ledger.newest(args.model.as_deref(), args.last)?;
    if let Some(model) = args.model.as_ref().filter(|_| cycles.is_empty())
        && !serve.models.iter().any(|served| served.name == *model)
    {
        let names: Vec<&str> = serve.models.iter().map(|served| served.name.as_str()).collect();
        return Err(Error::input(format!("there is no model {model}"))
            .hint(format!("the models are {}", names.join(", "))));
    }
    if args.json {
        let text = serde_json::to_string_pretty(&cycles)
            .map_err(|error| Error::run("the cycles cannot be written as JSON").caused_by(error))?;
        return output::print_line(&text);
    }
    output::print_line(&format!(
        "{:<17} {:<12} {:<10} {:>3} {:>8} {:>8} {:<20} note",
        "initial time", "model", "state", "try", "took", "after", "provider"
    ))?;
    cycles.iter().try_for_each(|cycle| output::print_line(&line(cycle)))
}

fn line(cycle: &Cycle) -> String {
    let seconds = |seconds: Option<f64>| seconds.map_or("-".into(), |s| format!("{s:.1} s"));
    let after =
        cycle.published.zip(cycle.input).map(|(published, input)| (published - input).max(0) as f64 / 1000.0);
    let note = cycle.reason.as_ref().or(cycle.start.as_ref()).cloned().unwrap_or_default();
    let late = if cycle.late { "late, " } else { "" };
    format!(
        "{:<17} {:<12} {:<10} {:>3} {:>8} {:>8} {:<20} {late}{note}",
        cycle.init.to_string(),
        cycle.model,
        cycle.state,
        cycle.attempts,
        seconds(cycle.seconds),
        seconds(after),
        cycle.provider.as_deref().unwrap_or("-")
    )
}
