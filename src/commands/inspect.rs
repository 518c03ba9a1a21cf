//! `wxsim inspect`: what is in files, how it was understood, and what is wrong with it.

use std::path::PathBuf;

use serde::Serialize;

use crate::commands::output;
use crate::constants::DAY_SECONDS;
use crate::error::{self, Error, Kind, Result};
use crate::io::{self, Effort, FileInfo, Format, Indexer, Problem, Severity, Survey, VariableInfo};
use crate::time::LeadTime;

/// Say what is in files, how it was understood, and what is wrong with it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// NetCDF or GRIB2 files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON: one object per file.
    #[arg(long)]
    json: bool,
    /// Read every value, where otherwise a sample of a large file is read.
    #[arg(long, conflicts_with = "header_only")]
    all: bool,
    /// Read no values.
    #[arg(long)]
    header_only: bool,
}

/// One file, as `--json` prints it.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Understood {
        #[serde(flatten)]
        info: Box<FileInfo>,
        surveys: Vec<Survey>,
    },
    Refused {
        path: PathBuf,
        refused: String,
        remedy: Option<String>,
    },
}

pub fn run(args: &Args) -> Result<()> {
    let indexed = io::inspect_files(&args.files);
    let mut outcomes = Vec::with_capacity(indexed.len());
    let mut refused = 0;
    for (path, result) in args.files.iter().zip(indexed) {
        let outcome = result.and_then(|info| outcome(info, args));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) if error.kind() != Kind::Input => return Err(error),
            Err(error) if args.files.len() == 1 && !args.json => return Err(error),
            Err(error) => Outcome::Refused {
                path: path.clone(),
                refused: error::chain(&error),
                remedy: error.advice().map(str::to_string),
            },
        };
        match &outcome {
            Outcome::Understood { info, surveys } => {
                refused += usize::from(!is_usable(info));
                if !args.json {
                    output::print(&describe(info, surveys))?;
                }
            }
            Outcome::Refused { refused: sentence, remedy, .. } => {
                refused += 1;
                if !args.json {
                    let remedy = remedy.iter().map(|text| format!("           try: {text}\n"));
                    output::print_line(&format!("{sentence}\n{}", remedy.collect::<String>()))?;
                }
            }
        }
        outcomes.push(outcome);
    }
    if args.json {
        let text = serde_json::to_string_pretty(&outcomes)
            .map_err(|error| Error::run("cannot write JSON").caused_by(error))?;
        output::print_line(&text)?;
    }
    match refused {
        0 => Ok(()),
        1 if args.files.len() == 1 => {
            Err(Error::input(format!("{}: no field of it can be used", args.files[0].display()))
                .hint("the reasons stand above"))
        }
        _ => Err(Error::input(format!("{refused} of {} files cannot be used", args.files.len()))
            .hint("the reasons stand above")),
    }
}

fn is_usable(info: &FileInfo) -> bool {
    info.variables.iter().any(|v| v.refused.is_none())
}

fn outcome(mut info: FileInfo, args: &Args) -> Result<Outcome> {
    let effort = if args.all { Effort::Everything } else { Effort::Sample };
    let surveys = match info.format {
        _ if args.header_only => Vec::new(),
        Format::Hdf5 => Indexer::find()?.survey(&info, effort)?,
        _ => io::survey(&info, effort)?,
    };
    let mut found = Vec::new();
    for variable in &info.variables {
        if let Some(survey) = surveys.iter().find(|s| s.variable == variable.name) {
            found.extend(io::survey_problems(variable, survey));
        }
        found.extend(awkward_chunks(variable));
    }
    info.problems.extend(found);
    info.problems.sort_by_key(|p| std::cmp::Reverse(p.severity));
    Ok(Outcome::Understood { info: Box::new(info), surveys })
}

/// A warning for a file whose chunks make one time step expensive.
fn awkward_chunks(variable: &VariableInfo) -> Option<Problem> {
    Some(Problem {
        severity: Severity::Warning,
        variable: Some(variable.name.clone()),
        sentence: variable.awkward_chunks()?,
        remedy: "rewrite it once for training: wxsim prepare CONFIG --out DIR".into(),
    })
}

/// The page for one file.
fn describe(info: &FileInfo, surveys: &[Survey]) -> String {
    let mut page = format!("{}\n  {}, {}\n", info.path.display(), info.format, bytes(info.size));
    if let Some(time) = info.forecast_reference_time {
        page += &format!("  forecast from {time}\n");
    }
    let mut rest: Vec<&VariableInfo> = info.variables.iter().collect();
    while let Some(first) = rest.first().copied() {
        let alike = |v: &&VariableInfo| v.grid == first.grid && v.times == first.times;
        let (group, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(alike);
        rest = others;
        page += &format!("\n  grid  {}\n  time  {}\n\n", grid(first), time(first));
        page += &table(&group, surveys);
    }
    if surveys.iter().any(|s| s.read < s.of) {
        page += "\n  values are from a sample of the fields; --all reads every one\n";
    }
    if !info.problems.is_empty() {
        page.push('\n');
    }
    for problem in &info.problems {
        let word = match problem.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Refused => "refused",
        };
        page += &format!("  {word:<7}  {}\n", problem.sentence);
        if problem.severity != Severity::Note {
            page += &format!("           try: {}\n", problem.remedy);
        }
    }
    page.push('\n');
    page
}

