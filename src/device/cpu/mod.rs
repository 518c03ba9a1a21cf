//! The CPU as a device: one arena, one thread pool, the fastest instructions that this machine has.
//!
//! Every operation splits its work the same way whatever the number of threads, so that results are equal bit for bit
//! with one thread or many.

mod convolution;
mod direct;
mod halo;
mod instructions;
mod naive;
mod prepared;
mod product;
mod simd;
mod storage;
mod threads;

pub use instructions::Instructions;

use super::{ArenaPlan, Convolution, Device, HaloMap, Real, Slot, Write};
use crate::error::Result;
use prepared::Prepared;
use storage::Arena;
use threads::Threads;

/// A processor and its arena.
pub struct Cpu<T: Real> {
    arena: Arena<T>,
    threads: Threads,
    instructions: Instructions,
    prepared: Prepared,
}

impl<T: Real> Cpu<T> {
    /// The fastest instructions of this machine on `threads` threads, or on all cores.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        Self::with_instructions(threads, Instructions::best())
    }

    /// As [`new`](Self::new), but restricted to `instructions`: to compare the paths with each other.
    pub fn with_instructions(threads: Option<usize>, instructions: Instructions) -> Result<Self> {
        instructions.check()?;
        let threads = Threads::new(threads)?;
        Ok(Self { arena: Arena::default(), threads, instructions, prepared: Prepared::default() })
    }

    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    pub fn instructions(&self) -> Instructions {
        self.instructions
    }
}

impl<T: Real> Device<T> for Cpu<T> {
    fn describe(&self) -> String {
        let count = self.threads.count();
        format!("cpu ({}, {count} thread{})", self.instructions, if count == 1 { "" } else { "s" })
    }

    fn allocate(&mut self, plan: &ArenaPlan) -> Result<()> {
        self.prepared.clear();
        self.arena = Arena::default();
        self.arena = Arena::zeroed(plan.elements())?;
        Ok(())
    }

    fn upload(&mut self, to: Slot, values: &[T]) {
        self.arena.write(to).copy_from_slice(values);
    }

    fn download(&self, from: Slot, values: &mut [T]) {
        values.copy_from_slice(self.arena.read(from));
    }

    fn zero(&mut self, slot: Slot) {
        self.arena.write(slot).fill(T::default());
    }

    fn copy(&mut self, from: Slot, to: Slot) {
        let ([from], [to]) = self.arena.views([from], [to]);
        to.copy_from_slice(from);
    }

    fn halo_fill(&mut self, map: &HaloMap, x: Slot) {
        halo::fill(&self.threads, map, self.arena.write(x));
    }

    fn halo_adjoint(&mut self, map: &HaloMap, dx: Slot) {
        halo::adjoint(&self.threads, map, self.arena.write(dx));
    }

    fn convolve(&mut self, shape: &Convolution, x: Slot, w: Slot, y: Slot, write: Write) {
        convolution::forward(self, shape, x, w, y, write);
    }

    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, w: Slot, dx: Slot) {
        convolution::input_gradient(self, shape, dy, w, dx);
    }

    fn convolve_weight_gradient(&mut self, shape: &Convolution, x: Slot, dy: Slot, dw: Slot) {
        convolution::weight_gradient(self, shape, x, dy, dw);
    }
}
