//! The ConvLSTM: equations, gradients, parameters, and a plan of all its memory.
//!
//! Layer `l` at step `t`, `*` a `k x k` stencil over a halo that the grid's edge rule has filled:
//!
//! ```text
//! a   = Wx * x_t + Wh * h_{t-1} + b          a = (ai, af, ag, ao)
//! c_t = sigmoid(af [+ pf.c_{t-1}]) . c_{t-1} + sigmoid(ai [+ pi.c_{t-1}]) . tanh(ag)
//! h_t = sigmoid(ao [+ po.c_t]) . tanh(c_t)
//! ```
//!
//! The first layer reads prognostic, static and forcing channels, patches folded into channels; each other layer the h
//! of the one below; a 1x1 head gives the tendency that is added to the state. After `input_frames` analyses the
//! network feeds on its own predictions. With layer normalisation, `a` is normalised over the units of each gate at each
//! point, then multiplied by a gain and shifted, before the peepholes are added.

mod architecture;
mod bands;
mod forecast;
mod int8;
mod keeping;
mod network;
mod parameters;
mod random;
mod step;
mod training;
mod units;

pub use architecture::{Architecture, GATES, Geometry, UNIT_BLOCK, gate_channel};
pub use forecast::Memory;
pub use int8::{Arithmetic, Int8Weights, Ranges};
pub use keeping::{Keeper, Keeping, piece};
pub use network::{Batch, Network, Purpose, Slots};
pub use parameters::Parameter;
pub use step::LAYER_NORM_EPSILON;
pub use units::{Holding, Units};
