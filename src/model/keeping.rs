//! What a network has of its learned arrays, and who keeps the rest.
//!
//! The arrays stand in *blocks*: one for each layer, and one for the head. Where there is no room for all of them, a
//! [`Keeper`] brings the weights of a block when they are needed, and takes the gradients of a block when they are made;
//! the network has room for those that it works with.

use crate::device::{ArenaPlan, Device, Real, Slot};

/// What a network has of its learned arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keeping {
    /// All of them.
    #[default]
    Whole,
    /// All of them. What is complete of the gradients is handed on one block after the other.
    InTurn,
    /// All weights, and the gradients of one block.
    Weights { pieces: usize },
    /// Weights and gradients of the blocks that it works with.
    Nothing { pieces: usize },
}

/// Pieces of blocks begin where arrays of a device like to begin.
const ALIGNMENT: usize = 64;

impl Keeping {
    /// Whether weights are brought.
    pub fn borrows(self) -> bool {
        matches!(self, Self::Nothing { .. })
    }

    /// Whether gradients are taken away.
    pub fn gives_away(self) -> bool {
        matches!(self, Self::Weights { .. } | Self::Nothing { .. })
    }

    /// Into how many pieces of equal length the room for a block can be cut.
    fn pieces(self) -> usize {
        match self {
            Self::Whole | Self::InTurn => 1,
            Self::Weights { pieces } | Self::Nothing { pieces } => pieces,
        }
    }

    /// Room for a block of `len` numbers.
    fn room(self, len: usize) -> usize {
        self.pieces() * piece(len, self.pieces())
    }
}

/// Length of each of so many equal pieces that a block of `len` numbers, and some room behind it, is cut into.
pub fn piece(len: usize, pieces: usize) -> usize {
    len.div_ceil(pieces).next_multiple_of(ALIGNMENT)
}

/// Somebody who keeps what a network has no room for, or only listens.
pub trait Keeper<T: Real> {
    /// Puts the weights of a block where they are read, in the first part of `to`; the rest does not matter.
    fn bring(&mut self, device: &mut dyn Device<T>, block: usize, to: Slot);
    /// Takes what was added to the gradients of a block, in the first part of `from`, whose rest is zero; nothing more is
    /// added where they are `complete`. A network that has all gradients says so once for each block, which stays.
    fn take(&mut self, device: &mut dyn Device<T>, block: usize, from: Slot, complete: bool);
}

/// Who keeps nothing, for a network that has all.
pub(super) struct Nobody;

impl<T: Real> Keeper<T> for Nobody {
    fn bring(&mut self, _: &mut dyn Device<T>, _: usize, _: Slot) {}
    fn take(&mut self, _: &mut dyn Device<T>, _: usize, _: Slot, _: bool) {}
}

/// Who only wants to know what is complete.
pub(super) struct Listener<'a, T: Real>(pub &'a mut dyn FnMut(&mut dyn Device<T>, Slot));

impl<T: Real> Keeper<T> for Listener<'_, T> {
    fn bring(&mut self, _: &mut dyn Device<T>, _: usize, _: Slot) {}

    fn take(&mut self, device: &mut dyn Device<T>, _: usize, from: Slot, _: bool) {
        (self.0)(device, from);
    }
}

/// A keeper, and what it has brought since a sequence began.
pub(super) struct Loan<'a, T: Real> {
    pub keeper: &'a mut dyn Keeper<T>,
    /// The block on each shelf, and the lane on which it is still being brought.
    held: [Option<usize>; SHELVES],
    coming: [Option<usize>; SHELVES],
}

impl<'a, T: Real> Loan<'a, T> {
    pub fn of(keeper: &'a mut dyn Keeper<T>) -> Self {
        Self { keeper, held: [None; SHELVES], coming: [None; SHELVES] }
    }
}

/// Two for layers, by turns, so that one can still be read while the next is brought, and one for the head.
const SHELVES: usize = 3;

/// Where the arrays of the blocks lie.
#[derive(Debug, Clone)]
pub(super) struct Blocks {
    keeping: Keeping,
    /// Numbers of each.
    lengths: Vec<usize>,
    /// All weights, or the shelves.
    pub weights: Slot,
    shelves: [Slot; SHELVES],
    /// All gradients; or only what every step adds to, biases and the like, of all blocks.
    pub gradients: Slot,
    /// For the gradients of one block.
    passage: Slot,
    /// What every step adds to, of each block: the last of its arrays.
    tails: Vec<Slot>,
}

