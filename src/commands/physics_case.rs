//! `wxsim physics --case`: a published case of the shallow-water equations, held against what is known of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::commands::output;
use crate::commands::physics_inputs::Chosen;
use crate::commands::progress::Progress;
use crate::constants::DAY_SECONDS;
use crate::error::{Context, Error, Kind, Result};
use crate::field::{Layout, State};
use crate::grid::Orientation;
use crate::io::Linear;
use crate::io::atomic::write_whole;
use crate::io::forecast_file::{FileUnits, ForecastFile, ForecastHead};
use crate::report::encode;
use crate::report::map::{Field, Map, Shading, draw};
use crate::report::scale::{Scale, Sense};
use crate::shallow_water::known::{self, KnownHeights, KnownNorms};
use crate::shallow_water::{CaseRun, CaseSettings, PhysicsPlan, PublishedCase, Scheme};
use crate::time::{Calendar, InitTime, LeadTime, ValidTime};
use crate::train::Interrupt;
use crate::variable::Quantity;

#[derive(Debug, clap::Args)]
pub struct CaseArgs {
    /// Run a published case instead, by Runge-Kutta unless physics.shallow_water.scheme says otherwise, undamped
    #[arg(long, value_enum, conflicts_with_all = ["config", "init", "init_time"])]
    case: Option<CaseName>,
    /// Rows of a case's grid, which has twice as many columns
    #[arg(long, default_value_t = 64, requires = "case", conflicts_with_all = ["config", "init", "init_time", "nature_run"], value_parser = clap::value_parser!(u32).range(8..=4096))]
    rows: u32,
    /// Tilt of the axis of williamson1 and williamson2 [degrees]
    #[arg(long, default_value_t = 0.0, requires = "case", conflicts_with_all = ["config", "init", "init_time", "nature_run"], allow_hyphen_values = true)]
    angle: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CaseName {
    /// A bell carried once around the globe by solid-body rotation (12 days)
    Williamson1,
    /// Steady flow around a tilted axis (5 days)
    Williamson2,
    /// Flow over a mountain (15 days)
    Williamson5,
    /// A Rossby-Haurwitz wave of shallow water (14 days)
    Williamson6,
    /// An unstable jet (6 days)
    Galewsky,
    /// A Rossby-Haurwitz wave of the barotropic vorticity equation, which has an exact solution (5 days)
    RossbyHaurwitz,
}

/// What one case and its published figures are.
struct Known {
    case: PublishedCase,
    norms: &'static [KnownNorms],
    places: &'static [(f64, f64)],
    heights: &'static [KnownHeights],
    /// Name, unit and title of the field that the case is about.
    field: (&'static str, &'static str, &'static str),
}

/// The figures of one day.
#[derive(Debug, Clone, Default, Serialize)]
struct Figures {
    day: f64,
    /// Of the error, where the solution is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    norms: Option<[f64; 3]>,
    /// Published norms on this grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_norms: Option<[Option<f64>; 3]>,
    /// Root mean square and largest distance from the published heights [m].
    #[serde(skip_serializing_if = "Option::is_none")]
    heights: Option<[f64; 2]>,
    /// Relative changes of mass, energy and potential enstrophy.
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<[f64; 3]>,
}

#[derive(Debug, Serialize)]
struct Outcome {
    case: String,
    rows: usize,
    columns: usize,
    angle: f64,
    /// [s]
    step: f64,
    figures: Vec<Figures>,
    written: Vec<PathBuf>,
}

impl CaseName {
    fn known(self) -> Known {
        let depth = ("h", "m", "depth of the layer");
        let (case, norms, places, heights, field): (_, &[KnownNorms], &[(f64, f64)], &[KnownHeights], _) =
            match self {
                Self::Williamson1 => (
                    PublishedCase::Williamson1,
                    &known::WILLIAMSON_1,
                    &[],
                    &[],
                    ("h", "m", "height of the bell"),
                ),
                Self::Williamson2 => (PublishedCase::Williamson2, &known::WILLIAMSON_2, &[], &[], depth),
                Self::Williamson5 => (
                    PublishedCase::Williamson5,
                    &[],
                    &known::WILLIAMSON_5_PLACES,
                    &known::WILLIAMSON_5,
                    depth,
                ),
                Self::Williamson6 => (
                    PublishedCase::Williamson6,
                    &[],
                    &known::WILLIAMSON_6_PLACES,
                    &known::WILLIAMSON_6,
                    depth,
                ),
                Self::Galewsky => {
                    (PublishedCase::Galewsky, &[], &known::GALEWSKY_PLACES, &known::GALEWSKY, depth)
                }
                Self::RossbyHaurwitz => (
                    PublishedCase::RossbyHaurwitz,
                    &known::ROSSBY_HAURWITZ,
                    &[],
                    &[],
                    ("psi", "m2 s-1", "stream function"),
                ),
            };
        Known { case, norms, places, heights, field }
    }

