//! A GRIB file as if it were NetCDF, in the shape in which [`cf`](super::super::cf) understands files.

use std::collections::HashMap;

use super::super::info::{Format, Number};
use super::super::schema::{Attribute, Attributes, RawDimension, RawVariable, Schema};
use super::super::slabs::Slabs;
use super::index::{Messages, Places, Variable};
use crate::error::{Error, Result};
use crate::time::{LeadTime, ValidTime};

/// What the file would be; dimensions are shared by the variables along them.
pub struct Header {
    pub schema: Schema,
    pub coordinates: Coordinates,
    pub messages: Messages,
}

/// What the coordinates hold.
pub struct Coordinates(HashMap<String, Vec<f64>>);

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
    pub fn new() -> Self {
        let schema = Schema { format: Format::Grib2, dimensions: vec![], variables: vec![], groups: vec![] };
        Self { schema, coordinates: Coordinates(HashMap::new()), messages: Messages::default() }
    }

    /// All fields belong to the forecast that starts then.
    pub fn starts(&mut self, reference: ValidTime) {
        let name = "forecast_reference_time";
        let mut texts = time_attributes(reference).to_vec();
        texts.push(("standard_name", name.into()));
        self.scalar(name, reference.seconds as f64, &texts);
    }

    pub fn define(&mut self, variable: Variable) {
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
        self.variable(name, Number::F64, vec![], texts);
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
