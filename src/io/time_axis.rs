//! Time coordinates: `hours since 1900-01-01` and its many relatives, in every CF calendar.

use crate::constants::DAY_SECONDS;
use crate::error::{Error, Result};
use crate::time::{Calendar, Date, ValidTime};

/// How the numbers of a time coordinate become moments.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeUnits {
    unit: Unit,
    /// [s] since 1970-01-01T00:00 in `calendar`.
    origin: i64,
    calendar: Calendar,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Seconds(f64),
    Months(i64),
}

/// Moments beyond this are damage, not dates [s] (the year 30,000 or so).
const LIMIT: f64 = 1e12;

/// Whether a unit attribute has the form of a time coordinate's (`... since ...`).
pub fn is_time(units: &str) -> bool {
    units.to_ascii_lowercase().contains(" since ")
}

impl TimeUnits {
    /// Reads the attributes `units` and `calendar`.
    pub fn parse(units: &str, calendar: Option<&str>) -> Result<Self> {
        let refuse = |what: &str| {
            Error::input(format!("time unit '{units}' {what}"))
                .hint("set it right, for example: ncatted -a units,time,o,c,\"hours since 1900-01-01\" FILE")
        };
        let lower = units.trim().to_ascii_lowercase();
        let (unit, reference) =
            lower.split_once(" since ").ok_or_else(|| refuse("names no date from which it counts"))?;
        let unit = match unit.trim() {
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Seconds(1.0),
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Unit::Seconds(1e-3),
            "us" | "microsecond" | "microseconds" => Unit::Seconds(1e-6),
            "ns" | "nanosecond" | "nanoseconds" => Unit::Seconds(1e-9),
            "min" | "mins" | "minute" | "minutes" => Unit::Seconds(60.0),
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Seconds(3600.0),
            "d" | "day" | "days" => Unit::Seconds(DAY_SECONDS as f64),
            "week" | "weeks" => Unit::Seconds(7.0 * DAY_SECONDS as f64),
            "mon" | "month" | "months" => Unit::Months(1),
            "yr" | "year" | "years" => Unit::Months(12),
            _ => return Err(refuse("is not a unit of time that wxsim knows")),
        };
        let name = calendar.unwrap_or("standard").trim().to_ascii_lowercase();
        let calendar = Calendar::from_cf(&name).ok_or_else(|| {
            Error::input(format!("calendar '{name}' is not one of the CF conventions")).hint(
                "set the attribute to standard, proleptic_gregorian, julian, noleap, all_leap or 360_day",
            )
        })?;
        let (date, zone) = reference_date(reference).ok_or_else(|| refuse("has no date that can be read"))?;
        let not_a_date = || refuse(&format!("names a day that the {} calendar lacks", calendar.cf_name()));
        // The standard calendar is the Julian one before 1582-10-15: NCEP's "hours since 1-1-1" counts from there.
        let mixed = matches!(name.as_str(), "standard" | "gregorian");
        let julian = mixed && (date.year, date.month, date.day) < (1582, 10, 15);
        let origin = if julian {
            // 1970-01-01 of the Julian calendar was the Gregorian January 14th.
            Calendar::Julian.seconds(date).ok_or_else(not_a_date)? + 13 * DAY_SECONDS
        } else {
            calendar.seconds(date).ok_or_else(not_a_date)?
        };
        Ok(Self { unit, origin: origin - zone, calendar })
    }

    /// Whether the unit has no fixed length, so that whole calendar months are counted.
    pub fn counts_months(&self) -> bool {
        matches!(self.unit, Unit::Months(_))
    }

