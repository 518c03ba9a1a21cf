//! Bounds that a user sets on scores: what a run must reach to count as good.

use std::fmt;

use crate::error::{Error, Kind, Result};
use crate::time::LeadTime;

use super::scores::Scores;

/// A bound on one number of the scores of the first competitor.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    pub quantity: String,
    pub lead: LeadTime,
    pub region: String,
    pub weighted: bool,
    /// As in [`Score::metric`](super::Score::metric).
    pub metric: String,
    pub bound: Bound,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// The metric is at most this.
    AtMost(f64),
    /// The metric is at least this.
    AtLeast(f64),
    /// The skill over a baseline is at least this.
    SkillAtLeast { baseline: String, skill: f64 },
}

/// What was found at a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    pub gate: Gate,
    pub found: f64,
    pub passed: bool,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weighting = if self.weighted { "weighted" } else { "unweighted" };
        let Self { quantity, lead, region, metric, .. } = self;
        write!(f, "{weighting} {metric} of {quantity} at {lead} over '{region}'")?;
        match &self.bound {
            Bound::AtMost(bound) => write!(f, " at most {bound}"),
            Bound::AtLeast(bound) => write!(f, " at least {bound}"),
            Bound::SkillAtLeast { baseline, skill } => write!(f, ": skill over {baseline} at least {skill}"),
        }
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.passed { "passed" } else { "failed" };
        write!(f, "gate {word}: {}, found {}", self.gate, self.found)
    }
}

impl Gate {
    /// Looks its number up; an error when the scores do not hold it.
    pub fn try_pass(&self, scores: &Scores) -> Result<Passage> {
        let lead = self.lead.hours();
        let absent = || {
            Error::input(format!("the scores hold nothing for the gate '{self}'"))
                .hint("check its quantity, lead, region and baseline against the scores")
        };
        let Some(model) = scores.competitors.first() else { return Err(absent()) };
        let same = |quantity: &str, hours: f64, region: &str, weighted: bool, metric: &str| {
            quantity == self.quantity
                && (hours - lead).abs() < 1e-6
                && region == self.region
                && weighted == self.weighted
                && metric == self.metric
        };
        let (found, passed) = match &self.bound {
            Bound::AtMost(_) | Bound::AtLeast(_) => {
                let entry = scores.entries.iter().find(|e| {
                    e.competitor == *model
                        && same(&e.quantity, e.lead_hours, &e.region, e.weighted, &e.metric)
                });
                let found = entry.ok_or_else(absent)?.value.unwrap_or(f64::NAN);
                match self.bound {
                    Bound::AtMost(bound) => (found, found <= bound),
                    Bound::AtLeast(bound) => (found, found >= bound),
                    Bound::SkillAtLeast { .. } => (found, false),
                }
            }
            Bound::SkillAtLeast { baseline, skill } => {
                let difference = scores.differences.iter().find(|d| {
                    d.competitor == *model
                        && d.baseline == *baseline
                        && same(&d.quantity, d.lead_hours, &d.region, d.weighted, &d.metric)
                });
                let found = difference.ok_or_else(absent)?.skill.unwrap_or(f64::NAN);
                (found, found >= *skill)
            }
        };
        // A number that is not there passes no gate: NaN compares false.
        Ok(Passage { gate: self.clone(), found, passed })
    }
}

/// An error of kind [`Kind::Gate`] that names every gate that was not passed.
pub fn demand(passages: &[Passage]) -> Result<()> {
    let failed: Vec<String> = passages.iter().filter(|p| !p.passed).map(Passage::to_string).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::new(Kind::Gate, failed.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::scores::{Difference, Score, WHOLE_GRID};

    fn scores(value: Option<f64>) -> Scores {
        Scores {
            competitors: vec!["convlstm".into(), "persistence".into()],
            entries: vec![Score {
                competitor: "convlstm".into(),
                quantity: "z500".into(),
                units: "m2 s-2".into(),
                lead_hours: 24.0,
                region: WHOLE_GRID.into(),
                weighted: false,
                metric: "rmse".into(),
                value,
                low: None,
                high: None,
                initial_times: 100,
            }],
            differences: vec![Difference {
                competitor: "convlstm".into(),
                baseline: "persistence".into(),
                quantity: "z500".into(),
                lead_hours: 24.0,
                region: WHOLE_GRID.into(),
                weighted: false,
                metric: "rmse".into(),
                skill: Some(0.4),
                value: None,
                low: None,
                high: None,
            }],
            ..Scores::default()
        }
    }

    fn gate(bound: Bound) -> Gate {
        Gate {
            quantity: "z500".into(),
            lead: LeadTime::from_hours(24),
            region: WHOLE_GRID.into(),
            weighted: false,
            metric: "rmse".into(),
            bound,
        }
    }

    #[test]
    fn gates_hold_and_a_missing_number_passes_none() {
        let skill = |skill| Bound::SkillAtLeast { baseline: "persistence".into(), skill };
        let pass = |bound, value| gate(bound).try_pass(&scores(value)).unwrap().passed;
        assert!(pass(Bound::AtMost(534.0), Some(534.0)) && !pass(Bound::AtMost(534.0), Some(535.0)));
        assert!(pass(Bound::AtLeast(0.9), Some(0.95)) && !pass(Bound::AtLeast(0.9), Some(0.8)));
        assert!(pass(skill(0.3), None) && !pass(skill(0.5), None));
        assert!(!pass(Bound::AtMost(534.0), None) && !pass(Bound::AtLeast(0.0), None));
    }

    #[test]
    fn a_gate_on_nothing_is_wrong_input_and_a_failed_one_is_a_gate_error() {
        let mut wrong = gate(Bound::AtMost(1.0));
        wrong.quantity = "z50".into();
        assert_eq!(wrong.try_pass(&scores(Some(1.0))).unwrap_err().kind(), Kind::Input);
        let passage = gate(Bound::AtMost(1.0)).try_pass(&scores(Some(2.0))).unwrap();
        let error = demand(&[passage]).unwrap_err();
        assert_eq!(error.kind(), Kind::Gate);
        assert!(error.to_string().contains("rmse of z500 at 1d") && error.to_string().contains("found 2"));
    }
}
