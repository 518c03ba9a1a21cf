//! What is served: checked settings, made from the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::time::LeadTime;

use super::schedule::Timetable;

/// An operational loop.
#[derive(Debug, Clone)]
pub struct ServePlan {
    /// Where forecasts are published, in a folder for each model.
    pub out: PathBuf,
    /// Where the ledger, decoded analyses and recurrent states are kept.
    pub state: PathBuf,
    pub inbox: InboxPlan,
    pub timetable: Timetable,
    pub lateness: LatenessPlan,
    pub retry: RetryPlan,
    pub keep: KeepPlan,
    /// Whether forecasts are published as Zarr stores, too.
    pub zarr: bool,
    pub models: Vec<ModelPlan>,
    pub canary: Option<CanaryPlan>,
    pub watch: WatchPlan,
    pub devices: DevicesPlan,
}

/// A model that shadows another: it makes a share of the same cycles, and takes its place once it has proved better.
#[derive(Debug, Clone, PartialEq)]
pub struct CanaryPlan {
    /// The model that is served.
    pub of: String,
    pub run: PathBuf,
    /// Of the cycles, between 0 and 1.
    pub share: f64,
    /// After so many forecasts that were compared without a clear result it is rejected.
    pub most: usize,
    /// Length of the blocks of the bootstrap that tells what is clear.
    pub block: LeadTime,
}

impl CanaryPlan {
    /// Whether the cycle of this number belongs to the share: they are spread evenly.
    pub fn takes(&self, number: usize) -> bool {
        ((number + 1) as f64 * self.share).floor() > (number as f64 * self.share).floor()
    }
}

/// Where analyses arrive, and how it shows that a file is whole.
#[derive(Debug, Clone)]
pub struct InboxPlan {
    pub folder: PathBuf,
    /// Of file names, as `*.nc`.
    pub pattern: glob::Pattern,
    pub complete: Complete,
    /// The longest between two looks: some file systems tell nobody that a file came.
    pub poll: Duration,
    pub duplicates: Duplicates,
    /// Removes a file from the inbox when it has been decoded.
    pub removes: bool,
    /// The longest that decoding one file may take.
    pub time_limit: Duration,
    /// Files that are decoded at the same time.
    pub decoders: usize,
}

/// What shows that a file is whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Complete {
    /// It has its name: whoever brings it writes under another one (hidden, `.part`, `.tmp`) and renames.
    Rename,
    /// Neither size nor time of change have changed for so long.
    Stable(Duration),
    /// There is a file of the same name with this at its end.
    Marker(String),
}

/// What to do about a field that comes a second time with other values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    First,
    Last,
}

/// How long a cycle waits for its analysis, and what becomes of it without one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatenessPlan {
    /// After the initial time: a cycle whose analysis came later is late.
    pub cutoff: LeadTime,
    /// After the initial time: nobody waits longer.
    pub wait: LeadTime,
    pub then: Late,
    /// The longest that a first guess may have been forecast, and a warm state carried on.
    pub bridge: LeadTime,
    /// Cycles that fell due at most so long before a start are still made.
    pub catch_up: LeadTime,
}

impl LatenessPlan {
    /// After the initial time: before that no cycle is given up, whether the service ran or not.
    pub fn patience(&self) -> LeadTime {
        self.wait.min(self.catch_up)
    }
}

/// What a cycle starts from when its analysis did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// The newest analysis that there is, forecast to the initial time.
    Newest,
    /// The state of the forecast before, at the initial time.
    Previous,
    /// Nothing: the cycle is marked as missing.
    Skip,
}

/// What to do about a cycle that failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPlan {
    pub attempts: u32,
    /// Before the second attempt; twice as long before each further one.
    pub first: Duration,
    pub longest: Duration,
}

impl RetryPlan {
    /// Before the attempt after `attempts` have failed.
    pub fn pause(&self, attempts: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1).min(20));
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// What is kept of each model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeepPlan {
    /// The newest forecasts; `None` keeps all.
    pub cycles: Option<usize>,
    /// Forecasts whose initial time is younger.
    pub age: Option<LeadTime>,
    /// On a full disk, forecasts are removed from the oldest on, down to so many; `None` removes nothing.
    pub at_least: Option<usize>,
    /// Decoded analyses and recurrent states, by their age against the newest.
    pub analyses: LeadTime,
}

/// A model, and what is forecast with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPlan {
    /// Of its folder in the output.
    pub name: String,
    pub run: PathBuf,
    pub lead: LeadTime,
    pub start: Start,
    /// Of cycles that wait, those of the highest are made first.
    pub priority: i32,
}

/// Where a cycle takes its recurrent state from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From a fresh warm-up on the analyses before.
    Cold,
    /// From the cycle before, as far as there is one.
    Warm,
}

/// What is watched, and how closely.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// Where a browser and a monitor may ask.
    pub address: Option<SocketAddr>,
    /// Is told of every alarm.
    pub webhook: Option<String>,
    pub levels: LevelsPlan,
    pub drift: DriftPlan,
    pub skill: SkillPlan,
}

/// What the last cycles of a model have to keep; what is left out is not watched.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelsPlan {
    pub latency_p99: Option<Duration>,
    pub error_rate: Option<f64>,
    /// Cycles.
    pub missing: Option<usize>,
    /// How many cycles are looked at.
    pub window: usize,
}

/// When analyses count as strange.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriftPlan {
    /// Of the Jensen-Shannon divergence of the last `window` analyses together.
    pub threshold: f64,
    pub window: usize,
}

/// When forecasts count as worse than they should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkillPlan {
    /// By so much of the error of the validation.
    pub tolerance: f64,
    /// Over so many forecasts at least, and at most.
    pub least: usize,
    pub window: usize,
}

/// What computes.
#[derive(Debug, Clone, PartialEq)]
pub struct DevicesPlan {
    /// As `cuda:0`: each takes whole cycles.
    pub names: Vec<String>,
    /// Cycles that one of them computes at the same time.
    pub at_once: usize,
    /// What the models on one of them may take together [bytes].
    pub memory: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_cycles_is_spread_evenly() {
        let canary = |share| CanaryPlan {
            of: "a".into(),
            run: "r".into(),
            share,
            most: 1,
            block: LeadTime::from_hours(1),
        };
        let taken = |share| (0..12).filter(|&number| canary(share).takes(number)).collect::<Vec<usize>>();
        assert_eq!(taken(0.25), [3, 7, 11]);
        assert_eq!(taken(1.0).len(), 12);
        assert!(taken(0.0).is_empty());
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry =
            RetryPlan { attempts: 9, first: Duration::from_secs(10), longest: Duration::from_secs(60) };
        let pauses: Vec<u64> = (1..=5).map(|n| retry.pause(n).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 60, 60]);
        assert_eq!(retry.pause(u32::MAX), retry.longest);
    }
}
