//! From messages to variables: fields of one parameter form a variable over times and levels.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::super::cf::{self, Understood};
use super::super::info::{Problem, Severity};
use super::super::schema::Schema;
use super::grid::{self, Shape};
use super::header::Header;
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
pub struct Messages(pub(super) HashMap<String, Places>);

/// The fields of a variable.
#[derive(Debug, PartialEq)]
pub struct Places {
    pub shape: Arc<Shape>,
    /// `[time, level]`
    pub(super) fields: Vec<Option<Entry>>,
    pub(super) levels: usize,
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
        header.starts(reference);
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
pub struct Variable {
    pub naming: Naming,
    pub method: Option<&'static str>,
    pub period: Option<LeadTime>,
    pub height: Option<f64>,
    pub shape: Arc<Shape>,
    pub times: Vec<ValidTime>,
    /// By decreasing pressure [Pa]; empty without levels.
    pub levels: Vec<f64>,
    pub fields: Vec<Option<Entry>>,
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
