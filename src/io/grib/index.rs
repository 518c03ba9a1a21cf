//! From messages to variables: fields of one parameter form a variable over times and levels, in the shape in which
//! [`cf`](super::super::cf) understands NetCDF files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::super::cf::{self, Understood};
use super::super::info::{Format, Number, Problem, Severity};
use super::super::schema::{Attribute, Attributes, RawDimension, RawVariable, Schema};
use super::super::slabs::Slabs;
use super::grid::{self, Shape};
use super::parameters;
use super::product::{self, Naming, Product, Refusal};
use super::sections::{self, Data, Field, Octets};
use super::unpack;
use super::vertical::Vertical;
use crate::error::{Error, Result};
use crate::time::{LeadTime, ValidTime};

/// Periods of one parameter that become variables of their own; with more of them it is accumulated from the start of a
/// forecast.
const MOST_PERIODS: usize = 3;
/// More different fields than any file has.
const MOST_VARIABLES: usize = 4000;
/// A table of times and levels may have this many times as many places as there are messages.
const MOST_SPARSE: usize = 8;

/// Where the fields of a file are, by variable.
#[derive(Debug, Default, PartialEq)]
pub struct Messages(HashMap<String, Places>);

/// The fields of a variable.
#[derive(Debug, PartialEq)]
pub struct Places {
    pub shape: Arc<Shape>,
    /// `[time, level]`
    fields: Vec<Option<Entry>>,
    levels: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Of the message, counted from 1.
    pub message: u32,
    pub data: Data,
}

impl Messages {
    pub fn get(&self, variable: &str) -> Option<&Places> {
        self.0.get(variable)
    }
}

impl Places {
    /// The field of a time and a level of the file; `None` when it has no message.
    pub fn entry(&self, time: usize, level: usize) -> Option<Entry> {
        self.fields.get(time * self.levels + level).copied().flatten()
    }
}

/// What is in a file.
pub struct Indexed {
    pub schema: Schema,
    pub understood: Understood,
    pub messages: Messages,
}

/// Reads the headers of all messages.
pub fn index(path: &Path) -> Result<Indexed> {
    let contents = sections::walk(path, product::describe)?;
    let mut collection = Collection::default();
    contents.fields.iter().for_each(|field| collection.add(field));
    if collection.groups.len() > MOST_VARIABLES {
        return Err(Error::input(format!(
            "{}: holds {} different fields, more than {MOST_VARIABLES}",
            path.display(),
            collection.groups.len()
        ))
        .hint("split it, for example with grib_copy FILE '[shortName].grib2'"));
    }
    let mut problems = collection.refusals();
    if contents.stray > 0 {
        problems.push(Problem {
            severity: Severity::Note,
            variable: None,
            sentence: format!("{} bytes of the file belong to no message", contents.stray),
            remedy: "nothing has to be done".into(),
        });
    }
    let mut header = Header::new();
    if let Some(reference) = collection.reference() {
        header.scalar("forecast_reference_time", reference.seconds as f64, &time_attributes(reference));
    }
    for variable in collection.variables(&mut problems) {
        header.define(variable);
    }
    let mut understood = cf::understand(&header.schema, &mut header.coordinates);
    if understood.variables.is_empty() && problems.iter().all(|p| p.severity != Severity::Refused) {
        return Err(Error::input(format!("{}: holds no field that can be read", path.display()))
            .hint("name a file with fields on latitudes and longitudes"));
    }
    understood.problems.extend(problems);
    Ok(Indexed { schema: header.schema, understood, messages: header.messages })
}

/// What the fields of a variable share.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Key {
    id: (u8, u8, u8),
    centre: u16,
    /// A label of the surface; the same for all pressure levels.
    place: String,
    method: Option<&'static str>,
    grid: usize,
}

/// The fields of a key.
struct Group {
    key: Key,
    /// Of its first field.
    product: Product,
    shape: Arc<Shape>,
    fields: Vec<(Product, Entry)>,
}

/// A grid's number, and its shape or why it is not read.
type Numbered = (usize, Result<Arc<Shape>, Refusal>);

