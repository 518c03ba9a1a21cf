//! What a field is, when it is valid and over how long (section 4, and the reference time of section 1).

use super::parameters::{self, When};
use super::sections::{Field, Octets};
use super::time;
use super::vertical::Vertical;
use crate::time::{LeadTime, ValidTime};

/// A field without its grid and numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// Discipline, category and number.
    pub id: (u8, u8, u8),
    pub centre: u16,
    pub vertical: Option<Vertical>,
    /// What the value is over a period before `valid`; `None` for a value of the moment.
    pub statistic: Option<Statistic>,
    /// Perturbation number, where the field is a member of an ensemble.
    pub member: Option<u8>,
    pub reference: ValidTime,
    pub valid: ValidTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistic {
    /// As CF calls it: `sum`, `mean`, `maximum`, ...
    pub method: &'static str,
    pub period: LeadTime,
}

/// Why a field is not read: the end of a sentence that begins with its name, and a remedy.
pub type Refusal = (String, String);

const DAMAGED: &str = "the message may be damaged: copy or download the file again";

impl Product {
    pub fn read(field: &Field) -> Result<Self, Refusal> {
        let (identification, product) = (Octets(&field.identification), Octets(&field.product));
        let refuse = |what: String, remedy: &str| Err((what, remedy.to_string()));
        let template = product.u16(8);
        // Where the octets of an ensemble and those of a period begin.
        let (member, interval) = match template {
            0 => (None, None),
            1 => (Some(35), None),
            8 => (None, Some(35)),
            11 => (Some(35), Some(38)),
            _ => {
                let name = match template {
                    2 | 3 | 4 | 12 | 13 | 14 => "derived from an ensemble",
                    5 | 9 => "a probability",
                    6 | 10 => "a percentile",
                    7 => "an error of an analysis or forecast",
                    15 => "a statistic over an area",
                    20 => "an image of a radar",
                    30..=35 => "an image of a satellite",
                    40..=50 => "a concentration in the air",
                    60 | 61 => "a hindcast of an ensemble",
                    _ => "of a kind that is not read",
                };
                return refuse(
                    format!("is {name} (product template 4.{template})"),
                    "name files with fields of a moment or of a period (templates 4.0, 4.1, 4.8, 4.11)",
                );
            }
        };
        let least = match (template, interval) {
            (_, Some(at)) => at + 23, // the end of the first time range
            (1, None) => 37,
            _ => 34,
        };
        if field.product.len() < least || field.identification.len() < 21 {
            return refuse(format!("has a section 4 of {} bytes", field.product.len()), DAMAGED);
        }
        let calendar = time::calendar(identification)
            .map_err(|what| (what, "set it: grib_set -s typeOfCalendar=0 FILE OUT".to_string()))?;
        let Some(reference) = time::date(identification, 13, calendar) else {
            return refuse("has a reference time that is no date".into(), DAMAGED);
        };
        let lengthless = |unit: u8| {
            let what = format!("is dated in units of no fixed length (code {unit} of table 4.4)");
            (what, "write the forecast time in hours: grib_set -s stepUnits=h FILE OUT".to_string())
        };
        // A reference time may be that of validity (code table 1.2); then no forecast time is added to it.
        let ahead = if identification.u8(12) == 2 { 0 } else { i64::from(product.i32(19)) };
        let ahead = time::duration(product.u8(18), ahead).ok_or_else(|| lengthless(product.u8(18)))?;
        let mut valid = reference.after(ahead);
        let mut statistic = None;
        if let Some(at) = interval {
            let start = valid;
            let Some(end) = time::date(product, at, calendar) else {
                return refuse("has a period that ends at no date".into(), DAMAGED);
            };
            if product.u8(at + 7) != 1 {
                let what = format!("is a statistic of statistics ({} time ranges)", product.u8(at + 7));
                return refuse(what, "make fields of one time range: cdo or ecCodes");
            }
            let (code, unit) = (product.u8(at + 12), product.u8(at + 14));
            let length = time::duration(unit, product.u32(at + 15).into()).ok_or_else(|| lengthless(unit))?;
            // The two ends count; a few writers leave the length of the range at its default.
            let between = end.since(start);
            let period = if between.seconds > 0 { between } else { length };
            let method = match code {
                0 => "mean",
                1 | 11 => "sum",
                2 => "maximum",
                3 => "minimum",
                4 => "difference",
                5 => "root_mean_square",
                6 => "standard_deviation",
                _ => {
                    return refuse(
                        format!("is a statistic that is not read (code {code} of table 4.10)"),
                        "name files with means, sums, maxima or minima",
                    );
                }
            };
            statistic = Some(Statistic { method, period });
            valid = end;
        }
        Ok(Self {
            id: (field.discipline, product.u8(10), product.u8(11)),
            centre: identification.u16(6),
            vertical: Vertical::read(product)?,
            statistic,
            member: member.map(|at| product.u8(at + 1)),
            reference,
            valid,
        })
    }

    pub fn when(&self) -> When {
        match self.statistic {
            Some(Statistic { method: "sum", .. }) => When::Sum,
            _ => When::Moment,
        }
    }

    /// Name, standard name, long name and unit. A parameter at a place where the table does not have it gets a name that
    /// says so and no standard name, lest it be taken for the one at the usual place.
    pub fn naming(&self) -> Naming {
        let extreme = match self.statistic.map(|s| s.method) {
            Some("maximum") => "_max",
            Some("minimum") => "_min",
            _ => "",
        };
        let place = match self.vertical {
            None => "_nowhere".to_string(),
            Some(Vertical::Isobaric(_)) => "_levels".to_string(),
            Some(other) => format!("_{}", other.label()),
        };
        if let Some(row) = parameters::find(self.id, self.centre, self.vertical, self.when()) {
            return Naming {
                name: format!("{}{extreme}", row.name),
                standard_name: row.standard_name,
                long_name: Some(row.long_name.to_string()),
                units: row.units,
            };
        }
        if let Some(row) = parameters::elsewhere(self.id, self.centre, self.when()) {
            return Naming {
                name: format!(
                    "{}{place}{extreme}",
                    row.name.trim_start_matches(|c: char| c.is_ascii_digit())
                ),
                standard_name: None,
                long_name: None,
                units: row.units,
            };
        }
        let (discipline, category, number) = self.id;
        let place = if self.vertical.is_some_and(Vertical::is_isobaric) { "" } else { &place };
        Naming {
            name: format!("param_{discipline}_{category}_{number}{place}{extreme}"),
            standard_name: None,
            long_name: None,
            units: "",
        }
    }
}

/// What a variable is called.
#[derive(Debug, Clone, PartialEq)]
pub struct Naming {
    pub name: String,
    pub standard_name: Option<&'static str>,
    pub long_name: Option<String>,
    pub units: &'static str,
}

/// A field in words, for errors: `t at 2020-01-01T00:00Z`, or its numbers where it cannot be understood.
pub fn describe(field: &Field) -> String {
    match Product::read(field) {
        Ok(product) => {
            let level = match product.vertical {
                Some(Vertical::Isobaric(pressure)) => format!(" on {} hPa", pressure / 100.0),
                _ => String::new(),
            };
            format!("'{}'{level} at {}", product.naming().name, product.valid)
        }
        Err(_) => {
            let product = Octets(&field.product);
            format!("parameter {}.{}.{}", field.discipline, product.u8(10), product.u8(11))
        }
    }
}
