//! The table `[forecast]`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::LeadTime;

/// `[forecast]`: what a forecast is when the command line does not say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ForecastConfig {
    /// How far ahead.
    pub lead: LeadTime,
}

impl Default for ForecastConfig {
    fn default() -> Self {
        Self { lead: LeadTime::from_hours(5 * 24) }
    }
}

impl ForecastConfig {
    pub fn check(&self) -> Result<()> {
        if self.lead.seconds <= 0 {
            return Err(Error::input(format!("forecast.lead: a forecast of {} looks nowhere", self.lead)));
        }
        Ok(())
    }
}
