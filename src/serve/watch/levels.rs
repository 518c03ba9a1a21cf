//! Service levels: what the last cycles of a model have to keep.

use crate::serve::ledger::{Cycle, CycleState};
use crate::serve::plan::LevelsPlan;

/// What the last cycles of a model show.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Levels {
    /// From the last file that a cycle needed to its publication, of which 99 in 100 are faster [s].
    pub latency_p99: Option<f64>,
    /// Failed, of all that are over.
    pub error_rate: Option<f64>,
    pub missing: usize,
}

impl Levels {
    pub fn of(cycles: &[Cycle]) -> Self {
        let count = |state: CycleState| cycles.iter().filter(|cycle| cycle.state == state).count();
        let (published, failed) = (count(CycleState::Published), count(CycleState::Failed));
        let mut latencies: Vec<f64> = cycles.iter().filter_map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        // The smallest that is not exceeded by more than one in a hundred.
        let rank = (latencies.len() as f64 * 0.99).ceil() as usize;
        Self {
            latency_p99: rank.checked_sub(1).and_then(|at| latencies.get(at)).copied(),
            error_rate: (published + failed > 0).then(|| failed as f64 / (published + failed) as f64),
            missing: count(CycleState::Missing),
        }
    }

    /// A name and, where it is not kept, a sentence for each level that the configuration sets.
    pub fn breaches(&self, model: &str, plan: &LevelsPlan) -> Vec<(String, Option<String>)> {
        let mut all = Vec::new();
        let mut hold = |name: &str, found: Option<f64>, most: Option<f64>, unit: &str| {
            let Some(most) = most else { return };
            let breach = found.filter(|found| *found > most).map(|found| {
                format!("{model}: {name} is {found:.3}{unit}, and {most}{unit} is the most that it may be")
            });
            all.push((format!("{name} of {model}"), breach));
        };
        hold("latency (p99)", self.latency_p99, plan.latency_p99.map(|time| time.as_secs_f64()), " s");
        hold("error rate", self.error_rate, plan.error_rate, "");
        hold("missing cycles", Some(self.missing as f64), plan.missing.map(|most| most as f64), "");
        all
    }
}

/// From the last file that it needed to its publication [s]. A clock that was set back makes nothing faster.
pub fn latency(cycle: &Cycle) -> Option<f64> {
    let (input, published) = cycle.input.zip(cycle.published)?;
    (cycle.state == CycleState::Published).then(|| (published - input).max(0) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::schedule::init;
    use std::time::Duration;

    fn cycle(number: i64, state: CycleState) -> Cycle {
        Cycle {
            model: "a".into(),
            init: init(number),
            state,
            attempts: 1,
            due: 0,
            reason: None,
            created: 0,
            started: None,
            input: Some(0),
            first_lead: None,
            published: Some(1000 * number),
            seconds: None,
            provider: None,
            start: None,
            late: false,
            remarks: None,
            file: None,
            digest: None,
            size: None,
            modified: None,
            memory: None,
            knows: None,
            store: None,
        }
    }

    #[test]
    fn levels_are_those_of_the_last_cycles() {
        let mut cycles: Vec<Cycle> = (1..=100).map(|n| cycle(n, CycleState::Published)).collect();
        assert_eq!(Levels::of(&cycles).latency_p99, Some(99.0));
        cycles.truncate(3);
        cycles.push(cycle(4, CycleState::Failed));
        cycles.push(cycle(5, CycleState::Missing));
        let levels = Levels::of(&cycles);
        assert_eq!(levels, Levels { latency_p99: Some(3.0), error_rate: Some(0.25), missing: 1 });
        assert_eq!(Levels::of(&[]), Levels::default());

        let plan = LevelsPlan {
            latency_p99: Some(Duration::from_secs(2)),
            error_rate: Some(0.5),
            missing: None,
            window: 5,
        };
        let breaches = levels.breaches("a", &plan);
        assert_eq!(breaches.len(), 2);
        assert!(breaches[0].1.as_ref().unwrap().contains("3.000 s") && breaches[1].1.is_none());
    }
}
