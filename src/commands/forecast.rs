//! `wxsim forecast`: from analyses in files to forecasts in files.

use std::path::PathBuf;

use crate::commands::output;
use crate::commands::progress::Progress;
use crate::commands::{inputs, run_folder};
use crate::error::{Error, Result};
use crate::field::State;
use crate::forecast::{Analyses, FileSink, InitTimes, Sink, forecast_all};
use crate::io::forecast_file::ForecastHead;
use crate::preprocess::Catalogue;
use crate::stepper::Stepper;
use crate::time::{InitTime, LeadTime};

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
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Guards against a slip of the pen: no forecast that anyone wants is longer.
const MOST_STEPS: usize = 1_000_000;

pub fn run(args: &Args) -> Result<()> {
    let wanted = InitTimes::parse(&args.init_time)?;
    let config = run_folder::config(&run_folder::folder(&args.model)?)?;
    let lead = args.lead.unwrap_or(config.forecast.lead);
    let mut network = run_folder::network(&args.model)?;
    let info = network.info().clone();
    let steps = lead.steps_of(info.step)?;
    if steps > MOST_STEPS {
        return Err(Error::input(format!(
            "a forecast of {lead} has {steps} steps, the most are {MOST_STEPS}"
        )));
    }
    if steps == 0 {
        return Err(Error::input(format!("a forecast of {lead} looks nowhere"))
            .hint(format!("choose a multiple of {}", info.step)));
    }

    let mut plan = run_folder::data(&config)?;
    plan.quantities = info.layout.quantities.clone();
    // Forecasts start wherever there are analyses, and those of today lie in none of the spans.
    plan.split = None;
    if !args.init.is_empty() {
        plan = inputs::with_files(&plan, &args.init)?;
    }
    let catalogue = Catalogue::build(&plan)?;
    let mut analyses = Analyses::new(catalogue.clone(), &info)?;
    let inits = wanted.choose(&analyses.usable())?;
    let head = ForecastHead {
        layout: info.layout.clone(),
        orientation: catalogue.orientation(),
        units: catalogue.file_units(),
        init: inits[0],
        step: info.step,
        steps,
        model: info.name.clone(),
        origin: info.origin.clone(),
        history: std::env::args().collect::<Vec<String>>().join(" "),
    };
    eprintln!("{} forecasts of {lead} with {} on {}", inits.len(), info.origin, network.device());
    let mut sink = Reporting {
        files: FileSink::new(&args.out, head),
        progress: Progress::new(inits.len(), "forecasts"),
    };
    forecast_all(&mut network, &inits, |init| analyses.of(init), steps, &mut sink)?;
    sink.progress.finish();
    print_written(args, sink.files.written())
}

/// Writes files and moves the progress bar.
struct Reporting {
    files: FileSink,
    progress: Progress,
}

impl Sink for Reporting {
    fn begin(&mut self, init: InitTime) -> Result<()> {
        self.files.begin(init)
    }

    fn take(&mut self, lead: LeadTime, state: &State) -> Result<()> {
        self.files.take(lead, state)
    }

    fn end(&mut self) -> Result<()> {
        self.files.end()?;
        self.progress.advance();
        Ok(())
    }
}

fn print_written(args: &Args, written: &[PathBuf]) -> Result<()> {
    if args.json {
        let text = serde_json::to_string(&written)
            .map_err(|error| Error::run("the list of files cannot be written as JSON").caused_by(error))?;
        output::print_line(&text)
    } else {
        written.iter().try_for_each(|path| output::print_line(&path.display().to_string()))
    }
}
