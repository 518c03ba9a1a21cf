//! Which file holds which quantity at which time, found without reading data.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::coverage::{self, Gap};
use super::effort::Counters;
use super::filling::Filling;
use super::plan::{DataPlan, GridPlan, GridTarget, MissingPolicy, Span};
use super::regrid::Regrid;
use super::sources;
use super::state_reader::{RawField, StateReader};
use super::tracks::Track;
use super::view::{TrainingView, ValidationView, View};
use crate::error::{Context, Error, Result};
use crate::field::{Layout, State};
use crate::grid::{COORDINATE_TOLERANCE, Grid, Orientation};
use crate::io::forecast_file::FileUnits;
use crate::io::{self, Linear};
use crate::time::{Calendar, LeadTime, ValidTime};
use crate::variable::Quantity;

/// (quantity, time) -> (file, index).
pub struct Catalogue {
    plan: DataPlan,
    layout: Arc<Layout>,
    orientation: Orientation,
    calendar: Calendar,
    pub(super) tracks: Vec<Track>,
    /// Where each channel comes from.
    pub(super) channels: Vec<Channel>,
    /// One for each grid of the files that is not that of the layout.
    pub(super) regrids: Vec<(Grid, Regrid)>,
    times: Vec<ValidTime>,
    gaps: Vec<Gap>,
    notes: Vec<String>,
    fingerprint: String,
    /// Readers that no thread uses at the moment.
    idle: Mutex<Vec<StateReader>>,
    pub(super) counters: Counters,
}

/// A channel of the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Channel {
    pub track: usize,
    /// Which of the track's quantities.
    pub quantity: usize,
}

impl Catalogue {
    /// Indexes the files in parallel and checks that they form one data set.
    pub fn build(plan: &DataPlan) -> Result<Arc<Self>> {
        if plan.step.seconds <= 0 {
            return Err(Error::input(format!("a step of {} is not possible", plan.step)));
        }
        let mut notes = Vec::new();
        let found = sources::find(plan, &mut notes)?;
        if found.is_empty() {
            return Err(Error::input("the configuration names no source")
                .hint("add to [data]: sources = [{ glob = \"files/*.nc\", variable = \"t2m\" }]"));
        }
        let orientation =
            if plan.grid.is_some() { Orientation::default() } else { found[0].variable.orientation };
        let tracks = Track::group(found, plan.step, plan.duplicates)?;
        let (channels, quantities) = choose(&tracks, &plan.quantities)?;
        let (grid, regrids) = grids(&tracks, plan.grid.as_ref())?;
        let coverage = coverage::find(plan, &tracks, &mut notes)?;
        let layout = Arc::new(Layout { grid, quantities });
        let fingerprint = fingerprint(plan, &tracks, &layout);
        Ok(Arc::new(Self {
            plan: plan.clone(),
            layout,
            orientation,
            calendar: tracks[0].calendar(),
            tracks,
            channels,
            regrids,
            times: coverage.times,
            gaps: coverage.gaps,
            notes,
            fingerprint,
            idle: Mutex::default(),
            counters: Counters::default(),
        }))
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How the first source stores its grid; the usual way where fields are regridded.
    pub fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// The units of each channel in its first file: forecasts are written in them.
    pub fn file_units(&self) -> Vec<FileUnits> {
        let of = |channel: &Channel| {
            let variable = &self.tracks[channel.track].parts[0].variable;
            if variable.file_units.is_empty() {
                let conversion = Linear { factor: 1.0, offset: 0.0 };
                return FileUnits { units: variable.units.clone(), conversion };
            }
            FileUnits { units: variable.file_units.clone(), conversion: variable.conversion }
        };
        self.channels.iter().map(of).collect()
    }

    /// Time between states.
    pub fn step(&self) -> LeadTime {
        self.plan.step
    }

    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// The dates that the files hold whole, in order, all of them a whole number of steps apart.
    pub fn times(&self) -> &[ValidTime] {
        &self.times
    }

    pub fn has(&self, valid: ValidTime) -> bool {
        self.times.binary_search(&valid).is_ok()
    }

    /// Dates missing between the first and the last.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// What a user should know about the files: sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn missing(&self) -> MissingPolicy {
        self.plan.missing
    }

    /// Changes when a file, the choice of quantities or the grid changes.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The training span.
    pub fn training(self: &Arc<Self>) -> Result<TrainingView> {
        let split = self.plan.split.as_ref().ok_or_else(|| no_span("train"))?;
        Ok(View::strict(self.clone(), "split.train", split.train))
    }

    /// The validation span.
    pub fn validation(self: &Arc<Self>) -> Result<ValidationView> {
        let span =
            self.plan.split.as_ref().and_then(|s| s.validation).ok_or_else(|| no_span("validation"))?;
        Ok(ValidationView(View::evaluation(self.clone(), "split.validation", span)))
    }

