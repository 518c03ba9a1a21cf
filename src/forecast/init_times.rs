//! Where forecasts start, as a user writes it.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::time::{Calendar, InitTime, LeadTime, ValidTime};

/// Initial times asked for: none (the newest), single ones (`2008-10-19T12`), and half-open ranges, with or without a
/// spacing (`2008-10-19..2010-12-28`, `2008-10-19T12..2010-12-28/2d`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InitTimes {
    wanted: Vec<Wanted>,
}

#[derive(Debug, Clone, PartialEq)]
enum Wanted {
    One(String),
    Range { start: String, end: String, every: Option<LeadTime> },
}

impl InitTimes {
    pub fn parse(texts: &[String]) -> Result<Self> {
        let one = |text: &String| {
            let Some((start, rest)) = text.split_once("..") else { return Ok(Wanted::One(text.clone())) };
            let (end, every) = match rest.split_once('/') {
                Some((end, every)) => (end, Some(every.parse::<LeadTime>()?)),
                None => (rest, None),
            };
            if every.is_some_and(|e| e.seconds <= 0) {
                return Err(Error::input(format!("'{text}' goes on in steps of nothing")));
            }
            Ok(Wanted::Range { start: start.into(), end: end.into(), every })
        };
        let wanted: Result<Vec<Wanted>> = texts.iter().map(one).collect();
        Ok(Self { wanted: wanted? })
    }

    /// The initial times among those that can be started from (ascending), ascending and each once. A single time that
    /// is not among them is an error; a range takes what there is, but not nothing.
    pub fn choose(&self, usable: &[InitTime]) -> Result<Vec<InitTime>> {
        let Some(newest) = usable.last() else {
            return Err(Error::input("the input has no date that a forecast can start from")
                .hint("a forecast needs all variables at its initial time and the input frames before it"));
        };
        let calendar = newest.0.calendar;
        let mut chosen = BTreeSet::new();
        if self.wanted.is_empty() {
            chosen.insert(*newest);
        }
        for wanted in &self.wanted {
            match wanted {
                Wanted::One(text) => {
                    let time = InitTime(ValidTime::parse(text, calendar)?);
                    if !usable.contains(&time) {
                        return Err(absent(time, usable));
                    }
                    chosen.insert(time);
                }
                Wanted::Range { start, end, every } => {
                    let found = in_range(usable, start, end, *every, calendar)?;
                    chosen.extend(found);
                }
            }
        }
        Ok(chosen.into_iter().collect())
    }
}

fn in_range(
    usable: &[InitTime],
    start: &str,
    end: &str,
    every: Option<LeadTime>,
    calendar: Calendar,
) -> Result<Vec<InitTime>> {
    let (from, until) = (ValidTime::parse(start, calendar)?, ValidTime::parse(end, calendar)?);
    let inside: Vec<InitTime> = usable.iter().copied().filter(|t| from <= t.0 && t.0 < until).collect();
    let Some(first) = inside.first().copied() else {
        return Err(Error::input(format!("no forecast can start between {from} and {until}")).hint(format!(
            "the input allows starts from {} to {}; the end of a range does not belong to it",
            usable[0],
            usable[usable.len() - 1]
        )));
    };
    let on_beat = |t: &InitTime| every.is_none_or(|e| t.0.since(first.0).seconds % e.seconds == 0);
    Ok(inside.into_iter().filter(on_beat).collect())
}

fn absent(time: InitTime, usable: &[InitTime]) -> Error {
    // Of two that are equally far, the later one: who writes a day means a time of that day.
    let distance = |t: &&InitTime| ((t.0.seconds - time.0.seconds).abs(), -t.0.seconds);
    let nearest = usable.iter().min_by_key(distance).map_or(String::new(), |t| format!("{t}"));
    Error::input(format!(
        "no forecast can start at {time}: the input does not hold it and the frames before it"
    ))
    .hint(format!("the nearest time that works is {nearest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable() -> Vec<InitTime> {
        let start = ValidTime::parse("2008-10-19T12", Calendar::Standard).unwrap();
        (0..10).map(|d| InitTime(start.after(LeadTime::from_hours(24 * d)))).collect()
    }

    fn choose(texts: &[&str]) -> Result<Vec<String>> {
        let texts: Vec<String> = texts.iter().map(|t| t.to_string()).collect();
        let chosen = InitTimes::parse(&texts)?.choose(&usable())?;
        Ok(chosen.iter().map(|t| t.to_string()[8..13].to_string()).collect())
    }

    #[test]
    fn the_newest_single_times_and_ranges() {
        assert_eq!(choose(&[]).unwrap(), ["28T12"]);
        assert_eq!(choose(&["2008-10-21T12", "2008-10-20T12", "2008-10-21T12"]).unwrap(), ["20T12", "21T12"]);
        assert_eq!(choose(&["2008-10-19..2008-10-22"]).unwrap(), ["19T12", "20T12", "21T12"]);
        assert_eq!(choose(&["2008-10-19..2009-01-01/4d"]).unwrap(), ["19T12", "23T12", "27T12"]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let error = choose(&["2008-10-21"]).unwrap_err();
        assert!(error.advice().unwrap().contains("12:00Z"), "{error}");
        assert!(choose(&["2009-10-19..2010-01-01"]).is_err());
        assert!(choose(&["2008-10-19..2008-10-22/0d"]).is_err());
        assert!(choose(&["yesterday"]).is_err());
        assert!(InitTimes::default().choose(&[]).is_err());
    }
}
