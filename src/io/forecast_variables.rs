//! How the channels of a state share the variables of a forecast file.

use super::forecast_file::FileUnits;
use super::info::Linear;
use crate::field::Layout;
use crate::variable::Quantity;

/// A variable of a file: one quantity, on one level, several, or none.
#[derive(Debug, PartialEq)]
pub(super) struct FileVariable {
    /// Unique in the file.
    pub name: String,
    /// The quantity, without its level.
    pub quantity: Quantity,
    /// [hPa], by decreasing pressure; empty when the quantity has no level.
    pub levels: Vec<f64>,
    /// The channels of the state, in the order of `levels`.
    pub channels: Vec<usize>,
    pub level_dimension: Option<String>,
    pub standard_name: Option<&'static str>,
    pub long_name: String,
    pub file_units: String,
    /// From the file's units to SI units; `None` when they are the same.
    pub conversion: Option<Linear>,
}

/// Quantities of one name share a variable, each level an entry of its `level` dimension. Where variables differ in
/// their levels, each set of levels has a dimension of its own, so that no field of a file is without data.
pub(super) fn plan_variables(layout: &Layout, units: &[FileUnits]) -> Vec<FileVariable> {
    let mut variables: Vec<FileVariable> = Vec::new();
    for (channel, quantity) in layout.quantities.iter().enumerate() {
        let own = units.get(channel);
        let shared = variables.iter_mut().find(|v| {
            let same = v.quantity.name == quantity.name && v.file_units == file_units(quantity, own);
            same && quantity.level.is_some() && !v.levels.is_empty()
        });
        match (shared, quantity.level) {
            (Some(variable), Some(level)) => {
                let place =
                    variable.levels.iter().position(|&other| other < level).unwrap_or(variable.levels.len());
                variable.levels.insert(place, level);
                variable.channels.insert(place, channel);
            }
            _ => variables.push(new_variable(quantity, channel, own)),
        }
    }
    name_variables(&mut variables);
    name_levels(&mut variables);
    variables
}

fn file_units<'a>(quantity: &Quantity, own: Option<&'a FileUnits>) -> &'a str {
    own.map_or(quantity.variable().map_or("1", |v| v.units), |u| u.units.as_str())
}

fn new_variable(quantity: &Quantity, channel: usize, own: Option<&FileUnits>) -> FileVariable {
    let known = quantity.variable();
    let file_units = file_units(quantity, own).to_owned();
    // A length in place of a specific energy: the files carry geopotential height.
    let height = quantity.name == "z" && matches!(&*file_units, "m" | "gpm" | "dam" | "gpdam");
    FileVariable {
        name: String::new(),
        quantity: Quantity::new(quantity.name.clone(), None),
        levels: quantity.level.into_iter().collect(),
        channels: vec![channel],
        level_dimension: None,
        standard_name: if height { Some("geopotential_height") } else { known.map(|v| v.standard_name) },
        long_name: match known {
            _ if height => "geopotential height".into(),
            Some(variable) => variable.long_name.into(),
            None => quantity.name.clone(),
        },
        file_units,
        conversion: own.map(|u| u.conversion).filter(|c| !c.is_identity()),
    }
}

/// The quantity's own name, and a number behind it from the second variable of that quantity on. NetCDF allows no
/// slash in a name, and the names of coordinates are not for quantities.
fn name_variables(variables: &mut [FileVariable]) {
    const COORDINATES: [&str; 6] =
        ["time", "lead_time", "forecast_reference_time", "latitude", "longitude", "time_bnds"];
    for index in 0..variables.len() {
        let mut wanted = variables[index].quantity.name.replace('/', "_");
        if COORDINATES.contains(&wanted.as_str()) || wanted.starts_with("level") {
            wanted.insert_str(0, "field_");
        }
        let taken = |name: &str| variables.iter().any(|v| v.name == name);
        let mut name = wanted.clone();
        let mut count = 2;
        while taken(&name) {
            name = format!("{wanted}_{count}");
            count += 1;
        }
        variables[index].name = name;
    }
}

fn name_levels(variables: &mut [FileVariable]) {
    let mut sets: Vec<Vec<f64>> = Vec::new();
    for variable in variables.iter_mut().filter(|v| !v.levels.is_empty()) {
        let index = sets.iter().position(|set| *set == variable.levels).unwrap_or_else(|| {
            sets.push(variable.levels.clone());
            sets.len() - 1
        });
        let name = if index == 0 { "level".to_owned() } else { format!("level_{}", index + 1) };
        variable.level_dimension = Some(name);
    }
}
