//! The table `[verify]`.

use serde::{Deserialize, Serialize};

use crate::climatology::ClimatologyKind;
use crate::error::{Error, Result};
use crate::grid::Region;
use crate::time::LeadTime;
use crate::verify::{Baseline, BootstrapPlan, Bound, Gate, Missing, Nyquist, VerifyPlan, WHOLE_GRID};

/// `[verify]`: what forecasts are compared with, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifyConfig {
    pub baselines: Vec<BaselineConfig>,
    /// `harmonic` (mean and two annual harmonics for each time of day) or `wb2` (day-of-year window).
    pub climatology: ClimatologyKind,
    /// A missing value makes a score missing (`propagate`), or its point is left out (`skip`).
    pub missing: MissingConfig,
    /// How often spectra count the shortest wave: `once`, or twice as WeatherBench 2 does (`wb2`).
    pub nyquist: NyquistConfig,
    pub bootstrap: BootstrapConfig,
    /// Regions beside those of WeatherBench 2.
    pub regions: Vec<RegionConfig>,
    /// Bounds that the scores must keep; else the command ends with exit code 3.
    pub gates: Vec<GateConfig>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum BaselineConfig {
    Persistence,
    Climatology,
    /// Damped persistence.
    Damped,
    /// What the table [physics] describes, raw and calibrated.
    Physics,
}

/// What a gate measures skill against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateBaselineConfig {
    Persistence,
    Climatology,
    Damped,
    Physics,
    CalibratedPhysics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingConfig {
    Propagate,
    Skip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NyquistConfig {
    Once,
    Wb2,
}

/// Intervals from the moving-block bootstrap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BootstrapConfig {
    /// Length of a block.
    pub block: LeadTime,
    pub resamples: usize,
    pub seed: u64,
}

/// A box in degrees, bounds inclusive; `west > east` crosses Greenwich.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionConfig {
    pub name: String,
    pub south: f64,
    pub north: f64,
    pub west: f64,
    pub east: f64,
}

/// A bound on a score of the model: one of `at_most`, `at_least` and, with a `baseline`, `skill_at_least`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    pub quantity: String,
    pub lead: LeadTime,
    #[serde(default = "rmse")]
    pub metric: String,
    #[serde(default = "whole_grid")]
    pub region: String,
    #[serde(default = "yes")]
    pub weighted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<GateBaselineConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_at_least: Option<f64>,
}

fn rmse() -> String {
    "rmse".into()
}

fn whole_grid() -> String {
    WHOLE_GRID.into()
}

fn yes() -> bool {
    true
}

impl Default for VerifyConfig {
    fn default() -> Self {
        Self {
            baselines: vec![BaselineConfig::Persistence, BaselineConfig::Climatology, BaselineConfig::Damped],
            climatology: ClimatologyKind::default(),
            missing: MissingConfig::Propagate,
            nyquist: NyquistConfig::Once,
            bootstrap: BootstrapConfig::default(),
            regions: Vec::new(),
            gates: Vec::new(),
        }
    }
}

impl Default for BootstrapConfig {
    fn default() -> Self {
        let BootstrapPlan { block, resamples, seed } = BootstrapPlan::default();
        Self { block, resamples, seed }
    }
}

impl VerifyConfig {
    /// The checked plan.
    pub fn plan(&self) -> Result<VerifyPlan> {
        let BootstrapConfig { block, resamples, seed } = self.bootstrap;
        let bootstrap = BootstrapPlan { block, resamples, seed };
        bootstrap.validate().map_err(|e| e.context("verify.bootstrap"))?;
        Ok(VerifyPlan {
            baselines: self.baselines.iter().map(|b| b.baseline()).collect(),
            climatology: self.climatology,
            regions: self.regions.iter().map(RegionConfig::region).collect::<Result<_>>()?,
            missing: match self.missing {
                MissingConfig::Propagate => Missing::Propagate,
                MissingConfig::Skip => Missing::Skip,
            },
            nyquist: match self.nyquist {
                NyquistConfig::Once => Nyquist::Once,
                NyquistConfig::Wb2 => Nyquist::Twice,
            },
            bootstrap,
            gates: self.gates.iter().map(GateConfig::gate).collect::<Result<_>>()?,
        })
    }
}

impl BaselineConfig {
    pub fn baseline(self) -> Baseline {
        match self {
            Self::Persistence => Baseline::Persistence,
            Self::Climatology => Baseline::Climatology,
            Self::Damped => Baseline::Damped,
            Self::Physics => Baseline::Physics,
        }
    }
}

