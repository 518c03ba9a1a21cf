//! What to do about a cycle that waits: nothing yet, start from this, or give it up.

use crate::time::{InitTime, LeadTime, ValidTime};

use super::plan::{Late, LatenessPlan, Start};

/// What a cycle starts from.
#[derive(Debug, Clone, PartialEq)]
pub struct Beginning {
    pub from: From,
    /// Valid times after that, up to the initial time, whose analyses take the place of what was forecast. Without the
    /// initial time itself, the cycle starts from a first guess.
    pub corrections: Vec<ValidTime>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum From {
    /// A warm-up on the analyses up to this one.
    Analyses(ValidTime),
    /// The recurrent state of an earlier cycle: its initial time and its file.
    Kept(InitTime, String),
}

impl Beginning {
    pub fn start(&self) -> ValidTime {
        match &self.from {
            From::Analyses(valid) => *valid,
            From::Kept(init, _) => init.0,
        }
    }

    /// Whether the cycle of this initial time has an analysis of its own.
    pub fn has_analysis(&self, init: InitTime) -> bool {
        self.corrections.contains(&init.0) || self.from == From::Analyses(init.0)
    }

    /// In words, for ledger and file.
    pub fn describe(&self, init: InitTime) -> String {
        let guess = if self.has_analysis(init) { "" } else { "first guess, " };
        match &self.from {
            From::Kept(own, _) if *own == init => "again".into(),
            From::Analyses(valid) if *valid == init.0 => "cold".into(),
            From::Analyses(valid) => format!("{guess}from the analyses up to {valid}"),
            From::Kept(before, _) => {
                let own = usize::from(self.corrections.contains(&init.0));
                let between = match self.corrections.len() - own {
                    0 => String::new(),
                    n => format!(" and {n} analyses between"),
                };
                let warm = if own == 1 { "warm, " } else { guess };
                format!("{warm}from the cycle of {before}{between}")
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Until this moment at the latest [s since 1970]; `None` until something comes.
    Wait(Option<i64>),
    Begin(Beginning),
    /// Nothing will come.
    Miss(String),
}

/// A cycle, and what there is for it.
pub struct Situation<'a> {
    pub init: InitTime,
    /// [s since 1970], of the clock of the service.
    pub now: i64,
    /// Whether a timetable asks for it; otherwise an analysis did.
    pub scheduled: bool,
    pub start: Start,
    pub input_frames: usize,
    pub step: LeadTime,
    pub lateness: &'a LatenessPlan,
    /// Whether the whole analysis of a valid time is there.
    pub is_there: &'a dyn Fn(ValidTime) -> bool,
    /// The newest earlier cycle whose recurrent state is kept, and its file.
    pub predecessor: Option<(InitTime, String)>,
}

impl Situation<'_> {
    pub fn decide(&self) -> Decision {
        let analysis = (self.is_there)(self.init.0);
        if analysis
            && self.start == Start::Warm
            && let Some(warm) = self.carried_on()
        {
            return Decision::Begin(warm);
        }
        if analysis && self.warms_up(self.init.0) {
            return Decision::Begin(Beginning { from: From::Analyses(self.init.0), corrections: Vec::new() });
        }
        if !self.scheduled {
            // The frames before it may still come; a timetable would say how long to wait.
            return Decision::Wait(None);
        }
        let until = self.init.0.seconds + self.lateness.wait.seconds;
        if self.now < until {
            return Decision::Wait(Some(until));
        }
        let waited = self.lateness.wait;
        let begin = match self.lateness.then {
            Late::Skip => return Decision::Miss(format!("no analysis came within {waited}")),
            Late::Newest => self.newest_guess(),
            Late::Previous => self.carried_on(),
        };
        begin.map_or_else(
            || {
                let bridge = self.lateness.bridge;
                Decision::Miss(format!(
                    "no analysis came within {waited}, and there is nothing of the last {bridge} to go on from"
                ))
            },
            Decision::Begin,
        )
    }

    /// Steps from an earlier time to the initial time, where they are whole and not too many.
    fn steps_from(&self, valid: ValidTime) -> Option<usize> {
        let away = self.init.0.since(valid);
        (away.seconds <= self.lateness.bridge.seconds).then(|| away.steps_of(self.step).ok()).flatten()
    }

    /// From the cycle before, corrected by the analyses since.
    fn carried_on(&self) -> Option<Beginning> {
        let (before, file) = self.predecessor.clone()?;
        let steps = self.steps_from(before.0)?;
        let corrections =
            (1..=steps).map(|n| before.0.after(self.step.times(n))).filter(|&t| (self.is_there)(t)).collect();
        Some(Beginning { from: From::Kept(before, file), corrections })
    }

    /// From the newest analysis before the initial time that a forecast can start from.
    fn newest_guess(&self) -> Option<Beginning> {
        let back = |n: usize| self.init.0.after(self.step.times(n).negative());
        (1..)
            .map(back)
            .take_while(|&valid| self.steps_from(valid).is_some())
            .find(|&valid| self.warms_up(valid))
            .map(|valid| Beginning { from: From::Analyses(valid), corrections: Vec::new() })
    }

    /// Whether the analysis of a time and the frames before it are there.
    fn warms_up(&self, valid: ValidTime) -> bool {
        (0..self.input_frames).all(|n| (self.is_there)(valid.after(self.step.times(n).negative())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::schedule::init;

    const HOUR: i64 = 3600;

    fn lateness(then: Late) -> LatenessPlan {
        let hours = LeadTime::from_hours;
        LatenessPlan { cutoff: hours(4), wait: hours(6), then, bridge: hours(18), catch_up: hours(24) }
    }

    /// For hour 24, with steps of 6 hours and 2 input frames; analyses at these hours, a kept state of that one.
    fn decide(now: i64, there: &[i64], kept: Option<i64>, start: Start, then: Late) -> Decision {
        let is_there = |valid: ValidTime| there.contains(&(valid.seconds / HOUR));
        Situation {
            init: init(24 * HOUR),
            now: now * HOUR,
            scheduled: true,
            start,
            input_frames: 2,
            step: LeadTime::from_hours(6),
            lateness: &lateness(then),
            is_there: &is_there,
            predecessor: kept.map(|hour| (init(hour * HOUR), "m".into())),
        }
        .decide()
    }

    fn begin(from: From, corrections: &[i64]) -> Decision {
        let corrections = corrections.iter().map(|hour| init(hour * HOUR).0).collect();
        Decision::Begin(Beginning { from, corrections })
    }

    fn analyses(hour: i64) -> From {
        From::Analyses(init(hour * HOUR).0)
    }

    fn kept(hour: i64) -> From {
        From::Kept(init(hour * HOUR), "m".into())
    }

    #[test]
    fn a_cycle_starts_as_soon_as_what_it_needs_is_there() {
        let cold = |there: &[i64]| decide(25, there, None, Start::Cold, Late::Skip);
        assert_eq!(cold(&[18, 24]), begin(analyses(24), &[]));
        assert_eq!(cold(&[24]), Decision::Wait(Some(30 * HOUR)));
        assert_eq!(cold(&[12, 18]), Decision::Wait(Some(30 * HOUR)));
    }

    #[test]
    fn a_warm_cycle_goes_on_from_the_one_before() {
        let warm = |there: &[i64], kept| decide(25, there, kept, Start::Warm, Late::Skip);
        assert_eq!(warm(&[24], Some(18)), begin(kept(18), &[24]));
        assert_eq!(warm(&[12, 18, 24], Some(12)), begin(kept(12), &[18, 24]));
        // Too long ago, never, or not a whole number of steps: a fresh warm-up.
        assert_eq!(warm(&[18, 24], Some(0)), begin(analyses(24), &[]));
        assert_eq!(warm(&[18, 24], None), begin(analyses(24), &[]));
        assert_eq!(warm(&[18, 24], Some(17)), begin(analyses(24), &[]));
        assert_eq!(warm(&[18], Some(18)), Decision::Wait(Some(30 * HOUR)));
    }

    #[test]
    fn after_the_wait_the_policy_says_what_to_start_from() {
        assert!(matches!(decide(30, &[6, 12], None, Start::Cold, Late::Skip), Decision::Miss(_)));
        assert_eq!(decide(30, &[6, 12], None, Start::Cold, Late::Newest), begin(analyses(12), &[]));
        assert!(matches!(decide(30, &[12], None, Start::Cold, Late::Newest), Decision::Miss(_)));
        assert!(matches!(decide(30, &[-6, 0], None, Start::Cold, Late::Newest), Decision::Miss(_)));
        assert_eq!(decide(30, &[], Some(18), Start::Cold, Late::Previous), begin(kept(18), &[]));
        assert_eq!(decide(30, &[18], Some(12), Start::Cold, Late::Previous), begin(kept(12), &[18]));
        assert!(matches!(decide(30, &[18], None, Start::Warm, Late::Previous), Decision::Miss(_)));
        // Late, but there.
        assert_eq!(decide(40, &[18, 24], None, Start::Cold, Late::Skip), begin(analyses(24), &[]));
    }

    #[test]
    fn beginnings_are_told_in_words() {
        let at = init(24 * HOUR);
        let words = |decision| match decision {
            Decision::Begin(beginning) => beginning.describe(at),
            other => panic!("{other:?}"),
        };
        assert_eq!(words(begin(analyses(24), &[])), "cold");
        assert_eq!(words(begin(kept(18), &[24])), "warm, from the cycle of 1970-01-01T18:00Z");
        let between = "warm, from the cycle of 1970-01-01T12:00Z and 1 analyses between";
        assert_eq!(words(begin(kept(12), &[18, 24])), between);
        assert_eq!(words(begin(kept(18), &[])), "first guess, from the cycle of 1970-01-01T18:00Z");
        assert_eq!(words(begin(analyses(12), &[])), "first guess, from the analyses up to 1970-01-01T12:00Z");
    }
}
