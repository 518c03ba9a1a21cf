//! Launches whose arguments are checked against the kernel's own declaration.

use std::ffi::c_void;

use cudarc::driver::{CudaStream, result};

use super::super::{Real, Slot};
use super::Cuda;
use super::driver::Call;
use super::modules::Grid;
use super::sources::Parameter;
use crate::error::Result;

/// The most arguments of any kernel.
const MOST: usize = 40;

/// A launch whose arguments are being listed, in the order of the kernel's parameters.
pub struct Launch<'a, T: Real> {
    cuda: &'a Cuda<T>,
    kernel: &'static str,
    stream: &'a CudaStream,
    /// Each argument in a word of its own.
    words: [u64; MOST],
    kinds: [Parameter; MOST],
    count: usize,
}

impl<'a, T: Real> Launch<'a, T> {
    pub(super) fn new(cuda: &'a Cuda<T>, kernel: &'static str) -> Self {
        Self {
            cuda,
            kernel,
            stream: &cuda.gpu.stream,
            words: [0; MOST],
            kinds: [Parameter::Other; MOST],
            count: 0,
        }
    }

    /// On this stream instead of the main one.
    pub fn on(self, stream: &'a CudaStream) -> Self {
        Self { stream, ..self }
    }

    fn word(mut self, kind: Parameter, word: u64) -> Self {
        self.words[self.count] = word;
        self.kinds[self.count] = kind;
        self.count += 1;
        self
    }

    /// The address of a slot; null for an empty one.
    pub fn slot(self, slot: Slot) -> Self {
        if slot.is_empty() {
            return self.address(0);
        }
        let kind = if slot.is_activation() { Parameter::Acts } else { Parameter::Reals };
        let address = self.cuda.arena.address(slot);
        self.word(kind, address)
    }

    /// The address of a slot, or null.
    pub fn maybe(self, slot: Option<Slot>) -> Self {
        self.slot(slot.unwrap_or(Slot::EMPTY))
    }

    pub fn address(self, address: u64) -> Self {
        self.word(Parameter::Pointer, address)
    }

    /// `int` or `u32`: in the lower half of the word, which comes first, since every host of a GPU is little-endian.
    pub fn int(self, value: usize) -> Self {
        self.word(Parameter::Int, u64::from(value as u32))
    }

    /// `i64`
    pub fn long(self, value: usize) -> Self {
        self.word(Parameter::Long, value as u64)
    }

    /// `real`
    pub fn real(self, value: f64) -> Self {
        let bits = if size_of::<T>() == 4 { u64::from((value as f32).to_bits()) } else { value.to_bits() };
        self.word(Parameter::Real, bits)
    }

    /// `double`, whatever the device's numbers are.
    pub fn double(self, value: f64) -> Self {
        self.word(Parameter::Double, value.to_bits())
    }

    /// Puts the launch on the stream.
    ///
    /// Panics where the arguments are not those that the kernel declares: that is a mistake in the operation.
    pub fn run(self, grid: Grid) -> Result<()> {
        let kernel = self.cuda.modules.kernel(self.kernel)?;
        let (given, declared) = (&self.kinds[..self.count], &kernel.parameters);
        let narrow = self.cuda.numbers.is_narrow();
        assert!(
            given.len() == declared.len()
                && declared.iter().zip(given).all(|(declared, &given)| declared.takes(given, narrow)),
            "{} takes {declared:?}, not {given:?}",
            self.kernel
        );
        if grid.blocks.contains(&0) {
            return Ok(());
        }
        let mut pointers: [*mut c_void; MOST] = [std::ptr::null_mut(); MOST];
        for (pointer, word) in pointers.iter_mut().zip(&self.words) {
            *pointer = std::ptr::from_ref(word).cast_mut().cast();
        }
        let [x, y, z] = grid.blocks;
        // SAFETY: number and kinds of the arguments are the kernel's (checked), addresses are those of slots inside the
        // arena (checked) or of scratch memory; that the kernel stays within their lengths is what every operation
        // asserts about its shapes. The driver copies the arguments before it returns.
        unsafe {
            result::launch_kernel(
                kernel.function,
                (x, y, z),
                (grid.threads, 1, 1),
                grid.shared,
                self.stream.cu_stream(),
                &mut pointers[..self.count],
            )
        }
        .call("cuLaunchKernel")
        .map_err(|error| error.context(format!("the kernel {} on {:?} blocks", self.kernel, grid.blocks)))
    }
}