fn grid(variable: &VariableInfo) -> String {
    let grid = &variable.grid;
    let spacing = |values: &[f64]| match values {
        [] | [_] => None,
        _ => Some((values[values.len() - 1] - values[0]) / (values.len() - 1) as f64),
    };
    let mut text = format!("{}, {}", grid.describe(), variable.grid_kind);
    if let (Some(rows), Some(columns)) = (spacing(&grid.latitude), spacing(&grid.longitude)) {
        text += &format!(" {} x {} degrees", round(rows), round(columns));
    }
    if grid.is_periodic() {
        text += ", all round the earth";
    }
    text + if variable.orientation.latitude_descending {
        ", stored north to south"
    } else {
        ", stored south to north"
    }
}

fn time(variable: &VariableInfo) -> String {
    let calendar = |text: String| match variable.times.first().map(|t| t.calendar) {
        Some(calendar) if calendar != Default::default() => {
            format!("{text} ({} calendar)", calendar.cf_name())
        }
        _ => text,
    };
    match variable.times.as_slice() {
        [] => "none: the fields are static".into(),
        [only] => calendar(only.to_string()),
        [first, .., last] => {
            let mut spacings: Vec<i64> =
                variable.times.windows(2).map(|w| w[1].since(w[0]).seconds).collect();
            spacings.sort_unstable();
            let (least, most) = (spacings[0], spacings[spacings.len() - 1]);
            let shown = |seconds| LeadTime { seconds }.to_string();
            let month = 27 * DAY_SECONDS..=32 * DAY_SECONDS;
            let step = if least == most {
                shown(least)
            } else if month.contains(&least) && month.contains(&most) {
                "a month".to_string()
            } else {
                format!("{} to {}", shown(least), shown(most))
            };
            calendar(format!("{} of {step}, {first} to {last}", variable.times.len()))
        }
    }
}

/// The variables of one grid and time axis, in columns.
fn table(group: &[&VariableInfo], surveys: &[Survey]) -> String {
    let heads = [
        "variable",
        "understood as",
        "units",
        "levels",
        "stored as",
        "missing",
        "smallest",
        "mean",
        "largest",
    ];
    let mut lines = vec![heads.map(str::to_string).to_vec()];
    for variable in group {
        let survey = surveys.iter().find(|s| s.variable == variable.name);
        let number = |value: Option<f64>| value.map_or("-".to_string(), round);
        lines.push(vec![
            variable.name.clone(),
            understood(variable),
            units(variable),
            levels(&variable.levels),
            stored(variable),
            survey.map_or("-".into(), |s| percent(s.missing)),
            number(survey.and_then(|s| s.range).map(|r| r.0)),
            number(survey.and_then(|s| s.mean)),
            number(survey.and_then(|s| s.range).map(|r| r.1)),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if at >= 5 { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text += &format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

/// `t2m (air_temperature, maximum over 1d)`
fn understood(variable: &VariableInfo) -> String {
    let name = match variable.known() {
        _ if variable.refused.is_some() => return "refused".into(),
        Some(known) if known.standard_name == known.name => known.name.to_string(),
        Some(known) => format!("{} ({})", known.name, known.standard_name),
        None => format!("{} (own name)", variable.name),
    };
    match (&variable.statistic, variable.period) {
        (Some(statistic), Some(period)) => format!("{name}, {statistic} over {period}"),
        (Some(statistic), None) => format!("{name}, {statistic}"),
        (None, _) => name,
    }
}

fn units(variable: &VariableInfo) -> String {
    let from = if variable.file_units.is_empty() { "none" } else { &variable.file_units };
    match variable.conversion.is_identity() {
        true if variable.refused.is_some() => from.to_string(),
        true => variable.units.clone(),
        false => format!("{} (from {from})", variable.units),
    }
}

fn levels(levels: &[f64]) -> String {
    match levels {
        [] => "-".into(),
        [only] => format!("{} hPa", round(*only)),
        [first, .., last] => format!("{}: {}..{} hPa", levels.len(), round(*first), round(*last)),
    }
}

fn stored(variable: &VariableInfo) -> String {
    let packing = &variable.packing;
    let mut text = packing.number.to_string();
    if !packing.scale.is_identity() {
        text += &format!(" x {} + {}", round(packing.scale.factor), round(packing.scale.offset));
    }
    if let Some(chunks) = &variable.chunks {
        text += &format!(", chunks {}", chunks.iter().map(usize::to_string).collect::<Vec<_>>().join("x"));
    }
    text
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        p if p < 0.1 => "<0.1 %".into(),
        p => format!("{p:.1} %"),
    }
}

/// Six significant digits, without trailing zeros.
fn round(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let digits = (5 - value.abs().log10().floor() as i32).max(0) as usize;
    if digits > 9 {
        return format!("{value:.5e}");
    }
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// `4.1 MB`
fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        c if c >= 1e9 => format!("{:.1} GB", c / 1e9),
        c if c >= 1e6 => format!("{:.1} MB", c / 1e6),
        c if c >= 1e3 => format!("{:.1} kB", c / 1e3),
        c => format!("{c} bytes"),
    }
}