    fn name(self) -> String {
        use clap::ValueEnum;
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }
}

impl CaseArgs {
    pub fn is_asked(&self) -> bool {
        self.case.is_some()
    }
}

/// How long, how often a state is written, and where to.
pub struct Wanted<'a> {
    pub lead: Option<LeadTime>,
    pub step: Option<LeadTime>,
    pub folder: Option<&'a Path>,
    pub json: bool,
}

pub fn run(args: &CaseArgs, plan: &PhysicsPlan, wanted: &Wanted<'_>, devices: &Chosen) -> Result<()> {
    let name = args.case.ok_or_else(|| Error::run("no case was named"))?;
    let known = name.known();
    if args.angle != 0.0 && !known.case.tilts() {
        return Err(Error::input(format!("the axis of {} cannot be tilted", name.name()))
            .hint("--angle is for williamson1 and williamson2"));
    }
    if plan.shallow_water.scheme.is_some() && !known.case.is_layer() {
        return Err(Error::input(format!("{} is not stepped as a shallow layer", name.name()))
            .hint("leave physics.shallow_water.scheme away"));
    }
    let day = LeadTime { seconds: DAY_SECONDS };
    let lead = wanted.lead.unwrap_or(day.times(known.case.days() as usize));
    let step = wanted.step.unwrap_or(day);
    let steps = super::forecast_files::steps_of(lead, step)?;
    let settings = CaseSettings {
        rows: args.rows as usize,
        alpha: args.angle.to_radians(),
        scheme: plan.shallow_water.scheme.unwrap_or(Scheme::RungeKutta4),
        longest_step: plan.time_step.map(|step| step.seconds as f64),
    };
    let mut run = CaseRun::new(known.case, &settings, step.seconds, devices)?;
    devices.check_shared()?;
    let mut file = wanted.folder.map(|folder| CaseFile::create(folder, &run, &known, name, step, steps));
    let mut file = file.take().transpose()?;

    let interrupt = Interrupt::on_signals()?;
    let mut progress = Progress::new(steps, "states");
    let mut figures = Vec::new();
    for n in 0..=steps {
        if n > 0 {
            run.advance()?;
            figures.push(figures_of(&mut run, &known, &settings, args.angle, step.times(n))?);
            progress.advance();
        }
        if let Some(file) = &mut file {
            file.write(&mut run, n)?;
        }
        if interrupt.is_requested() {
            return Err(Error::new(Kind::Interrupted, format!("{} of {lead} were run", step.times(n))));
        }
    }
    progress.finish();
    let written = match file {
        Some(file) => file.finish(&mut run, &known, name, lead)?,
        None => Vec::new(),
    };
    let outcome = Outcome {
        case: name.name(),
        rows: run.sphere().rows,
        columns: run.sphere().columns,
        angle: args.angle,
        step: run.dt(),
        figures,
        written,
    };
    if wanted.json {
        let text = serde_json::to_string_pretty(&outcome)
            .map_err(|error| Error::run("the figures cannot be written as JSON").caused_by(error))?;
        return output::print_line(&text);
    }
    output::print(&table(&outcome, &known, settings.scheme))
}

fn figures_of(
    run: &mut CaseRun,
    known: &Known,
    settings: &CaseSettings,
    angle: f64,
    lead: LeadTime,
) -> Result<Figures> {
    let day = lead.hours() / 24.0;
    let norms = run.norms()?.map(|norms| [norms.l1, norms.l2, norms.linf]);
    let fits = |k: &&KnownNorms| k.rows == settings.rows && k.angle == angle && k.day == day;
    let known_norms = known.norms.iter().find(fits).map(|k| k.norms);
    let published = known.heights.iter().find(|k| k.day == day);
    let heights = published.and_then(|k| {
        let found = run.surface_at(known.places)?;
        let apart: Vec<f64> = found.iter().zip(k.heights).map(|(x, y)| (x - y).abs()).collect();
        let square: f64 = apart.iter().map(|d| d * d).sum();
        let largest = apart.iter().copied().fold(0.0, f64::max);
        Some([(square / apart.len() as f64).sqrt(), largest])
    });
    let drift = run.drift().map(|d| [d.mass, d.energy, d.enstrophy]);
    Ok(Figures { day, norms, known_norms, heights, drift })
}

/// One line for each state, what is known under it.
fn table(outcome: &Outcome, known: &Known, scheme: Scheme) -> String {
    let Outcome { case, rows, columns, step, angle, .. } = outcome;
    let scheme = match (known.case.is_layer(), scheme) {
        (false, _) => "",
        (true, Scheme::RungeKutta4) => ", Runge-Kutta",
        (true, Scheme::SemiImplicit) => ", semi-implicit",
    };
    let tilt = if known.case.tilts() { format!(", axis tilted by {angle} degrees") } else { String::new() };
    let mut text = format!(
        "{case}: {}{tilt}, {rows} x {columns} cells, steps of {step:.0} s{scheme}\n\n",
        known.case.title()
    );
    let (_, _, field) = known.field;
    let any = |pick: fn(&Figures) -> bool| outcome.figures.iter().any(pick);
    let columns = [any(|f| f.norms.is_some()), any(|f| f.heights.is_some()), any(|f| f.drift.is_some())];
    // Writing to a String cannot fail.
    let _ = write!(text, "{:>6}", "day");
    let heads = [
        format!("{:>11}{:>11}{:>11}", "l1", "l2", "linf"),
        format!("{:>11}{:>11}", "rms [m]", "worst [m]"),
        format!("{:>11}{:>11}{:>11}", "mass", "energy", "enstrophy"),
    ];
    heads.iter().zip(columns).filter(|(_, there)| *there).for_each(|(head, _)| text.push_str(head));
    text.push('\n');
    let numbers = |values: &[Option<f64>]| -> String {
        values.iter().map(|v| v.map_or(format!("{:>11}", "-"), |v| format!("{v:>11.2e}"))).collect()
    };
    for f in &outcome.figures {
        let _ = write!(text, "{:>6}", f.day);
        if columns[0] {
            text.push_str(&numbers(&f.norms.map_or([None; 3], |n| n.map(Some))));
        }
        if columns[1] {
            let heights = f.heights.map_or([None; 2], |h| h.map(Some));
            let cells = heights.iter().map(|v| v.map_or(format!("{:>11}", "-"), |v| format!("{v:>11.1}")));
            text.extend(cells);
        }
        if columns[2] {
            text.push_str(&numbers(&f.drift.map_or([None; 3], |d| d.map(Some))));
        }
        text.push('\n');
        if let Some(known) = &f.known_norms {
            let _ = writeln!(text, "{:>6}{}", "known", numbers(known));
        }
    }
    text.push('\n');
    if columns[0] {
        let _ = writeln!(
            text,
            "l1, l2, linf: errors of the {field} against the exact solution; known: of an independent program of the same \
             scheme on the same grid"
        );
    }
    if columns[1] {
        let _ = writeln!(
            text,
            "rms, worst: distance from the surface heights of a spectral model at {} places",
            known.places.len()
        );
    }
    if columns[2] {
        let _ = writeln!(text, "mass, energy, enstrophy: relative changes since the start");
    }
    for path in &outcome.written {
        let _ = writeln!(text, "wrote {}", path.display());
    }
    text
}

/// The file of a case, and its picture at the end.
struct CaseFile {
    file: ForecastFile,
    folder: PathBuf,
    layout: Arc<Layout>,
    start: InitTime,
    step: LeadTime,
}

impl CaseFile {
    fn create(
        folder: &Path,
        run: &CaseRun,
        known: &Known,
        name: CaseName,
        step: LeadTime,
        steps: usize,
    ) -> Result<Self> {
        let (field, unit, _) = known.field;
        let quantities = ["u", "v", field].map(|name| Quantity::new(name, None)).to_vec();
        let layout = Arc::new(Layout { grid: run.sphere().grid()?, quantities });
        let same = Linear { factor: 1.0, offset: 0.0 };
        let units = ["m s-1", "m s-1", unit].map(|unit| FileUnits { units: unit.into(), conversion: same });
        // A case has no date; files have one.
        let start = InitTime(ValidTime::parse("2000-01-01", Calendar::Standard)?);
        let head = ForecastHead {
            layout: layout.clone(),
            orientation: Orientation::default(),
            units: units.to_vec(),
            init: start,
            step,
            steps,
            model: name.name(),
            origin: known.case.title().into(),
            history: std::env::args().collect::<Vec<String>>().join(" "),
        };
        let file = ForecastFile::create(folder, &head)?;
        Ok(Self { file, folder: folder.to_owned(), layout, start, step })
    }