    /// The test span.
    pub fn test(self: &Arc<Self>) -> Result<View> {
        let span = self.plan.split.as_ref().and_then(|s| s.test).ok_or_else(|| no_span("test"))?;
        Ok(View::evaluation(self.clone(), "split.test", span))
    }

    /// Any span, for files that are only read; never for learning.
    pub fn evaluation(self: &Arc<Self>, span: Span) -> View {
        View::evaluation(self.clone(), "the evaluation span", span)
    }

    /// Reads the state of a date: missing values are NaN.
    pub fn read(&self, valid: ValidTime) -> Result<State> {
        let mut states = self.read_many(&[valid])?;
        states.pop().ok_or_else(|| Error::run(format!("no state of {valid} was read")))
    }

    /// Reads the state of a date to hold forecasts against: under `missing = "interpolate"` a quantity that the date lacks
    /// comes from the dates around it, where they have it. Never to start from: it knows what came later.
    pub fn read_truth(self: &Arc<Self>, valid: ValidTime) -> Result<State> {
        let mut state = self.read(valid)?;
        if let (Some(first), Some(last)) = (self.times().first(), self.times().last()) {
            let view = self.evaluation(Span::new(*first, last.after(self.step()))?);
            Filling { view: &view, mask: None }.fill_absent(&mut state)?;
        }
        Ok(state)
    }

    /// Reads the states of some dates; those that follow each other in a file are read together, on all cores.
    pub fn read_many(&self, dates: &[ValidTime]) -> Result<Vec<State>> {
        let mut states: Vec<State> =
            dates.iter().map(|&valid| State::missing(self.layout.clone(), valid)).collect();
        self.counters.reading(|| self.with_reader(|reader| reader.read(self, &mut states)))?;
        Ok(states)
    }

    /// The fields of some dates as the files store them, by date and channel.
    pub(super) fn read_raw(&self, dates: &[ValidTime]) -> Result<Vec<RawField<'_>>> {
        self.counters.reading(|| self.with_reader(|reader| reader.read_raw(self, dates)))
    }

    /// A reader that failed is dropped with its open files.
    fn with_reader<R>(&self, work: impl FnOnce(&mut StateReader) -> Result<R>) -> Result<R> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reader = idle().pop().unwrap_or_default();
        let result = work(&mut reader)?;
        idle().push(reader);
        Ok(result)
    }

    /// A sentence on the files of which one time step is expensive to read, where there are such.
    pub fn awkward(&self) -> Option<String> {
        let parts = || self.tracks.iter().flat_map(|track| &track.parts);
        let mut awkward = parts().filter_map(|part| Some((part, part.variable.awkward_chunks()?)));
        let (part, sentence) = awkward.next()?;
        let others = match awkward.count() {
            0 => String::new(),
            n => format!(" (and so in {n} more)"),
        };
        Some(format!("{}: {sentence}{others}", part.file.path.display()))
    }

    /// A few lines on what was found, for a log.
    pub fn describe(&self) -> String {
        let labels: Vec<String> = self.layout.quantities.iter().map(Quantity::to_string).collect();
        let (first, last) = (self.times[0], self.times[self.times.len() - 1]);
        let missing: usize = self.gaps.iter().map(|g| g.dates).sum();
        let gaps = if missing > 0 { format!(", {missing} missing") } else { String::new() };
        format!(
            "{} on {}, {} dates from {first} to {last} every {}{gaps}",
            labels.join(", "),
            self.layout.grid.describe(),
            self.times.len(),
            self.plan.step
        )
    }
}

/// The channels in the order of the configuration.
fn choose(tracks: &[Track], wanted: &[Quantity]) -> Result<(Vec<Channel>, Vec<Quantity>)> {
    let all = tracks.iter().enumerate().flat_map(|(track, t)| {
        t.quantities.iter().enumerate().map(move |(quantity, q)| (Channel { track, quantity }, q.clone()))
    });
    let all: Vec<(Channel, Quantity)> = all.collect();
    if wanted.is_empty() {
        return Ok(all.into_iter().unzip());
    }
    let mut chosen = Vec::new();
    for quantity in wanted {
        let one = all.iter().find(|(_, q)| q == quantity).ok_or_else(|| {
            let labels: Vec<String> = all.iter().map(|(_, q)| q.to_string()).collect();
            Error::input(format!("no source gives {quantity}"))
                .hint(format!("they give {}", labels.join(", ")))
        })?;
        if chosen.contains(one) {
            return Err(Error::input(format!("{quantity} is named twice in data.quantities")));
        }
        chosen.push(one.clone());
    }
    Ok(chosen.into_iter().unzip())
}

