//! The ranks that train one network together: each learns from its share of every batch, and what follows from the
//! gradients of all is done by each for itself, with the same bits.

use std::collections::BTreeMap;

use crate::comm::{Communicator, Reduce};
use crate::device::{Device, Real, Slot};
use crate::error::{Error, Result};
use crate::preprocess::Share;

/// How ranks exchange what they find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelPlan {
    /// Gradients are added up in pieces of at most this many bytes.
    pub bucket_bytes: usize,
    /// Each rank updates a share of the weights, and keeps the optimiser's moments of that alone (stage 1 of ZeRO; Rajbhandari
    /// et al. 2020, doi:10.1109/SC41405.2020.00024).
    pub shares_moments: bool,
}

impl ParallelPlan {
    /// Which weights a rank updates that does this share of the work.
    pub(super) fn shard(self, share: Share) -> Share {
        if self.shares_moments { share } else { Share::ALL }
    }
}

/// This rank among the others.
pub(super) struct Ranks<'a, T: Real> {
    pub communicator: &'a mut dyn Communicator<T>,
    pub plan: ParallelPlan,
}

impl<T: Real> Ranks<'_, T> {
    /// What this rank does of the common work.
    pub fn share(&self) -> Share {
        Share { number: self.communicator.rank(), of: self.communicator.size() }
    }

    /// Whether this rank keeps the record.
    pub fn is_first(&self) -> bool {
        self.communicator.rank() == 0
    }

    /// Replaces a stretch of the gradients by its sum over all ranks.
    pub fn add_up(&mut self, device: &mut dyn Device<T>, stretch: Slot) {
        let most = (self.plan.bucket_bytes / size_of::<T>()).max(1);
        for start in (0..stretch.len()).step_by(most) {
            let bucket = stretch.part(start, most.min(stretch.len() - start));
            self.communicator.all_reduce(device, bucket, Reduce::Sum);
        }
    }

    /// Gives all ranks the part of a slot that each of them has.
    pub fn spread(&mut self, device: &mut dyn Device<T>, whole: Slot, part: impl Fn(Slot, usize) -> Slot) {
        for rank in 0..self.communicator.size() {
            self.communicator.broadcast(device, part(whole, rank), rank);
        }
    }

    /// Replaces each number by its sum over all ranks.
    pub fn total(&mut self, values: &mut [f64]) -> Result<()> {
        self.communicator.total(values)
    }

    /// What all devices have chosen, in the order of the ranks.
    pub fn choices(&mut self, own: BTreeMap<String, String>) -> Result<Vec<BTreeMap<String, String>>> {
        let wrong = |error: serde_json::Error| Error::run("the choices of a device").caused_by(error);
        let all = self.communicator.tell(&serde_json::to_string(&own).map_err(wrong)?)?;
        all.iter().map(|words| serde_json::from_str(words).map_err(wrong)).collect()
    }

    /// Whether any rank says so.
    pub fn any(&mut self, says: bool) -> Result<bool> {
        let mut count = [f64::from(u8::from(says))];
        self.total(&mut count)?;
        Ok(count[0] > 0.0)
    }

    /// Refuses to go on where ranks stand at different updates.
    pub fn check_same(&mut self, step: u64) -> Result<()> {
        // The variance is zero where all are equal.
        let mut sums = [step as f64, (step as f64).powi(2)];
        self.total(&mut sums)?;
        let ranks = self.communicator.size() as f64;
        if sums[1] * ranks != sums[0] * sums[0] {
            return Err(Error::run("the ranks found different checkpoints to continue from").hint(
                "the folder of the run has to be the same for all of them, on a file system that they share",
            ));
        }
        Ok(())
    }

    /// Waits for all ranks.
    pub fn barrier(&mut self) -> Result<()> {
        self.communicator.barrier()
    }
}

#[cfg(test)]
mod tests;
