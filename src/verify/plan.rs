//! Everything that a user may choose about scores.

use crate::climatology::ClimatologyKind;
use crate::grid::Region;

use super::bootstrap::BootstrapPlan;
use super::gates::Gate;
use super::spectrum::Nyquist;
use super::sums::Missing;

/// What a forecast is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    Persistence,
    Climatology,
    Damped,
    /// Finite differences, as they are and calibrated.
    Physics,
}

/// How to verify.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifyPlan {
    pub baselines: Vec<Baseline>,
    pub climatology: ClimatologyKind,
    /// Beside those of WeatherBench 2.
    pub regions: Vec<Region>,
    pub missing: Missing,
    pub nyquist: Nyquist,
    pub bootstrap: BootstrapPlan,
    pub gates: Vec<Gate>,
}

impl Baseline {
    pub const ALL: [Self; 4] = [Self::Persistence, Self::Climatology, Self::Damped, Self::Physics];

    /// How scores call the physics after its calibration.
    pub const CALIBRATED_PHYSICS: &str = "calibrated physics";

    /// How scores call it: the name of its stepper.
    pub fn name(self) -> &'static str {
        match self {
            Self::Persistence => "persistence",
            Self::Climatology => "climatology",
            Self::Damped => "damped persistence",
            Self::Physics => "physics",
        }
    }

    /// Whether it has to be fitted on training data.
    pub fn is_fitted(self) -> bool {
        matches!(self, Self::Climatology | Self::Damped)
    }
}
