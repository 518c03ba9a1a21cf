//! Which initial times a day has.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use croner::Cron;

use crate::error::{Error, Result};
use crate::time::{Calendar, InitTime, LeadTime, ValidTime};

const DAY: i64 = 86_400;

/// When forecasts start.
#[derive(Debug, Clone)]
pub enum Timetable {
    /// Whenever there is an analysis.
    Arrival,
    /// At these seconds of every day (UTC), ascending.
    Daily(Vec<i64>),
    /// As a cron expression says (UTC).
    Cron(Box<Cron>),
}

impl Timetable {
    /// From times of the day, as `00`, `06:00`, `18:30`.
    pub fn daily(times: &[String]) -> Result<Self> {
        let mut seconds = times.iter().map(|time| of_day(time)).collect::<Result<Vec<i64>>>()?;
        seconds.sort_unstable();
        seconds.dedup();
        if seconds.is_empty() {
            return Err(Error::input("serve.schedule.cycles names no time of the day").hint(
                "write cycles = [\"00\", \"12\"], or leave it out to start whenever an analysis arrives",
            ));
        }
        Ok(Self::Daily(seconds))
    }

    /// From five fields (minute, hour, day, month, weekday) in UTC.
    pub fn cron(text: &str) -> Result<Self> {
        let cron = Cron::from_str(text).map_err(|error| {
            Error::input(format!("serve.schedule.cron: '{text}' is not a cron expression"))
                .caused_by(error)
                .hint("write minute, hour, day, month and weekday, as in \"0 */6 * * *\"")
        })?;
        Ok(Self::Cron(Box::new(cron)))
    }

    /// Initial times after `after` up to `until` [s since 1970], ascending. At most `most`, the newest of them.
    pub fn between(&self, after: i64, until: i64, most: usize) -> Vec<InitTime> {
        let mut times = match self {
            Self::Arrival => Vec::new(),
            Self::Daily(seconds) => (after.div_euclid(DAY)..=until.div_euclid(DAY))
                .flat_map(|day| seconds.iter().map(move |second| day * DAY + second))
                .filter(|time| (after + 1..=until).contains(time))
                .collect(),
            Self::Cron(cron) => occurrences(cron, after, until, most),
        };
        times.drain(..times.len().saturating_sub(most));
        times.into_iter().map(init).collect()
    }

    /// The last initial time up to `until`.
    pub fn newest(&self, until: i64) -> Option<InitTime> {
        match self {
            // A month and a day hold an occurrence of all that recurs monthly; rarer tables start empty.
            Self::Cron(_) | Self::Daily(_) => self.between(until - 32 * DAY, until, 1).pop(),
            Self::Arrival => None,
        }
    }
}

/// The standard calendar is that of clocks.
pub fn init(seconds: i64) -> InitTime {
    InitTime(ValidTime::new(seconds, Calendar::Standard))
}

fn of_day(text: &str) -> Result<i64> {
    let wrong = || {
        Error::input(format!("serve.schedule.cycles: '{text}' is not a time of the day"))
            .hint("write \"06\" or \"06:30\" (UTC)")
    };
    let mut seconds = 0;
    let mut parts = text.split(':');
    for (unit, most) in [(3600, 23), (60, 59)] {
        let Some(part) = parts.next() else { continue };
        let value: i64 = part.parse().map_err(|_| wrong())?;
        if !(0..=most).contains(&value) {
            return Err(wrong());
        }
        seconds += unit * value;
    }
    if parts.next().is_some() { Err(wrong()) } else { Ok(seconds) }
}

/// Of a cron expression, the newest `most`.
fn occurrences(cron: &Cron, after: i64, until: i64, most: usize) -> Vec<i64> {
    let mut found = std::collections::VecDeque::new();
    let mut at = after;
    while let Some(next) = moment(at).and_then(|at| cron.find_next_occurrence(&at, false).ok()) {
        if next.timestamp() > until || next.timestamp() <= at {
            break;
        }
        at = next.timestamp();
        found.push_back(at);
        if found.len() > most {
            found.pop_front();
        }
    }
    found.into()
}

fn moment(seconds: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds, 0)
}

/// What the clock of the service shows: the world's time, or that of a rehearsal, which starts at another time and may go
/// faster.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    rehearsal: Option<(InitTime, f64, std::time::Instant)>,
}

impl Clock {
    pub fn of_the_world() -> Self {
        Self { rehearsal: None }
    }

    /// Starts now at `start` and goes `speed` times as fast as the world.
    pub fn rehearsal(start: InitTime, speed: f64) -> Self {
        Self { rehearsal: Some((start, speed, std::time::Instant::now())) }
    }

    /// [s since 1970]
    pub fn now(&self) -> i64 {
        match self.rehearsal {
            None => Utc::now().timestamp(),
            Some((start, speed, since)) => start.0.seconds + (since.elapsed().as_secs_f64() * speed) as i64,
        }
    }

    /// How much of this clock's time has gone since an initial time.
    pub fn since(&self, init: InitTime) -> LeadTime {
        LeadTime { seconds: self.now() - init.0.seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(times: Vec<InitTime>) -> Vec<String> {
        times.iter().map(|time| time.0.file_stamp()).collect()
    }

    fn at(text: &str) -> i64 {
        ValidTime::parse(text, Calendar::Standard).unwrap().seconds
    }

    #[test]
    fn named_cycles_come_every_day_and_the_first_does_not_belong() {
        let table = Timetable::daily(&["18".into(), "00:00".into(), "06:30".into(), "6:30".into()]).unwrap();
        let found = table.between(at("2026-02-28T00"), at("2026-03-01T06:30"), 100);
        assert_eq!(stamps(found), ["20260228T0630", "20260228T1800", "20260301T0000", "20260301T0630"]);
        assert_eq!(table.newest(at("2026-03-01T06:29")), Some(init(at("2026-03-01T00"))));
        assert_eq!(stamps(table.between(0, at("2026-03-01T06:30"), 1)), ["20260301T0630"]);
    }

    #[test]
    fn cron_expressions_are_in_universal_time() {
        let table = Timetable::cron("0 */12 * * *").unwrap();
        let found = table.between(at("2026-10-24T12"), at("2026-10-26T00"), 100);
        assert_eq!(stamps(found), ["20261025T0000", "20261025T1200", "20261026T0000"]);
        assert_eq!(stamps(table.between(at("2026-10-01"), at("2026-10-26"), 2)).len(), 2);
        assert_eq!(table.newest(at("2026-10-24T11:59")), Some(init(at("2026-10-24T00"))));
    }

    #[test]
    fn what_is_no_time_is_refused_by_name() {
        for text in ["24", "6:60", "noon", "6:00:00:00", "-1", ""] {
            let error = Timetable::daily(&[text.into()]).unwrap_err();
            assert!(error.to_string().starts_with("serve.schedule.cycles"), "{error}");
        }
        assert!(Timetable::daily(&[]).is_err());
        assert!(Timetable::cron("every day").unwrap_err().to_string().starts_with("serve.schedule.cron"));
    }

    #[test]
    fn a_rehearsal_starts_where_it_is_told() {
        let clock = Clock::rehearsal(init(at("2008-10-19T12")), 3600.0);
        assert!((0..60).contains(&(clock.now() - at("2008-10-19T12"))), "an hour a second");
    }
}
