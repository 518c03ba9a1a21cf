//! The table `[physics]`.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::shallow_water::{
    AdvectionPlan, BarotropicPlan, Boundary, Model, PhysicsPlan, STEERING_SHARE, Scheme, ShallowWaterPlan,
    ZONE,
};
use crate::time::LeadTime;
use crate::verify::CalibrationPlan;

/// `[physics]`: the finite-difference baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhysicsConfig {
    /// `auto`: shallow water where the analyses are global and hold height and wind of the level, barotropic where they
    /// hold one of them or are regional, advection where they hold only other winds. Beside these `nature_run`: the planet of `wxsim physics --nature-run`,
    /// on the grid of its files.
    pub model: ModelConfig,
    /// The pressure level whose height and wind the layer stands for [hPa].
    pub level: f64,
    /// Depth of the layer at rest [m]; the mean height of the level when left out. It sets the speed of gravity waves
    /// (235 m/s at the 5.6 km of 500 hPa, which makes the least noise; 313 m/s at 10 km, the external mode of the
    /// atmosphere) and how far the longest waves are kept from drifting westward. The barotropic model has no free
    /// surface unless a depth is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_depth: Option<f64>,
    /// Longest step of the model; what the grid allows when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_step: Option<LeadTime>,
    /// The model's grid is this many times coarser than the analyses'.
    pub coarsen: usize,
    /// `verify` also shows the forecasts regressed on the training span together with persistence.
    pub calibration: bool,
    /// From how many initial times of the training span, evenly spaced; from all when there are fewer.
    pub calibration_starts: usize,
    /// What the edge of a box is told: the analysis of the initial time (`frozen`), or the later analyses (`driven`),
    /// which makes it a hindcast.
    pub boundary: BoundaryConfig,
    pub shallow_water: ShallowWaterConfig,
    pub barotropic: BarotropicConfig,
    pub advection: AdvectionConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelConfig {
    Auto,
    ShallowWater,
    Barotropic,
    Advection,
    NatureRun,
}

