//! The table `[parallel]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::LeadTime;
use crate::train::ParallelPlan;

/// `[parallel]`: how several devices train one network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ParallelConfig {
    /// Bands of latitude that the grid is cut into, each of them another device's; the rest of the devices share the batch.
    pub domain: usize,
    /// Gradients travel in pieces of this size while the rest is computed.
    pub bucket_mebibytes: usize,
    /// 1: each device keeps the optimiser's moments of a share of the weights (stage 1 of ZeRO); 0: of all.
    pub zero: u8,
    /// The longest that one device waits for another before all of them end.
    pub time_limit: LeadTime,
}

impl Default for ParallelConfig {
    fn default() -> Self {
        Self { domain: 1, bucket_mebibytes: 32, zero: 0, time_limit: LeadTime { seconds: 600 } }
    }
}

impl ParallelConfig {
    pub fn plan(&self) -> Result<ParallelPlan> {
        if self.domain == 0 || self.domain > 65_536 {
            return Err(Error::input("parallel.domain must be a number of bands from 1 to 65536"));
        }
        if self.zero > 1 {
            return Err(Error::input("parallel.zero must be 0 or 1"));
        }
        match self.bucket_mebibytes.checked_mul(1 << 20) {
            Some(bucket_bytes) if bucket_bytes > 0 => {
                let (domain, shares_moments) = (self.domain, self.zero == 1);
                Ok(ParallelPlan { domain, channel: 1, bucket_bytes, shares_moments })
            }
            _ => Err(Error::input("parallel.bucket_mebibytes must be at least 1, and a size that there is")),
        }
    }

    pub fn limit(&self) -> Result<Duration> {
        match u64::try_from(self.time_limit.seconds) {
            Ok(seconds @ 1..=1_000_000) => Ok(Duration::from_secs(seconds)),
            _ => Err(Error::input("parallel.time_limit must be a time between 1s and 1000000s, as in 10min")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_are_refused_by_name() {
        assert!(ParallelConfig::default().plan().is_ok() && ParallelConfig::default().limit().is_ok());
        let of = |text: &str| toml::from_str::<ParallelConfig>(text).unwrap();
        for text in ["bucket_mebibytes = 0", "bucket_mebibytes = 9223372036854775807"] {
            let error = of(text).plan().unwrap_err();
            assert!(error.to_string().starts_with("parallel.bucket_mebibytes"), "{error}");
        }
        assert!(of("domain = 0").plan().unwrap_err().to_string().starts_with("parallel.domain"));
        assert!(of("zero = 2").plan().unwrap_err().to_string().starts_with("parallel.zero"));
        for text in ["time_limit = '0s'", "time_limit = '100000d'"] {
            let error = of(text).limit().unwrap_err();
            assert!(error.to_string().starts_with("parallel.time_limit"), "{error}");
        }
    }
}
