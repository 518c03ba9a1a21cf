//! Which quantity a variable is: by standard_name, name, aliases, level and height.

use super::schema::RawVariable;
use crate::variable::{VARIABLES, Variable};

/// Names under which files carry geopotential height; it becomes geopotential through standard gravity.
const GEOPOTENTIAL_HEIGHT: &[&str] = &["gh", "zg", "hgt", "height", "geopotential_height"];
/// Names of daily or longer extremes, which are other quantities than the values they are extremes of.
const EXTREMES: &[&str] = &["max", "min", "mx2t", "mn2t"];

/// What is known about a variable beside its own attributes.
pub struct Setting {
    pub has_levels: bool,
    /// Height above ground [m].
    pub height: Option<f64>,
    /// From `cell_methods`: `mean`, `sum`, `maximum`, ...
    pub statistic: Option<String>,
}

/// The row of the table of quantities that a variable is, `None` when it is something else.
pub fn quantity(raw: &RawVariable, setting: &Setting) -> Option<&'static Variable> {
    let name = raw.name.to_ascii_lowercase();
    let extreme = matches!(setting.statistic.as_deref(), Some("maximum" | "minimum"))
        || EXTREMES.iter().any(|part| name.contains(part));
    if extreme {
        return None;
    }
    let standard = raw.standard_name();
    let standard = match standard.as_str() {
        "geopotential_height" => "geopotential",
        "surface_geopotential" => "surface_altitude",
        "air_pressure_at_sea_level" => "air_pressure_at_mean_sea_level",
        "land_area_fraction" => "land_binary_mask",
        "dew_point_temperature" | "sea_surface_temperature" => &standard,
        "precipitation_amount" => "lwe_thickness_of_precipitation_amount",
        "atmosphere_mass_content_of_water_vapour" => "atmosphere_mass_content_of_water_vapor",
        _ => &standard,
    };
    let named = Variable::find(&name).or_else(|| {
        (GEOPOTENTIAL_HEIGHT.contains(&name.as_str()) && (setting.has_levels || standard == "geopotential"))
            .then(|| row("z"))
            .flatten()
    });
    let found = if standard.is_empty() {
        named.or_else(|| by_long_name(raw))
    } else {
        let carriers: Vec<&Variable> = VARIABLES.iter().filter(|v| v.standard_name == standard).collect();
        match (carriers.as_slice(), named) {
            // A name that agrees with the standard name decides between those that share it.
            (_, Some(named)) if named.standard_name == standard => Some(named),
            ([], Some(named)) => unlisted(named, standard).then_some(named),
            ([], None) => None,
            // `t2m`, `u10`: the height decides, and the one without a height comes first in the table.
            (many, _) => many.iter().find(|v| near_surface(v.name).is_none()).or(many.first()).copied(),
        }
    }?;
    at_height(found, setting)
}

fn row(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|v| v.name == name)
}

/// Whether a standard name that the table does not hold may still belong to the row found by name. Files of ECMWF
/// write such names where CF has none; a name of another quantity does not fit.
fn unlisted(named: &Variable, standard: &str) -> bool {
    let words = |text: &str| text.split(['_', ' ']).map(str::to_string).collect::<Vec<_>>();
    let own = words(named.standard_name);
    words(standard).iter().any(|w| own.contains(w))
}

/// The nominal height of a near-surface quantity [m].
fn near_surface(name: &str) -> Option<f64> {
    match name {
        "t2m" | "d2m" => Some(2.0),
        "u10" | "v10" => Some(10.0),
        _ => None,
    }
}

/// `t` two metres above ground is `t2m`.
fn at_height(found: &'static Variable, setting: &Setting) -> Option<&'static Variable> {
    let Some(height) = setting.height.filter(|_| !setting.has_levels) else { return Some(found) };
    let twin = match found.name {
        "t" => "t2m",
        "u" => "u10",
        "v" => "v10",
        _ => return Some(found),
    };
    let nominal = near_surface(twin).unwrap_or(height);
    // Models differ by a little (1.5 m, 2 m); winds of hub height are another quantity.
    if (height - nominal).abs() <= 0.25 * nominal { row(twin) } else { None }
}

/// `Mean sea level pressure`, `land_sea_mask`.
fn by_long_name(raw: &RawVariable) -> Option<&'static Variable> {
    let long = raw.attributes.text("long_name")?.to_ascii_lowercase();
    VARIABLES
        .iter()
        .find(|v| v.long_name == long)
        .or_else(|| Variable::find(&long.replace([' ', '-'], "_")).filter(|_| long.len() > 3))
}
