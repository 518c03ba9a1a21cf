//! Quantities and times in words.

use crate::time::{Calendar, InitTime, LeadTime, ValidTime};
use crate::variable::Quantity;

/// `500 hPa geopotential height`, `2 metre temperature`; `long_name` is the file's, for an unknown quantity.
pub fn quantity_name(quantity: &Quantity, long_name: Option<&str>) -> String {
    let name = match quantity.variable() {
        Some(variable) if variable.name == "z" => "geopotential height", // shown in dam
        Some(variable) => variable.long_name,
        None => long_name.unwrap_or(&quantity.name),
    };
    match quantity.level {
        Some(level) => format!("{level} hPa {name}"),
        None => capitalised(name),
    }
}

pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// `2008-10-20 12:00 UTC`; a calendar that people do not live by is named.
pub fn moment(valid: ValidTime) -> String {
    let text = valid.to_string().replace('T', " ").replace('Z', " UTC");
    match valid.calendar {
        Calendar::Standard => text,
        other => format!("{text} ({} calendar)", other.cf_name()),
    }
}

/// `+6 h`, `+2.5 d` from two days on.
pub fn lead(lead: LeadTime) -> String {
    lead_hours(lead.hours())
}

/// The same from a number of hours.
pub fn lead_hours(hours: f64) -> String {
    let short = |x: f64| (x * 100.0).round() / 100.0;
    if hours.abs() >= 48.0 { format!("+{} d", short(hours / 24.0)) } else { format!("+{} h", short(hours)) }
}

/// The line under a map's title.
pub fn times(valid: ValidTime, init: Option<InitTime>) -> String {
    match init {
        Some(InitTime(start)) if start.calendar == valid.calendar => {
            let lead = lead(valid.since(start));
            format!("Valid {}  ·  start {}  ·  {lead}", moment(valid), moment(start))
        }
        _ => format!("Valid {}", moment(valid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_times_read_well() {
        assert_eq!(quantity_name(&Quantity::parse("z500"), None), "500 hPa geopotential height");
        assert_eq!(quantity_name(&Quantity::parse("msl"), None), "Mean sea level pressure");
        assert_eq!(quantity_name(&Quantity::parse("swvl1@7"), Some("soil water")), "7 hPa soil water");
        let init = InitTime(ValidTime::parse("2008-10-19T12", Calendar::Standard).unwrap());
        let valid = init.0.after("36h".parse().unwrap());
        assert_eq!(
            times(valid, Some(init)),
            "Valid 2008-10-21 00:00 UTC  ·  start 2008-10-19 12:00 UTC  ·  +36 h"
        );
        assert_eq!(lead_hours(60.0), "+2.5 d");
        let model = ValidTime::parse("2008-02-30", Calendar::Day360).unwrap();
        assert_eq!(times(model, Some(init)), "Valid 2008-02-30 00:00 UTC (360_day calendar)");
    }
}
