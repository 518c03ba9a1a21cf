//! What the quantities are: one table of names, units and plausible values, used by readers, writers and reports.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a quantity behaves under the operations that must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Scalar,
    /// Changes sign across a pole, and is normalised with mean 0 so that the sign change commutes.
    WindComponent,
    /// A sum over a period that ends at the valid time; never instantaneous, never negative.
    Accumulated,
    /// Does not change with time.
    Static,
}

/// A row of the table.
#[derive(Debug)]
pub struct Variable {
    /// The name used inside wxsim and in its output files.
    pub name: &'static str,
    pub standard_name: &'static str,
    pub long_name: &'static str,
    /// SI units, as CF writes them.
    pub units: &'static str,
    /// Names under which files carry it, compared in lower case.
    pub aliases: &'static [&'static str],
    /// Values outside this range mean a wrong unit or a wrong variable, in `units`.
    pub plausible: (f64, f64),
    pub behaviour: Behaviour,
    /// What people read: unit, factor and offset (`shown = value * factor + offset`).
    pub display: (&'static str, f64, f64),
}

use Behaviour::{Accumulated, Scalar, Static, WindComponent};

macro_rules! variable {
    ($name:literal, $standard:literal, $long:literal, $units:literal, [$($alias:literal),*],
     $low:expr, $high:expr, $behaviour:ident, $shown:literal, $factor:expr, $offset:expr) => {
        Variable {
            name: $name, standard_name: $standard, long_name: $long, units: $units,
            aliases: &[$($alias),*], plausible: ($low, $high), behaviour: $behaviour,
            display: ($shown, $factor, $offset),
        }
    };
}

/// The quantities that wxsim knows by name. Others are read too, under their file's name and units.
#[rustfmt::skip]
pub static VARIABLES: &[Variable] = &[
    variable!("z", "geopotential", "geopotential", "m2 s-2", ["geopotential", "phi"], -6000.0, 6.0e5, Scalar, "dam", 0.1 / crate::constants::STANDARD_GRAVITY, 0.0),
    variable!("t", "air_temperature", "air temperature", "K", ["ta", "temperature", "temp", "air"], 150.0, 350.0, Scalar, "degC", 1.0, -crate::constants::CELSIUS_ZERO),
    variable!("u", "eastward_wind", "eastward wind", "m s-1", ["ua", "u_component_of_wind", "uwnd"], -200.0, 200.0, WindComponent, "m/s", 1.0, 0.0),
    variable!("v", "northward_wind", "northward wind", "m s-1", ["va", "v_component_of_wind", "vwnd"], -200.0, 200.0, WindComponent, "m/s", 1.0, 0.0),
    variable!("w", "lagrangian_tendency_of_air_pressure", "vertical velocity", "Pa s-1", ["wap", "vertical_velocity", "omega"], -50.0, 50.0, Scalar, "Pa/s", 1.0, 0.0),
    variable!("q", "specific_humidity", "specific humidity", "kg kg-1", ["hus", "shum"], -1e-3, 0.1, Scalar, "g/kg", 1000.0, 0.0),
    variable!("r", "relative_humidity", "relative humidity", "%", ["hur", "rh", "rhum"], -30.0, 200.0, Scalar, "%", 1.0, 0.0),
    variable!("msl", "air_pressure_at_mean_sea_level", "mean sea level pressure", "Pa", ["psl", "mslp", "prmsl", "mean_sea_level_pressure"], 85_000.0, 110_000.0, Scalar, "hPa", 0.01, 0.0),
    variable!("sp", "surface_air_pressure", "surface pressure", "Pa", ["ps", "surface_pressure", "pres"], 40_000.0, 110_000.0, Scalar, "hPa", 0.01, 0.0),
    variable!("t2m", "air_temperature", "2 metre temperature", "K", ["2t", "tas", "2m_temperature", "t2", "var167"], 150.0, 350.0, Scalar, "degC", 1.0, -crate::constants::CELSIUS_ZERO),
    variable!("d2m", "dew_point_temperature", "2 metre dew point temperature", "K", ["2d", "2m_dewpoint_temperature"], 140.0, 320.0, Scalar, "degC", 1.0, -crate::constants::CELSIUS_ZERO),
    variable!("sst", "sea_surface_temperature", "sea surface temperature", "K", ["tos", "sea_surface_temperature"], 250.0, 320.0, Scalar, "degC", 1.0, -crate::constants::CELSIUS_ZERO),
    variable!("u10", "eastward_wind", "10 metre eastward wind", "m s-1", ["10u", "uas", "u10m", "10m_u_component_of_wind"], -120.0, 120.0, WindComponent, "m/s", 1.0, 0.0),
    variable!("v10", "northward_wind", "10 metre northward wind", "m s-1", ["10v", "vas", "v10m", "10m_v_component_of_wind"], -120.0, 120.0, WindComponent, "m/s", 1.0, 0.0),
    variable!("tcwv", "atmosphere_mass_content_of_water_vapor", "total column water vapour", "kg m-2", ["total_column_water_vapour", "prw"], -1.0, 120.0, Scalar, "kg/m2", 1.0, 0.0),
    variable!("tp", "lwe_thickness_of_precipitation_amount", "total precipitation", "m", ["total_precipitation"], -1e-4, 3.0, Accumulated, "mm", 1000.0, 0.0),
    variable!("orog", "surface_altitude", "surface altitude", "m", ["orography", "topo", "hgt_surface"], -1000.0, 9000.0, Static, "m", 1.0, 0.0),
    variable!("lsm", "land_binary_mask", "land-sea mask", "1", ["sftlf", "land_sea_mask", "land"], -0.01, 1.01, Static, "", 1.0, 0.0),
    variable!("vo", "atmosphere_relative_vorticity", "relative vorticity", "s-1", ["vorticity"], -0.02, 0.02, Scalar, "1e-5/s", 1e5, 0.0),
];

