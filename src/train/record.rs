//! What a training leaves behind: its curve and its checkpoints. Of several ranks, the first one keeps it.

use crate::error::{Error, Result};
use crate::io::checkpoint::{self, Tensors};
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

    /// Writes a checkpoint, lets `best` point to the best one and removes old ones.
    pub fn save(&mut self, progress: &mut Progress, mut tensors: Tensors) -> Result<()> {
        progress.curve = self.curve.sync()?;
        tensors.extend(self.fixed_tensors.clone());
        let state = StateFile { progress: progress.clone(), ..self.described.clone() };
        let path = self.run.checkpoint(progress.step);
        std::fs::create_dir_all(self.run.checkpoints())
            .map_err(|error| Error::run("cannot make the folder of checkpoints").caused_by(error))?;
        checkpoint::save(&path, &tensors, &state.to_json()?)?;
        let best = progress.stopping.best.map(|best| best.step);
        if let Some(step) = best {
            self.run.set_best(step)?;
        }
        checkpoint::prune(&self.run.checkpoints(), self.saving.keep, best.as_slice())
    }
}
