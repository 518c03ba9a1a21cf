//! What a training leaves behind: its curve and its checkpoints. Of several ranks, the first one keeps it.

use crate::error::{Error, Result};
use crate::io::checkpoint::{self, Seals, Tensors};
use crate::io::run_dir::RunDir;
use crate::train::curve::{Curve, Line};
use crate::train::plan::SavingPlan;
use crate::train::progress::{Progress, StateFile};

pub(super) struct Record<'a> {
    pub run: &'a RunDir,
    pub curve: Curve,
    pub saving: SavingPlan,
    /// What every checkpoint says besides progress and learned numbers.
    pub described: StateFile,
    /// Normaliser and inputs.
    pub fixed_tensors: Tensors,
}

impl Record<'_> {
    pub fn add(&mut self, line: &Line) -> Result<()> {
        self.curve.add(line)
    }

    /// Begins a checkpoint, to which all ranks write.
    pub fn begin(&self, step: u64) -> Result<()> {
        std::fs::create_dir_all(self.run.checkpoints())
            .map_err(|error| Error::run("cannot make the folder of checkpoints").caused_by(error))?;
        checkpoint::begin(&self.run.checkpoint(step))
    }

    /// Ends it, lets `best` point to the best one and removes old ones.
    pub fn finish(&mut self, progress: &mut Progress, seals: Seals) -> Result<()> {
        progress.curve = self.curve.sync()?;
        let state = StateFile { progress: progress.clone(), ..self.described.clone() };
        checkpoint::finish(&self.run.checkpoint(progress.step), seals, &state.to_json()?)?;
        let best = progress.stopping.best.map(|best| best.step);
        if let Some(step) = best {
            self.run.set_best(step)?;
        }
        checkpoint::prune(&self.run.checkpoints(), self.saving.keep, best.as_slice())
    }
}
