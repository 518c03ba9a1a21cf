//! The ranks that train one network together: each learns from its share of every batch, and what follows from the
//! gradients of all is done by each for itself, with the same bits.

use std::collections::BTreeMap;

use crate::comm::{Communicator, Others, Reduce};
use crate::device::{Device, Real, Slot};
use crate::error::{Error, Result};
use crate::preprocess::Share;

/// How ranks divide the work, and exchange what they find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelPlan {
    /// Bands of rows that the grid is cut into, each of them another rank's.
    pub domain: usize,
    /// Parts of the hidden channels, each of them another rank's.
    pub channel: usize,
    /// Gradients are added up in pieces of at most this many bytes.
    pub bucket_bytes: usize,
    /// Each rank updates a share of the weights, and keeps the optimiser's moments of that alone (stage 1 of ZeRO; Rajbhandari
    /// et al. 2020, doi:10.1109/SC41405.2020.00024).
    pub shares_moments: bool,
}

/// What one rank does of the common work. Ranks are counted with the channels first, then the bands, then the samples, so
/// that those who exchange most are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Of each batch.
    pub samples: Share,
    /// Of the rows of the grid, from the south.
    pub rows: Share,
    /// Of the hidden channels.
    pub units: Share,
}

impl Part {
    pub const ALL: Self = Self { samples: Share::ALL, rows: Share::ALL, units: Share::ALL };

    /// Whether it makes forecasts without others.
    pub fn is_alone(self) -> bool {
        self.rows.of * self.units.of == 1
    }

    /// Among those that hold the same weights, which do the rest of samples and rows.
    pub fn replica(self) -> Share {
        let (samples, rows) = (self.samples, self.rows);
        Share { number: samples.number * rows.of + rows.number, of: samples.of * rows.of }
    }
}

impl ParallelPlan {
    /// What a rank of so many does.
    fn part(self, rank: usize, ranks: usize) -> Result<Part> {
        let Self { domain, channel, .. } = self;
        let each = domain * channel;
        if !ranks.is_multiple_of(each) {
            return Err(Error::input(format!(
                "{ranks} ranks are no multiple of parallel.domain x parallel.channel = {domain} x {channel}"
            ))
            .hint(format!(
                "start {} ranks, or divide grid and channels less",
                ranks.next_multiple_of(each)
            )));
        }
        Ok(Part {
            samples: Share { number: rank / each, of: ranks / each },
            rows: Share { number: rank / channel % domain, of: domain },
            units: Share { number: rank % channel, of: channel },
        })
    }

    /// Which weights a rank updates that does this share of what can be learned about them: [`Part::replica`].
    pub(super) fn shard(self, share: Share) -> Share {
        if self.shares_moments { share } else { Share::ALL }
    }
}

/// This rank among the others.
pub(super) struct Ranks<'a, T: Real> {
    /// All of them.
    pub communicator: &'a mut dyn Communicator<T>,
    pub plan: ParallelPlan,
    part: Part,
    /// Those that hold the same weights; `None` where all do.
    replicas: Option<Box<dyn Communicator<T>>>,
}

impl<'a, T: Real> Ranks<'a, T> {
    /// All ranks come to this together.
    pub fn new(
        communicator: &'a mut dyn Communicator<T>,
        device: &mut dyn Device<T>,
        plan: ParallelPlan,
    ) -> Result<Self> {
        let part = plan.part(communicator.rank(), communicator.size())?;
        if part.rows.of > 1 {
            let bands =
                communicator.split(device, part.samples.number * part.units.of + part.units.number)?;
            *device.company() = Some(Box::new(Others::new(bands)));
        }
        let replicas = match part.units.of {
            1 => None,
            _ => Some(communicator.split(device, part.units.number)?),
        };
        Ok(Self { communicator, plan, part, replicas })
    }

    /// What this rank does of the common work.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Which samples of each batch are this rank's.
    pub fn share(&self) -> Share {
        self.part.samples
    }

    /// Whether this rank keeps the record.
    pub fn is_first(&self) -> bool {
        self.communicator.rank() == 0
    }

    /// The ranks that hold the same weights as this one, [`Part::replica`] of them: their gradients add up.
    pub fn replicas(&mut self) -> &mut dyn Communicator<T> {
        match &mut self.replicas {
            Some(replicas) => &mut **replicas,
            None => self.communicator,
        }
    }

    /// Replaces a stretch of the gradients by its sum over all ranks that hold the same weights.
    pub fn add_up(&mut self, device: &mut dyn Device<T>, stretch: Slot) {
        let most = (self.plan.bucket_bytes / size_of::<T>()).max(1);
        for start in (0..stretch.len()).step_by(most) {
            let bucket = stretch.part(start, most.min(stretch.len() - start));
            self.replicas().all_reduce(device, bucket, Reduce::Sum);
        }
    }

    /// Gives all ranks that hold the same weights the part of a slot that each of them has.
    pub fn spread(&mut self, device: &mut dyn Device<T>, whole: Slot, part: impl Fn(Slot, usize) -> Slot) {
        let replicas = self.replicas();
        for rank in 0..replicas.size() {
            replicas.broadcast(device, part(whole, rank), rank);
        }
    }

    /// What the device is asked to do from here on may have to wait for other ranks.
    pub fn depend(&mut self) {
        self.communicator.depend();
    }

    /// Whether any rank says so, asked where all ranks come by equally often only if forecasts take several of them; otherwise each
    /// decides for itself.
    pub fn any_within(&mut self, says: bool) -> Result<bool> {
        if self.part.is_alone() { Ok(says) } else { self.any(says) }
    }

    /// What counts once for all ranks that look at the same samples and rows.
    pub fn once(&self, value: f64) -> f64 {
        if self.part.units.number == 0 { value } else { 0.0 }
    }

    /// Ends together what was begun with [`new`](Self::new); the communicator of all goes on.
    pub fn close(self, device: &mut dyn Device<T>) -> Result<()> {
        device.company().take().map_or(Ok(()), |company| company.close())?;
        self.replicas.map_or(Ok(()), |replicas| replicas.close())
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
