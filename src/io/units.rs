//! Units as files write them, to SI: a small table, and the few physical bridges between quantities.

use super::info::Linear;
use crate::constants::{CELSIUS_ZERO, STANDARD_GRAVITY};
use crate::error::{Error, Result};
use crate::variable::Variable;

/// SI unit, factor, offset, and the ways in which files write the unit (after [`tidy`]).
#[rustfmt::skip]
const UNITS: &[(&str, f64, f64, &[&str])] = &[
    ("K", 1.0, 0.0, &["k", "kelvin", "degk", "deg_k", "degree_k", "degrees_k", "degrees kelvin"]),
    ("K", 1.0, CELSIUS_ZERO, &["c", "degc", "deg_c", "deg c", "celsius", "degree_c", "degrees_c", "degree_celsius", "degrees_celsius", "degrees celsius", "degreec", "°c"]),
    ("K", 5.0 / 9.0, CELSIUS_ZERO - 32.0 * 5.0 / 9.0, &["f", "degf", "deg_f", "fahrenheit", "degree_f", "degrees_f", "degree_fahrenheit", "degrees_fahrenheit", "°f"]),
    ("Pa", 1.0, 0.0, &["pa", "pascal", "pascals", "n m-2"]),
    ("Pa", 100.0, 0.0, &["hpa", "mb", "mbar", "mbars", "millibar", "millibars", "hectopascal", "hectopascals"]),
    ("Pa", 1000.0, 0.0, &["kpa", "kilopascal", "cb", "centibars"]),
    ("Pa s-1", 1.0, 0.0, &["pa s-1"]),
    ("Pa s-1", 100.0, 0.0, &["hpa s-1", "mb s-1"]),
    ("m s-1", 1.0, 0.0, &["m s-1", "ms-1", "m sec-1", "meter s-1", "meters s-1", "metre s-1", "metres s-1", "meter second-1", "meters second-1", "meters per second", "metres per second"]),
    ("m s-1", 1852.0 / 3600.0, 0.0, &["kt", "kts", "knot", "knots"]),
    ("m s-1", 1000.0 / 3600.0, 0.0, &["km h-1", "kmh", "km hr-1", "kph"]),
    ("m s-1", 0.01, 0.0, &["cm s-1"]),
    ("m2 s-2", 1.0, 0.0, &["m2 s-2", "m2s-2", "j kg-1", "gpm m s-2"]),
    ("m", 1.0, 0.0, &["m", "meter", "meters", "metre", "metres", "gpm", "m of water equivalent", "geopotential meter", "geopotential meters"]),
    ("m", 10.0, 0.0, &["dam", "gpdm", "dm gp"]),
    ("m", 1000.0, 0.0, &["km"]),
    ("m", 0.01, 0.0, &["cm"]),
    ("m", 0.001, 0.0, &["mm", "millimeter", "millimeters", "millimetre", "millimetres"]),
    ("kg m-2", 1.0, 0.0, &["kg m-2"]),
    ("kg m-2 s-1", 1.0, 0.0, &["kg m-2 s-1", "mm s-1"]),
    ("kg m-2 s-1", 1.0 / 86_400.0, 0.0, &["mm day-1", "mm d-1", "kg m-2 day-1"]),
    ("kg m-2 s-1", 1.0 / 3600.0, 0.0, &["mm h-1", "mm hr-1"]),
    ("kg kg-1", 1.0, 0.0, &["kg kg-1"]),
    ("kg kg-1", 0.001, 0.0, &["g kg-1"]),
    ("%", 1.0, 0.0, &["%", "percent"]),
    ("1", 1.0, 0.0, &["1", "0-1", "(0-1)", "(0 - 1)", "fraction", "dimensionless", "none", "unitless", "-"]),
    ("s-1", 1.0, 0.0, &["s-1", "sec-1"]),
    ("W m-2", 1.0, 0.0, &["w m-2", "watt m-2"]),
    ("J m-2", 1.0, 0.0, &["j m-2"]),
];

/// One spelling for the many of a unit: lower case, `m/s` and `m s**-1` and `m s^-1` all as `m s-1`.
pub fn tidy(text: &str) -> String {
    let lower = text.trim().to_lowercase().replace("**", "").replace('^', "").replace(['.', '*'], " ");
    let mut parts = lower.split('/');
    let mut tidy = parts.next().unwrap_or("").trim().to_string();
    for part in parts {
        let part = part.trim();
        let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit());
        let (symbol, power) = part.split_at(part.len() - digits.len());
        let power = if power.is_empty() { "1" } else { power };
        let tidy_symbol = if symbol == "sec" { "s" } else { symbol };
        tidy =
            format!("{} {tidy_symbol}-{power}", if tidy.is_empty() { "" } else { &tidy }).trim().to_string();
    }
    tidy.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The SI unit of a unit, and the way to it; `None` when it is not in the table.
