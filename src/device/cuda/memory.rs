//! The arena on the GPU, and scratch memory of operations.

use super::super::{Real, Slot};
use super::driver::{Gpu, Memory};
use crate::error::Result;

/// All arrays of one device.
#[derive(Default)]
pub struct Arena {
    memory: Option<Memory>,
    elements: usize,
}

impl Arena {
    pub fn zeroed<T: Real>(gpu: &Gpu, elements: usize) -> Result<Self> {
        Ok(Self { memory: Some(Memory::zeroed(gpu, elements * size_of::<T>())?), elements })
    }

    /// Where a slot begins.
    ///
    /// Panics where the slot lies outside: that is a mistake in the plan, not in the data.
    pub fn address<T: Real>(&self, slot: Slot) -> u64 {
        assert!(
            slot.start() + slot.len() <= self.elements,
            "{slot:?} lies outside the arena of {} elements: was the device allocated from another plan?",
            self.elements
        );
        let start = self.memory.as_ref().map_or(0, Memory::start);
        start + (slot.start() * size_of::<T>()) as u64
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

/// Memory whose content lasts for one operation: grows to the largest of them. What it outgrew stays, because graphs may
/// hold its address.
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
                let piece = Memory::zeroed(gpu, bytes.next_power_of_two().max(1 << 20))?;
                let start = piece.start();
                self.pieces.push(piece);
                Ok(start)
            }
        }
    }
}
