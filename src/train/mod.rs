//! # Training
//!
//! ```text
//! TrainPlan + Architecture + TrainingView + validation View -> train() -> run folder
//! ```
//!
//! [`train`] walks through a curriculum of rollout lengths. Each epoch ends with a validation of the averaged weights
//! and a checkpoint; the best score decides which checkpoint forecasts use, and when to end early. A training that was
//! killed at any moment and resumed gives the same bits as one that was not: everything random or scheduled is a
//! function of counts that are in the checkpoint.
//!
//! Several ranks train one network on one device each ([`comm`](crate::comm)): the plan's batch is that of all of them,
//! and the course is the same for any number of ranks but for the rounding of sums.
//!
//! Nothing here can see the test span: what reads data is made from the training and the validation span alone.

mod band;
mod curve;
mod fault;
mod feed;
#[cfg(test)]
mod fixture;
mod interrupt;
mod learned;
mod loss_scale;
mod moments;
mod outline;
mod plan;
mod progress;
mod ranks;
mod record;
mod rehearsal;
#[cfg(test)]
mod rounding_tests;
mod room;
mod schedule;
mod start;
mod step;
mod stopping;
mod trainer;
mod validation;
mod weights;
mod wire;
mod workspace;
mod zero;

pub use curve::{InputLine, Line, StepLine, ValidationLine};
pub use interrupt::Interrupt;
pub use outline::outline;
pub use plan::{
    AdamW, Augment, LearningRate, LossKind, LossPlan, NonFinite, Sampling, SavingPlan, Stage, TrainPlan,
    ValidationPlan,
};
pub use ranks::ParallelPlan;
pub use rehearsal::{Rehearsal, rehearse};
pub use start::{Training, train};
pub use stopping::Best;
pub use wire::Wire;
pub use zero::{Sharding, Shared};

/// What a training will be, known before its first update.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// Learned numbers.
    pub parameters: usize,
    /// Devices that train together.
    pub ranks: usize,
    /// Memory of each of them [bytes].
    pub memory: usize,
    /// One per stage of the curriculum.
    pub stages: Vec<StageOutlook>,
    /// In all.
    pub updates: u64,
    /// Windows of one validation.
    pub validation_windows: usize,
    /// Updates made before, when resumed.
    pub done: u64,
}

/// What a stage of the curriculum will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageOutlook {
    pub stage: Stage,
    pub steps_per_epoch: u64,
}

/// Somebody who watches a training: a progress bar, a log.
pub trait Watcher {
    fn begins(&mut self, outlook: &Outlook);
    fn stepped(&mut self, line: &StepLine, outlook: &Outlook);
    fn validated(&mut self, line: &ValidationLine);
    /// Something that a user should know.
    fn remark(&mut self, sentence: &str);
    /// The command that continues an interrupted training.
    fn how_to_resume(&self) -> String;
}

/// How a training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs were trained.
    Complete,
    /// The validation score stood still for longer than the patience.
    Early,
}

/// What came of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub ending: Ending,
    /// Updates.
    pub steps: u64,
    pub best: Option<Best>,
}