pub fn to_si(text: &str) -> Option<(&'static str, Linear)> {
    let tidy = tidy(text);
    UNITS
        .iter()
        .find(|(.., names)| names.contains(&tidy.as_str()))
        .map(|(si, factor, offset, _)| (*si, Linear { factor: *factor, offset: *offset }))
}

/// From a file's unit to that of a known quantity, an error when it does not fit.
pub fn convert(from: &str, known: &Variable) -> Result<Linear> {
    let to = known.units;
    let Some((si, linear)) = to_si(from) else {
        let near = nearest(from).map_or(String::new(), |n| format!("; is '{n}' meant?"));
        return Err(Error::input(format!("unit '{from}' of {} is not known{near}", known.long_name))
            .hint(format!("say what it is in the source (unit = \"{to}\") or correct it with ncatted")));
    };
    let scaled = |factor: f64| Linear { factor: linear.factor * factor, offset: linear.offset * factor };
    Ok(match (si, known.name) {
        _ if si == to => linear,
        ("m", "z") => scaled(STANDARD_GRAVITY), // geopotential height
        ("m2 s-2", "orog") => scaled(1.0 / STANDARD_GRAVITY), // surface geopotential
        ("kg m-2", "tp") => scaled(0.001),      // water of 1000 kg m-3
        ("m", "tcwv") => scaled(1000.0),
        ("1", _) if to == "%" => scaled(100.0),
        ("%", _) if to == "1" => scaled(0.01),
        ("1", _) if to == "kg kg-1" => linear,
        _ => {
            return Err(Error::input(format!("unit '{from}' does not fit {}, which is in {to}", known.long_name)).hint(
                format!("if the unit is wrong, say so in the source (unit = \"{to}\"); if the name is, rename it there"),
            ));
        }
    })
}

/// A spelling of the table that differs by little.
fn nearest(text: &str) -> Option<&'static str> {
    let tidy = tidy(text);
    let all = UNITS.iter().flat_map(|(.., names)| *names).filter(|n| n.len() > 2);
    all.map(|n| (distance(n, &tidy), *n)).filter(|(d, _)| *d <= 2).min().map(|(_, n)| n)
}

/// Levenshtein's distance, of short words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spellings_of_a_unit_are_one() {
        for text in ["m s**-1", "m/s", "m s-1", "m s^-1", "m.s-1", "M/S", "m*s**-1"] {
            assert_eq!(to_si(text), Some(("m s-1", Linear::IDENTITY)), "{text}");
        }
        assert_eq!(to_si("kg m**-2 s**-1").unwrap().0, "kg m-2 s-1");
        assert_eq!(to_si("kg/m2/s").unwrap().0, "kg m-2 s-1");
        assert_eq!(to_si("m^2/s^2").unwrap().0, "m2 s-2");
    }

    #[test]
    fn conversions_give_known_values() {
        for (from, to, value, expected) in [
            ("degF", "t", 212.0, 373.15),
            ("deg_C", "sst", -1.8, 271.35),
            ("hPa", "msl", 1013.25, 101_325.0),
            ("knots", "u", 10.0, 5.144_444_4),
            ("gpm", "z", 5500.0, 5500.0 * STANDARD_GRAVITY),
            ("dam", "z", 550.0, 5500.0 * STANDARD_GRAVITY),
            ("kg m-2", "tp", 2.0, 0.002),
            ("mm", "tp", 2.0, 0.002),
            ("1", "r", 0.5, 50.0),
            ("g/kg", "q", 5.0, 0.005),
        ] {
            let linear = convert(from, Variable::find(to).unwrap()).unwrap();
            assert!((linear.apply(value) - expected).abs() < 1e-6, "{from}"); // the expected values' own digits
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_suggestion() {
        let text = |from, name| convert(from, Variable::find(name).unwrap()).unwrap_err().to_string();
        assert!(text("kevin", "t").contains("kelvin"));
        assert!(text("m s-1", "w").contains("does not fit"));
        assert!(text("m2 s-2", "tp").contains("does not fit"));
    }
}
