//! Reference times, forecast times and the intervals of statistics (sections 1 and 4).

use super::sections::Octets;
use crate::constants::DAY_SECONDS;
use crate::time::{Calendar, Date, LeadTime, ValidTime};

/// Where a date of seven octets begins.
pub fn date(section: Octets<'_>, octet: usize, calendar: Calendar) -> Option<ValidTime> {
    let clock = [section.u8(octet + 4), section.u8(octet + 5), section.u8(octet + 6)].map(u32::from);
    let [hour, minute, second] = clock;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let date = Date {
        year: section.u16(octet).into(),
        month: section.u8(octet + 2).into(),
        day: section.u8(octet + 3).into(),
        seconds: hour * 3600 + minute * 60 + second,
    };
    calendar.seconds(date).map(|seconds| ValidTime::new(seconds, calendar))
}

/// The calendar of a message (template 1.0, where section 1 has one); `Err` has a sentence's end.
pub fn calendar(identification: Octets<'_>) -> Result<Calendar, String> {
    if identification.0.len() < 24 || identification.u16(22) != 0 {
        return Ok(Calendar::Standard);
    }
    match identification.u8(24) {
        0 | 3 => Ok(Calendar::Standard),
        1 => Ok(Calendar::Day360),
        2 => Ok(Calendar::NoLeap),
        other => Err(format!("is dated by calendar {other}, which is none of code table 1.6")),
    }
}

/// A length of time of `count` units of code table 4.4; `None` for months and longer, which have no fixed length.
pub fn duration(unit: u8, count: i64) -> Option<LeadTime> {
    let seconds = match unit {
        _ if count == 0 => 0,
        0 => 60,
        1 => 3600,
        2 => DAY_SECONDS,
        10 => 3 * 3600,
        11 => 6 * 3600,
        12 => 12 * 3600,
        13 => 1,
        _ => return None,
    };
    Some(LeadTime { seconds: seconds * count })
}