    fn state(&self, run: &mut CaseRun, step: usize) -> Result<State> {
        let valid = self.start.0.after(self.step.times(step));
        let mut state = State::missing(self.layout.clone(), valid);
        let [u, v] = run.wind()?;
        for (channel, field) in [u, v, run.field()?].into_iter().enumerate() {
            let place = state.values.index_axis_mut(ndarray::Axis(2), channel);
            place.into_iter().zip(field).for_each(|(value, x)| *value = x as f32);
        }
        Ok(state)
    }

    fn write(&mut self, run: &mut CaseRun, step: usize) -> Result<()> {
        let state = self.state(run, step)?;
        self.file.write(&state)
    }

    /// Finishes the file and draws the last state.
    fn finish(
        self,
        run: &mut CaseRun,
        known: &Known,
        name: CaseName,
        lead: LeadTime,
    ) -> Result<Vec<PathBuf>> {
        let (field, unit, title) = known.field;
        let values: Vec<f32> = run.field()?.into_iter().map(|x| x as f32).collect();
        let scale = Scale::fit(&Quantity::new(field, None), unit, Sense::Value, values.iter().copied());
        let picture = draw(&Map {
            title: format!("{}: {title}", name.name()),
            notes: vec![format!("{}, after {lead}", known.case.title())],
            field: Field { grid: &self.layout.grid, values: &values },
            scale: &scale,
            shading: Shading::Bands,
            contours: Vec::new(),
            coastlines: &[],
            width: 900,
            text: 18.0,
        });
        let path = self.folder.join(format!("{}.png", name.name()));
        let bytes = encode::png(&picture)?;
        let written = self.file.finish()?;
        write_whole(&path, |file| {
            file.write_all(&bytes).context(|| format!("cannot write {}", path.display()))
        })?;
        Ok(vec![written, path])
    }
}
