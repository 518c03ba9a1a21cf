//! # From files to batches
//!
//! A [`DataPlan`] names sources and the split in time. [`Catalogue::build`] finds every (quantity, time) in the files
//! without reading data. What is learned from data comes through a [`TrainingView`], which cannot read outside the
//! training span: [`Normalizer::fit`] and [`Loader::new`] take nothing else. [`Inputs`] adds static fields and time
//! forcings; [`EvaluationWindows`] walks through a [`View`] in order. A GPU decodes and normalises by itself: see
//! [`RawBatch`] and [`Recipe`].

mod catalogue;
mod coverage;
mod distribution;
mod effort;
mod filling;
mod frames;
mod inputs;
mod loader;
mod normalizer;
mod plan;
mod prefetch;
mod raw;
pub mod regrid;
pub mod solar;
mod sources;
mod state_reader;
mod statics;
mod statistics;
mod tracks;
mod upright;
mod view;
mod windows;

pub use catalogue::Catalogue;
pub use coverage::Gap;
pub use distribution::Distribution;
pub use effort::Effort;
pub use filling::absent;
pub use frames::turn_columns;
pub use inputs::{Forcing, Inputs, InputsPlan};
pub use loader::{Batch, EvaluationWindows, Input, Loader, LoaderPlan, Position, Share};
pub use normalizer::{Normalizer, NormalizerPlan};
pub use plan::{
    DataPlan, DuplicatePolicy, GridPlan, GridTarget, MissingPolicy, RegridMethod, SourcePlan, Span, Split,
};
pub use raw::{RawBatch, Recipe};
pub use statics::{StaticField, StaticFile, StaticPlan};
pub use view::{TrainingView, ValidationView, View, fit_climatology};
