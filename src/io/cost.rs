//! What it costs to read one field of a chunked file.

use super::info::{Role, VariableInfo};

/// Inflating through the NetCDF library [bytes/s]: about 240 MB/s on one core of an AMD EPYC (Zen 3), December 2026.
const INFLATE_RATE: f64 = 240e6;
/// A field that takes longer than this [s] while most of what is inflated is thrown away should be rewritten.
const AWKWARD_SECONDS: f64 = 0.03;
const AWKWARD_WASTE: f64 = 8.0;

/// The cost of one field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepCost {
    /// Chunks that hold a part of the field.
    pub chunks: usize,
    /// Bytes to inflate for it.
    pub inflated: u64,
    /// Bytes inflated per byte used.
    pub waste: f64,
    /// Estimated time [s].
    pub seconds: f64,
}

impl StepCost {
    /// Whether the file should be rewritten before training from it (`wxsim prepare`).
    pub fn is_awkward(&self) -> bool {
        self.seconds > AWKWARD_SECONDS && self.waste > AWKWARD_WASTE
    }
}

impl VariableInfo {
    /// A sentence for a variable whose chunks make one time step expensive.
    pub fn awkward_chunks(&self) -> Option<String> {
        let cost = self.step_cost().filter(StepCost::is_awkward)?;
        let shape: Vec<String> = self.chunks.iter().flatten().map(usize::to_string).collect();
        Some(format!(
            "'{}' is stored in chunks of {}: one time step inflates {} of them, {:.1} MB in about {:.0} ms, of which 1 part in {:.0} is used",
            self.name,
            shape.join(" x "),
            cost.chunks,
            cost.inflated as f64 / 1e6,
            cost.seconds * 1e3,
            cost.waste
        ))
    }

    /// What one time and level costs; `None` for a variable that is not chunked.
    pub fn step_cost(&self) -> Option<StepCost> {
        let shape = self.chunks.as_ref()?;
        let mut chunks = 1_usize;
        let mut entries = 1_u64;
        for (dimension, length) in self.dimensions.iter().zip(shape) {
            entries = entries.saturating_mul(*length as u64);
            if !matches!(dimension.role, Role::Time | Role::Level | Role::Single) {
                chunks = chunks.saturating_mul(dimension.length.div_ceil((*length).max(1)));
            }
        }
        let bytes = entries.saturating_mul(self.packing.number.size() as u64);
        let inflated = bytes.saturating_mul(chunks as u64);
        Some(StepCost {
            chunks,
            inflated,
            waste: inflated as f64 / self.slab_bytes().max(1) as f64,
            seconds: inflated as f64 / INFLATE_RATE,
        })
    }
}