/// Fields by what they are, in the order of the file.
#[derive(Default)]
struct Collection {
    /// By section 3.
    grids: HashMap<Vec<u8>, Numbered>,
    numbers: HashMap<Key, usize>,
    groups: Vec<Group>,
    /// Why fields are not read, and the names of their parameters.
    refused: BTreeMap<Refusal, BTreeSet<String>>,
    references: BTreeSet<ValidTime>,
    ahead: bool,
}

impl Collection {
    fn add(&mut self, field: &Field) {
        match self.understand(field) {
            Ok((product, shape, grid)) => {
                self.references.insert(product.reference);
                self.ahead |= product.valid != product.reference;
                let place = match product.vertical {
                    Some(vertical) if !vertical.is_isobaric() => vertical.label(),
                    Some(_) => "pressure".into(),
                    None => String::new(),
                };
                let centre = if parameters::is_local(product.id) { product.centre } else { 0 };
                let method = product.statistic.map(|s| s.method);
                let key = Key { id: product.id, centre, place, method, grid };
                let at = *self.numbers.entry(key.clone()).or_insert_with(|| {
                    self.groups.push(Group { key, product: product.clone(), shape, fields: Vec::new() });
                    self.groups.len() - 1
                });
                let entry = Entry { message: field.message, data: field.data };
                self.groups[at].fields.push((product, entry));
            }
            Err(refusal) => {
                let name = Product::read(field).map_or_else(
                    |_| {
                        let product = Octets(&field.product);
                        format!("parameter {}.{}.{}", field.discipline, product.u8(10), product.u8(11))
                    },
                    |product| product.naming().name,
                );
                self.refused.entry(refusal).or_default().insert(name);
            }
        }
    }

    fn understand(&mut self, field: &Field) -> Result<(Product, Arc<Shape>, usize), Refusal> {
        let product = Product::read(field)?;
        let number = self.grids.len();
        let (number, shape) = self
            .grids
            .entry(grid::key(&field.grid).to_vec())
            .or_insert_with(|| (number, grid::shape(&field.grid).map(Arc::new)));
        let shape = shape.clone()?;
        unpack::supported(Octets(&field.packing))?;
        Ok((product, shape, *number))
    }

    fn refusals(&self) -> Vec<Problem> {
        let sentence = |((what, remedy), names): (&Refusal, &BTreeSet<String>)| {
            let shown: Vec<String> = names.iter().take(6).map(|n| format!("'{n}'")).collect();
            let more = if names.len() > 6 { format!(" and {} more", names.len() - 6) } else { String::new() };
            Problem {
                severity: Severity::Refused,
                variable: names.first().filter(|_| names.len() == 1).cloned(),
                sentence: format!("{}{more}: {what}", shown.join(", ")),
                remedy: remedy.clone(),
            }
        };
        self.refused.iter().map(sentence).collect()
    }

    /// When the forecast starts that all fields belong to; `None` for analyses and for several forecasts.
    fn reference(&self) -> Option<ValidTime> {
        self.references.first().copied().filter(|_| self.ahead && self.references.len() == 1)
    }

    /// The variables that the groups make, each with a name of its own.
    fn variables(self, problems: &mut Vec<Problem>) -> Vec<Variable> {
        let mut parts: Vec<(Group, Option<LeadTime>, bool)> = Vec::new();
        for group in self.groups {
            parts.extend(by_period(group, problems));
        }
        let base: Vec<Naming> = parts.iter().map(|(group, ..)| group.product.naming()).collect();
        let mut taken = BTreeSet::new();
        let mut variables = Vec::new();
        for (n, (group, period, one_of_several)) in parts.iter().enumerate() {
            let rivals = || (0..parts.len()).filter(|m| *m != n && base[*m].name == base[n].name);
            let differs = |what: &dyn Fn(&Group) -> bool| rivals().any(|m| what(&parts[m].0));
            let mut name = base[n].name.clone();
            if differs(&|other| other.key.place != group.key.place)
                && let Some(vertical) = group.product.vertical.filter(|v| !v.is_isobaric())
            {
                name = format!("{name}_{}", vertical.label());
            }
            if differs(&|other| other.key.method != group.key.method)
                && let Some(method) = group.key.method
            {
                name = format!("{name}_{method}");
            }
            if let Some(period) = period.filter(|_| *one_of_several) {
                name = format!("{name}_{period}");
            }
            if differs(&|other| other.key.grid != group.key.grid) {
                name = format!("{name}_{}x{}", group.shape.latitude.len(), group.shape.longitude.len());
            }
            let plain = name.clone();
            for number in 2.. {
                if taken.insert(name.clone()) {
                    break;
                }
                name = format!("{plain}_{number}");
            }
            let naming = Naming { name, ..base[n].clone() };
            variables.extend(Variable::new(group, naming, *period, problems));
        }
        variables
    }
}

