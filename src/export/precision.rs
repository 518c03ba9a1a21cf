//! How exactly an exported network computes.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// What convolutions read and write. Normalising, gates, cell states and the state of the atmosphere are float32 always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Precision {
    #[default]
    Fp32,
    /// Float32, of whose significands convolutions read 11 bits: the same graph, which an engine may compute so.
    Tf32,
    Fp16,
    Bf16,
    /// Whole numbers of 8 bits.
    Int8,
    /// Floating-point numbers of 8 bits (e4m3).
    Fp8,
}

impl Precision {
    pub const ALL: [Self; 6] = [Self::Fp32, Self::Tf32, Self::Fp16, Self::Bf16, Self::Int8, Self::Fp8];

    /// Whether the ranges of activations have to be known.
    pub fn is_quantised(self) -> bool {
        matches!(self, Self::Int8 | Self::Fp8)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Fp8 => "fp8",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|precision| precision.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|precision| precision.name()).collect();
            Error::input(format!("'{text}' is no precision: choose {}", names.join(", ")))
        })
    }
}
