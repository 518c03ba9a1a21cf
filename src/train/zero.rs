//! Learned numbers that ranks share among themselves (ZeRO; Rajbhandari et al. 2020, doi:10.1109/SC41405.2020.00024): of every
//! block each rank has a piece.

use std::ops::Range;

use crate::comm::Communicator;
use crate::device::{ArenaPlan, Device, Real, Slot};
use crate::model::{Keeper, Keeping, Units, piece};
use crate::preprocess::Share;
use crate::train::wire::{Line, Wire};

/// What each rank has only its pieces of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Shared {
    /// Nothing.
    #[default]
    Nothing,
    /// The optimiser's moments, and the update: stage 1.
    Moments,
    /// And the gradients: stage 2.
    Gradients,
    /// And the weights, and their average: stage 3.
    Weights,
}

/// How one rank shares with those that hold the same weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sharding {
    pub share: Share,
    /// Which units of all layers these weights are about.
    pub units: Units,
    pub shared: Shared,
    pub wire: Wire,
    pub bucket_bytes: usize,
    /// Whether the moments are kept by the host.
    pub offload: bool,
}

impl Sharding {
    /// Of a rank by itself.
    pub const ALONE: Self = Self {
        share: Share::ALL,
        units: Units::ALL,
        shared: Shared::Nothing,
        wire: Wire::Exact,
        bucket_bytes: 1,
        offload: false,
    };

    /// What a network has of its learned arrays while it trains.
    pub fn keeping(&self) -> Keeping {
        let pieces = self.share.of;
        match self.shared {
            Shared::Weights => Keeping::Nothing { pieces },
            Shared::Gradients => Keeping::Weights { pieces },
            _ if self.wire != Wire::Exact => Keeping::InTurn,
            _ => Keeping::Whole,
        }
    }

    /// The same of the averaged network.
    pub fn keeping_of_average(&self) -> Keeping {
        if self.shared == Shared::Weights { self.keeping() } else { Keeping::Whole }
    }

    /// Which weights it updates.
    pub fn shard(&self) -> Share {
        if self.shared >= Shared::Moments { self.share } else { Share::ALL }
    }

    /// The wire that it needs.
    pub(super) fn line<T: Real>(&self, arena: &mut ArenaPlan, cut: &Cut) -> Line {
        let pieces_only = self.shared >= Shared::Gradients;
        let rooms: Vec<usize> =
            (0..cut.lengths.len()).map(|b| if pieces_only { cut.room(b) } else { cut.lengths[b] }).collect();
        let bucket = self.bucket_bytes / size_of::<T>();
        Line::plan::<T>(arena, self.wire, self.share.of, &rooms, bucket, pieces_only)
    }
}

/// Blocks, and which piece of each is this rank's.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
    lengths: Vec<usize>,
    share: Share,
}

impl Cut {
    pub fn new(lengths: &[usize], share: Share) -> Self {
        Self { lengths: lengths.to_vec(), share }
    }

    pub fn blocks(&self) -> Range<usize> {
        0..self.lengths.len()
    }

    pub fn ranks(&self) -> usize {
        self.share.of
    }

    /// Where a block begins among all.
    pub fn start(&self, block: usize) -> usize {
        self.lengths[..block].iter().sum()
    }

    pub fn length(&self, block: usize) -> usize {
        self.lengths[block]
    }

    /// Of every rank's piece.
    fn piece(&self, block: usize) -> usize {
        piece(self.lengths[block], self.share.of)
    }

    /// Of all pieces together.
    pub fn room(&self, block: usize) -> usize {
        self.share.of * self.piece(block)
    }

    /// Where the blocks before this one end where each has room for all pieces.
    fn start_of_room(&self, block: usize) -> usize {
        (0..block).map(|b| self.room(b)).sum()
    }

    /// Which numbers of a block are a rank's: the last ones may have fewer than others, or none.
    pub fn of_rank(&self, block: usize, rank: usize) -> Range<usize> {
        let (piece, len) = (self.piece(block), self.lengths[block]);
        (rank * piece).min(len)..((rank + 1) * piece).min(len)
    }

