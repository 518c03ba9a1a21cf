//! Quantities along time: which file and index hold each date.

use super::plan::DuplicatePolicy;
use super::sources::Found;
use crate::error::{Error, Result};
use crate::time::{Calendar, LeadTime, ValidTime};
use crate::variable::Quantity;

/// Quantities that always come together: one variable, on one or more levels, over many files.
pub struct Track {
    pub parts: Vec<Found>,
    pub quantities: Vec<Quantity>,
    /// Dates that are added up for one state: more than one for sums over a part of a step.
    pub sum: usize,
    /// By date, `slots[i]` before `slots[i + 1]`.
    slots: Vec<Slot>,
    /// Time between the dates that are added up [s].
    spacing: i64,
    calendar: Calendar,
}

/// Where a date is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub seconds: i64,
    pub part: u32,
    /// Index into the variable's times.
    pub time: u32,
}

impl Track {
    /// Groups what was found by quantity, in the order of the sources.
    pub fn group(found: Vec<Found>, step: LeadTime, duplicates: DuplicatePolicy) -> Result<Vec<Track>> {
        let mut groups: Vec<Vec<Found>> = Vec::new();
        for one in found {
            match groups.iter_mut().find(|group| group[0].quantities == one.quantities) {
                Some(group) => group.push(one),
                None => {
                    let same =
                        |other: &Found| one.quantities.iter().find(|q| other.quantities.contains(q)).cloned();
                    if let Some((other, twice)) = groups.iter().find_map(|g| same(&g[0]).map(|q| (&g[0], q)))
                    {
                        return Err(Error::input(format!(
                            "{twice} is given twice, by {} and by {}, together with different levels",
                            other.file.path.display(),
                            one.file.path.display()
                        ))
                        .hint("name the levels of each source so that they do not overlap"));
                    }
                    groups.push(vec![one]);
                }
            }
        }
        groups.into_iter().map(|parts| Self::new(parts, step, duplicates)).collect()
    }

    fn new(parts: Vec<Found>, step: LeadTime, duplicates: DuplicatePolicy) -> Result<Self> {
        let first = &parts[0].variable;
        let (calendar, period) = (first.times[0].calendar, first.period);
        let is_sum = first.is_accumulated();
        for part in &parts[1..] {
            let other = &part.variable;
            if other.times[0].calendar != calendar || (is_sum && other.period != period) {
                return Err(Error::input(format!(
                    "{} and {} do not go together: their calendars are {} and {}, their periods {} and {}",
                    parts[0].file.path.display(),
                    part.file.path.display(),
                    calendar.cf_name(),
                    other.times[0].calendar.cf_name(),
                    period.map_or("none".into(), |p| p.to_string()),
                    other.period.map_or("none".into(), |p| p.to_string()),
                )));
            }
        }
        let spacing = if is_sum { period.map_or(step.seconds, |p| p.seconds) } else { step.seconds };
        let mut slots = Vec::new();
        for (part, found) in parts.iter().enumerate() {
            let slot = |(time, valid): (usize, &ValidTime)| Slot {
                seconds: valid.seconds,
                part: part as u32,
                time: time as u32,
            };
            slots.extend(found.variable.times.iter().enumerate().map(slot));
        }
        slots.sort_by_key(|s| (s.seconds, s.part, s.time));
        let twice = slots.windows(2).find(|w| w[0].seconds == w[1].seconds);
        if let (Some(twice), DuplicatePolicy::Error) = (twice, duplicates) {
            let path = |slot: &Slot| parts[slot.part as usize].file.path.display();
            return Err(Error::input(format!(
                "{} comes twice for {}: in {} and in {}",
                ValidTime::new(twice[0].seconds, calendar),
                parts[0].quantities[0],
                path(&twice[0]),
                path(&twice[1])
            ))
            .hint(
                "remove one of the files, or say which counts: [data] duplicates = \"first\" or \"last\"",
            ));
        }
        match duplicates {
            DuplicatePolicy::Last => {
                slots.reverse();
                slots.dedup_by_key(|s| s.seconds);
                slots.reverse();
            }
            _ => slots.dedup_by_key(|s| s.seconds),
        }
        let sum = (step.seconds / spacing) as usize;
        let quantities = parts[0].quantities.clone();
        Ok(Self { parts, quantities, sum, slots, spacing, calendar })
    }

    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// The first date whose sum may be whole, and the last.
    pub fn range(&self) -> (i64, i64) {
        let first = self.slots[0].seconds + (self.sum as i64 - 1) * self.spacing;
        (first, self.slots[self.slots.len() - 1].seconds)
    }

    /// The dates as the files give them [s].
    pub fn dates(&self) -> impl Iterator<Item = i64> + '_ {
        self.slots.iter().map(|s| s.seconds)
    }

    /// The time between dates that comes most often.
    pub fn usual_spacing(&self) -> Option<LeadTime> {
        let mut counts = std::collections::BTreeMap::new();
        for pair in self.slots.windows(2) {
            *counts.entry(pair[1].seconds - pair[0].seconds).or_insert(0_usize) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(seconds, _)| LeadTime { seconds })
    }

    /// Where the state of a date is: one slot, or those that are added up; nothing when one is missing.
    pub fn slots(&self, seconds: i64) -> Option<Vec<Slot>> {
        (0..self.sum as i64)
            .map(|k| {
                let wanted = seconds - k * self.spacing;
                self.slots.binary_search_by_key(&wanted, |s| s.seconds).ok().map(|at| self.slots[at])
            })
            .collect()
    }

    pub fn has(&self, seconds: i64) -> bool {
        self.slots(seconds).is_some()
    }
}
