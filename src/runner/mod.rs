//! # A trained network as a `Stepper`
//!
//! A run folder is all that is needed: its checkpoint holds architecture, grid, normaliser, static fields and weights. What
//! computes is a [`Provider`]; a [`NetworkStepper`] has one and may have others that stand by.

mod native;
mod network;
mod provider;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
mod tensorrt;

pub use crate::export::Trained;
pub use crate::model::Memory;
pub use native::Native;
pub use network::{Forecast, KEEP_EVERY, NetworkStepper};
pub use provider::{Candidate, Kept, Open, Provider};
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
pub use tensorrt::TensorRt;