    /// The moment of a number, to the nearest second; `None` when it is not a date, or not a whole month.
    pub fn moment(&self, value: f64) -> Option<ValidTime> {
        let seconds = match self.unit {
            Unit::Seconds(length) => {
                let since = value * length;
                if !(since.abs() < LIMIT) {
                    return None;
                }
                self.origin + since.round() as i64
            }
            Unit::Months(length) => {
                if value.fract() != 0.0 || value.abs() > 1e5 {
                    return None;
                }
                let start = self.calendar.date(self.origin);
                let months = i64::from(start.year) * 12 + i64::from(start.month) - 1 + value as i64 * length;
                let year = i32::try_from(months.div_euclid(12)).ok()?;
                let month = months.rem_euclid(12) as u32 + 1;
                self.calendar.seconds(Date { year, month, ..start })?
            }
        };
        Some(ValidTime::new(seconds, self.calendar))
    }
}

/// `1900-01-01 00:00:0.0`, `2001-12-31t23:00:00z`, `1987-1-2 0:0 +01:00`: the date and the zone's offset [s].
fn reference_date(text: &str) -> Option<(Date, i64)> {
    let mut text = text.trim().trim_end_matches("utc").trim_end_matches("gmt").trim_end();
    let mut zone = 0;
    if let Some(rest) = text.strip_suffix('z') {
        text = rest.trim_end();
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (day, clock) = match unsigned.find(|c: char| c == 't' || c.is_whitespace()) {
        Some(at) => (&unsigned[..at], unsigned[at + 1..].trim()),
        None => (unsigned, ""),
    };
    let mut parts = day.split('-');
    let year: i32 = parts.next()?.parse().ok()?;
    let month = parts.next().map_or(Some(1), |p| p.parse().ok())?;
    let day = parts.next().map_or(Some(1), |p| p.parse().ok())?;
    if parts.next().is_some() || year > 9999 {
        return None;
    }
    let (clock, offset) = match clock.find(['+', '-']) {
        Some(at) => (clock[..at].trim(), &clock[at..]),
        None => (clock, ""),
    };
    if let Some(digits) = offset.get(1..) {
        let (h, m) = digits.split_once(':').unwrap_or(match digits.len() {
            4 if digits.is_ascii() => digits.split_at(2),
            _ => (digits, "0"),
        });
        let (h, m): (i64, i64) = (h.trim().parse().ok()?, m.trim().parse().ok()?);
        if h > 14 || m > 59 {
            return None;
        }
        zone = (h * 3600 + m * 60) * if offset.starts_with('-') { -1 } else { 1 };
    }
    let mut seconds = 0.0;
    if !clock.is_empty() {
        let fields: Vec<&str> = clock.split(':').collect();
        if fields.len() > 3 {
            return None;
        }
        for (field, (unit, most)) in fields.iter().zip([(3600.0, 24.0), (60.0, 60.0), (1.0, 60.0)]) {
            let value: f64 = field.trim().parse().ok()?;
            if !(0.0..most).contains(&value) {
                return None;
            }
            seconds += value * unit;
        }
    }
    let year = if negative { -year } else { year };
    Some((Date { year, month, day, seconds: seconds as u32 }, zone))
}

/// What is odd about the order of a time axis.
#[derive(Debug, Default, PartialEq)]
pub struct Order {
    /// The most common spacing of neighbours in time [s]; 0 with fewer than two moments.
    pub step: i64,
    /// The moments are a calendar month apart, give or take a day: neither gaps nor short steps are meant.
    pub monthly: bool,
    /// Moments that come again.
    pub duplicates: Vec<ValidTime>,
    /// The axis runs backward or jumps back somewhere: the first moment that is earlier than the one before it.
    pub backward: Option<ValidTime>,
    /// Spacings longer than `step`: the last moment before, the first after.
    pub gaps: Vec<(ValidTime, ValidTime)>,
    /// Spacings shorter than `step`.
    pub short: usize,
}

impl Order {
    pub fn of(times: &[ValidTime]) -> Self {
        let mut order =
            Self { backward: times.windows(2).find(|w| w[1] < w[0]).map(|w| w[1]), ..Self::default() };
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        order.duplicates = sorted.windows(2).filter(|w| w[0] == w[1]).map(|w| w[0]).collect();
        order.duplicates.dedup();
        sorted.dedup();
        let mut spacings: Vec<i64> = sorted.windows(2).map(|w| w[1].since(w[0]).seconds).collect();
        spacings.sort_unstable();
        let mut longest = 0;
        for group in spacings.chunk_by(|a, b| a == b) {
            if group.len() > longest {
                (longest, order.step) = (group.len(), group[0]);
            }
        }
        let month = 27 * DAY_SECONDS..=32 * DAY_SECONDS;
        order.monthly = order.step > 0 && spacings.iter().all(|s| month.contains(s));
        if order.monthly {
            return order;
        }
        order.short = spacings.iter().filter(|s| **s < order.step).count();
        let gaps = sorted.windows(2).filter(|w| w[1].since(w[0]).seconds > order.step);
        order.gaps = gaps.map(|w| (w[0], w[1])).collect();
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(units: &str, calendar: &str, value: f64) -> String {
        TimeUnits::parse(units, Some(calendar)).unwrap().moment(value).unwrap().to_string()
    }

    #[test]
    fn units_of_many_makers_give_the_right_moment() {
        for (units, value, expected) in [
            ("hours since 1900-01-01 00:00:00.0", 876_588.0, "2000-01-01T12:00Z"),
            ("hours since 1900-01-01 00:00:0.0", 985_416.0, "2012-06-01T00:00Z"),
            ("Hour since 2001-12-31T23:00:00Z", 1.0, "2002-01-01T00:00Z"),
            ("days since 1987-1-2 0:0", 0.5, "1987-01-02T12:00Z"),
            ("seconds since 1970-01-01", 1_577_836_800.0, "2020-01-01T00:00Z"),
            ("minutes since 2000-01-01 01:00 +01:00", 90.0, "2000-01-01T01:30Z"),
            ("days since 2000-01-01 00:00 UTC", 1.0, "2000-01-02T00:00Z"),
            ("months since 2000-01-15", 13.0, "2001-02-15T00:00Z"),
            // NCEP: numbers from netCDF4-python 1.7.5, num2date
            ("hours since 1-1-1 00:00:0.0", 17_067_072.0, "1948-01-01T00:00Z"),
            ("hours since 1800-01-01", 1_867_128.0, "2013-01-01T00:00Z"),
        ] {
            assert_eq!(date(units, "standard", value), expected, "{units}");
        }
        assert_eq!(date("days since 1950-01-01", "360_day", 52_200.0), "2095-01-01T00:00Z");
        assert_eq!(date("days since 1850-01-01", "365_day", 57_289.5), "2006-12-16T12:00Z");
        assert_eq!(date("days since 0001-01-01", "proleptic_gregorian", 719_162.0), "1970-01-01T00:00Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for units in [
            "wibble",
            "Month",
            "hours since",
            "hours since yesterday",
            "fortnights since 2000-01-01",
            "days since 2000-02-30",
            "days since 2000-01-01 25:00",
            "hours since 99999999999-01-01",
        ] {
            assert!(TimeUnits::parse(units, None).is_err(), "{units}");
        }
        let hours = TimeUnits::parse("hours since 1900-01-01", None).unwrap();
        for value in [f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(hours.moment(value), None);
        }
        assert_eq!(TimeUnits::parse("months since 2000-01-01", None).unwrap().moment(0.5), None);
    }

    #[test]
    fn gaps_duplicates_and_disorder_are_found() {
        let times: Vec<_> =
            [0, 6, 12, 12, 30, 24, 36].iter().map(|h| ValidTime::new(h * 3600, Calendar::Standard)).collect();
        let order = Order::of(&times);
        assert_eq!(order.step, 6 * 3600);
        assert_eq!(order.duplicates, [times[2]]);
        assert_eq!(order.backward, Some(times[5]));
        assert_eq!(order.gaps, [(times[2], times[5])]);
    }
}
