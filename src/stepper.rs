//! What a forecaster is: network, physics and baselines all implement this and nothing else.

use crate::error::Result;
use crate::field::{Layout, State};
use crate::time::LeadTime;
use std::sync::Arc;

/// What a forecaster needs and gives.
#[derive(Debug, Clone)]
pub struct StepperInfo {
    /// `convlstm`, `persistence`, ... : how reports call it.
    pub name: String,
    /// Where it came from, for the `history` of the files it makes (run folder, configuration).
    pub origin: String,
    /// Quantities and grid of the states that it reads, and writes but for those that [`Stepper::output`] leaves out.
    pub layout: Arc<Layout>,
    /// Length of one step.
    pub step: LeadTime,
    /// How many analyses it starts from, `step` apart; the last is the initial time.
    pub input_frames: usize,
}

/// Advances a state of the atmosphere step by step.
///
/// The inner state lives wherever the implementor likes; only [`observe`](Stepper::observe) brings fields to the host.
pub trait Stepper {
    type Inner;

    fn info(&self) -> &StepperInfo;

    /// Quantities and grid of the states that it gives: what it reads, unless some of that only helps.
    fn output(&self) -> &Arc<Layout> {
        &self.info().layout
    }

    /// The state at the last of `info().input_frames` analyses, oldest first.
    fn start(&mut self, analyses: &[State]) -> Result<Self::Inner>;

    /// Advances by `info().step`.
    fn step(&mut self, inner: &mut Self::Inner) -> Result<()>;

    /// Fields in physical units, of the layout [`output`](Stepper::output); before the first step, exactly the analysis.
    fn observe(&self, inner: &Self::Inner) -> Result<State>;

    /// What who reads the forecast has to know of how it was made so far; mostly nothing.
    fn remarks(&self, _inner: &Self::Inner) -> Vec<String> {
        Vec::new()
    }
}
