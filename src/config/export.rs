//! The table `[export]`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::export::Precision;

/// `[export]`: what an exported network must hold to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExportConfig {
    /// Steps that an exported network and wxsim's own are compared over.
    pub steps: usize,
    /// The most that the RMS error of a variable may be at any lead up to forecast.lead, as a share of its spread in the
    /// analyses.
    pub bounds: Bounds,
}

/// By precision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    pub fp32: f64,
    pub tf32: f64,
    pub fp16: f64,
    pub bf16: f64,
    pub int8: f64,
    pub fp8: f64,
}

impl Default for ExportConfig {
    fn default() -> Self {
        Self { steps: 40, bounds: Bounds::default() }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self { fp32: 1e-3, tf32: 0.01, fp16: 0.01, bf16: 0.05, int8: 0.1, fp8: 0.2 }
    }
}

impl ExportConfig {
    pub fn check(&self) -> Result<()> {
        if self.steps == 0 {
            return Err(Error::input("export.steps: a comparison over no step compares nothing"));
        }
        for precision in Precision::ALL {
            let bound = self.bounds.of(precision);
            if !(bound > 0.0) {
                return Err(Error::input(format!("export.bounds.{precision} must be positive, not {bound}")));
            }
        }
        Ok(())
    }
}

impl Bounds {
    pub fn of(&self, precision: Precision) -> f64 {
        match precision {
            Precision::Fp32 => self.fp32,
            Precision::Tf32 => self.tf32,
            Precision::Fp16 => self.fp16,
            Precision::Bf16 => self.bf16,
            Precision::Int8 => self.int8,
            Precision::Fp8 => self.fp8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_nonsense_is_refused() {
        ExportConfig::default().check().unwrap();
        for text in ["steps = 0", "bounds = { fp16 = 0.0 }", "bounds = { bf16 = nan }"] {
            assert!(toml::from_str::<ExportConfig>(text).unwrap().check().is_err(), "{text}");
        }
    }
}
