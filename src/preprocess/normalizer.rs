//! From physical units to numbers of order 1, and back.

use std::sync::Arc;

use super::view::TrainingView;
use crate::climatology::ClimatologyKind;
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::io::checkpoint::Tensors;
use crate::time::ValidTime;
use crate::variable::Quantity;

/// How to normalise.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizerPlan {
    /// Subtract the climatology, not only the mean.
    pub anomalies: bool,
    pub climatology: ClimatologyKind,
    /// Quantities that are never negative, with the epsilon [their SI unit] of `ln(1 + x / epsilon)`.
    pub log: Vec<(Quantity, f64)>,
}

/// Means, deviations and climatology of the training span.
pub struct Normalizer {
    layout: Arc<Layout>,
}

impl Normalizer {
    /// Learns from the training span.
    pub fn fit(training: &TrainingView, _plan: &NormalizerPlan) -> Result<Self> {
        Ok(Self { layout: training.layout().clone() })
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Overwrites `out`, `[lat, lon, channel]`. Points that are always missing become 0; other missing values NaN.
    pub fn normalize(&self, _state: &State, _out: &mut [f32]) -> Result<()> {
        Err(Error::run("the normaliser is not built yet"))
    }

    /// The inverse: `values` are `[lat, lon, channel]`; points that are always missing become NaN.
    pub fn unnormalize(&self, _values: &[f32], _valid: ValidTime) -> Result<State> {
        Err(Error::run("the normaliser is not built yet"))
    }

    /// Deviation of the tendency over one step, in units of the deviation, per channel.
    pub fn tendency_scale(&self) -> Vec<f32> {
        Vec::new()
    }

    /// `[lat, lon, channel]`: 1 where there are data, 0 where they are always missing; `None` when nothing is.
    pub fn mask(&self) -> Option<&[f32]> {
        None
    }

    /// What a checkpoint keeps besides the tensors.
    pub fn card(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Named `normalizer.*`.
    pub fn to_tensors(&self) -> Tensors {
        Tensors::new()
    }

    /// The inverse of [`card`](Self::card) and [`to_tensors`](Self::to_tensors).
    pub fn from_tensors(_layout: Arc<Layout>, _card: &serde_json::Value, _tensors: &Tensors) -> Result<Self> {
        Err(Error::run("the normaliser is not built yet"))
    }
}
