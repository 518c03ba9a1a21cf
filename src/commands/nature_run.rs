//! `wxsim physics --nature-run`: a data set of our own to train on.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commands::output;
use crate::commands::progress::Progress;
use crate::error::{Context, Error, Result};
use crate::field::State;
use crate::io::atomic::write_whole;
use crate::io::inspect_file;
use crate::io::series_file::{SeriesHead, write_series};
use crate::shallow_water::{Devices, Fields, NatureRun};
use crate::time::{Calendar, ValidTime};
use crate::variable::Quantity;

/// What has no meaning in a nature run.
const OTHERS: [&str; 6] = ["config", "init", "init_time", "lead", "step", "case"];

/// The flags of a nature run.
#[derive(Debug, Clone, clap::Args)]
pub struct NatureRunArgs {
    /// Make the weather of a planet without seasons: forced shallow water over mountains, 6-hourly, one file a month
    #[arg(long, conflicts_with_all = OTHERS)]
    nature_run: bool,
    /// Length of the nature run
    #[arg(long, default_value_t = 3, requires = "nature_run", conflicts_with_all = OTHERS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    years: u32,
    /// What its weather grows from
    #[arg(long, default_value_t = 1, requires = "nature_run", conflicts_with_all = OTHERS)]
    seed: u64,
    /// Rows of the model that makes it, which has twice as many columns
    #[arg(long, default_value_t = 64, requires = "nature_run", conflicts_with_all = OTHERS, value_parser = clap::value_parser!(u32).range(16..=2880))]
    model_rows: u32,
    /// Its files have cells this many times as large
    #[arg(long, default_value_t = 2, requires = "nature_run", conflicts_with_all = OTHERS, value_parser = clap::value_parser!(u32).range(1..=64))]
    average: u32,
}

/// What becomes chaotic needs this long to forget its beginning [h].
const SPIN_UP: u64 = 60 * 24;
/// Between two states of the files [h].
const INTERVAL: u64 = 6;
const FIRST_YEAR: i32 = 2001;

/// Where a run stands: enough to go on from.
#[derive(Debug, Serialize, Deserialize)]
struct Standing {
    version: String,
    seed: u64,
    rows: u32,
    average: u32,
    /// Whole months in files.
    months: u32,
    /// Since the start [h].
    hours: u64,
    fields: [Vec<f64>; 3],
}

impl NatureRunArgs {
    pub fn is_asked(&self) -> bool {
        self.nature_run
    }
}

/// Makes the months that are not there yet, and lists all of them.
pub fn run(args: &NatureRunArgs, folder: &Path, json: bool, devices: &dyn Devices) -> Result<()> {
    std::fs::create_dir_all(folder).context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut planet = NatureRun::new(args.model_rows as usize, devices.single()?)?;
    planet.layout(args.average as usize)?;
    let restart = folder.join("restart.json");
    let done = match restart.exists() {
        true => resume(args, &restart, &mut planet)?,
        false => {
            let beginning = planet.seeded(args.seed);
            planet.start(&beginning, 0)?;
            eprintln!("the planet turns for {} days before the first state", SPIN_UP / 24);
            planet.advance(SPIN_UP)?;
            0
        }
    };
    let months = 12 * args.years;
    let path =
        |month: u32| folder.join(format!("{}-{:02}.nc", FIRST_YEAR + (month / 12) as i32, month % 12 + 1));
    (0..done.min(months)).map(path).try_for_each(|path| check_month(&path))?;
    if done > 0 {
        eprintln!("{} months are there; {} follow", done.min(months), months.saturating_sub(done));
    }
    let mut progress = Progress::new(months.saturating_sub(done) as usize, "months");
    for month in done..months {
        write_month(args, &mut planet, month, &path(month))?;
        keep(args, &mut planet, month + 1, &restart)?;
        progress.advance();
    }
    progress.finish();
    let paths: Vec<PathBuf> = (0..months).map(path).collect();
    if json {
        let text = serde_json::to_string(&paths).map_err(|e| Error::run("JSON").caused_by(e))?;
        return output::print_line(&text);
    }
    paths.iter().try_for_each(|path| output::print_line(&path.display().to_string()))
}

