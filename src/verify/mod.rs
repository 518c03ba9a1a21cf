//! Honest scores: mergeable sums, the metrics made of them, their intervals, and the baselines to beat.
//!
//! Nothing here knows what made a forecast. A [`Comparer`] turns a forecast state, the analysis of its valid time and the
//! climatology into sums; [`Statistics`] keep them per lead and initial time and merge; [`summarise`] makes
//! [`Scores`] of the statistics of all competitors, which is what reports read. The formulas are those of
//! WeatherBench 2 (Rasp et al. 2024, doi:10.1029/2023MS004019), with the differences named where they are.

mod baselines;
mod bootstrap;
mod calibration;
mod gates;
mod metrics;
mod plan;
mod regions;
mod scores;
mod spectrum;
mod statistics;
mod summary;
mod sums;

pub use baselines::{ClimatologyForecast, DampedCoefficients, DampedFit, DampedPersistence, Persistence};
pub use bootstrap::{BootstrapPlan, interval};
pub use calibration::{Calibration, CalibrationFit, CalibrationPlan};
pub use gates::{Bound, Gate, Passage, demand};
pub use plan::{Baseline, VerifyPlan};
pub use scores::{Difference, Score, Scores, Spectrum, WHOLE_GRID};
pub use spectrum::{Nyquist, Zonal};
pub use statistics::{Comparer, Comparison, ScorePlan, Statistics};
pub use summary::{Competitor, Headline, Role, summarise};
pub use sums::Missing;