/// Splits a group by the length of its periods. The flag says that there are several.
fn by_period(group: Group, problems: &mut Vec<Problem>) -> Vec<(Group, Option<LeadTime>, bool)> {
    let name = group.product.naming().name;
    let Some(method) = group.key.method else { return vec![(group, None, false)] };
    let mut periods: BTreeMap<LeadTime, Vec<(Product, Entry)>> = BTreeMap::new();
    for (product, entry) in &group.fields {
        let period = product.statistic.map_or(LeadTime::ZERO, |s| s.period);
        periods.entry(period).or_default().push((product.clone(), *entry));
    }
    let mut problem = |severity, sentence: String, remedy: &str| {
        let variable = Some(name.clone());
        problems.push(Problem { severity, variable, sentence, remedy: remedy.to_string() });
    };
    if periods.remove(&LeadTime::ZERO).is_some() {
        let what =
            format!("'{name}' is a {method} over no time at the start of the forecast: left out there");
        problem(Severity::Note, what, "nothing has to be done");
    }
    if periods.len() > MOST_PERIODS {
        let [first, last] = [periods.keys().next(), periods.keys().next_back()]
            .map(|period| period.map_or(String::new(), LeadTime::to_string));
        let what = format!(
            "'{name}' is a {method} over {} different periods, from {first} to {last}: since the start of the forecast",
            periods.len()
        );
        problem(Severity::Refused, what, "bring it to one period: cdo deltat FILE OUT");
        return Vec::new();
    }
    let several = periods.len() > 1;
    let part = |(period, fields): (LeadTime, Vec<(Product, Entry)>)| {
        let (key, product, shape) = (group.key.clone(), group.product.clone(), group.shape.clone());
        (Group { key, product, shape, fields }, Some(period), several)
    };
    periods.into_iter().map(part).collect()
}

/// A variable before it has dimensions.
struct Variable {
    naming: Naming,
    method: Option<&'static str>,
    period: Option<LeadTime>,
    height: Option<f64>,
    shape: Arc<Shape>,
    times: Vec<ValidTime>,
    /// By decreasing pressure [Pa]; empty without levels.
    levels: Vec<f64>,
    fields: Vec<Option<Entry>>,
}

