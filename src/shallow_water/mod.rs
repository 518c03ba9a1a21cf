//! # Finite-difference physics
//!
//! Shallow water and barotropic vorticity on a latitude-longitude C grid, on the device, as a
//! [`Stepper`](crate::stepper::Stepper) like any trained network: what a forecaster has to beat who knows the equations.

pub mod laplacian;
mod sphere;

pub use sphere::Sphere;
