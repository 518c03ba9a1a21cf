//! # Ranks that work on one problem
//!
//! ```text
//! Meeting (bytes between hosts) -> Communicator (numbers between devices)
//! ```
//!
//! A *rank* is one device with the thread or process that drives it. Ranks do the same work on different data, and meet in
//! collectives: operations that all ranks of a group ask for, in the same order.
//!
//! A [`Meeting`] brings bytes from host to host and tells when somebody is missing. There is one of threads
//! ([`run`]), one of processes ([`join`], which knows from [`place`] what started them), and one of a single rank ([`Alone`]). A [`Communicator`] exchanges what lies in the slots of devices:
//! [`Host`] by way of a meeting, [`Nccl`] from GPU to GPU.
//!
//! Who should be whose neighbour follows from where ranks are ([`Topology`]); [`in_order`] numbers them anew.
//!
//! Sums are taken in the order of the ranks, whoever comes first, so that they are equal bit for bit on all ranks and in all
//! runs. Who fails, panics or does not come in time fails the meeting for good: every other rank gets that one
//! reason, instead of waiting for ever.

mod frames;
mod host;
mod hub;
mod launch;
mod meeting;
mod nccl;
mod order;
mod others;
mod pace;
mod store;
#[cfg(test)]
mod tests;
mod threads;
mod topology;

pub use host::Host;
pub use launch::{Place, place};
pub use meeting::{Alone, Bytes, Lifeline, Meeting, Parcel};
pub use nccl::Nccl;
pub use order::in_order;
pub use others::Others;
pub use pace::{Pace, all_reduce_pace};
pub use store::join;
pub use threads::{meetings, run, run_one};
pub use topology::{Placement, Spot, Topology, Way, heed_environment};

use crate::device::{Device, Real, Slot};
use crate::error::{Error, Result};

/// What becomes of the numbers of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Mean,
}

/// Collectives over a group of ranks. Numbers in slots are exchanged as a device does its work: in the order in which it
/// was asked for, perhaps later, and a failure is told by the next operation that gives a [`Result`].
pub trait Communicator<T: Real>: Send {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;

    /// Every rank gets the sum, or the mean, of what all have in their slot.
    fn all_reduce(&mut self, device: &mut dyn Device<T>, slot: Slot, how: Reduce);
    /// Rank r gets part r of the sum, or of the mean, of what all have in `from`, which is `size` times as long as `to`.
    fn reduce_scatter(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot, how: Reduce);
    /// Every rank gets what all have in `from`, one behind the other; `to` is `size` times as long.
    fn all_gather(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot);
    /// Part s of rank r's `from` becomes part r of rank s's `to`.
    fn all_to_all(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot);
    /// Every rank gets what `root` has.
    fn broadcast(&mut self, device: &mut dyn Device<T>, slot: Slot, root: usize);
    /// Sends slots to some ranks and receives slots from some, at once. All ranks take part, if only with empty lists. What
    /// one rank sends to another arrives in the order of the lists.
    fn exchange(&mut self, device: &mut dyn Device<T>, sent: &[(usize, Slot)], received: &[(usize, Slot)]);

    /// What the device is asked to do from here on may have to wait for other ranks, until hosts meet again.
    fn depend(&mut self);
    /// Replaces each number by its sum over all ranks, at once.
    fn total(&mut self, values: &mut [f64]) -> Result<()>;
    /// What every rank says, in their order.
    fn tell(&mut self, words: &str) -> Result<Vec<String>>;
    /// Waits for all ranks.
    fn barrier(&mut self) -> Result<()>;
    /// The group of all ranks that gave the same colour, in their order.
    fn split(&mut self, device: &mut dyn Device<T>, colour: usize) -> Result<Box<dyn Communicator<T>>>;
    /// Tells all other ranks that something failed here: they wait no longer.
    fn fail(&mut self, error: &Error);
    /// Ends together: nobody leaves before all are done.
    fn close(self: Box<Self>) -> Result<()>;
}
