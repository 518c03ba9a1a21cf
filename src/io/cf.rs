//! From a header and its coordinates to fields: the CF conventions, and what people write instead of them.

use std::collections::{BTreeMap, HashSet};

use super::axes::{self, Coordinate};
use super::coordinates::{self, Axes, Axis};
use super::info::{Dimension, Linear, Number, Problem, Role, Severity, VariableInfo};
use super::names::{self, Setting};
use super::schema::{RawVariable, Schema};
use super::slabs::Slabs;
use super::{packing, units};
use crate::error::{self, Error, Result};
use crate::grid::{Grid, Orientation};
use crate::time::{LeadTime, ValidTime};

/// Larger fields do not fit a step of any model; a header that asks for them is damaged.
const MOST_POINTS: usize = 1_000_000_000;

/// More coordinates without a dimension, or curvilinear ones, than any file has; the rest is not looked at.
const MOST_SCALARS: usize = 64;

/// What was understood of a file.
pub struct Understood {
    pub variables: Vec<VariableInfo>,
    pub problems: Vec<Problem>,
    pub forecast_reference_time: Option<ValidTime>,
}

/// Interprets a header. Reads coordinates, and nothing else, from `source`.
pub fn understand(schema: &Schema, source: &mut dyn Slabs) -> Understood {
    let axes = coordinates::read(schema, source);
    let scalars = Scalars::read(schema, source);
    let auxiliary = auxiliary(schema);
    let curved: Vec<&RawVariable> = schema
        .variables
        .iter()
        .filter(|v| v.dimensions.len() > 1 && axes::recognise(v) == Some(Coordinate::Latitude))
        .take(MOST_SCALARS)
        .collect();
    let file = File { schema, axes: &axes, scalars: &scalars, curved: &curved };
    let mut understood = Understood {
        variables: Vec::new(),
        problems: Vec::new(),
        forecast_reference_time: scalars.reference,
    };
    let mut refusals: BTreeMap<(Severity, String, String), Vec<String>> = BTreeMap::new();
    let mut used = vec![false; axes.axes.len()];
    for raw in &schema.variables {
        let Some(number) = raw.number else { continue };
        if raw.dimensions.is_empty() || auxiliary.contains(raw.name.as_str()) {
            continue;
        }
        let mut notes = Vec::new();
        match file.field(raw, number, &mut notes) {
            Ok(info) => {
                raw.dimensions.iter().for_each(|d| used[*d] = true);
                understood.variables.push(info);
                understood.problems.append(&mut notes);
            }
            Err(Refusal { severity, what, remedy }) => {
                refusals.entry((severity, what, remedy)).or_default().push(raw.name.clone());
            }
        }
    }
    for (problems, _) in axes.problems.into_iter().zip(&used).filter(|(_, used)| **used) {
        understood.problems.extend(problems);
    }
    for ((severity, what, remedy), names) in refusals {
        let shown = names.iter().take(6).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
        let more = if names.len() > 6 { format!(" and {} more", names.len() - 6) } else { String::new() };
        let variable = (names.len() == 1).then(|| names[0].clone());
        let sentence = format!("{shown}{more}: {what}");
        understood.problems.push(Problem { severity, variable, sentence, remedy });
    }
    if !schema.groups.is_empty() {
        understood.problems.push(Problem {
            severity: Severity::Note,
            variable: None,
            sentence: format!("groups are not read: {}", schema.groups.join(", ")),
            remedy: "bring a group's variables to the root: ncks -G : FILE OUT".into(),
        });
    }
    understood
}

/// Coordinates without a dimension.
struct Scalars {
    time: Option<(String, ValidTime)>,
    reference: Option<ValidTime>,
    heights: Vec<(String, f64)>,
    pressures: Vec<(String, f64)>,
    /// Why a scalar time could not be read.
    time_trouble: Option<(String, Error)>,
}

