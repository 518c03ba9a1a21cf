//! Which vector instructions the kernels use, chosen when the program runs.

use crate::error::{Error, Result};
use std::fmt;

/// From the slowest to the fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Instructions {
    /// What every processor of this architecture has.
    Portable,
    /// AVX2 and FMA: 8 numbers at once.
    Avx2,
    /// AVX-512 F: 16 numbers at once.
    Avx512,
}

impl Instructions {
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The fastest that this machine has.
    pub fn best() -> Self {
        Self::ALL.into_iter().rev().find(|set| set.is_available()).unwrap_or(Self::Portable)
    }

    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Self::Avx2.is_available() && is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// Numbers in one vector.
    pub(super) fn lanes(self) -> usize {
        match self {
            Self::Portable => 4,
            Self::Avx2 => 8,
            Self::Avx512 => 16,
        }
    }

    /// Columns of the widest register tile: weights are packed in panels of so many outputs.
    pub(super) fn panel(self) -> usize {
        match self {
            Self::Portable => 8,
            Self::Avx2 => 16,
            Self::Avx512 => 64,
        }
    }

    pub(super) fn check(self) -> Result<()> {
        if self.is_available() {
            return Ok(());
        }
        Err(Error::input(format!("this machine has no {self} instructions"))
            .hint(format!("the fastest it has are {}", Self::best())))
    }
}

impl fmt::Display for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}