/// The one grid of the data set, and how to get there from the grids of the files.
fn grids(tracks: &[Track], plan: Option<&GridPlan>) -> Result<(Grid, Vec<(Grid, Regrid)>)> {
    let parts = || tracks.iter().flat_map(|t| &t.parts);
    let first = &tracks[0].parts[0];
    let Some(plan) = plan else {
        let grid = &first.variable.grid;
        if let Some(other) = parts().find(|p| !p.variable.grid.matches(grid)) {
            return Err(Error::input(format!(
                "the grids differ: {} of {} is {}, {} of {} is {}",
                first.variable.name,
                first.file.path.display(),
                grid.describe(),
                other.variable.name,
                other.file.path.display(),
                other.variable.grid.describe()
            ))
            .hint("bring them to one grid: [data] grid = { step = 1.5, south = ..., north = ..., west = ..., east = ... }"));
        }
        return Ok((grid.clone(), Vec::new()));
    };
    let target = target(&plan.target, &first.variable.grid)?;
    let mut regrids: Vec<(Grid, Regrid)> = Vec::new();
    for part in parts() {
        let grid = &part.variable.grid;
        if !grid.matches(&target) && !regrids.iter().any(|(known, _)| known.matches(grid)) {
            let regrid = Regrid::new(grid, &target, plan.method)
                .context(|| format!("regridding {}", part.file.path.display()))?;
            regrids.push((grid.clone(), regrid));
        }
    }
    Ok((target, regrids))
}

fn target(target: &GridTarget, own: &Grid) -> Result<Grid> {
    let points = |first: f64, last: f64, step: f64| -> Vec<f64> {
        let count = ((last - first) / step + 1e-6).floor() as usize + 1;
        (0..count).map(|i| first + i as f64 * step).collect()
    };
    match target {
        GridTarget::Region { step, south, north, west, east } => {
            let east = if east < west { east + 360.0 } else { *east };
            Grid::new(points(*south, *north, *step), as_read(points(*west, east, *step)))
        }
        GridTarget::Part { south, north, west, east } => part(own, [*south, *north], [*west, *east]),
        GridTarget::Globe { step } => {
            Grid::new(points(-90.0 + step / 2.0, 90.0, *step), points(0.0, 360.0 - step, *step))
        }
        GridTarget::Like(path) => {
            let info = io::inspect_file(path)?;
            let variable = info.variables.first().ok_or_else(|| {
                Error::input(format!("{} holds no field whose grid could be taken", path.display()))
            })?;
            Ok(variable.grid.clone())
        }
    }
}

/// Ascending longitudes as they come from files: from 0 on, or from below it where they cross Greenwich.
fn as_read(longitudes: Vec<f64>) -> Vec<f64> {
    let [Some(first), Some(last)] = [longitudes.first(), longitudes.last()] else { return longitudes };
    let turns = (first / 360.0).floor();
    let crosses = last - 360.0 * turns >= 360.0;
    let shift = 360.0 * (turns + if crosses { 1.0 } else { 0.0 });
    longitudes.iter().map(|x| x - shift).collect()
}

/// The points of a grid between bounds.
fn part(own: &Grid, [south, north]: [f64; 2], [west, east]: [f64; 2]) -> Result<Grid> {
    let slack = COORDINATE_TOLERANCE;
    let latitude =
        own.latitude.iter().copied().filter(|y| (south - slack..=north + slack).contains(y)).collect();
    let width = (east - west).rem_euclid(360.0);
    let from_west = |x: &f64| (x - west + slack).rem_euclid(360.0) - slack;
    let mut longitude: Vec<f64> =
        own.longitude.iter().map(from_west).filter(|x| *x <= width + slack).map(|x| west + x).collect();
    longitude.sort_by(f64::total_cmp);
    Grid::new(latitude, as_read(longitude)).map_err(|_| {
        Error::input(format!(
            "data.grid: no points of {} lie in {south} to {north} N and {west} to {east} E",
            own.describe()
        ))
        .hint("see the grid with: wxsim inspect")
    })
}

fn fingerprint(plan: &DataPlan, tracks: &[Track], layout: &Layout) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: String| {
        hash.update(text.as_bytes());
        hash.update([0]);
    };
    for track in tracks {
        for part in &track.parts {
            let name = part.file.path.file_name().unwrap_or_default().to_string_lossy();
            let v = &part.variable;
            add(format!("{name} {} {} {:?} {:?}", part.file.fingerprint, v.name, part.levels, v.conversion));
        }
    }
    for quantity in &layout.quantities {
        add(quantity.to_string());
    }
    add(format!(
        "{:?} {:?} {:?} {}",
        layout.grid,
        plan.grid.as_ref().map(|g| g.method),
        plan.duplicates,
        plan.step
    ));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn no_span(name: &str) -> Error {
    Error::input(format!("the configuration has no split.{name}")).hint(format!(
        "add to [data]: split.{name} = [\"2000-01-01\", \"2010-01-01\"] (the end does not belong)"
    ))
}