impl Scalars {
    fn read(schema: &Schema, source: &mut dyn Slabs) -> Self {
        let mut scalars =
            Self { time: None, reference: None, heights: vec![], pressures: vec![], time_trouble: None };
        let alone = schema.variables.iter().filter(|v| v.dimensions.is_empty() && v.number.is_some());
        for raw in alone.take(MOST_SCALARS) {
            let Some(kind) = axes::recognise(raw) else { continue };
            let Ok(values) = coordinates::values(schema, source, raw) else { continue };
            let Some(value) = values.first().copied().filter(|v| v.is_finite()) else { continue };
            let mut moment = || {
                coordinates::times(schema, source, raw, &values, &mut Vec::new()).map(|times| times.times[0])
            };
            match kind {
                Coordinate::Time => match moment() {
                    Ok(time) => scalars.time = Some((raw.name.clone(), time)),
                    Err(error) => scalars.time_trouble = Some((raw.name.clone(), error)),
                },
                Coordinate::ReferenceTime => scalars.reference = moment().ok(),
                Coordinate::Height => {
                    scalars.heights.push((raw.name.clone(), coordinates::height(raw, value)))
                }
                Coordinate::Pressure => {
                    if let Some(pressure) = coordinates::scalar_pressure(raw, value) {
                        scalars.pressures.push((raw.name.clone(), pressure));
                    }
                }
                _ => {}
            }
        }
        scalars
    }
}

/// Variables that describe others.
fn auxiliary(schema: &Schema) -> HashSet<&str> {
    let mut names = HashSet::new();
    for raw in &schema.variables {
        for attribute in ["bounds", "climatology", "coordinates", "grid_mapping", "ancillary_variables"] {
            names.extend(raw.attributes.text(attribute).unwrap_or("").split_whitespace());
        }
        let measures = raw.attributes.text("cell_measures").unwrap_or("");
        names.extend(measures.split_whitespace().filter(|word| !word.ends_with(':')));
        let own = raw.dimensions.len() == 1 && schema.dimensions[raw.dimensions[0]].name == raw.name;
        let place = matches!(
            axes::recognise(raw),
            Some(Coordinate::Latitude | Coordinate::Longitude | Coordinate::Time | Coordinate::ReferenceTime)
        );
        if own || place {
            names.insert(raw.name.as_str());
        }
    }
    names
}

struct Refusal {
    severity: Severity,
    what: String,
    remedy: String,
}

fn refuse<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { severity: Severity::Refused, what: what.into(), remedy: remedy.into() })
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let remedy = error.advice().unwrap_or("see `ncdump -h`").to_string();
        Self { severity: Severity::Refused, what: error::chain(&error), remedy }
    }
}

/// What the fields of a file share.
struct File<'a> {
    schema: &'a Schema,
    axes: &'a Axes,
    scalars: &'a Scalars,
    /// Latitudes with more than one dimension.
    curved: &'a [&'a RawVariable],
}

