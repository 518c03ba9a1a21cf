//! # Training

mod plan;
mod schedule;
mod stopping;

pub use plan::{
    AdamW, LearningRate, LossKind, LossPlan, NonFinite, Sampling, SavingPlan, Stage, TrainPlan,
    ValidationPlan,
};