impl Variable {
    /// Whether it is known on pressure levels; the others belong to the surface, a height or the whole column.
    pub fn has_levels(&self) -> bool {
        matches!(self.name, "z" | "gh" | "t" | "u" | "v" | "w" | "q" | "r" | "vo")
    }

    /// The row whose name or alias this is.
    pub fn find(name: &str) -> Option<&'static Variable> {
        let lower = name.to_ascii_lowercase();
        VARIABLES
            .iter()
            .find(|v| v.name == lower)
            .or_else(|| VARIABLES.iter().find(|v| v.aliases.contains(&lower.as_str())))
    }
}

/// A variable, on a pressure level where it has one: what a channel of a field holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quantity {
    /// A name of [`VARIABLES`], or the file's own.
    pub name: String,
    /// Pressure level [hPa].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
}

impl Quantity {
    pub fn new(name: impl Into<String>, level: Option<f64>) -> Self {
        Self { name: name.into(), level }
    }

    /// Reads a label: a known name, or one with a level behind it (`msl`, `z500`, `z@500`).
    pub fn parse(label: &str) -> Self {
        if let Some((name, level)) = label.split_once('@')
            && let Ok(level) = level.parse()
        {
            return Self::new(name, Some(level));
        }
        if Variable::find(label).is_none() {
            let digits = label.trim_end_matches(|c: char| c.is_ascii_digit());
            let level = label[digits.len()..].parse::<f64>();
            if let (Some(variable), Ok(level)) = (Variable::find(digits), level) {
                return Self::new(variable.name, Some(level));
            }
        }
        Self::new(label, None)
    }

    /// The row of the table, `None` for a quantity that wxsim does not know.
    pub fn variable(&self) -> Option<&'static Variable> {
        VARIABLES.iter().find(|v| v.name == self.name)
    }

    pub fn behaviour(&self) -> Behaviour {
        self.variable().map_or(Scalar, |v| v.behaviour)
    }
}

/// The label: `msl`, `z500`, `some_field@850`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.level, self.variable()) {
            (None, _) => f.write_str(&self.name),
            (Some(level), Some(v)) if !v.name.ends_with(|c: char| c.is_ascii_digit()) => {
                write!(f, "{}{level}", self.name)
            }
            (Some(level), _) => write!(f, "{}@{level}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_read_back() {
        for label in ["msl", "z500", "t850", "u10", "t2m", "swvl@7", "thing"] {
            assert_eq!(Quantity::parse(label).to_string(), label);
        }
        assert_eq!(Quantity::parse("z500"), Quantity::new("z", Some(500.0)));
    }

    #[test]
    fn names_and_aliases_are_unique_and_lower_case() {
        let mut seen = std::collections::HashSet::new();
        for v in VARIABLES {
            for name in std::iter::once(&v.name).chain(v.aliases) {
                assert!(seen.insert(*name) || *name == v.name, "{name} twice");
                assert_eq!(*name, name.to_ascii_lowercase());
            }
        }
    }
}