impl File<'_> {
    fn field(
        &self,
        raw: &RawVariable,
        number: Number,
        notes: &mut Vec<Problem>,
    ) -> Result<VariableInfo, Refusal> {
        let Self { schema, axes, scalars, .. } = *self;
        let along: Vec<&Axis> = raw.dimensions.iter().map(|d| &axes.axes[*d]).collect();
        self.on_a_grid(raw, &along)?;
        let mut dimensions: Vec<Dimension> = Vec::new();
        let (mut rows, mut columns, mut times, mut levels, mut height) = (None, None, None, None, None);
        for (id, axis) in raw.dimensions.iter().zip(&along) {
            let dimension = &schema.dimensions[*id];
            let role = match axis {
                Axis::Latitude(found) => {
                    rows = Some(found);
                    Role::Latitude
                }
                Axis::Longitude(found) => {
                    columns = Some(found);
                    Role::Longitude
                }
                Axis::Time(found) => {
                    times = Some(found);
                    Role::Time
                }
                Axis::Pressure { levels: found, index } => {
                    levels = Some((found, index));
                    Role::Level
                }
                Axis::Height(metres) => {
                    height = Some(*metres);
                    Role::Single
                }
                Axis::Version => Role::Version,
                Axis::Single => Role::Single,
                Axis::Refused { what, remedy } => return refuse(what, remedy),
                Axis::Rotated | Axis::Projection | Axis::Unknown => {
                    return refuse(
                        format!(
                            "dimension '{}' of length {} is neither time, level, latitude nor longitude",
                            dimension.name, dimension.length
                        ),
                        format!(
                            "give its coordinate units or a standard_name, or choose one: ncks -d {},0",
                            dimension.name
                        ),
                    );
                }
            };
            if role != Role::Single && dimensions.iter().any(|d| d.role == role) {
                return refuse(format!("has two dimensions for {role:?}"), "split the variable (ncks -d)");
            }
            dimensions.push(Dimension { name: dimension.name.clone(), length: dimension.length, role });
        }
        let (Some(rows), Some(columns)) = (rows, columns) else {
            return refuse("is not on a latitude-longitude grid", "regrid it first");
        };
        let grid = Grid::new(rows.latitude.clone(), columns.longitude.clone())?;
        if grid.rows().checked_mul(grid.columns()).is_none_or(|points| points > MOST_POINTS) {
            return refuse(
                format!("a field of {} x {} points is too large", grid.rows(), grid.columns()),
                "the header may be damaged: copy or download the file again",
            );
        }
        let words: HashSet<&str> =
            raw.attributes.text("coordinates").unwrap_or("").split_whitespace().collect();
        let listed = |name: &str| words.contains(name);
        let times = match times {
            Some(axis) => axis.clone(),
            None => {
                if let Some((name, error)) = &scalars.time_trouble
                    && listed(name)
                {
                    return refuse(error::chain(error), error.advice().unwrap_or("set the time's units"));
                }
                let time = scalars.time.iter().map(|(_, time)| *time).collect();
                coordinates::Times { times: time, index: Vec::new(), period: None }
            }
        };
        height = height.or(scalars.heights.iter().find(|(name, _)| listed(name)).map(|(_, metres)| *metres));
        let scalar_level =
            scalars.pressures.iter().find(|(name, _)| listed(name)).map(|(_, pressure)| *pressure);
        let (levels, level_index) = match (levels, scalar_level) {
            (Some((levels, index)), _) => (levels.clone(), index.clone()),
            (None, Some(level)) => (vec![level], Vec::new()),
            (None, None) => (Vec::new(), Vec::new()),
        };
        let (statistic, interval) = statistic(raw);
        let setting = Setting { has_levels: !levels.is_empty(), height, statistic: statistic.clone() };
        let known = names::quantity(raw, &setting);
        let (packing, ignored) = packing::packing(raw, number)?;
        for sentence in ignored {
            let remedy = "correct the attribute's type with ncatted".to_string();
            notes.push(Problem {
                severity: Severity::Note,
                variable: Some(raw.name.clone()),
                sentence,
                remedy,
            });
        }
        let period = statistic.as_ref().and(times.period.or(interval));
        let mut info = VariableInfo {
            name: raw.name.clone(),
            quantity_name: known.map_or_else(|| raw.name.clone(), |v| v.name.to_string()),
            standard_name: Some(raw.standard_name()).filter(|n| !n.is_empty()),
            long_name: raw.attributes.text("long_name").map(str::to_string),
            file_units: raw.units().to_string(),
            units: String::new(),
            conversion: Linear::IDENTITY,
            refused: None,
            packing,
            levels,
            level_index,
            height,
            times: times.times,
            time_index: times.index,
            grid,
            grid_kind: rows.kind,
            orientation: Orientation {
                latitude_descending: rows.descending,
                longitude_shift: columns.shift,
                longitude_signed: columns.signed,
            },
            columns: columns.file.clone(),
            dimensions,
            chunks: raw.chunks.clone(),
            period,
            statistic,
        };
        info.settle_units();
        if let Some(sentence) = &info.refused {
            notes.push(Problem {
                severity: Severity::Refused,
                variable: Some(raw.name.clone()),
                sentence: sentence.clone(),
                remedy: format!(
                    "say it in the source (unit = \"...\"), or: ncatted -a units,{},o,c,... FILE",
                    raw.name
                ),
            });
        }
        if info.is_accumulated() && info.period.is_none() {
            notes.push(Problem {
            severity: Severity::Warning,
            variable: Some(raw.name.clone()),
            sentence: format!("'{}' is accumulated, and the file does not say over which period", raw.name),
            remedy: format!(
                "make sure that all files accumulate over the same period, and write it into them: ncatted -a cell_methods,{},o,c,\"time: sum (interval: 1 hour)\" FILE",
                raw.name
            ),
        });
        }
        Ok(info)
    }

    /// Refuses what has no rows and columns of a latitude-longitude grid, saying what it is instead.
    fn on_a_grid(&self, raw: &RawVariable, along: &[&Axis]) -> Result<(), Refusal> {
        let has = |test: fn(&Axis) -> bool| along.iter().any(|a| test(a));
        if has(|a| matches!(a, Axis::Latitude(_))) && has(|a| matches!(a, Axis::Longitude(_))) {
            return Ok(());
        }
        if has(|a| matches!(a, Axis::Rotated)) {
            return refuse(
                "lies on a rotated-pole grid, whose rows and columns are not latitudes and longitudes",
                "regrid it first: cdo remapbil,r360x180 FILE OUT",
            );
        }
        // The staggered grids of a file with one curvilinear grid are curvilinear too.
        let shares =
            |v: &&&RawVariable| v.dimensions.iter().filter(|d| raw.dimensions.contains(d)).count() > 1;
        let anywhere = self.curved.first().filter(|_| raw.dimensions.len() > 1);
        if let Some(latitude) = self.curved.iter().find(shares).or(anywhere) {
            return refuse(
                format!("lies on a curvilinear grid (latitude is {})", self.schema.signature(latitude)),
                "regrid it first: cdo remapbil,r360x180 FILE OUT, or xesmf",
            );
        }
        if has(|a| matches!(a, Axis::Projection)) {
            return refuse(
                "lies on the grid of a map projection",
                "regrid it first: cdo remapbil,r360x180 FILE OUT",
            );
        }
        // A broken latitude or longitude axis is the reason, where there is one.
        for axis in along {
            if let Axis::Refused { what, remedy } = axis {
                return refuse(what, remedy);
            }
        }
        Err(Refusal {
            severity: Severity::Note,
            what: format!("no field on a latitude-longitude grid ({})", self.schema.signature(raw)),
            remedy: "name files with latitude and longitude coordinates".into(),
        })
    }
}

