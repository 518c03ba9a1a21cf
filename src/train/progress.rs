//! Where a training stands: everything in `state.json` that the tensors do not hold.
//!
//! A checkpoint is only made between updates, so batches that wait for their update do not occur in one. Random choices
//! are functions of the seed and these counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::io::checkpoint::{Card, Checkpoint};
use crate::preprocess::Position;
use crate::train::curve::CurveLength;
use crate::train::loss_scale::LossScale;
use crate::train::plan::TrainPlan;
use crate::train::stopping::Stopping;

/// Counts and states that a resumed training continues from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Updates that were due, those skipped included: what schedules count.
    pub step: u64,
    /// Updates that were made: what AdamW and the average count.
    pub updates: u64,
    /// Finished epochs.
    pub epoch: usize,
    /// Updates of the epoch under way.
    pub step_in_epoch: u64,
    /// The next batch.
    pub position: Position,
    /// The epoch's end has not been validated yet.
    pub validation_due: bool,
    /// Updates skipped because something was not finite, in all and in a row.
    pub skipped: u64,
    pub skipped_in_a_row: u32,
    /// Where gradients are float16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_scale: Option<LossScale>,
    pub stopping: Stopping,
    /// The training has ended.
    pub finished: bool,
    pub curve: CurveLength,
    /// How the device does what it can do in several ways that round differently.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub choices: BTreeMap<String, String>,
    /// And so the devices of the other ranks, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_choices: Vec<BTreeMap<String, String>>,
}

impl Progress {
    /// Those of a rank; a new one follows the first.
    pub fn choices_of(&self, rank: usize) -> &BTreeMap<String, String> {
        rank.checked_sub(1).and_then(|other| self.other_choices.get(other)).unwrap_or(&self.choices)
    }
}

/// `state.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StateFile {
    pub model: Card,
    pub train: TrainPlan,
    /// Of the data that the training reads.
    pub data_fingerprint: String,
    pub progress: Progress,
}

impl StateFile {
    pub fn read(checkpoint: &Checkpoint) -> Result<Self> {
        Card::read(checkpoint)?; // refuses other formats with a clearer sentence
        serde_json::from_str(&checkpoint.state_json).map_err(|error| {
            Error::input(format!("{} does not describe a training", checkpoint.path.display()))
                .caused_by(error)
        })
    }

    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self)
            .map_err(|error| Error::run("cannot describe the training").caused_by(error))
    }

    /// Refuses to continue `self`, read from a checkpoint, as the training `now`.
    pub fn check_continues(&self, now: &StateFile) -> Result<()> {
        let differs = |what: &str| {
            Error::input(format!(
                "the run was started with another {what}: it cannot be continued bit for bit"
            ))
            .hint("resume with the configuration in its run folder, or start another run")
        };
        if self.data_fingerprint != now.data_fingerprint {
            return Err(differs("data set"));
        }
        if self.model.architecture != now.model.architecture {
            return Err(differs("network"));
        }
        if self.model.layout != now.model.layout || self.model.step != now.model.step {
            return Err(differs("grid, choice of variables or step"));
        }
        if self.model.inputs != now.model.inputs || self.model.normalizer != now.model.normalizer {
            return Err(differs("choice of inputs or normalisation"));
        }
        if self.train != now.train {
            return Err(differs("[train] or [loss] table"));
        }
        Ok(())
    }
}
