//! Collectives by way of the hosts: what lies in a slot is brought to a meeting, and back.

use std::ops::Range;
use std::sync::Arc;

use super::meeting::{Bytes, Meeting, Parcel};
use super::{Communicator, Reduce};
use crate::device::{Device, Real, Slot};
use crate::error::{Error, Result};

/// A communicator for devices that share nothing but their hosts, which is what ranks on processors are.
pub struct Host {
    meeting: Box<dyn Meeting>,
}

impl Host {
    pub fn new(meeting: Box<dyn Meeting>) -> Self {
        Self { meeting }
    }

    /// The meeting of a group.
    pub(super) fn split_meeting(&mut self, colour: usize) -> Result<Box<dyn Meeting>> {
        self.meeting.split(colour)
    }

    /// Exchanges pieces of numbers. After a failure, of which the next operation that can will tell, there is nothing.
    fn swap<T: Real>(&mut self, what: &str, parcel: Parcel, lengths: &[usize]) -> Option<Vec<Vec<T>>> {
        let pieces = self.meeting.exchange(what, parcel).ok()?;
        if let Some(rank) = (0..pieces.len()).find(|&r| pieces[r].len() != lengths[r] * size_of::<T>()) {
            self.meeting.lifeline().fail(&Error::run(format!(
                "{} bytes came from rank {rank} for {what} of {} numbers: a mistake in wxsim",
                pieces[rank].len(),
                lengths[rank]
            )));
            return None;
        }
        Some(pieces.iter().map(|piece| numbers(piece)).collect())
    }

    /// This rank's part of what all ranks' numbers add up to.
    fn reduced<T: Real>(&mut self, what: &str, values: &[T], how: Reduce) -> Option<Vec<T>> {
        let (rank, size) = (self.meeting.rank(), self.meeting.size());
        let pieces = (0..size).map(|to| bytes(&values[share(values.len(), size, to)])).collect();
        let own = share(values.len(), size, rank).len();
        let parts = self.swap(what, Parcel::ForEach(pieces), &vec![own; size])?;
        let factor = if how == Reduce::Mean { 1.0 / size as f64 } else { 1.0 };
        // In float64 and in the order of the ranks.
        let sum = |i: usize| T::of(factor * parts.iter().map(|part: &Vec<T>| part[i].wide()).sum::<f64>());
        Some((0..own).map(sum).collect())
    }
}

impl<T: Real> Communicator<T> for Host {
    fn rank(&self) -> usize {
        self.meeting.rank()
    }

    fn size(&self) -> usize {
        self.meeting.size()
    }

    fn all_reduce(&mut self, device: &mut dyn Device<T>, slot: Slot, how: Reduce) {
        let size = self.meeting.size();
        if size == 1 {
            return;
        }
        // Each rank adds up its share, then all get all shares.
        let what = format!("all_reduce of {} numbers", slot.len());
        let Some(own) = self.reduced(&what, &read(device, slot), how) else { return };
        let lengths: Vec<usize> = (0..size).map(|rank| share(slot.len(), size, rank).len()).collect();
        if let Some(parts) = self.swap(&what, Parcel::ForAll(bytes(&own)), &lengths) {
            device.upload(slot, &parts.concat());
        }
    }

    fn reduce_scatter(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot, how: Reduce) {
        assert_eq!(from.len(), to.len() * self.meeting.size(), "a part for each rank");
        let what = format!("reduce_scatter of {} numbers", from.len());
        if let Some(own) = self.reduced(&what, &read(device, from), how) {
            device.upload(to, &own);
        }
    }

    fn all_gather(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        assert_eq!(to.len(), from.len() * self.meeting.size(), "a part for each rank");
        let what = format!("all_gather of {} numbers", to.len());
        let parcel = Parcel::ForAll(bytes(&read(device, from)));
        if let Some(parts) = self.swap(&what, parcel, &vec![from.len(); self.meeting.size()]) {
            device.upload(to, &parts.concat());
        }
    }

    fn all_to_all(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        let size = self.meeting.size();
        assert!(from.len() == to.len() && from.len().is_multiple_of(size), "a part for each rank");
        let what = format!("all_to_all of {} numbers", from.len());
        let values = read(device, from);
        let each = from.len() / size;
        let pieces = (0..size).map(|rank| bytes(&values[rank * each..][..each])).collect();
        if let Some(parts) = self.swap(&what, Parcel::ForEach(pieces), &vec![each; size]) {
            device.upload(to, &parts.concat());
        }
    }

