//! The arena on the GPU, and scratch memory of operations.

use super::super::{ArenaParts, Slot};
use super::driver::{Gpu, Memory};
use crate::error::Result;

/// All arrays of one device: those that are kept as they are, then the activations.
#[derive(Default)]
pub struct Arena {
    memory: Option<Memory>,
    parts: ArenaParts,
    /// Bytes of one number of each kind.
    sizes: [usize; 2],
}

impl Arena {
    /// Zeros; `sizes` are the bytes of one number that is kept as it is, and of an activation.
    pub fn zeroed(gpu: &Gpu, parts: ArenaParts, sizes: [usize; 2]) -> Result<Self> {
        Ok(Self { memory: Some(Memory::zeroed(gpu, Self::bytes(parts, sizes))?), parts, sizes })
    }

    /// Of the whole arena.
    pub fn bytes(parts: ArenaParts, [exact, activation]: [usize; 2]) -> usize {
        parts.exact * exact + parts.activations * activation
    }

    /// Bytes that it has.
    pub fn held(&self) -> usize {
        self.memory.as_ref().map_or(0, Memory::bytes)
    }

    /// Of one number of a slot.
    pub fn size_of(&self, slot: Slot) -> usize {
        self.sizes[usize::from(slot.is_activation())]
    }

    /// Where a slot begins.
    ///
    /// Panics where the slot lies outside: that is a mistake in the plan, not in the data.
    pub fn address(&self, slot: Slot) -> u64 {
        let start = self.memory.as_ref().map_or(0, Memory::start);
        let place = self.parts.place(slot);
        // Activations come behind all others.
        let bytes = if slot.is_activation() {
            self.parts.exact * self.sizes[0] + (place - self.parts.exact) * self.sizes[1]
        } else {
            place * self.sizes[0]
        };
        start + bytes as u64
    }
}

/// Panics where a slot that is written overlaps any other: that is a mistake in the plan, not in the data.
pub fn check_disjoint(reads: &[Slot], writes: &[Slot]) {
    for (i, &write) in writes.iter().enumerate() {
        for &read in reads {
            assert!(!write.overlaps(read), "output {write:?} overlaps input {read:?}");
        }
        for &other in &writes[..i] {
            assert!(!write.overlaps(other), "output {write:?} overlaps output {other:?}");
        }
    }
}

/// Memory whose content lasts for one operation: grows to the largest of them. What it outgrew stays, because operations
/// under way and graphs may hold its address.
#[derive(Default)]
pub struct Scratch {
    pieces: Vec<Memory>,
}

impl Scratch {
    /// The address of `bytes` bytes.
    pub fn bytes(&mut self, gpu: &Gpu, bytes: usize) -> Result<u64> {
        match self.pieces.last() {
            Some(piece) if piece.bytes() >= bytes => Ok(piece.start()),
            _ => {
                let piece = Memory::zeroed(gpu, bytes.next_multiple_of(1 << 20))?;
                let start = piece.start();
                self.pieces.push(piece);
                Ok(start)
            }
        }
    }

    /// Gives back what was outgrown: between operations, while there are no graphs.
    pub fn shrink(&mut self) {
        let outgrown = self.pieces.len().saturating_sub(1);
        self.pieces.drain(..outgrown);
    }
}
