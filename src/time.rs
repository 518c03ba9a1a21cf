//! Which time is meant: when a forecast starts, how far it reaches, and when it is valid.
//!
//! A moment is a whole number of seconds since 1970-01-01T00:00 *in the calendar of its data*: model output of a
//! 360-day calendar has no other honest clock. Moments of different calendars never meet in one data set.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Timelike};
use serde::{Deserialize, Serialize};

use crate::constants::DAY_SECONDS;
use crate::error::{Error, Result};

/// The calendars of the CF conventions (section 4.4.1). `Standard` is used from 1582 on, where it equals
/// the proleptic Gregorian one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calendar {
    #[default]
    Standard,
    Julian,
    NoLeap,
    AllLeap,
    Day360,
}

/// A civil date and time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// Seconds since midnight.
    pub seconds: u32,
}

impl Calendar {
    /// The calendar attribute of a CF time variable, `None` when it is unknown.
    pub fn from_cf(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "standard" | "gregorian" | "proleptic_gregorian" => Self::Standard,
            "julian" => Self::Julian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Day360,
            _ => return None,
        })
    }

    /// The name that the CF conventions give it.
    pub fn cf_name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Julian => "julian",
            Self::NoLeap => "noleap",
            Self::AllLeap => "all_leap",
            Self::Day360 => "360_day",
        }
    }

    fn is_leap(self, year: i32) -> bool {
        match self {
            Self::Standard => (year % 4 == 0 && year % 100 != 0) || year % 400 == 0,
            Self::Julian => year % 4 == 0,
            Self::NoLeap | Self::Day360 => false,
            Self::AllLeap => true,
        }
    }

    fn month_days(self, year: i32, month: u32) -> u32 {
        match month {
            _ if self == Self::Day360 => 30,
            2 => 28 + u32::from(self.is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Days in a year of this calendar.
    pub fn year_days(self, year: i32) -> u32 {
        match self {
            Self::Day360 => 360,
            _ => 365 + u32::from(self.is_leap(year)),
        }
    }

    /// Days from 0000-01-01 to January 1st of `year`.
    fn days_before_year(self, year: i32) -> i64 {
        let y = i64::from(year);
        let leaps = |n: i64| (y - 1).div_euclid(n) + 1; // year 0 is divisible by everything
        match self {
            Self::Standard => 365 * y + leaps(4) - leaps(100) + leaps(400),
            Self::Julian => 365 * y + leaps(4),
            Self::NoLeap => 365 * y,
            Self::AllLeap => 366 * y,
            Self::Day360 => 360 * y,
        }
    }

    /// Seconds since 1970-01-01T00:00 of this calendar, `None` for a date that it does not have.
    pub fn seconds(self, date: Date) -> Option<i64> {
        let Date { year, month, day, seconds } = date;
        let valid = (1..=12).contains(&month)
            && day >= 1
            && day <= self.month_days(year, month)
            && seconds < 86_400
            && year.unsigned_abs() < 1_000_000;
        if !valid {
            return None;
        }
        let before: u32 = (1..month).map(|m| self.month_days(year, m)).sum();
        let days = self.days_before_year(year) - self.days_before_year(1970) + i64::from(before + day - 1);
        Some(days * DAY_SECONDS + i64::from(seconds))
    }

    /// The civil date of a number of seconds since 1970-01-01T00:00 of this calendar.
    pub fn date(self, seconds: i64) -> Date {
        let mut days = seconds.div_euclid(DAY_SECONDS) + self.days_before_year(1970);
        let rest = seconds.rem_euclid(DAY_SECONDS) as u32;
        let mut year = (days as f64 / 365.2425).floor() as i32 - 1;
        while self.days_before_year(year + 1) <= days {
            year += 1;
        }
        while self.days_before_year(year) > days {
            year -= 1;
        }
        days -= self.days_before_year(year);
        let mut month = 1;
        while days >= i64::from(self.month_days(year, month)) {
            days -= i64::from(self.month_days(year, month));
            month += 1;
        }
        Date { year, month, day: days as u32 + 1, seconds: rest }
    }
}

/// When a state of the atmosphere holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValidTime {
    /// Seconds since 1970-01-01T00:00 in `calendar`.
    pub seconds: i64,
    pub calendar: Calendar,
}

/// When a forecast starts: the valid time of its analysis (CF `forecast_reference_time`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InitTime(pub ValidTime);

/// How far ahead of its start a forecast looks [s]; also the length of a model step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct LeadTime {
    pub seconds: i64,
}

