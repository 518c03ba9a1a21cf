//! What a header says, before anybody interprets it: the same for every NetCDF flavour.

use super::info::{Format, Number};

/// Dimensions, attributes and variables as the file names them.
#[derive(Debug, Clone)]
pub struct Schema {
    pub format: Format,
    pub dimensions: Vec<RawDimension>,
    pub variables: Vec<RawVariable>,
    /// Groups below the root, which are not read.
    pub groups: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct RawDimension {
    pub name: String,
    pub length: usize,
}

#[derive(Debug, Clone)]
pub struct RawVariable {
    pub name: String,
    /// `None` for characters, strings and compound types.
    pub number: Option<Number>,
    /// Indices into [`Schema::dimensions`].
    pub dimensions: Vec<usize>,
    pub attributes: Attributes,
    pub chunks: Option<Vec<usize>>,
    /// Where the numbers lie, for the classic formats.
    pub place: Option<Place>,
}

/// Where a variable of a classic file lies.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// First byte.
    pub begin: u64,
    /// From one record to the next [bytes]; `None` for a variable without the record dimension.
    pub record_stride: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Text(String),
    Numbers { values: Vec<f64>, number: Number },
}

#[derive(Debug, Clone, Default)]
pub struct Attributes(pub Vec<(String, Attribute)>);

impl Attributes {
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// A text attribute without the blanks around it; empty text counts as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Attribute::Text(text)) => Some(text.trim()).filter(|t| !t.is_empty()),
            _ => None,
        }
    }

    pub fn numbers(&self, name: &str) -> Option<(&[f64], Number)> {
        match self.get(name) {
            Some(Attribute::Numbers { values, number }) => Some((values, *number)),
            _ => None,
        }
    }
}

impl Schema {
    pub fn variable(&self, name: &str) -> Option<&RawVariable> {
        self.variables.iter().find(|v| v.name == name)
    }

    /// Lengths of a variable's dimensions.
    pub fn shape(&self, variable: &RawVariable) -> Vec<usize> {
        variable.dimensions.iter().map(|d| self.dimensions[*d].length).collect()
    }

    /// `t2m(time, latitude, longitude)`
    pub fn signature(&self, variable: &RawVariable) -> String {
        let names: Vec<&str> =
            variable.dimensions.iter().map(|d| self.dimensions[*d].name.as_str()).collect();
        format!("{}({})", variable.name, names.join(", "))
    }
}

impl RawVariable {
    pub fn units(&self) -> &str {
        self.attributes.text("units").unwrap_or("")
    }

    /// Lower case, empty when there is none or it says nothing (`unknown`).
    pub fn standard_name(&self) -> String {
        let name = self.attributes.text("standard_name").unwrap_or("").to_ascii_lowercase();
        if name == "unknown" { String::new() } else { name }
    }
}
