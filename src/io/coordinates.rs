//! The axes of a file: what each dimension is, read once and shared by the variables along it.

use super::axes::{self, Columns, Coordinate, Rows};
use super::info::{Number, Problem, Severity};
use super::schema::{RawVariable, Schema};
use super::slabs::Slabs;
use super::time_axis::{Order, TimeUnits};
use super::{packing, units};
use crate::error::{self, Error, Result};
use crate::time::{LeadTime, ValidTime};

/// Longer axes are damage: four centuries of hours would fit.
const MOST_ENTRIES: usize = 4_000_000;

/// What a dimension turned out to be.
#[derive(Debug, Clone)]
pub enum Axis {
    Latitude(Rows),
    Longitude(Columns),
    Time(Times),
    /// Levels by decreasing pressure [hPa], and the file's index of each.
    Pressure {
        levels: Vec<f64>,
        index: Vec<usize>,
    },
    /// A height above ground [m], of a dimension of length 1.
    Height(f64),
    Version,
    Single,
    /// Rows or columns of a rotated pole or a map projection.
    Rotated,
    Projection,
    /// Understood, but not usable: what is wrong, and the remedy.
    Refused {
        what: String,
        remedy: String,
    },
    Unknown,
}

/// A time axis.
#[derive(Debug, Clone)]
pub struct Times {
    pub times: Vec<ValidTime>,
    /// The file's index of each; empty: all of them.
    pub index: Vec<usize>,
    /// What the values of a mean or a sum cover, where the bounds say it and the time stamps are their ends.
    pub period: Option<LeadTime>,
}

/// All axes of a file, in the order of its dimensions, with what is odd about each.
pub struct Axes {
    pub axes: Vec<Axis>,
    pub problems: Vec<Vec<Problem>>,
}

/// Reads every coordinate of the file.
pub fn read(schema: &Schema, source: &mut dyn Slabs) -> Axes {
    let mut found = Axes { axes: Vec::new(), problems: Vec::new() };
    for at in 0..schema.dimensions.len() {
        let mut problems = Vec::new();
        let axis = axis(schema, source, at, &mut problems).unwrap_or_else(|error| Axis::Refused {
            what: error::chain(&error),
            remedy: error.advice().unwrap_or("check the coordinate with ncdump").to_string(),
        });
        found.axes.push(axis);
        found.problems.push(problems);
    }
    found
}

/// The variable that gives a dimension its coordinate: of the same name, or else the only one that is recognised.
pub fn coordinate_of(schema: &Schema, dimension: usize) -> Option<&RawVariable> {
    let along = || schema.variables.iter().filter(|v| v.dimensions == [dimension]);
    let name = &schema.dimensions[dimension].name;
    along().find(|v| v.name == *name).or_else(|| {
        let mut others = along().filter(|v| axes::recognise(v).is_some());
        others.next().filter(|_| others.next().is_none())
    })
}

