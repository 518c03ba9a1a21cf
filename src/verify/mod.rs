//! Honest scores: mergeable sums, the metrics made of them, their intervals, and the baselines to beat.
//!
//! Nothing here knows what made a forecast. [`Scores`] is what a verification ends with and what reports read.

mod scores;

pub use scores::{Difference, Score, Scores, Spectrum, WHOLE_GRID};
