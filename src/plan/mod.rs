//! # What a training will cost
//!
//! ```text
//! a training's own operations -> Meter (a device that only counts) -> time, memory -> predict() on N GPUs
//! ```
//!
//! Nothing is computed: the training asks a [`Meter`] for its operations as it would ask a GPU, and the meter adds up what
//! each takes on a [`Card`] whose rates were measured. [`predict`] then lets N such cards exchange gradients while the
//! rest of the backward pass goes on.

mod card;
mod meter;
mod mesh;
mod wiretap;

pub use card::Card;
pub use mesh::{Links, Prediction, Update, predict};
pub use meter::{Clock, Meter};
pub use wiretap::{Event, Wiretap};
