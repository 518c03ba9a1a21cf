//! # A trained network for other programs
//!
//! [`Trained`] is what a checkpoint holds. [`onnx`] makes a graph of it, [`OnnxForecaster`] runs that graph in ONNX Runtime,
//! which is looked for when the program runs, and [`parity`] holds its forecasts against wxsim's own. [`tensorrt`] makes an
//! engine of it.

mod forecaster;
mod int8;
pub mod onnx;
mod onnxruntime;
pub mod parity;
mod precision;
pub mod quantise;
pub mod tensorrt;
mod trained;

pub use forecaster::OnnxForecaster;
pub use int8::Int8;
pub use onnxruntime::{Fed, Loaded, OnnxRuntime};
pub use precision::Precision;
pub use trained::Trained;