fn axis(schema: &Schema, source: &mut dyn Slabs, at: usize, problems: &mut Vec<Problem>) -> Result<Axis> {
    let dimension = &schema.dimensions[at];
    let named = coordinate_of(schema, at);
    let stand_in = RawVariable {
        name: dimension.name.clone(),
        number: None,
        dimensions: vec![at],
        attributes: Default::default(),
        chunks: None,
        place: None,
    };
    let kind = axes::recognise(named.unwrap_or(&stand_in));
    let refused = |what: String, remedy: &str| Ok(Axis::Refused { what, remedy: remedy.to_string() });
    let along = format!("dimension '{}'", dimension.name);
    let Some(kind) = kind else {
        return Ok(if dimension.length == 1 { Axis::Single } else { Axis::Unknown });
    };
    match kind {
        Coordinate::Rotated => return Ok(Axis::Rotated),
        Coordinate::Projection => return Ok(Axis::Projection),
        Coordinate::Version => return Ok(Axis::Version),
        Coordinate::Member if dimension.length != 1 => {
            return refused(
                format!("{along} holds an ensemble of {} members", dimension.length),
                &format!("choose one: ncks -d {},0 FILE OUT", dimension.name),
            );
        }
        Coordinate::ModelLevel if dimension.length != 1 => {
            return refused(
                format!("{along} counts model levels (sigma or hybrid), not pressure levels"),
                "interpolate to pressure levels first: cdo ml2pl,85000,50000 FILE OUT",
            );
        }
        Coordinate::Height if dimension.length != 1 => {
            return refused(
                format!("{along} counts heights, not pressure levels"),
                &format!("choose one: ncks -d {},0 FILE OUT", dimension.name),
            );
        }
        Coordinate::Lead | Coordinate::ReferenceTime if dimension.length != 1 => {
            return refused(
                format!("{along} counts lead times of forecasts, not valid times"),
                "keep one lead time per valid time (ncks -d) or split the file by initial time",
            );
        }
        Coordinate::Member | Coordinate::ModelLevel | Coordinate::Lead | Coordinate::ReferenceTime => {
            return Ok(Axis::Single);
        }
        _ => {}
    }
    if dimension.length == 0 {
        return refused(
            format!("{along} has length 0: the file holds no data along it"),
            "name a file that was written to the end",
        );
    }
    let Some(variable) = named else {
        if dimension.length == 1 {
            return Ok(Axis::Single);
        }
        return refused(
            format!(
                "{along} has no coordinate variable that says where its {} entries lie",
                dimension.length
            ),
            "add the coordinate (ncap2, xarray) or ask the file's maker",
        );
    };
    let values = values(schema, source, variable)?;
    match kind {
        Coordinate::Latitude => axes::rows(&values).map(Axis::Latitude),
        Coordinate::Longitude => {
            let columns = axes::columns(&values)?;
            note_columns(&columns, &dimension.name, problems);
            Ok(Axis::Longitude(columns))
        }
        Coordinate::Time => times(schema, source, variable, &values, problems).map(Axis::Time),
        Coordinate::Pressure => pressure(variable, &values, problems),
        Coordinate::Height => Ok(Axis::Height(height(variable, values[0]))),
        _ => Ok(Axis::Unknown),
    }
}

fn note_columns(columns: &Columns, name: &str, problems: &mut Vec<Problem>) {
    let mut note = |severity, sentence: String, remedy: &str| {
        problems.push(Problem { severity, variable: None, sentence, remedy: remedy.to_string() });
    };
    if columns.repeated > 0 {
        let what = format!("the last {} of '{name}' repeat the first: they are dropped", columns.repeated);
        note(Severity::Note, what, "nothing has to be done");
    }
    if columns.westward {
        let what = format!("'{name}' runs westward: it is turned round, and output files run eastward");
        note(Severity::Note, what, "nothing has to be done");
    }
    if !columns.even {
        let what = format!("'{name}' is not evenly spaced");
        note(Severity::Warning, what, "regrid to a regular grid, or check the coordinate");
    }
}

/// Values of a coordinate in its own units; NaN where it is missing.
pub fn values(schema: &Schema, source: &mut dyn Slabs, variable: &RawVariable) -> Result<Vec<f64>> {
    let shape = schema.shape(variable);
    let number = variable.number.ok_or_else(|| {
        Error::input(format!("coordinate '{}' holds text, not numbers", variable.name))
            .hint("rewrite it as a CF coordinate (numbers with units such as 'hours since 1900-01-01')")
    })?;
    let count = shape.iter().try_fold(1_usize, |product, n| product.checked_mul(*n));
    let count = count.filter(|n| *n <= MOST_ENTRIES).ok_or_else(|| {
        Error::input(format!("coordinate '{}' of shape {shape:?} is too long", variable.name))
            .hint("the header may be damaged: copy or download the file again")
    })?;
    let (packing, _) = packing::packing(variable, number)?;
    let mut bytes = vec![0; count * number.size()];
    source.read(&variable.name, &vec![0; shape.len()], &shape, &mut bytes)?;
    let plain = packing.scale.is_identity();
    Ok(packing::numbers(packing.number, &bytes)
        .into_iter()
        .map(|stored| match packing.unpack(stored) {
            // 0.1 written as float32 means 0.1, not 0.10000000149.
            x if plain && number == Number::F32 => (x as f32).to_string().parse().unwrap_or(x),
            x => x,
        })
        .collect())
}

