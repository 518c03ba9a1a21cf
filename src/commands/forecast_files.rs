//! From analyses in files to forecasts in files, by whatever stepper: what `forecast` and `physics` share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commands::output;
use crate::commands::progress::Progress;
use crate::error::{Error, Kind, Result};
use crate::field::State;
use crate::forecast::{Analyses, FileSink, InitTimes, Sink, forecast_all};
use crate::io::forecast_file::{FileUnits, ForecastHead};
use crate::preprocess::Catalogue;
use crate::stepper::Stepper;
use crate::time::{InitTime, LeadTime};
use crate::train::Interrupt;
use crate::variable::Quantity;

/// Which forecasts are wanted, and where.
pub struct Wanted<'a> {
    pub inits: InitTimes,
    pub lead: LeadTime,
    pub folder: &'a Path,
    /// Print what was written as JSON.
    pub json: bool,
    /// Write each forecast as a Zarr store, too.
    pub zarr: bool,
}

/// Guards against a slip of the pen: no forecast that anyone wants is longer.
const MOST_STEPS: usize = 1_000_000;

/// How many steps make a lead; none at all is refused.
pub fn steps_of(lead: LeadTime, step: LeadTime) -> Result<usize> {
    match lead.steps_of(step)? {
        0 => Err(Error::input(format!("a forecast of {lead} looks nowhere"))
            .hint(format!("choose a multiple of {step}"))),
        steps if steps > MOST_STEPS => {
            Err(Error::input(format!("a forecast of {lead} has {steps} steps, the most are {MOST_STEPS}")))
        }
        steps => Ok(steps),
    }
}

/// Makes the forecasts and prints the names of their files. Ctrl-C and SIGTERM leave no half of a file.
pub fn write<S: Stepper>(
    stepper: &mut S,
    device: &str,
    catalogue: &Arc<Catalogue>,
    wanted: &Wanted<'_>,
) -> Result<()> {
    let info = stepper.info().clone();
    let steps = steps_of(wanted.lead, info.step)?;
    let mut analyses = Analyses::new(catalogue.clone(), &info)?;
    let chosen = wanted.inits.choose(&analyses.usable())?;
    let count = chosen.len();
    let inits = analyses.complete(chosen)?;
    let Some(&first) = inits.first() else {
        return Err(Error::input(format!(
            "none of {count} initial times has a value of every quantity that {} starts from",
            info.name
        ))
        .hint("see what the files hold with: wxsim inspect --all"));
    };
    if inits.len() < count {
        let left_out = count - inits.len();
        eprintln!(
            "{left_out} of {count} initial times are left out: they lack a whole quantity (data.missing)"
        );
    }
    let layout = stepper.output().clone();
    let head = ForecastHead {
        orientation: catalogue.orientation(),
        units: units(catalogue, &layout.quantities)?,
        layout,
        init: first,
        step: info.step,
        steps,
        model: info.name.clone(),
        origin: info.origin.clone(),
        history: std::env::args().collect::<Vec<String>>().join(" "),
    };
    eprintln!("{} forecasts of {} with {} on {device}", inits.len(), wanted.lead, info.origin);
    let mut sink = Reporting {
        files: FileSink::new(wanted.folder, head).with_stores(wanted.zarr),
        progress: Progress::new(inits.len(), "forecasts"),
        interrupt: Interrupt::on_signals()?,
        all: inits.len(),
    };
    forecast_all(stepper, &inits, |init| analyses.of(init), steps, &mut sink)?;
    sink.progress.finish();
    print_written(wanted.json, sink.files.written())
}

/// Of the quantities, in the files.
fn units(catalogue: &Catalogue, quantities: &[Quantity]) -> Result<Vec<FileUnits>> {
    let all = catalogue.file_units();
    let of = |quantity: &Quantity| {
        let channel = catalogue.layout().channel(&quantity.to_string())?;
        Ok(all[channel].clone())
    };
    quantities.iter().map(of).collect()
}

/// Writes files, moves the progress bar, and stops when somebody asks.
struct Reporting {
    files: FileSink,
    progress: Progress,
    interrupt: Interrupt,
    all: usize,
}

impl Sink for Reporting {
    fn begin(&mut self, init: InitTime) -> Result<()> {
        self.files.begin(init)
    }

    fn take(&mut self, lead: LeadTime, state: &State) -> Result<()> {
        if self.interrupt.is_requested() {
            let is_file = |path: &&PathBuf| path.extension().is_some_and(|e| e == "nc");
            let done = self.files.written().iter().filter(is_file).count();
            return Err(Error::new(
                Kind::Interrupted,
                format!("{done} of {} forecasts are written, and each of them is whole", self.all),
            ));
        }
        self.files.take(lead, state)
    }

    fn end(&mut self, remarks: &[String]) -> Result<()> {
        self.files.end(remarks)?;
        remarks.iter().for_each(|remark| eprintln!("note: {remark}"));
        self.progress.advance();
        Ok(())
    }
}

fn print_written(json: bool, written: &[PathBuf]) -> Result<()> {
    if json {
        let text = serde_json::to_string(&written)
            .map_err(|error| Error::run("the list of files cannot be written as JSON").caused_by(error))?;
        output::print_line(&text)
    } else {
        written.iter().try_for_each(|path| output::print_line(&path.display().to_string()))
    }
}
