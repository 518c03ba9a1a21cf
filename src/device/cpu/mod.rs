//! The CPU as a device: one arena, one thread pool, the fastest instructions that this machine has.
//!
//! Every operation splits its work the same way whatever the number of threads, so that results are equal bit for bit
//! with one thread or many.

mod convolution;
mod halo;
mod instructions;
mod naive;
mod storage;
mod threads;

pub use instructions::Instructions;

use super::{ArenaPlan, Convolution, Device, HaloMap, Real, Slot, Write};
use crate::error::Result;
use storage::Arena;
use threads::Threads;

/// A processor and its arena.
pub struct Cpu<T: Real> {
    arena: Arena<T>,
    threads: Threads,
    instructions: Instructions,
}

impl<T: Real> Cpu<T> {
    /// The fastest instructions of this machine on `threads` threads, or on all cores.
    pub fn new(threads: Option<usize>) -> Result<Self> {
        Self::with_instructions(threads, Instructions::best())
    }

    /// As [`new`](Self::new), but restricted to `instructions`: to compare the paths with each other.
    pub fn with_instructions(threads: Option<usize>, instructions: Instructions) -> Result<Self> {
        instructions.check()?;
        Ok(Self { arena: Arena::default(), threads: Threads::new(threads)?, instructions })
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
        let ([x, w], [y]) = self.arena.views([x, w], [y]);
        convolution::forward(&self.threads, self.instructions, shape, x, w, y, write);
    }

    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, w: Slot, dx: Slot) {
        let ([dy, w], [dx]) = self.arena.views([dy, w], [dx]);
        convolution::input_gradient(&self.threads, self.instructions, shape, dy, w, dx);
    }

    fn convolve_weight_gradient(&mut self, shape: &Convolution, x: Slot, dy: Slot, dw: Slot) {
        let ([x, dy], [dw]) = self.arena.views([x, dy], [dw]);
        convolution::weight_gradient(&self.threads, self.instructions, shape, x, dy, dw);
    }
}