/// The valid time of a forecast: the only place where the two are added.
pub fn valid_time(init: InitTime, lead: LeadTime) -> ValidTime {
    init.0.after(lead)
}

impl ValidTime {
    pub fn new(seconds: i64, calendar: Calendar) -> Self {
        Self { seconds, calendar }
    }

    pub fn date(self) -> Date {
        self.calendar.date(self.seconds)
    }

    /// The moment `duration` later (earlier when it is negative).
    pub fn after(self, duration: LeadTime) -> Self {
        Self::new(self.seconds + duration.seconds, self.calendar)
    }

    /// Time since `earlier`.
    pub fn since(self, earlier: ValidTime) -> LeadTime {
        LeadTime { seconds: self.seconds - earlier.seconds }
    }

    /// Days since January 1st, 00:00, with the fraction of the day.
    pub fn day_of_year(self) -> f64 {
        let date = self.date();
        let new_year = Date { month: 1, day: 1, seconds: 0, ..date };
        let start = self.calendar.seconds(new_year).unwrap_or(self.seconds);
        (self.seconds - start) as f64 / DAY_SECONDS as f64
    }

    /// Fraction of the year gone by, 0 up to 1.
    pub fn year_fraction(self) -> f64 {
        self.day_of_year() / f64::from(self.calendar.year_days(self.date().year))
    }

    /// Hour of the day (UTC), with its fraction.
    pub fn hour(self) -> f64 {
        f64::from(self.date().seconds) / 3600.0
    }

    /// `20081019T1200` : safe in a file name, sorts by time.
    pub fn file_stamp(self) -> String {
        let d = self.date();
        let (hour, minute) = (d.seconds / 3600, d.seconds / 60 % 60);
        format!("{:04}{:02}{:02}T{hour:02}{minute:02}", d.year, d.month, d.day)
    }

    /// A date, or a date and time, of the standard calendar (`2008-10-19`, `2008-10-19T12`, `2008-10-19T12:00:00Z`).
    pub fn parse(text: &str, calendar: Calendar) -> Result<Self> {
        let expected = || {
            Error::input(format!("'{text}' is not a date")).hint("write 2008-10-19 or 2008-10-19T12:00 (UTC)")
        };
        let clean = text.trim().trim_end_matches('Z').replace(' ', "T");
        let (day, clock) = clean.split_once('T').unwrap_or((&clean, "0"));
        let mut parts = day.rsplitn(3, '-');
        let mut next = || parts.next().ok_or_else(expected);
        let (d, m, y) = (next()?, next()?, next()?);
        let mut seconds = 0_u32;
        for (part, unit) in clock.split(':').zip([3600, 60, 1]) {
            let value: u32 = part.parse().map_err(|_| expected())?;
            seconds = value.checked_mul(unit).and_then(|s| s.checked_add(seconds)).ok_or_else(expected)?;
        }
        let date = Date {
            year: y.parse().map_err(|_| expected())?,
            month: m.parse().map_err(|_| expected())?,
            day: d.parse().map_err(|_| expected())?,
            seconds,
        };
        let seconds = calendar.seconds(date).ok_or_else(|| {
            Error::input(format!("'{text}' is not a date of the {} calendar", calendar.cf_name()))
        })?;
        Ok(Self::new(seconds, calendar))
    }

    /// The same moment for chrono, `None` outside the standard calendar.
    pub fn to_chrono(self) -> Option<NaiveDateTime> {
        (self.calendar == Calendar::Standard)
            .then(|| DateTime::from_timestamp(self.seconds, 0).map(|t| t.naive_utc()))
            .flatten()
    }

    /// From a moment of the standard calendar.
    pub fn from_chrono(moment: NaiveDateTime) -> Self {
        let date = Date {
            year: moment.year(),
            month: moment.month(),
            day: moment.day(),
            seconds: moment.num_seconds_from_midnight(),
        };
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).map(|d| d.and_time(chrono::NaiveTime::MIN));
        let fallback = epoch.map_or(0, |e| (moment - e).num_seconds());
        Self::new(Calendar::Standard.seconds(date).unwrap_or(fallback), Calendar::Standard)
    }
}

impl fmt::Display for ValidTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = self.date();
        let (hour, minute, second) = (d.seconds / 3600, d.seconds / 60 % 60, d.seconds % 60);
        write!(f, "{:04}-{:02}-{:02}T{hour:02}:{minute:02}", d.year, d.month, d.day)?;
        if second > 0 { write!(f, ":{second:02}Z") } else { write!(f, "Z") }
    }
}

