//! # Finite-difference physics
//!
//! Shallow water and barotropic vorticity on a latitude-longitude C grid, on the device, as a
//! [`Stepper`](crate::stepper::Stepper) like any trained network: what a forecaster has to beat who knows the equations.

mod advection;
pub mod laplacian;
mod places;
mod sphere;

pub use advection::{Advection, AdvectionSettings, STEERING_SHARE};
pub use sphere::Sphere;
