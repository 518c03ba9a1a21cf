//! The ranks that train one network together: each learns from its share of every batch, and what follows from the
//! gradients of all is done by each for itself, with the same bits.

use std::collections::BTreeMap;

use crate::comm::{Communicator, Others};
use crate::device::{Device, Real};
use crate::error::{Error, Result};
use crate::io::checkpoint::Seals;
use crate::model::Units;
use crate::preprocess::Share;
use crate::train::wire::Wire;
use crate::train::zero::{Sharding, Shared};

/// How ranks divide the work, and exchange what they find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelPlan {
    /// Bands of rows that the grid is cut into, each of them another rank's.
    pub domain: usize,
    /// Parts of the hidden channels, each of them another rank's.
    pub channel: usize,
    /// Gradients are added up in pieces of at most this many bytes.
    pub bucket_bytes: usize,
    pub shared: Shared,
    pub wire: Wire,
    /// Whether the optimiser's moments are kept by the host.
    pub offload: bool,
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
    /// Nothing is divided.
    pub const ALONE: Self = Self {
        domain: 1,
        channel: 1,
        bucket_bytes: 1 << 20,
        shared: Shared::Nothing,
        wire: Wire::Exact,
        offload: false,
    };

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

    /// What a rank shares that does this part of the work.
    pub(super) fn shard(self, part: Part) -> Sharding {
        let (share, Share { number, of }) = (part.replica(), part.units);
        let units = Units { number, of };
        let Self { bucket_bytes, offload, .. } = self;
        // A rank by itself has nobody to share with, and nothing to send.
        let (shared, wire) = if share.of == 1 { Default::default() } else { (self.shared, self.wire) };
        Sharding { share, units, shared, wire, bucket_bytes, offload }
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
        if !part.is_alone() {
            let Part { samples, rows, units } = part;
            let mut group =
                |of: Share, colour| (of.of > 1).then(|| communicator.split(device, colour)).transpose();
            let bands = group(rows, samples.number * units.of + units.number)?;
            let units = group(units, samples.number * rows.of + rows.number)?;
            *device.company() = Some(Box::new(Others::new(bands, units)));
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

    /// What the device is asked to do from here on may have to wait for other ranks.
    pub fn depend(&mut self) {
        self.communicator.depend();
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

    /// Which of how many ranks this one is.
    pub fn number(&self) -> (usize, usize) {
        (self.communicator.rank(), self.communicator.size())
    }

    /// The files of a checkpoint that all ranks have written.
    pub fn seals(&mut self, own: &Seals) -> Result<Seals> {
        let wrong = |error: serde_json::Error| Error::run("the files of a checkpoint").caused_by(error);
        let all = self.communicator.tell(&serde_json::to_string(own).map_err(wrong)?)?;
        let each = all.iter().map(|words| serde_json::from_str::<Seals>(words).map_err(wrong));
        each.collect::<Result<Vec<_>>>().map(|each| each.into_iter().flatten().collect())
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