    pub fn own(&self, block: usize) -> Range<usize> {
        self.of_rank(block, self.share.number)
    }

    /// Room for the pieces of one rank.
    pub fn pieces(&self) -> usize {
        self.blocks().map(|block| self.piece(block)).sum()
    }

    /// Where one rank's piece of a block begins among its pieces.
    pub fn start_of_piece(&self, block: usize) -> usize {
        (0..block).map(|b| self.piece(b)).sum()
    }
}

/// An array laid out as the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kept {
    /// All of it.
    Whole(Slot),
    /// This rank's pieces.
    Pieces(Slot),
}

impl Kept {
    pub fn slot(self) -> Slot {
        match self {
            Self::Whole(slot) | Self::Pieces(slot) => slot,
        }
    }

    /// Numbers of a block that are here.
    pub fn here(self, cut: &Cut, block: usize) -> Range<usize> {
        match self {
            Self::Whole(_) => 0..cut.length(block),
            Self::Pieces(_) => cut.own(block),
        }
    }

    /// Where some of a block's numbers that are here stand.
    pub fn at(self, cut: &Cut, block: usize, range: Range<usize>) -> Slot {
        match self {
            Self::Whole(slot) => slot.part(cut.start(block) + range.start, range.len()),
            Self::Pieces(slot) => {
                let within = range.start - cut.own(block).start;
                slot.part(cut.start_of_piece(block) + within, range.len())
            }
        }
    }

    /// The whole piece of a block, with its room.
    fn piece(self, cut: &Cut, block: usize) -> Slot {
        self.slot().part(cut.start_of_piece(block), cut.piece(block))
    }
}

/// Brings weights of blocks from the ranks that have their pieces, and takes gradients to them.
pub(super) struct Exchange<'a, T: Real> {
    pub cut: &'a Cut,
    pub line: &'a Line,
    pub ranks: &'a mut dyn Communicator<T>,
    /// What is brought.
    pub weights: Kept,
    /// Where gradients are added up.
    pub gradients: Kept,
}

impl<T: Real> Keeper<T> for Exchange<'_, T> {
    fn bring(&mut self, device: &mut dyn Device<T>, block: usize, to: Slot) {
        self.ranks.all_gather(device, self.weights.piece(self.cut, block), to);
    }

    fn take(&mut self, device: &mut dyn Device<T>, block: usize, from: Slot, _: bool) {
        match self.gradients {
            Kept::Whole(_) => self.line.add_up(device, self.ranks, from, self.cut.start(block)),
            Kept::Pieces(_) => {
                let piece = self.gradients.piece(self.cut, block);
                let start = self.cut.start_of_room(block);
                self.line.add_piece(device, self.ranks, from, start, piece);
            }
        }
    }
}

/// Gives all ranks what each has of some blocks, in `place(block)`, as long as the block.
pub(super) fn spread<T: Real>(
    cut: &Cut,
    ranks: &mut dyn Communicator<T>,
    device: &mut dyn Device<T>,
    blocks: Range<usize>,
    place: impl Fn(usize) -> Slot,
) {
    let own = ranks.rank();
    let piece_of = |block: usize, rank: usize| {
        let range = cut.of_rank(block, rank);
        place(block).part(range.start, range.len())
    };
    let others = || (0..cut.ranks()).filter(|&rank| rank != own);
    let pairs = |of: &dyn Fn(usize, usize) -> Slot| -> Vec<(usize, Slot)> {
        let all = others().flat_map(|rank| blocks.clone().map(move |block| (rank, block)));
        all.map(|(rank, block)| (rank, of(block, rank))).filter(|(_, slot)| !slot.is_empty()).collect()
    };
    let sent = pairs(&|block, _| piece_of(block, own));
    let received = pairs(&|block, rank| piece_of(block, rank));
    ranks.exchange(device, &sent, &received);
}

#[cfg(test)]
pub(super) mod tests;