impl GateBaselineConfig {
    /// As scores call it.
    fn name(self) -> &'static str {
        match self {
            Self::Persistence => Baseline::Persistence.name(),
            Self::Climatology => Baseline::Climatology.name(),
            Self::Damped => Baseline::Damped.name(),
            Self::Physics => Baseline::Physics.name(),
            Self::CalibratedPhysics => Baseline::CALIBRATED_PHYSICS,
        }
    }
}

impl RegionConfig {
    fn region(&self) -> Result<Region> {
        let Self { name, south, north, west, east } = self.clone();
        let finite = [south, north, west, east].iter().all(|x| x.is_finite());
        if name.is_empty() || name == WHOLE_GRID {
            return Err(Error::input(format!("verify.regions: a region cannot be called '{name}'")));
        }
        if !finite || south > north || south < -90.0 || north > 90.0 {
            return Err(Error::input(format!(
                "verify.regions: '{name}' reaches from {south} to {north} degrees north, {west} to {east} east"
            ))
            .hint("south must not lie north of north, and both in [-90, 90]"));
        }
        Ok(Region { name, south, north, west, east })
    }
}

impl GateConfig {
    fn gate(&self) -> Result<Gate> {
        let bound = match (self.at_most, self.at_least, self.skill_at_least, self.baseline) {
            (Some(x), None, None, None) => Bound::AtMost(x),
            (None, Some(x), None, None) => Bound::AtLeast(x),
            (None, None, Some(skill), Some(baseline)) => {
                Bound::SkillAtLeast { baseline: baseline.name().into(), skill }
            }
            _ => {
                return Err(Error::input(format!(
                    "verify.gates: the gate on {} at {} needs exactly one bound",
                    self.quantity, self.lead
                ))
                .hint("give at_most, or at_least, or skill_at_least together with a baseline"));
            }
        };
        Ok(Gate {
            quantity: self.quantity.clone(),
            lead: self.lead,
            region: self.region.clone(),
            weighted: self.weighted,
            metric: self.metric.clone(),
            bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_plan_and_read_back_from_what_they_print() {
        let simple = [Baseline::Persistence, Baseline::Climatology, Baseline::Damped];
        assert_eq!(VerifyConfig::default().plan().unwrap().baselines, simple);
        let text = toml::to_string(&VerifyConfig::default()).unwrap();
        assert_eq!(toml::from_str::<VerifyConfig>(&text).unwrap(), VerifyConfig::default());
    }

    #[test]
    fn gates_and_regions_are_read_and_nonsense_is_refused() {
        let text = "
            regions = [{ name = 'alps', south = 44, north = 48, west = 5, east = 15 }]
            gates = [
                { quantity = 'z500', lead = '1d', weighted = false, at_most = 534.0 },
                { quantity = 'z500', lead = '3d', baseline = 'damped', skill_at_least = 0.0 },
                { quantity = 'z500', lead = '3d', baseline = 'calibrated_physics', skill_at_least = 0.0 },
            ]
            baselines = ['physics', 'persistence']";
        let plan = toml::from_str::<VerifyConfig>(text).unwrap().plan().unwrap();
        assert_eq!(plan.gates[0].bound, Bound::AtMost(534.0));
        assert!(plan.gates[1].to_string().contains("skill over damped persistence"));
        assert!(plan.gates[2].to_string().contains("skill over calibrated physics"));
        assert_eq!(plan.baselines, [Baseline::Physics, Baseline::Persistence]);
        assert_eq!(plan.regions[0].name, "alps");
        for text in [
            "gates = [{ quantity = 'z500', lead = '1d' }]",
            "gates = [{ quantity = 'z500', lead = '1d', skill_at_least = 0.0 }]",
            "gates = [{ quantity = 'z500', lead = '1d', at_most = 1.0, at_least = 0.0 }]",
            "regions = [{ name = 'all', south = 0, north = 1, west = 0, east = 1 }]",
            "regions = [{ name = 'x', south = 2, north = 1, west = 0, east = 1 }]",
            "bootstrap = { resamples = 10 }",
            "bootstrap = { block = '0d' }",
        ] {
            assert!(toml::from_str::<VerifyConfig>(text).unwrap().plan().is_err(), "{text}");
        }
        assert!(
            toml::from_str::<VerifyConfig>("baseline = ['persistence']").is_err(),
            "unknown keys are errors"
        );
    }
}
