//! How fast ranks add up what they have.

use std::time::Instant;

use super::{Communicator, Reduce};
use crate::device::{Device, Slot};
use crate::error::Result;

/// One all-reduce, mean over some repetitions, on the slowest rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    pub seconds: f64,
    /// What passes through each rank, one way: `2 (ranks - 1) / ranks` of the numbers, whatever the way [bytes/s].
    pub rate: f64,
}

/// Adds up a slot again and again, after twice that do not count. All ranks come to this with slots of one length, and with
/// as many `repeats`.
pub fn all_reduce_pace(
    communicator: &mut dyn Communicator<f32>,
    device: &mut dyn Device<f32>,
    slot: Slot,
    repeats: usize,
) -> Result<Pace> {
    let mut add_up = |communicator: &mut dyn Communicator<f32>| {
        communicator.depend();
        communicator.all_reduce(device, slot, Reduce::Sum);
        device.finish()
    };
    for _ in 0..2 {
        add_up(communicator)?;
    }
    communicator.barrier()?;
    let start = Instant::now();
    for _ in 0..repeats {
        add_up(communicator)?;
    }
    let seconds = start.elapsed().as_secs_f64() / repeats.max(1) as f64;
    let size = communicator.size();
    // In the place of this rank among those of all.
    let mut all = vec![0.0; size];
    all[communicator.rank()] = seconds;
    communicator.total(&mut all)?;
    let seconds = all.into_iter().fold(0.0, f64::max);
    let passed = 2.0 * (size - 1) as f64 / size as f64 * (slot.len() * size_of::<f32>()) as f64;
    Ok(Pace { seconds, rate: passed / seconds.max(1e-12) })
}
