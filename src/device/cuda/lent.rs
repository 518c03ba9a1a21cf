//! The device lent to somebody else, who puts work of its own on the stream: a library that exchanges memory between GPUs.

use std::ffi::c_void;

use super::super::{Real, Slot};
use super::compile::Numbers;
use super::{Cuda, Stream};
use crate::error::Result;

/// A GPU and what lies in its slots, for as long as one piece of work is put on its stream.
pub struct Lent<'a, T: Real>(&'a Cuda<T>);

impl<T: Real> Lent<'_, T> {
    /// Where work goes now; it may be recorded instead of done.
    pub fn stream(&self) -> Stream {
        self.0.gpu.stream.cu_stream().cast()
    }

    /// Where a slot begins.
    pub fn address(&self, slot: Slot) -> *mut c_void {
        self.0.arena.address(slot) as *mut c_void
    }

    /// What the numbers of a slot are.
    pub fn numbers(&self, slot: Slot) -> Numbers {
        match self.0.numbers {
            Numbers::Bf16 | Numbers::Fp16 if !slot.is_activation() => Numbers::Single,
            numbers => numbers,
        }
    }
}

impl<T: Real> Cuda<T> {
    /// Lets `work` put something on the stream that reads slots and writes those of `written`. As with operations, a failure
    /// is told by [`finish`](super::super::Device::finish).
    pub fn lend(&mut self, written: &[Slot], work: impl FnOnce(&Lent<'_, T>) -> Result<()>) {
        written.iter().for_each(|&slot| self.touch(slot));
        self.attempt(|cuda| work(&Lent(cuda)));
    }

    /// Makes the context that of this thread, for a library that expects one.
    pub fn bind(&self) -> Result<()> {
        self.gpu.bind()
    }
}