impl Blocks {
    /// Plans room for blocks of `lengths`, of which the last `tails` numbers are added to by every step; `shelves` may be those
    /// of another network.
    pub fn plan(
        arena: &mut ArenaPlan,
        keeping: Keeping,
        lengths: Vec<usize>,
        tails: &[usize],
        gradients: bool,
        shelves: Option<[Slot; SHELVES]>,
    ) -> Self {
        let total: usize = lengths.iter().sum();
        let if_gradients = |len| if gradients { len } else { 0 };
        let head = lengths.len() - 1;
        let longest = |blocks: &mut dyn Iterator<Item = usize>| {
            blocks.map(|block| keeping.room(lengths[block])).max().unwrap_or(0)
        };
        let (weights, shelves) = if keeping.borrows() {
            let room = [
                longest(&mut (0..head).step_by(2)),
                longest(&mut (1..head).step_by(2)),
                longest(&mut (head..head + 1)),
            ];
            let shelves = shelves.unwrap_or_else(|| room.map(|len| arena.slot(len)));
            (shelves[0], shelves)
        } else {
            (arena.slot(total), [Slot::EMPTY; SHELVES])
        };
        let (all, passage) = if keeping.gives_away() {
            let all = arena.slot(if_gradients(tails.iter().sum()));
            (all, arena.slot(if_gradients(longest(&mut (0..=head)))))
        } else {
            (arena.slot(if_gradients(total)), Slot::EMPTY)
        };
        let mut start = 0;
        let tail = |&len: &usize| {
            start += len;
            all.part(if_gradients(start - len), if_gradients(len))
        };
        let tails = if keeping.gives_away() { tails.iter().map(tail).collect() } else { Vec::new() };
        Self { keeping, lengths, weights, shelves, gradients: all, passage, tails }
    }

    pub fn keeping(&self) -> Keeping {
        self.keeping
    }

    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    pub fn shelves(&self) -> Option<[Slot; SHELVES]> {
        self.keeping.borrows().then_some(self.shelves)
    }

    /// Where all of the blocks before this one end.
    pub fn start(&self, block: usize) -> usize {
        self.lengths[..block].iter().sum()
    }

    fn shelf(&self, block: usize) -> usize {
        if block + 1 == self.lengths.len() { 2 } else { block % 2 }
    }

    /// Where numbers `start..start + len` of a block's weights are read.
    pub fn weights_at(&self, block: usize, start: usize, len: usize) -> Slot {
        match self.keeping.borrows() {
            true => self.shelves[self.shelf(block)].part(start, len),
            false => self.weights.part(self.start(block) + start, len),
        }
    }

    /// Where the gradients of the same numbers are added up.
    pub fn gradients_at(&self, block: usize, start: usize, len: usize) -> Slot {
        if self.gradients.is_empty() && self.passage.is_empty() {
            return Slot::EMPTY;
        }
        let Some(tail) = self.tails.get(block) else {
            return self.gradients.part(self.start(block) + start, len);
        };
        match start.checked_sub(self.lengths[block] - tail.len()) {
            Some(start) => tail.part(start, len),
            None => self.passage.part(start, len),
        }
    }

    /// All gradients of a block that has its own.
    fn own_gradients(&self, block: usize) -> Slot {
        self.gradients.part(self.start(block), self.lengths[block])
    }

    pub fn room_between_updates(&self, block: usize) -> Slot {
        if self.tails.is_empty() {
            self.own_gradients(block)
        } else {
            self.passage.part(0, self.lengths[block])
        }
    }

    /// Sees to it that a block's weights can be read from here on, while those of the `next` one, which stands on another shelf,
    /// are being brought.
    pub fn need<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        loan: &mut Loan<'_, T>,
        block: usize,
        next: Option<usize>,
    ) {
        if !self.keeping.borrows() {
            return;
        }
        let shelf = self.shelf(block);
        if let Some(lane) = loan.coming[shelf].take() {
            device.join(lane);
        }
        if loan.held[shelf] != Some(block) {
            // What reads the block before at the side has to end.
            if let Some(before) = loan.held[shelf].replace(block) {
                device.join(before);
            }
            loan.keeper.bring(device, block, self.place_of(block));
        }
        let Some(next) = next.filter(|&next| self.shelf(next) != shelf) else { return };
        let other = self.shelf(next);
        if loan.held[other] != Some(next) {
            if let Some(lane) = loan.coming[other].take() {
                device.join(lane);
            }
            // Behind what reads the block before on its lane.
            let lane = loan.held[other].replace(next).unwrap_or(next);
            loan.coming[other] = Some(lane);
            device.aside(lane, &mut |device| loan.keeper.bring(device, next, self.place_of(next)));
        }
    }

    /// The part of its shelf that a block takes.
    fn place_of(&self, block: usize) -> Slot {
        self.shelves[self.shelf(block)].part(0, self.keeping.room(self.lengths[block]))
    }

    /// Lets `make` add to a block's gradients, and hands them on.
    pub fn hand_on<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        loan: &mut Loan<'_, T>,
        block: usize,
        complete: bool,
        make: impl FnOnce(&mut dyn Device<T>),
    ) {
        let Some(&tail) = self.tails.get(block) else {
            make(device);
            if complete {
                loan.keeper.take(device, block, self.own_gradients(block), true);
            }
            return;
        };
        let room = self.passage.part(0, self.keeping.room(self.lengths[block]));
        device.zero(room);
        make(device);
        if complete && !tail.is_empty() {
            device.copy(tail, room.part(self.lengths[block] - tail.len(), tail.len()));
            // What was taken is not handed on once more after the next pass.
            device.zero(tail);
        }
        loan.keeper.take(device, block, room, complete);
    }
}