    fn broadcast(&mut self, device: &mut dyn Device<T>, slot: Slot, root: usize) {
        let (rank, size) = (self.meeting.rank(), self.meeting.size());
        let what = format!("broadcast of {} numbers from rank {root}", slot.len());
        let own = if rank == root { read(device, slot) } else { Vec::new() };
        let lengths: Vec<usize> = (0..size).map(|from| if from == root { slot.len() } else { 0 }).collect();
        if let Some(parts) = self.swap(&what, Parcel::ForAll(bytes(&own)), &lengths) {
            device.upload(slot, &parts[root]);
        }
    }

    fn exchange(&mut self, device: &mut dyn Device<T>, sent: &[(usize, Slot)], received: &[(usize, Slot)]) {
        let ranks = 0..self.meeting.size();
        let of = |rank: usize| sent.iter().filter(move |(to, _)| *to == rank);
        let values = |rank| of(rank).flat_map(|&(_, slot)| read(&*device, slot)).collect::<Vec<T>>();
        let pieces = ranks.clone().map(|rank| bytes(&values(rank))).collect();
        let length =
            |rank| received.iter().filter(|(from, _)| *from == rank).map(|(_, slot)| slot.len()).sum();
        let lengths: Vec<usize> = ranks.map(length).collect();
        let Some(parts) = self.swap("exchange", Parcel::ForEach(pieces), &lengths) else { return };
        let mut given = vec![0; parts.len()];
        for &(from, slot) in received {
            device.upload(slot, &parts[from][given[from]..][..slot.len()]);
            given[from] += slot.len();
        }
    }

    /// Devices do nothing here that their hosts do not wait for.
    fn depend(&mut self) {}

    fn total(&mut self, values: &mut [f64]) -> Result<()> {
        let what = format!("total of {} numbers", values.len());
        let parts = self.meeting.exchange(&what, Parcel::ForAll(bytes(values)))?;
        values.fill(0.0);
        for part in &parts {
            values.iter_mut().zip(numbers::<f64>(part)).for_each(|(sum, value)| *sum += value);
        }
        Ok(())
    }

    fn tell(&mut self, words: &str) -> Result<Vec<String>> {
        let all = self.meeting.exchange("words", Parcel::ForAll(Arc::from(words.as_bytes())))?;
        Ok(all.iter().map(|words| String::from_utf8_lossy(words).into_owned()).collect())
    }

    fn barrier(&mut self) -> Result<()> {
        self.meeting.exchange("barrier", Parcel::ForAll(bytes::<f64>(&[]))).map(|_| ())
    }

    fn split(&mut self, _: &mut dyn Device<T>, colour: usize) -> Result<Box<dyn Communicator<T>>> {
        Ok(Box::new(Self { meeting: self.meeting.split(colour)? }))
    }

    fn fail(&mut self, error: &Error) {
        self.meeting.lifeline().fail(error);
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.meeting.exchange("close", Parcel::ForAll(bytes::<f64>(&[]))).map(|_| ())
    }
}

/// The numbers of which rank `rank` of `size` takes care: as many as any other, or one more.
fn share(len: usize, size: usize, rank: usize) -> Range<usize> {
    len * rank / size..len * (rank + 1) / size
}

fn read<T: Real>(device: &dyn Device<T>, slot: Slot) -> Vec<T> {
    let mut values = vec![T::default(); slot.len()];
    device.download(slot, &mut values);
    values
}

/// As they lie in memory: all ranks run on processors of one kind.
fn bytes<T: Real>(values: &[T]) -> Bytes {
    // SAFETY: a Real is a plain number without padding, and every byte of it may be read.
    Arc::from(unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) })
}

/// The inverse of [`bytes`].
fn numbers<T: Real>(bytes: &[u8]) -> Vec<T> {
    // SAFETY: as many bytes as a number has, which need not be aligned; every pattern of bits is a number.
    bytes.chunks_exact(size_of::<T>()).map(|b| unsafe { b.as_ptr().cast::<T>().read_unaligned() }).collect()
}
