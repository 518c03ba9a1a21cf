//! What gradients look like on their way from rank to rank, and how many bytes they are.

use std::cell::Cell;

use crate::comm::{Communicator, Reduce};
use crate::device::{ArenaPlan, Device, Picking, Real, Slot};
use crate::model::piece;

/// How gradients travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// As they are.
    #[default]
    Exact,
    /// Rounded to bfloat16, and so are their sums, which are taken in the full precision and in the order of the ranks.
    Bf16,
    /// Of every [`Picking::BLOCK`] neighbouring gradients only so many, those of largest size; what is left is added to the
    /// gradients of the next update (Stich et al. 2018, arXiv:1809.07599; Lin et al. 2018, arXiv:1712.01887).
    Largest { keep: usize },
}

impl Wire {
    /// Bytes that a rank sends to add up `len` gradients of `each` bytes with `ranks - 1` others, each of them getting the sum
    /// of all gradients, or of its piece of them.
    pub fn bytes(self, len: usize, each: usize, ranks: usize, pieces_only: bool) -> u64 {
        let others = ranks as u64 - 1;
        let piece = piece(len, ranks) as u64;
        let rounds = if pieces_only { 1 } else { 2 };
        match self {
            Self::Exact if pieces_only => others * piece * each as u64,
            // Around a ring, whatever the way.
            Self::Exact => 2 * others * (len * each) as u64 / ranks as u64,
            Self::Bf16 => rounds * others * piece * 2,
            Self::Largest { keep } => others * (2 * Picking::pairs(len, keep) * each) as u64,
        }
    }
}

/// The wire of a rank, with the room on its device that it takes.
pub(super) struct Line {
    wire: Wire,
    ranks: usize,
    /// At most so many gradients travel at once.
    bucket: usize,
    /// What goes out, and what comes in.
    out: Slot,
    incoming: Slot,
    /// A piece of a bucket.
    own: Slot,
    /// What was not sent yet, of all blocks.
    residual: Slot,
    /// Sent in the pass under way, and in the one before: a pass that is only replayed sends the same.
    sent: Cell<u64>,
    before: Cell<u64>,
}

impl Line {
    /// Plans the wire among `ranks`, who add up blocks of `rooms` numbers in buckets of at most `bucket` numbers, or whole
    /// blocks where each gets its piece only.
    pub fn plan<T: Real>(
        arena: &mut ArenaPlan,
        wire: Wire,
        ranks: usize,
        rooms: &[usize],
        bucket: usize,
        pieces_only: bool,
    ) -> Self {
        // A rank by itself sends nothing, and has nothing to compress.
        let wire = if ranks == 1 { Wire::Exact } else { wire };
        let longest = rooms.iter().copied().max().unwrap_or(0);
        let bucket = match wire {
            _ if pieces_only => longest,
            // Blocks of which the largest are picked are not cut.
            Wire::Largest { .. } => (bucket / Picking::BLOCK).max(1) * Picking::BLOCK,
            _ => bucket.min(longest),
        };
        let bucket = bucket.min(longest).max(1);
        let room = ranks * piece(bucket, ranks);
        let (out, incoming, own) = match wire {
            // Sums of pieces that are added to others.
            Wire::Exact => (0, 0, if pieces_only { room / ranks } else { 0 }),
            Wire::Bf16 => (room / in_one::<T>(), room / in_one::<T>(), room / ranks),
            Wire::Largest { keep } => {
                let pairs = 2 * Picking::pairs(bucket, keep);
                (pairs, ranks * pairs, 0)
            }
        };
        let residual = if matches!(wire, Wire::Largest { .. }) { rooms.iter().sum() } else { 0 };
        let [out, incoming, own, residual] = [out, incoming, own, residual].map(|len| arena.slot(len));
        let (sent, before) = (Cell::new(0), Cell::new(0));
        Self { wire, ranks, bucket, out, incoming, own, residual, sent, before }
    }

    /// What was not sent yet; empty where everything is.
    pub fn residual(&self) -> Slot {
        self.residual
    }

