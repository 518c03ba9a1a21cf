//! # A trained network as a `Stepper`
//!
//! A run folder is all that is needed: its checkpoint holds architecture, grid, normaliser, static fields and weights.

mod network;

pub use network::NetworkStepper;
