//! Normalised batches, decoded ahead of the training step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::normalizer::Normalizer;
use super::view::{TrainingView, View};
use crate::error::{Error, Result};
use crate::time::InitTime;

/// How to cut windows and batches.
#[derive(Debug, Clone, PartialEq)]
pub struct LoaderPlan {
    /// Analyses that a forecast starts from.
    pub input_frames: usize,
    pub lead_steps: usize,
    /// Windows in a batch.
    pub batch: usize,
    pub seed: u64,
    /// Background threads.
    pub threads: usize,
    /// A normalised data set up to this size is kept in memory [bytes].
    pub memory: usize,
}

/// Windows of `input_frames + lead_steps` normalised frames.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `[frame, batch, lat, lon, channel]`
    pub frames: Vec<f32>,
    /// `[frame - 1, batch, lat, lon, forcing]`: entry `i` belongs to the step from frame `i` to frame `i + 1`.
    pub forcings: Vec<f32>,
    /// `[lat, lon, channel]`: 0 where a quantity is always missing; `None` when nothing is.
    pub mask: Option<Arc<[f32]>>,
    /// Valid time of the last input frame of each window.
    pub init: Vec<InitTime>,
    /// How many windows count; the rest repeat the last one to fill the batch (only in evaluation).
    pub samples: usize,
}

/// Where a loader stands: the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    pub epoch: u64,
    pub batch: u64,
}

/// Endless shuffled batches of the training span.
pub struct Loader {
    position: Position,
}

impl Loader {
    pub fn new(
        _training: &TrainingView,
        _normalizer: Arc<Normalizer>,
        _inputs: Arc<Inputs>,
        _plan: &LoaderPlan,
    ) -> Result<Self> {
        Err(Error::run("the loader is not built yet"))
    }

    pub fn batches_per_epoch(&self) -> u64 {
        0
    }

    /// The batch that [`next`](Iterator::next) gives.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Continues there.
    pub fn seek(&mut self, position: Position) {
        self.position = position;
    }

    /// Changes the length of the rollout (a curriculum); the epoch goes on at its start.
    pub fn set_lead_steps(&mut self, _lead_steps: usize) -> Result<()> {
        Ok(())
    }
}

impl Iterator for Loader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        None
    }
}

/// Every window of a view once, in order. Forecasts start and end inside the view; input frames may lie before it.
pub struct EvaluationWindows {}

impl EvaluationWindows {
    pub fn new(
        _view: &View,
        _normalizer: Arc<Normalizer>,
        _inputs: Arc<Inputs>,
        _plan: &LoaderPlan,
    ) -> Result<Self> {
        Err(Error::run("the loader is not built yet"))
    }

    /// Windows in all.
    pub fn windows(&self) -> usize {
        0
    }

    /// Starts again at the first window.
    pub fn rewind(&mut self) {}
}

impl Iterator for EvaluationWindows {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        None
    }
}