/// Decodes a time coordinate; `problems` gets what is odd about it.
pub fn times(
    schema: &Schema,
    source: &mut dyn Slabs,
    variable: &RawVariable,
    values: &[f64],
    problems: &mut Vec<Problem>,
) -> Result<Times> {
    let name = &variable.name;
    if variable.units().is_empty() {
        return Err(Error::input(format!("time coordinate '{name}' has no units: its dates are not known"))
            .hint(format!("add them: ncatted -a units,{name},o,c,\"hours since 1900-01-01\" FILE")));
    }
    let units = TimeUnits::parse(variable.units(), variable.attributes.text("calendar"))
        .map_err(|error| error.context(format!("time coordinate '{name}'")))?;
    let mut warn = |severity, sentence: String, remedy: &str| {
        problems.push(Problem { severity, variable: None, sentence, remedy: remedy.to_string() });
    };
    if units.counts_months() {
        let what = format!("'{name}' counts in '{}': read as whole calendar months", variable.units());
        warn(Severity::Note, what, "write days or hours since a date to be exact");
    }
    let mut times = Vec::with_capacity(values.len());
    let mut index = Vec::new();
    for (at, value) in values.iter().enumerate() {
        match units.moment(*value) {
            Some(moment) => {
                times.push(moment);
                index.push(at);
            }
            None if value.is_nan() => {}
            None => {
                return Err(Error::input(format!(
                    "'{name}' is {value} {} at index {at}: not a date",
                    variable.units()
                ))
                .hint("the unit or the value is wrong: correct it, or download the file again"));
            }
        }
    }
    let lost = values.len() - times.len();
    if times.is_empty() {
        return Err(
            Error::input(format!("every entry of '{name}' is missing")).hint("download the file again")
        );
    }
    if lost > 0 {
        let what = format!("{lost} of {} entries of '{name}' have no date: they are left out", values.len());
        warn(Severity::Warning, what, "repair the time coordinate, or leave the file out");
    } else {
        index.clear();
    }
    order_problems(name, &times, &mut warn);
    let period = bounds(schema, source, variable, &units, &times, lost > 0).unwrap_or(None);
    Ok(Times { times, index, period })
}

