//! # Finite-difference physics
//!
//! Shallow water and barotropic vorticity on a latitude-longitude C grid, on the device, as a
//! [`Stepper`](crate::stepper::Stepper) like any trained network: what a forecaster has to beat who knows the equations.
//!
//! A [`Layer`] is what a flow depends on, [`Fields`] are its state on the host, [`Dynamics`] puts both onto a device, and
//! a scheme like [`ShallowWater`] steps it there, on several devices in [`Bands`]. [`Case`] makes the published test cases, [`Invariants`] and [`Norms`]
//! measure what became of them. [`Barotropic`] forecasts one level from its winds or its geopotential alone, [`Advection`]
//! carries scalars by given winds.

mod advection;
mod balance;
mod bands;
mod barotropic;
mod carriers;
mod cases;
mod digital_filter;
mod dynamics;
mod explicit;
mod fields;
mod flow;
mod grid_map;
mod invariants;
pub mod known;
pub mod laplacian;
mod layer;
mod layer_flow;
mod linear_balance;
mod mapping;
mod model;
mod nature_run;
mod nest;
mod planet;
mod planet_flow;
mod places;
mod plan;
mod published;
mod selection;
mod semi_implicit;
mod sphere;
mod stepper;
mod streamfunction;

pub use advection::{Advection, AdvectionSettings, STEERING_SHARE};
pub use balance::Balance;
pub use bands::Bands;
pub use barotropic::{Barotropic, BarotropicFields, BarotropicSettings};
pub use cases::{Case, Perturbation};
pub use digital_filter::DigitalFilter;
pub use dynamics::Dynamics;
pub use fields::Fields;
pub use invariants::{Invariants, Norms};
pub use layer::{Layer, RUNGE_KUTTA_LIMIT, dividing_step};
pub use linear_balance::LinearBalance;
pub use mapping::{Mapping, Points};
pub use model::ShallowWater;
pub use nature_run::NatureRun;
pub use nest::{Driving, ZONE};
pub use places::largest_whole_box;
pub use sphere::Sphere;

pub use plan::{AdvectionPlan, BarotropicPlan, Boundary, Model, PhysicsPlan, Scheme, ShallowWaterPlan};
pub use published::{CaseRun, CaseSettings, PublishedCase};
pub use selection::{Carried, Selection, Wind, is_global};
pub use stepper::{Devices, Later, PhysicsForecast, PhysicsStepper};