/// What a value stands for in time, and over how long where that is written: `cell_methods = "time: sum (interval: 1 hr)"`.
fn statistic(raw: &RawVariable) -> (Option<String>, Option<LeadTime>) {
    let methods = raw.attributes.text("cell_methods").unwrap_or("").to_ascii_lowercase();
    if let Some(at) = methods.find("time:") {
        let rest = &methods[at + 5..];
        let word = rest.split_whitespace().next().unwrap_or("");
        let interval = rest.split_once("interval:").and_then(|(_, text)| {
            let mut words = text.trim().trim_end_matches(')').split_whitespace();
            let count: f64 = words.next()?.parse().ok()?;
            let length = match words.next()?.trim_end_matches(')') {
                "hr" | "hour" | "hours" | "h" => 3600.0,
                "min" | "minute" | "minutes" => 60.0,
                "day" | "days" | "d" => 86_400.0,
                _ => return None,
            };
            Some(LeadTime { seconds: (count * length) as i64 }).filter(|p| p.seconds > 0)
        });
        // For a mean the interval is that of the samples, not the period.
        return match word {
            "point" | "" => (None, None),
            "sum" => (Some("sum".into()), interval),
            other => (Some(other.to_string()), None),
        };
    }
    let statistic = match raw.attributes.text("GRIB_stepType") {
        Some("accum") => "sum",
        Some("avg") => "mean",
        Some("max") => "maximum",
        Some("min") => "minimum",
        _ => return (None, None),
    };
    (Some(statistic.into()), None)
}

impl VariableInfo {
    /// Finds the way from the file's units to SI, or why there is none.
    pub(super) fn settle_units(&mut self) {
        self.conversion = Linear::IDENTITY;
        self.refused = None;
        match self.known() {
            None => match units::to_si(&self.file_units) {
                Some((si, linear)) => (self.units, self.conversion) = (si.to_string(), linear),
                None => self.units = self.file_units.clone(),
            },
            Some(known) => {
                self.units = known.units.to_string();
                if self.file_units.is_empty() && known.units != "1" {
                    let what = format!(
                        "'{}' has no units; {} is expected in {}",
                        self.name, known.long_name, known.units
                    );
                    self.refused = Some(what);
                } else if !self.file_units.is_empty() {
                    match units::convert(&self.file_units, known) {
                        Ok(linear) => self.conversion = linear,
                        Err(error) => self.refused = Some(format!("'{}': {error}", self.name)),
                    }
                }
            }
        }
    }

    /// Takes the user's word for what the file does not say or says wrongly: the quantity, the unit of the stored
    /// values, the period of an accumulation.
    pub fn assume(
        &mut self,
        quantity: Option<&str>,
        unit: Option<&str>,
        period: Option<LeadTime>,
    ) -> Result<()> {
        if let Some(name) = quantity {
            self.quantity_name = crate::variable::Variable::find(name).map_or(name, |v| v.name).to_string();
        }
        if let Some(unit) = unit {
            self.file_units = unit.to_string();
        }
        self.period = period.or(self.period);
        self.settle_units();
        match &self.refused {
            Some(sentence) => {
                Err(Error::input(sentence.clone()).hint("say its unit in the source (unit = \"...\")"))
            }
            None => Ok(()),
        }
    }
}
