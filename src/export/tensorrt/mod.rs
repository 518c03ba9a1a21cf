//! A graph as an engine of TensorRT.
//!
//! TensorRT is NVIDIA's compiler of networks. Its C++ interface is bound when wxsim is built, in one of two flavours: the
//! feature `tensorrt` (the full library, for data-centre cards) or `tensorrt-rtx` (TensorRT for RTX, whose engines are built
//! without a GPU and finished on the card). The library itself is opened when the program runs. Networks are strongly
//! typed: the graph decides in what its convolutions compute.

mod card;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
mod build;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
mod copies;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
mod engine;
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
mod library;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::export::Precision;

pub use card::{Binding, EngineCard};
#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
pub use engine::Engine;

/// What an engine is made of and for.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildPlan {
    pub precision: Precision,
    /// Cards; empty for the one of this machine.
    pub targets: Vec<Capability>,
    pub batch: Batch,
}

/// The compute capability of a card, as `8.9`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability(pub u32, pub u32);

/// Forecasts at once that an engine takes, and how many it is made fastest for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub least: usize,
    pub usual: usize,
    pub most: usize,
}

/// An engine, and what there is to know of it.
pub struct Built {
    pub engine: Vec<u8>,
    pub card: EngineCard,
}

/// How to get a wxsim that has it.
pub const REMEDY: &str =
    "build one with: cargo build --release --features tensorrt (or tensorrt-rtx); that needs libclang";

/// Whether there is all that building takes: the library, its parser, and cards that it knows.
pub fn ready(plan: &BuildPlan) -> Result<()> {
    #[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
    return build::ready(plan).map(|_| ());
    #[cfg(not(any(feature = "tensorrt", feature = "tensorrt-rtx")))]
    {
        let _ = plan;
        Err(absent())
    }
}

/// Builds the engine of a graph of one step, which `origin` names.
pub fn build(graph: &[u8], origin: &str, plan: &BuildPlan) -> Result<Built> {
    #[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
    return build::build(graph, origin, plan);
    #[cfg(not(any(feature = "tensorrt", feature = "tensorrt-rtx")))]
    {
        let _ = (graph, origin, plan);
        Err(absent())
    }
}

#[cfg(not(any(feature = "tensorrt", feature = "tensorrt-rtx")))]
fn absent() -> Error {
    Error::input("this wxsim was built without TensorRT, which an engine needs").hint(REMEDY)
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Capability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        parts.map(|(major, minor)| Self(major, minor)).ok_or_else(|| {
            Error::input(format!("'{text}' is no compute capability"))
                .hint("write 8.9, as nvidia-smi --query-gpu=compute_cap does")
        })
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.least, self.usual, self.most)
    }
}

impl FromStr for Batch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Option<Vec<usize>> = text.split(':').map(|n| n.parse().ok()).collect();
        let batch = match numbers.as_deref() {
            Some(&[one]) => Self { least: one, usual: one, most: one },
            Some(&[least, usual, most]) => Self { least, usual, most },
            _ => Self { least: 0, usual: 0, most: 0 },
        };
        if batch.least == 0 || batch.least > batch.usual || batch.usual > batch.most {
            return Err(Error::input(format!("'{text}' is no range of batches"))
                .hint("write 1, or the least, the usual and the most as 1:1:8"));
        }
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_batches_read_as_they_are_written() {
        assert_eq!("8.9".parse::<Capability>().unwrap().to_string(), "8.9");
        assert_eq!("1:4:8".parse::<Batch>().unwrap().to_string(), "1:4:8");
        assert_eq!("2".parse::<Batch>().unwrap(), Batch { least: 2, usual: 2, most: 2 });
        for text in ["", "0", "2:1:8", "1:9:8", "1:2", "x"] {
            assert!(text.parse::<Batch>().is_err(), "{text}");
        }
        assert!("89".parse::<Capability>().is_err());
    }
}