/// What an earlier call left has to be there: the planet does not turn back.
fn check_month(path: &Path) -> Result<()> {
    inspect_file(path).map(|_| ()).map_err(|_| {
        Error::input(format!("{} was written before and is gone or damaged", path.display()))
            .hint("put it back, or begin another nature run in an empty folder")
    })
}

/// The first date of a month, counted from the first one.
fn first_of(month: u32) -> Result<ValidTime> {
    let (year, month) = (FIRST_YEAR + (month / 12) as i32, month % 12 + 1);
    ValidTime::parse(&format!("{year}-{month:02}-01"), Calendar::Standard)
}

/// Simulates a month and writes it.
fn write_month(args: &NatureRunArgs, planet: &mut NatureRun, month: u32, path: &Path) -> Result<()> {
    let (begin, end) = (first_of(month)?, first_of(month + 1)?);
    let average = args.average as usize;
    let layout = planet.layout(average)?;
    let count = (end.seconds - begin.seconds) / (3600 * INTERVAL as i64);
    let mut states = Vec::with_capacity(count as usize);
    for n in 0..count {
        let valid = ValidTime::new(begin.seconds + n * 3600 * INTERVAL as i64, begin.calendar);
        states.push(State { layout: layout.clone(), valid, values: planet.analysis(average)? });
        planet.advance(INTERVAL)?;
    }
    let head = SeriesHead {
        title: "Nature run: forced shallow water over mountains".into(),
        source: format!(
            "wxsim {}, {} rows averaged over {average} x {average} cells, seed {}",
            env!("CARGO_PKG_VERSION"),
            args.model_rows,
            args.seed
        ),
        history: std::env::args().collect::<Vec<String>>().join(" "),
    };
    let ground = (Quantity::new("orog", None), planet.coarse_orography(average));
    write_series(path, &head, &states, &[ground])
}

/// Notes where the run stands, after the month's file has its name: killed in between, the month is made again. The run
/// itself goes on from what was noted, so that a resumed one has the same bits.
fn keep(args: &NatureRunArgs, planet: &mut NatureRun, months: u32, restart: &Path) -> Result<()> {
    let (fields, hours) = (planet.fields(), planet.hours());
    planet.start(&fields, hours)?;
    let standing = Standing {
        version: env!("CARGO_PKG_VERSION").into(),
        seed: args.seed,
        rows: args.model_rows,
        average: args.average,
        months,
        hours,
        fields: [fields.u, fields.v, fields.h],
    };
    write_whole(restart, |file| {
        let cannot = || format!("cannot write {}", restart.display());
        serde_json::to_writer(&mut *file, &standing).map_err(|e| Error::run(cannot()).caused_by(e))?;
        file.flush().context(cannot)
    })
}

/// Goes on where an earlier call stopped; returns how many months it left.
fn resume(args: &NatureRunArgs, restart: &Path, planet: &mut NatureRun) -> Result<u32> {
    let name = restart.display();
    let text = std::fs::read_to_string(restart).context(|| format!("cannot read {name}"))?;
    let standing: Standing = serde_json::from_str(&text).map_err(|error| {
        Error::input(format!("{name} does not say where a nature run stands"))
            .caused_by(error)
            .hint("begin another one in an empty folder")
    })?;
    let asked = (args.seed, args.model_rows, args.average);
    let found = (standing.seed, standing.rows, standing.average);
    if asked != found || standing.version != env!("CARGO_PKG_VERSION") {
        return Err(Error::input(format!(
            "{name} belongs to another nature run: version {}, seed {}, {} rows, average {}",
            standing.version, found.0, found.1, found.2
        ))
        .hint("go on with the same flags, or begin another one in an empty folder"));
    }
    let since =
        first_of(standing.months).map(|now| now.seconds).and_then(|now| Ok(now - first_of(0)?.seconds));
    let is_sound = since.is_ok_and(|seconds| standing.hours == SPIN_UP + (seconds / 3600) as u64);
    if !is_sound {
        let (months, hours) = (standing.months, standing.hours);
        return Err(Error::input(format!(
            "{name} was changed: {months} months do not end after {hours} hours"
        ))
        .hint("begin another one in an empty folder"));
    }
    let [u, v, h] = standing.fields;
    planet.start(&Fields { u, v, h }, standing.hours)?;
    Ok(standing.months)
}
