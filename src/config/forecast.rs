//! The table `[forecast]`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::runner::KEEP_EVERY;
use crate::time::LeadTime;

/// `[forecast]`: what a forecast is when the command line does not say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastConfig {
    /// How far ahead.
    pub lead: LeadTime,
    /// Steps between two copies of the network's state to the host, where another provider stands by to go on from them.
    pub keep_every: usize,
}

impl Default for ForecastConfig {
    fn default() -> Self {
        Self { lead: LeadTime::from_hours(5 * 24), keep_every: KEEP_EVERY }
    }
}

impl ForecastConfig {
    pub fn check(&self) -> Result<()> {
        if self.lead.seconds <= 0 {
            return Err(Error::input(format!("forecast.lead: a forecast of {} looks nowhere", self.lead)));
        }
        if self.keep_every == 0 {
            return Err(Error::input("forecast.keep_every: a state is kept every 1 or more steps"));
        }
        Ok(())
    }
}