impl Variable {
    fn new(
        group: &Group,
        naming: Naming,
        period: Option<LeadTime>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let name = &naming.name;
        let mut problem = |severity, sentence: String, remedy: &str| {
            let variable = Some(name.clone());
            problems.push(Problem { severity, variable, sentence, remedy: remedy.to_string() });
        };
        let members: BTreeSet<Option<u8>> = group.fields.iter().map(|(product, _)| product.member).collect();
        if members.len() > 1 {
            let what = format!("'{name}' holds an ensemble of {} members", members.len());
            problem(Severity::Refused, what, "choose one: grib_copy -w perturbationNumber=1 FILE OUT");
            return None;
        }
        let pressure = |product: &Product| match product.vertical {
            Some(Vertical::Isobaric(pressure)) => Some(pressure),
            _ => None,
        };
        let mut levels: Vec<f64> = group.fields.iter().filter_map(|(product, _)| pressure(product)).collect();
        levels.sort_by(|a, b| b.total_cmp(a));
        levels.dedup();
        // A date that comes again on the same level is a further entry of the time axis.
        let mut seen: HashMap<(ValidTime, u64), usize> = HashMap::new();
        let mut entries = Vec::new();
        for (product, entry) in &group.fields {
            let level = pressure(product);
            let count = seen.entry((product.valid, level.map_or(0, f64::to_bits))).or_default();
            entries.push(((product.valid, *count), level, *entry));
            *count += 1;
        }
        let mut times: Vec<(ValidTime, usize)> = entries.iter().map(|(time, ..)| *time).collect();
        times.sort_unstable();
        times.dedup();
        let across = levels.len().max(1);
        if times.len().saturating_mul(across) > MOST_SPARSE.saturating_mul(entries.len() + 8) {
            let what = format!(
                "'{name}' has {} messages for {} times and {across} levels: most are missing",
                entries.len(),
                times.len()
            );
            problem(Severity::Refused, what, "put fields with the same levels and times into one file");
            return None;
        }
        let mut fields = vec![None; times.len() * across];
        for (time, level, entry) in entries {
            let row = times.binary_search(&time).unwrap_or(0);
            let column = level.and_then(|p| levels.binary_search_by(|q| p.total_cmp(q)).ok()).unwrap_or(0);
            fields[row * across + column] = Some(entry);
        }
        let times: Vec<ValidTime> = times.into_iter().map(|(time, _)| time).collect();
        let holes: Vec<usize> = (0..fields.len()).filter(|n| fields[*n].is_none()).collect();
        if let Some(first) = holes.first() {
            let level =
                levels.get(first % across).map_or(String::new(), |p| format!(" on {} hPa", p / 100.0));
            let what = format!(
                "'{name}' lacks {} of {} fields, the first{level} at {}",
                holes.len(),
                fields.len(),
                times[first / across]
            );
            problem(
                Severity::Warning,
                what,
                "get the missing fields, or set missing = \"skip\" or \"interpolate\" in [data]",
            );
        }
        Some(Self {
            method: group.key.method,
            period,
            height: group.product.vertical.and_then(Vertical::height),
            shape: group.shape.clone(),
            naming,
            times,
            levels,
            fields,
        })
    }
}

/// The file as if it were NetCDF: dimensions are shared by the variables along them.
struct Header {
    schema: Schema,
    coordinates: Coordinates,
    messages: Messages,
}

/// What the coordinates hold.
struct Coordinates(HashMap<String, Vec<f64>>);

impl Slabs for Coordinates {
    fn read(&mut self, variable: &str, _start: &[usize], count: &[usize], out: &mut [u8]) -> Result<()> {
        let values = self.0.get(variable).filter(|v| count.iter().product::<usize>() == v.len());
        let Some(values) = values.filter(|v| v.len() * Number::F64.size() == out.len()) else {
            return Err(Error::run(format!("there is no coordinate '{variable}' of the shape {count:?}")));
        };
        for (bytes, value) in out.chunks_exact_mut(Number::F64.size()).zip(values) {
            bytes.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    }
}

type Texts<'a> = [(&'a str, String)];

