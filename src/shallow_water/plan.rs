//! Everything that a user may choose about the physics.

use crate::time::LeadTime;

/// How the physics forecasts.
#[derive(Debug, Clone, PartialEq)]
pub struct PhysicsPlan {
    /// `None`: by what the analyses hold.
    pub model: Option<Model>,
    /// The level whose height and wind the layer stands for [hPa].
    pub level: f64,
    /// Depth of the layer at rest [m]; `None`: the mean height of the level in the analysis, or that of a standard
    /// atmosphere where there is only wind.
    pub mean_depth: Option<f64>,
    /// Length of a model step; `None`: what the grid allows.
    pub time_step: Option<LeadTime>,
    /// The model's grid is this many times coarser than that of the analyses.
    pub coarsen: usize,
    pub boundary: Boundary,
    pub shallow_water: ShallowWaterPlan,
    pub barotropic: BarotropicPlan,
    pub advection: AdvectionPlan,
}

/// Which equations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A layer of fluid with a free surface, from height and wind.
    ShallowWater,
    /// The vorticity of a flow without divergence, from height or wind.
    Barotropic,
    /// Scalars carried by the winds of the analysis, which stay as they are.
    Advection,
    /// The planet of the nature run, coarser.
    NatureRun,
}

impl Model {
    pub fn name(self) -> &'static str {
        match self {
            Self::ShallowWater => "shallow-water",
            Self::Barotropic => "barotropic",
            Self::Advection => "advection",
            Self::NatureRun => "nature-run",
        }
    }
}

/// What the edge of a box is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// The analysis of the initial time, for good: nothing of the future is known.
    #[default]
    Frozen,
    /// The later analyses, linear in time between them. The future enters through the edge: a hindcast, no forecast.
    Driven,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ShallowWaterPlan {
    /// `None`: semi-implicit on the globe, Runge-Kutta in a box.
    pub scheme: Option<Scheme>,
    /// Start without divergence and with a depth in nonlinear balance, and not from the analysis as it is.
    pub balance: bool,
    /// Span of a digital filter over the first fields; `None`: no filter.
    pub filter: Option<LeadTime>,
    /// Time in which the shortest wave is damped to 1/e; `None`: no damping.
    pub damping: Option<LeadTime>,
    /// Cells over which a box is drawn to what its edge is told.
    pub zone: usize,
}

/// How time advances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Gravity waves implicit: long steps.
    SemiImplicit,
    /// Classical Runge-Kutta of fourth order: short steps, nothing damped.
    RungeKutta4,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BarotropicPlan {
    /// Diffusion of vorticity [m2 s-1]; `None`: what suits the grid.
    pub diffusion: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AdvectionPlan {
    /// The share of the level's wind that carries what lies below it.
    pub steering: f64,
    /// [m2 s-1]
    pub diffusion: f64,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The defaults of the configuration.
    pub fn plan() -> PhysicsPlan {
        PhysicsPlan {
            model: None,
            level: 500.0,
            mean_depth: None,
            time_step: None,
            coarsen: 1,
            boundary: Boundary::Frozen,
            shallow_water: ShallowWaterPlan {
                scheme: None,
                balance: true,
                filter: None,
                damping: Some(LeadTime::from_hours(24)),
                zone: 8,
            },
            barotropic: BarotropicPlan { diffusion: None },
            advection: AdvectionPlan { steering: 0.5, diffusion: 1e5 },
        }
    }
}