/// What the edge of a box is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundaryConfig {
    #[default]
    Frozen,
    Driven,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShallowWaterConfig {
    /// `semi_implicit` (leapfrog, gravity waves implicit; on the globe alone) or `rk4`; on the globe the first, in a box
    /// the second when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeConfig>,
    /// Start without divergence and with a depth in nonlinear balance with the wind.
    pub balance: bool,
    /// Span of a digital filter over the first fields, such as `6h`; needless where they are balanced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<LeadTime>,
    /// Time in which the shortest wave is damped to 1/e; `0h` for no damping.
    pub damping: LeadTime,
    /// Cells over which a box is drawn to what its edge is told.
    pub zone: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemeConfig {
    SemiImplicit,
    Rk4,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BarotropicConfig {
    /// Of vorticity [m2 s-1]; none on the globe and 2e5 in a box when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diffusion: Option<f64>,
}

/// Temperatures and humidities, carried as departures from the climatology where there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdvectionConfig {
    /// The share of the level's wind that carries them.
    pub steering: f64,
    /// [m2 s-1]
    pub diffusion: f64,
}

impl Default for PhysicsConfig {
    fn default() -> Self {
        Self {
            model: ModelConfig::Auto,
            level: 500.0,
            mean_depth: None,
            time_step: None,
            coarsen: 1,
            calibration: true,
            calibration_starts: CalibrationPlan::default().starts,
            boundary: BoundaryConfig::default(),
            shallow_water: ShallowWaterConfig::default(),
            barotropic: BarotropicConfig::default(),
            advection: AdvectionConfig::default(),
        }
    }
}

impl Default for ShallowWaterConfig {
    fn default() -> Self {
        Self { scheme: None, balance: true, filter: None, damping: LeadTime::from_hours(24), zone: ZONE }
    }
}

impl Default for AdvectionConfig {
    fn default() -> Self {
        Self { steering: STEERING_SHARE, diffusion: 1e5 }
    }
}

impl PhysicsConfig {
    /// The checked settings of the model.
    pub fn plan(&self) -> Result<PhysicsPlan> {
        let positive = |name: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(Error::input(format!("physics.{name} must be positive, found {value}"))),
        };
        let not_negative = |name: &str, value: f64| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(Error::input(format!("physics.{name} cannot be negative, found {value}"))),
        };
        let duration = |name: &str, value: Option<LeadTime>| match value.filter(|v| v.seconds <= 0) {
            None => Ok(value),
            Some(wrong) => Err(Error::input(format!("physics.{name} must be positive, found {wrong}"))),
        };
        positive("level", self.level)?;
        self.mean_depth.map_or(Ok(()), |depth| positive("mean_depth", depth))?;
        self.barotropic.diffusion.map_or(Ok(()), |nu| not_negative("barotropic.diffusion", nu))?;
        not_negative("advection.steering", self.advection.steering)?;
        not_negative("advection.diffusion", self.advection.diffusion)?;
        not_negative("shallow_water.damping", self.shallow_water.damping.seconds as f64)?;
        if self.coarsen == 0 {
            return Err(Error::input("physics.coarsen must be at least 1, found 0"));
        }
        Ok(PhysicsPlan {
            model: match self.model {
                ModelConfig::Auto => None,
                ModelConfig::ShallowWater => Some(Model::ShallowWater),
                ModelConfig::Barotropic => Some(Model::Barotropic),
                ModelConfig::Advection => Some(Model::Advection),
                ModelConfig::NatureRun => Some(Model::NatureRun),
            },
            level: self.level,
            mean_depth: self.mean_depth,
            time_step: duration("time_step", self.time_step)?,
            coarsen: self.coarsen,
            boundary: match self.boundary {
                BoundaryConfig::Frozen => Boundary::Frozen,
                BoundaryConfig::Driven => Boundary::Driven,
            },
            shallow_water: ShallowWaterPlan {
                scheme: self.shallow_water.scheme.map(|scheme| match scheme {
                    SchemeConfig::SemiImplicit => Scheme::SemiImplicit,
                    SchemeConfig::Rk4 => Scheme::RungeKutta4,
                }),
                balance: self.shallow_water.balance,
                filter: duration("shallow_water.filter", self.shallow_water.filter)?,
                damping: Some(self.shallow_water.damping).filter(|damping| damping.seconds > 0),
                zone: self.shallow_water.zone,
            },
            barotropic: BarotropicPlan { diffusion: self.barotropic.diffusion },
            advection: AdvectionPlan {
                steering: self.advection.steering,
                diffusion: self.advection.diffusion,
            },
        })
    }

    /// How `verify` calibrates the forecasts, if at all.
    pub fn calibration(&self) -> Result<Option<CalibrationPlan>> {
        if self.calibration && self.calibration_starts == 0 {
            return Err(Error::input("physics.calibration_starts must be at least 1, found 0")
                .hint("to leave the calibration out, set physics.calibration = false"));
        }
        Ok(self.calibration.then_some(CalibrationPlan { starts: self.calibration_starts }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_plan_and_read_back_from_what_they_print() {
        let config = PhysicsConfig::default();
        assert_eq!(config.plan().unwrap().boundary, Boundary::Frozen);
        assert_eq!(config.calibration().unwrap(), Some(CalibrationPlan::default()));
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<PhysicsConfig>(&text).unwrap(), config);
    }

    #[test]
    fn settings_are_read_and_nonsense_is_refused_by_name() {
        let text = "
            model = 'barotropic'
            time_step = '10min'
            calibration = false
            boundary = 'driven'
            shallow_water = { scheme = 'rk4', damping = '0h', zone = 6 }";
        let config: PhysicsConfig = toml::from_str(text).unwrap();
        let plan = config.plan().unwrap();
        assert_eq!((plan.model, plan.shallow_water.zone), (Some(Model::Barotropic), 6));
        assert_eq!(
            (plan.shallow_water.damping, plan.shallow_water.scheme),
            (None, Some(Scheme::RungeKutta4))
        );
        assert_eq!(config.calibration().unwrap(), None);
        for (text, name) in [
            ("level = 0", "physics.level"),
            ("mean_depth = -5.0", "physics.mean_depth"),
            ("time_step = '0h'", "physics.time_step"),
            ("coarsen = 0", "physics.coarsen"),
            ("shallow_water = { filter = '0h' }", "physics.shallow_water.filter"),
            ("shallow_water = { damping = '-1h' }", "physics.shallow_water.damping"),
            ("barotropic = { diffusion = nan }", "physics.barotropic.diffusion"),
            ("advection = { steering = -0.5 }", "physics.advection.steering"),
        ] {
            let config: PhysicsConfig = toml::from_str(text).unwrap();
            let error = config.plan().unwrap_err();
            assert!(error.to_string().starts_with(name), "{text}: {error}");
        }
        let none: PhysicsConfig = toml::from_str("calibration_starts = 0").unwrap();
        assert!(none.calibration().is_err());
        for text in ["kind = 'driven'", "model = 'spectral'", "boundary = 'open'"] {
            assert!(toml::from_str::<PhysicsConfig>(text).is_err(), "{text}");
        }
    }
}