fn time_attributes(time: ValidTime) -> [(&'static str, String); 2] {
    [
        ("units", "seconds since 1970-01-01 00:00:00".to_string()),
        ("calendar", time.calendar.cf_name().to_string()),
    ]
}

impl Header {
    fn new() -> Self {
        let schema = Schema { format: Format::Grib2, dimensions: vec![], variables: vec![], groups: vec![] };
        Self { schema, coordinates: Coordinates(HashMap::new()), messages: Messages::default() }
    }

    fn define(&mut self, variable: Variable) {
        let seconds: Vec<f64> = variable.times.iter().map(|time| time.seconds as f64).collect();
        let mut time_texts = variable.times.first().map_or(Vec::new(), |t| time_attributes(*t).to_vec());
        time_texts.push(("standard_name", "time".into()));
        let time = match variable.period {
            None => self.dimension("time", &seconds, &time_texts),
            Some(period) => self.periods(&seconds, period, &time_texts),
        };
        let mut dimensions = vec![time];
        if !variable.levels.is_empty() {
            let texts = [("units", "Pa".to_string()), ("standard_name", "air_pressure".to_string())];
            dimensions.push(self.dimension("level", &variable.levels, &texts));
        }
        let shape = &variable.shape;
        dimensions.push(self.dimension("latitude", &shape.latitude, &[("units", "degrees_north".into())]));
        dimensions.push(self.dimension("longitude", &shape.longitude, &[("units", "degrees_east".into())]));
        let naming = &variable.naming;
        let mut texts = vec![("units", naming.units.to_string())];
        texts.extend(naming.standard_name.map(|text| ("standard_name", text.to_string())));
        texts.extend(naming.long_name.clone().map(|text| ("long_name", text)));
        texts.extend(variable.method.map(|method| ("cell_methods", format!("time: {method}"))));
        if let Some(height) = variable.height {
            let name = format!("height_{height}m");
            if self.schema.variable(&name).is_none() {
                let texts = [("units", "m".to_string()), ("standard_name", "height".to_string())];
                self.scalar(&name, height, &texts);
            }
            texts.push(("coordinates", name));
        }
        self.variable(&naming.name, Number::F32, dimensions, &texts);
        let levels = variable.levels.len().max(1);
        let places = Places { shape: variable.shape, fields: variable.fields, levels };
        self.messages.0.insert(variable.naming.name, places);
    }

    /// The dimension with these coordinates, made when there is none.
    fn dimension(&mut self, kind: &str, values: &[f64], texts: &Texts<'_>) -> usize {
        let is_it = |d: &RawDimension| {
            let same_kind = d.name == kind || d.name.strip_prefix(kind).is_some_and(|r| r.starts_with('_'));
            let plain = self.schema.variable(&d.name).is_some_and(|v| v.attributes.get("bounds").is_none());
            same_kind && plain && self.coordinates.0.get(&d.name).is_some_and(|v| v == values)
        };
        match self.schema.dimensions.iter().position(is_it) {
            Some(found) => found,
            None => self.new_dimension(kind, values, texts),
        }
    }

    fn new_dimension(&mut self, kind: &str, values: &[f64], texts: &Texts<'_>) -> usize {
        let taken = |name: &str| self.schema.dimensions.iter().any(|d| d.name == name);
        let mut name = kind.to_string();
        for number in 2.. {
            if !taken(&name) {
                break;
            }
            name = format!("{kind}_{number}");
        }
        self.schema.dimensions.push(RawDimension { name: name.clone(), length: values.len() });
        let at = self.schema.dimensions.len() - 1;
        self.variable(&name, Number::F64, vec![at], texts);
        self.coordinates.0.insert(name, values.to_vec());
        at
    }

    /// A time axis whose values stand for a period before each time.
    fn periods(&mut self, ends: &[f64], period: LeadTime, texts: &Texts<'_>) -> usize {
        let bounds: Vec<f64> = ends.iter().flat_map(|end| [end - period.seconds as f64, *end]).collect();
        let same = |d: &RawDimension| {
            let name = self.schema.variable(&d.name).and_then(|v| v.attributes.text("bounds"));
            name.is_some_and(|name| self.coordinates.0.get(name) == Some(&bounds))
        };
        if let Some(found) = self.schema.dimensions.iter().position(same) {
            return found;
        }
        let name = format!("time_bounds_{}", self.schema.dimensions.len() + 1);
        let mut texts = texts.to_vec();
        texts.push(("bounds", name.clone()));
        let time = self.new_dimension("time", ends, &texts);
        self.schema.dimensions.push(RawDimension { name: format!("{name}_ends"), length: 2 });
        let pair = self.schema.dimensions.len() - 1;
        self.variable(&name, Number::F64, vec![time, pair], &[]);
        self.coordinates.0.insert(name, bounds);
        time
    }

    fn scalar(&mut self, name: &str, value: f64, texts: &Texts<'_>) {
        let mut texts = texts.to_vec();
        if name == "forecast_reference_time" {
            texts.push(("standard_name", name.to_string()));
        }
        self.variable(name, Number::F64, vec![], &texts);
        self.coordinates.0.insert(name.to_string(), vec![value]);
    }

    fn variable(&mut self, name: &str, number: Number, dimensions: Vec<usize>, texts: &Texts<'_>) {
        let text = |(key, value): &(&str, String)| (key.to_string(), Attribute::Text(value.clone()));
        self.schema.variables.push(RawVariable {
            name: name.to_string(),
            number: Some(number),
            dimensions,
            attributes: Attributes(texts.iter().map(text).collect()),
            chunks: None,
            place: None,
        });
    }
}
