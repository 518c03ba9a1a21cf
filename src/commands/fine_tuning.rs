//! A training that starts from the weights of another run, and what it takes to let it learn rounded.

use std::path::Path;
use std::sync::Arc;

use crate::commands::export::calibrate;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::export::Trained;
use crate::export::quantise::Method;
use crate::field::Layout;
use crate::io::checkpoint::{self, Card, Checkpoint};
use crate::io::run_dir::find_checkpoint;
use crate::model::{Architecture, Ranges};
use crate::preprocess::{Inputs, Normalizer};
use crate::time::LeadTime;

/// The checkpoint whose weights come first.
pub struct Origin {
    pub checkpoint: Checkpoint,
    card: Card,
}

impl Origin {
    /// Opens a run folder (its best checkpoint) or a checkpoint folder.
    pub fn open(model: &Path) -> Result<Self> {
        let checkpoint = checkpoint::load(&find_checkpoint(model)?)?;
        Ok(Self { card: Card::read(&checkpoint)?, checkpoint })
    }

    /// The normaliser that the weights were learned with.
    pub fn normalizer(&self, layout: &Arc<Layout>) -> Result<Normalizer> {
        if self.card.layout != **layout {
            return Err(self.differs("variables or grid"));
        }
        Normalizer::from_tensors(layout.clone(), &self.card.normalizer, &self.checkpoint.tensors)
    }

    /// Refuses to go on with another step or other inputs.
    pub fn check(&self, inputs: &Inputs, step: LeadTime) -> Result<()> {
        if self.card.step != step {
            return Err(self.differs("time step"));
        }
        if self.card.inputs != inputs.card() {
            return Err(self.differs("static fields or forcings"));
        }
        Ok(())
    }

    fn differs(&self, what: &str) -> Error {
        Error::input(format!("{} has another {what} than this training", self.checkpoint.path.display()))
            .hint("start from it with the configuration of its run")
    }
}

/// Where activations are cut off in a training that is rounded: as at its beginning, or, there, as in forecasts of the network
/// that it starts from.
pub fn ranges(
    config: &Config,
    from: Option<&Path>,
    continued: Option<&Checkpoint>,
    architecture: &Architecture,
) -> Result<Option<Ranges>> {
    if config.train.quantise.is_none() {
        return Ok(None);
    }
    if let Some(checkpoint) = continued {
        return Ranges::of_state(&checkpoint.state_json, architecture);
    }
    let Some(from) = from else {
        return Err(Error::input(
            "train.quantise: a network learns to be rounded when it has learned all else",
        )
        .hint("start from a trained one: --from RUN"));
    };
    let ranges = calibrate(&Arc::new(Trained::open(from)?), config, Method::Percentile)?;
    ranges.check(architecture)?;
    Ok(Some(ranges))
}