    /// Bytes that the last pass has sent.
    pub fn sent(&self) -> u64 {
        if self.sent.get() > 0 {
            self.before.set(self.sent.take());
        }
        self.before.get()
    }

    fn count<T: Real>(&self, len: usize, pieces_only: bool) {
        self.sent.set(self.sent.get() + self.wire.bytes(len, size_of::<T>(), self.ranks, pieces_only));
    }

    /// Replaces a block of the gradients, which begins at `start` among all, by its sum over all ranks.
    pub fn add_up<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        ranks: &mut dyn Communicator<T>,
        block: Slot,
        start: usize,
    ) {
        for first in (0..block.len()).step_by(self.bucket) {
            let len = self.bucket.min(block.len() - first);
            let bucket = block.part(first, len);
            self.count::<T>(len, false);
            match self.wire {
                Wire::Exact => ranks.all_reduce(device, bucket, Reduce::Sum),
                Wire::Bf16 => {
                    let (own, places) = self.scatter_packed(device, ranks, bucket);
                    let (packed, all) =
                        (self.out.part(0, places), self.incoming.part(0, self.ranks * places));
                    device.pack(own, packed);
                    ranks.all_gather(device, packed, all);
                    device.unpack(all, 1, bucket);
                }
                Wire::Largest { keep } => {
                    self.sum_of_largest(device, ranks, bucket, self.residual.part(start + first, len), keep);
                }
            }
        }
    }

    /// Adds this rank's piece of the sum of a block, which begins at `start` among all, to `piece`. The block is lost.
    pub fn add_piece<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        ranks: &mut dyn Communicator<T>,
        block: Slot,
        start: usize,
        piece: Slot,
    ) {
        self.count::<T>(block.len(), true);
        let own = match self.wire {
            Wire::Exact => {
                let own = self.own.part(0, piece.len());
                ranks.reduce_scatter(device, block, own, Reduce::Sum);
                own
            }
            Wire::Bf16 => self.scatter_packed(device, ranks, block).0,
            Wire::Largest { keep } => {
                let residual = self.residual.part(start, block.len());
                self.sum_of_largest(device, ranks, block, residual, keep);
                block.part(ranks.rank() * piece.len(), piece.len())
            }
        };
        add(device, own, piece);
    }

    /// This rank's piece of the sum of a bucket of packed numbers, and the numbers that it is packed in.
    fn scatter_packed<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        ranks: &mut dyn Communicator<T>,
        bucket: Slot,
    ) -> (Slot, usize) {
        let piece = piece(bucket.len(), self.ranks);
        let places = piece / in_one::<T>();
        let [out, incoming] = [self.out, self.incoming].map(|slot| slot.part(0, self.ranks * places));
        let own = self.own.part(0, piece);
        device.pack(bucket, out);
        ranks.all_to_all(device, out, incoming);
        device.unpack(incoming, self.ranks, own);
        (own, places)
    }

    fn sum_of_largest<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        ranks: &mut dyn Communicator<T>,
        bucket: Slot,
        residual: Slot,
        keep: usize,
    ) {
        let pairs = 2 * Picking::pairs(bucket.len(), keep);
        let (picked, all) = (self.out.part(0, pairs), self.incoming.part(0, self.ranks * pairs));
        device.pick(&Picking { x: bucket, residual, picked, keep });
        ranks.all_gather(device, picked, all);
        device.lay_out(all, keep, self.ranks, bucket);
    }
}

/// Numbers of 16 bits in the place of one.
const fn in_one<T>() -> usize {
    size_of::<T>() / 2
}

/// `to += x`
fn add<T: Real>(device: &mut dyn Device<T>, x: Slot, to: Slot) {
    use crate::device::{Image, Sum, Term};
    let terms = [Term::new(Image::plain(x), 1.0)];
    device.sum(&Sum { rows: 1, columns: to.len(), y: Image::plain(to), keep: 1.0, terms: &terms });
}

#[cfg(test)]
mod tests;