fn order_problems(name: &str, times: &[ValidTime], warn: &mut dyn FnMut(Severity, String, &str)) {
    let order = Order::of(times);
    let step = LeadTime { seconds: order.step };
    if let Some(first) = order.duplicates.first() {
        let count = counted(order.duplicates.len(), "date", "dates");
        let what = format!("'{name}' repeats {count}, the first is {first}");
        warn(
            Severity::Warning,
            what,
            "remove the repetition: cdo mergetime with SKIP_SAME_TIME=1, or ncks -d",
        );
    }
    if let Some(first) = order.backward {
        let what = format!("'{name}' does not run forward: {first} comes after a later date");
        warn(Severity::Warning, what, "sort the file by time: cdo mergetime, or xarray's sortby");
    }
    if let Some((before, after)) = order.gaps.first() {
        let count = counted(order.gaps.len(), "gap", "gaps");
        let what = format!("'{name}' has {count} in its steps of {step}, the first from {before} to {after}");
        warn(
            Severity::Warning,
            what,
            "get the missing dates, or set missing = \"skip\" or \"interpolate\" in [data]",
        );
    }
    if order.short > 0 {
        let what =
            format!("'{name}' has {} shorter than its usual {step}", counted(order.short, "step", "steps"));
        warn(Severity::Warning, what, "choose a step in [data] that all dates share");
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The length of the cells of a time axis, when all are equal and end at their time stamps.
fn bounds(
    schema: &Schema,
    source: &mut dyn Slabs,
    variable: &RawVariable,
    units: &TimeUnits,
    times: &[ValidTime],
    incomplete: bool,
) -> Result<Option<LeadTime>> {
    let name = variable.attributes.text("bounds").unwrap_or("");
    let Some(raw) = schema.variable(name).filter(|b| {
        !incomplete
            && b.dimensions.len() == 2
            && b.dimensions[..1] == variable.dimensions[..]
            && schema.shape(b)[1] == 2
    }) else {
        return Ok(None);
    };
    let values = values(schema, source, raw)?;
    let mut period = None;
    for (pair, time) in values.as_chunks::<2>().0.iter().zip(times) {
        let (Some(start), Some(end)) = (units.moment(pair[0]), units.moment(pair[1])) else {
            return Ok(None);
        };
        let length = end.since(start);
        if end != *time || length.seconds <= 0 || period.is_some_and(|p| p != length) {
            return Ok(None);
        }
        period = Some(length);
    }
    Ok(period)
}

/// A height above ground [m].
pub fn height(variable: &RawVariable, value: f64) -> f64 {
    units::to_si(variable.units())
        .filter(|(si, _)| *si == "m")
        .map_or(value, |(_, linear)| linear.apply(value))
}

/// Pressures in hPa, by decreasing pressure.
fn pressure(variable: &RawVariable, values: &[f64], problems: &mut Vec<Problem>) -> Result<Axis> {
    let name = &variable.name;
    if let [only] = values
        && !(*only > 0.0)
    {
        return Ok(Axis::Single); // ECMWF's -1 for "no level"
    }
    let unit = variable.units();
    let hectopascal: Vec<f64> = match units::to_si(unit) {
        Some(("Pa", linear)) => values.iter().map(|v| linear.apply(*v) / 100.0).collect(),
        _ if unit.is_empty() => {
            let factor = if values.iter().any(|v| *v > 1100.0) { 0.01 } else { 1.0 };
            problems.push(Problem {
                severity: Severity::Note,
                variable: None,
                sentence: format!(
                    "'{name}' has no units: its values are taken for {}",
                    if factor == 1.0 { "hPa" } else { "Pa" }
                ),
                remedy: format!("add them: ncatted -a units,{name},o,c,hPa FILE"),
            });
            values.iter().map(|v| v * factor).collect()
        }
        _ => {
            return Err(Error::input(format!(
                "the levels of '{name}' are in '{unit}', which is no pressure"
            ))
            .hint("interpolate to pressure levels, or correct the unit with ncatted"));
        }
    };
    if let Some(bad) = hectopascal.iter().find(|p| !(**p > 0.0 && **p <= 1100.0)) {
        return Err(Error::input(format!("level {bad} hPa of '{name}' is not in the atmosphere"))
            .hint("the unit attribute is wrong: correct it with ncatted"));
    }
    let levels: Vec<f64> = hectopascal.iter().map(|p| (p * 1e6).round() / 1e6).collect();
    let mut index: Vec<usize> = (0..levels.len()).collect();
    index.sort_by(|a, b| levels[*b].total_cmp(&levels[*a]));
    let sorted: Vec<f64> = index.iter().map(|i| levels[*i]).collect();
    if let Some(w) = sorted.windows(2).find(|w| w[0] == w[1]) {
        return Err(Error::input(format!("level {} hPa of '{name}' comes twice", w[0]))
            .hint("keep one of them: ncks -d"));
    }
    Ok(Axis::Pressure { levels: sorted, index })
}

/// A pressure that is a coordinate of its own, without a dimension [hPa].
pub fn scalar_pressure(variable: &RawVariable, value: f64) -> Option<f64> {
    let mut problems = Vec::new();
    match pressure(variable, &[value], &mut problems) {
        Ok(Axis::Pressure { levels, .. }) => levels.first().copied(),
        _ => None,
    }
}
