//! # From analyses to forecasts
//!
//! [`rollout`] is an iterator whose item 0 is the analysis and whose memory does not grow with the lead time; writers
//! and scorers consume it. It drives any [`Stepper`](crate::stepper::Stepper) and does not know which.
//! [`InitTimes`] says where forecasts start, [`Analyses`] reads what they start from, [`FileSink`] writes them.

mod analyses;
mod init_times;
mod rollout;
mod sink;

pub use analyses::Analyses;
pub use init_times::InitTimes;
pub use rollout::{Rollout, rollout};
pub use sink::{FileSink, Sink, forecast_all};