impl fmt::Display for InitTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl LeadTime {
    pub const ZERO: Self = Self { seconds: 0 };

    pub fn from_hours(hours: i64) -> Self {
        Self { seconds: hours * 3600 }
    }

    pub fn hours(self) -> f64 {
        self.seconds as f64 / 3600.0
    }

    /// `steps` times this step.
    pub fn times(self, steps: usize) -> Self {
        Self { seconds: self.seconds * steps as i64 }
    }

    /// As far back as this reaches ahead.
    pub fn negative(self) -> Self {
        Self { seconds: -self.seconds }
    }

    /// How many steps of `step` this lead is, an error when it is not a whole number of them.
    pub fn steps_of(self, step: LeadTime) -> Result<usize> {
        if step.seconds <= 0 || self.seconds < 0 || self.seconds % step.seconds != 0 {
            return Err(Error::input(format!(
                "a lead time of {self} is not a whole number of steps of {step}"
            ))
            .hint(format!("choose a multiple of {step}")));
        }
        Ok((self.seconds / step.seconds) as usize)
    }
}

impl fmt::Display for LeadTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds {
            s if s % 86_400 == 0 && s != 0 => write!(f, "{}d", s / 86_400),
            s if s % 3600 == 0 => write!(f, "{}h", s / 3600),
            s if s % 60 == 0 => write!(f, "{}min", s / 60),
            s => write!(f, "{s}s"),
        }
    }
}

impl FromStr for LeadTime {
    type Err = Error;

    /// `6h`, `5d`, `90min`, `30s`.
    fn from_str(text: &str) -> Result<Self> {
        let expected = || {
            Error::input(format!("'{text}' is not a duration"))
                .hint("write a number and a unit: 30s, 90min, 6h, 5d")
        };
        let text = text.trim();
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(expected)?;
        let number: i64 = text[..split].trim().parse().map_err(|_| expected())?;
        let unit = match &text[split..] {
            "s" => 1,
            "min" | "m" => 60,
            "h" => 3600,
            "d" => DAY_SECONDS,
            _ => return Err(expected()),
        };
        let seconds = number.checked_mul(unit).ok_or_else(expected)?;
        Ok(Self { seconds })
    }
}

impl Serialize for LeadTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LeadTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_calendar_inverts_itself_over_four_centuries() {
        for calendar in
            [Calendar::Standard, Calendar::Julian, Calendar::NoLeap, Calendar::AllLeap, Calendar::Day360]
        {
            for day in (-80_000..80_000).step_by(17) {
                let seconds = day * DAY_SECONDS + 43_200;
                assert_eq!(calendar.seconds(calendar.date(seconds)), Some(seconds));
            }
        }
    }

    #[test]
    fn the_standard_calendar_agrees_with_chrono() {
        for text in ["1600-02-29T00", "1900-03-01T06", "2000-02-29T12:30", "2024-12-31T23:59:59"] {
            let valid = ValidTime::parse(text, Calendar::Standard).unwrap();
            let moment = valid.to_chrono().unwrap();
            assert_eq!(ValidTime::from_chrono(moment), valid, "{text}");
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for (text, calendar) in [
            ("2001-02-29", Calendar::Standard),
            ("2000-02-29", Calendar::NoLeap),
            ("2000-01-31", Calendar::Day360),
            ("2000-13-01", Calendar::Standard),
            ("yesterday", Calendar::Standard),
            ("2000-01-01T99:99:99", Calendar::Standard),
            ("2000-01-01T4294967295", Calendar::Standard),
        ] {
            assert!(ValidTime::parse(text, calendar).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_read_and_print_the_same() {
        for text in ["30s", "90min", "6h", "5d"] {
            assert_eq!(text.parse::<LeadTime>().unwrap().to_string(), text);
        }
        assert!("5".parse::<LeadTime>().is_err());
        assert!("99999999999999999d".parse::<LeadTime>().is_err());
    }

    #[test]
    fn valid_is_init_plus_lead_across_a_leap_day() {
        let init = InitTime(ValidTime::parse("2008-02-28T12", Calendar::Standard).unwrap());
        let valid = valid_time(init, "2d".parse().unwrap());
        assert_eq!(valid.to_string(), "2008-03-01T12:00Z");
    }
}
