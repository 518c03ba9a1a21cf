//! The table `[parallel]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::device::Picking;
use crate::error::{Error, Result};
use crate::time::LeadTime;
use crate::train::{ParallelPlan, Shared, Wire};

/// `[parallel]`: how several devices train one network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ParallelConfig {
    /// Bands of latitude that the grid is cut into, each of them another device's; the rest of the devices share the batch.
    pub domain: usize,
    /// Parts of the hidden channels of every layer, each of them another device's.
    pub channel: usize,
    /// Gradients travel in pieces of this size while the rest is computed.
    pub bucket_mebibytes: usize,
    /// What each device keeps only a share of (stages of ZeRO). 0: nothing; 1: the optimiser's moments; 2: and the gradients;
    /// 3: and the weights, which are gathered layer by layer.
    pub zero: u8,
    /// The optimiser's moments are kept in the host's memory, and visit the device for each update.
    pub offload: bool,
    /// The longest that one device waits for another before all of them end.
    pub time_limit: LeadTime,
    /// How gradients travel: `"float32"`, `"bfloat16"`, or `{ top_k = 0.01 }`, the largest of them alone.
    pub wire: WireConfig,
}

/// How gradients travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireConfig {
    /// As they are.
    #[default]
    Float32,
    /// Rounded to 8 bits of significand.
    Bfloat16,
    /// This share of them, those of largest size; the others are added to those of the next update.
    TopK(f64),
}

impl WireConfig {
    fn plan(self) -> Result<Wire> {
        match self {
            Self::Float32 => Ok(Wire::Exact),
            Self::Bfloat16 => Ok(Wire::Bf16),
            Self::TopK(share) if share > 0.0 && share <= 1.0 => {
                let keep = (share * Picking::BLOCK as f64).round() as usize;
                Ok(Wire::Largest { keep: keep.max(1) })
            }
            Self::TopK(_) => {
                Err(Error::input("parallel.wire.top_k must be a share of the gradients, above 0 and up to 1"))
            }
        }
    }
}

impl Default for ParallelConfig {
    fn default() -> Self {
        Self {
            domain: 1,
            channel: 1,
            bucket_mebibytes: 32,
            zero: 0,
            offload: false,
            time_limit: LeadTime { seconds: 600 },
            wire: WireConfig::default(),
        }
    }
}

impl ParallelConfig {
    pub fn plan(&self) -> Result<ParallelPlan> {
        if self.domain == 0 || self.domain > 65_536 {
            return Err(Error::input("parallel.domain must be a number of bands from 1 to 65536"));
        }
        if self.channel == 0 || self.channel > 65_536 {
            return Err(Error::input("parallel.channel must be a number of parts from 1 to 65536"));
        }
        let shared = match self.zero {
            0 => Shared::Nothing,
            1 => Shared::Moments,
            2 => Shared::Gradients,
            3 => Shared::Weights,
            _ => return Err(Error::input("parallel.zero must be 0, 1, 2 or 3")),
        };
        let wire = self.wire.plan()?;
        match self.bucket_mebibytes.checked_mul(1 << 20) {
            Some(bucket_bytes) if bucket_bytes > 0 => {
                let Self { domain, channel, offload, .. } = *self;
                Ok(ParallelPlan { domain, channel, bucket_bytes, shared, wire, offload })
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
        assert!(of("channel = 0").plan().unwrap_err().to_string().starts_with("parallel.channel"));
        assert!(of("domain = 0").plan().unwrap_err().to_string().starts_with("parallel.domain"));
        assert!(of("zero = 4").plan().unwrap_err().to_string().starts_with("parallel.zero"));
        for share in ["0.0", "1.5", "nan", "-1.0"] {
            let error = of(&format!("wire = {{ top_k = {share} }}")).plan().unwrap_err();
            assert!(error.to_string().starts_with("parallel.wire.top_k"), "{error}");
        }
        assert!(toml::from_str::<ParallelConfig>("wire = 'float16'").is_err());
        for text in ["time_limit = '0s'", "time_limit = '100000d'"] {
            let error = of(text).limit().unwrap_err();
            assert!(error.to_string().starts_with("parallel.time_limit"), "{error}");
        }
    }

    #[test]
    fn every_way_to_travel_is_read_and_written() {
        for (text, wire) in [
            ("wire = 'float32'", Wire::Exact),
            ("wire = 'bfloat16'", Wire::Bf16),
            ("wire = { top_k = 0.01 }", Wire::Largest { keep: 41 }),
            ("wire = { top_k = 1e-9 }", Wire::Largest { keep: 1 }),
        ] {
            let config: ParallelConfig = toml::from_str(text).unwrap();
            assert_eq!(config.plan().unwrap().wire, wire);
            let written = toml::to_string(&config).unwrap();
            assert_eq!(toml::from_str::<ParallelConfig>(&written).unwrap(), config, "{written}");
        }
    }
}
