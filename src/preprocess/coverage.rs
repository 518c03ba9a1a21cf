//! Which dates the files hold whole, and which are missing.

use super::plan::{DataPlan, MissingPolicy, Span};
use super::tracks::Track;
use crate::error::{Error, Result};
use crate::time::{Calendar, LeadTime, ValidTime};

/// Dates in a row that the files do not hold whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    pub first: ValidTime,
    pub last: ValidTime,
    /// How many dates.
    pub dates: usize,
    /// Labels of the quantities that are missing.
    pub quantities: Vec<String>,
}

pub struct Coverage {
    pub times: Vec<ValidTime>,
    pub gaps: Vec<Gap>,
}

/// Lays a lattice of steps over the time that all quantities have in common, and looks what is there. Under
/// `missing = "error"`, gaps inside the split and spans that the files do not reach are refused.
pub fn find(plan: &DataPlan, tracks: &[Track], notes: &mut Vec<String>) -> Result<Coverage> {
    let calendar = one_calendar(tracks)?;
    let step = plan.step.seconds;
    let start = tracks.iter().map(|t| t.range().0).max().unwrap_or_default();
    let end = tracks.iter().map(|t| t.range().1).min().unwrap_or_default();
    let at = |seconds: i64| ValidTime::new(seconds, calendar);
    let is_whole = |s: &i64| (start..=end).contains(s) && tracks.iter().all(|t| t.has(*s));
    // Steps are counted from midnight where the files allow it (six-hourly states at 00, 06, ...), else from the first date.
    let from_midnight = tracks[0].dates().filter(|s| s.rem_euclid(step) == 0).find(is_whole);
    let anchor = from_midnight.or_else(|| tracks[0].dates().find(is_whole));
    let Some(anchor) = anchor else {
        let ranges: Vec<String> = tracks
            .iter()
            .map(|t| format!("{} from {} to {}", t.quantities[0], at(t.range().0), at(t.range().1)))
            .collect();
        return Err(Error::input(format!(
            "there is no date at which all quantities are there: {}",
            ranges.join(", ")
        )));
    };
    note_ranges(tracks, start, end, calendar, notes);
    let first = anchor - (anchor - start).div_euclid(step) * step;
    let (mut times, mut gaps): (Vec<ValidTime>, Vec<Gap>) = (Vec::new(), Vec::new());
    for seconds in (first..=end).step_by(step as usize) {
        let missing: Vec<&Track> = tracks.iter().filter(|t| !t.has(seconds)).collect();
        if missing.is_empty() {
            times.push(at(seconds));
            continue;
        }
        let before = seconds - step;
        if gaps.last().is_none_or(|g| g.last.seconds != before) {
            gaps.push(Gap { first: at(seconds), last: at(seconds), dates: 0, quantities: Vec::new() });
        }
        if let Some(gap) = gaps.last_mut() {
            gap.last = at(seconds);
            gap.dates += 1;
            for label in missing.iter().flat_map(|t| &t.quantities).map(ToString::to_string) {
                if !gap.quantities.contains(&label) {
                    gap.quantities.push(label);
                }
            }
        }
    }
    check_step(plan.step, tracks, times.len(), gaps.iter().map(|g| g.dates).sum())?;
    check_split(plan, &times, &gaps)?;
    Ok(Coverage { times, gaps })
}

fn one_calendar(tracks: &[Track]) -> Result<Calendar> {
    let calendar = tracks[0].calendar();
    match tracks.iter().find(|t| t.calendar() != calendar) {
        None => Ok(calendar),
        Some(other) => Err(Error::input(format!(
            "{} uses the {} calendar and {} the {} calendar: their dates cannot meet",
            tracks[0].quantities[0],
            calendar.cf_name(),
            other.quantities[0],
            other.calendar().cf_name()
        ))),
    }
}

fn note_ranges(tracks: &[Track], start: i64, end: i64, calendar: Calendar, notes: &mut Vec<String>) {
    for track in tracks {
        let (first, last) = track.range();
        if first < start || last > end {
            let [first, last, start, end] = [first, last, start, end].map(|s| ValidTime::new(s, calendar));
            notes.push(format!(
                "{} runs from {first} to {last}; all quantities together are there from {start} to {end}",
                track.quantities[0]
            ));
        }
    }
}

/// A lattice that is mostly empty has the wrong step.
fn check_step(step: LeadTime, tracks: &[Track], there: usize, missing: usize) -> Result<()> {
    if missing <= there {
        return Ok(());
    }
    let spacing = |t: &Track| t.usual_spacing().map(|s| format!("{} every {s}", t.quantities[0]));
    let spacings: Vec<String> = tracks.iter().filter_map(spacing).collect();
    Err(Error::input(format!(
        "step = \"{step}\" does not fit the files: {missing} of {} dates would be missing",
        there + missing
    ))
    .hint(format!("the files hold {} most often", spacings.join(", "))))
}

fn check_split(plan: &DataPlan, times: &[ValidTime], gaps: &[Gap]) -> Result<()> {
    let Some(split) = plan.split else { return Ok(()) };
    let spans = [("train", Some(split.train)), ("validation", split.validation), ("test", split.test)];
    let (first, last) = (times[0], times[times.len() - 1]);
    for (name, span) in spans.iter().filter_map(|(name, span)| span.map(|s| (name, s))) {
        if span.start.calendar != first.calendar {
            return Err(Error::input(format!(
                "split.{name} is given in the {} calendar, the files use {}",
                span.start.calendar.cf_name(),
                first.calendar.cf_name()
            ))
            .hint(format!("set [data] calendar = \"{}\"", first.calendar.cf_name())));
        }
        if !times.iter().any(|t| span.contains(*t)) {
            return Err(Error::input(format!(
                "split.{name} ({span}) holds no date of the files, which run from {first} to {last}"
            )));
        }
        if plan.missing != MissingPolicy::Error {
            continue;
        }
        // The first date may be a step late: a sum is there only when all its parts are.
        if first > span.start.after(plan.step) || last.after(plan.step) < span.end {
            return Err(Error::input(format!(
                "split.{name} ({span}) reaches beyond the files, which run from {first} to {last}"
            ))
            .hint("shorten the span, add the files, or set [data] missing = \"skip\""));
        }
        refuse_gaps(name, span, gaps)?;
    }
    Ok(())
}

fn refuse_gaps(name: &str, span: Span, gaps: &[Gap]) -> Result<()> {
    let inside: Vec<&Gap> = gaps.iter().filter(|g| g.first < span.end && g.last >= span.start).collect();
    if inside.is_empty() {
        return Ok(());
    }
    let text = |g: &&Gap| {
        let dates = if g.dates == 1 {
            g.first.to_string()
        } else {
            format!("{} to {} ({})", g.first, g.last, g.dates)
        };
        format!("{} at {dates}", g.quantities.join(", "))
    };
    let listed: Vec<String> = inside.iter().take(5).map(text).collect();
    let more = if inside.len() > 5 { format!(" and {} more gaps", inside.len() - 5) } else { String::new() };
    Err(Error::input(format!("split.{name} has missing dates: {}{more}", listed.join("; "))).hint(
        "add the files, or set [data] missing = \"interpolate\" (short gaps) or \"skip\" (leave out windows over gaps)",
    ))
}
