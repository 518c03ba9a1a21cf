//! Convolutions of whole numbers, and rounding that stands in for them.

use std::sync::Arc;

use super::super::int8::Weights;
use super::super::{Convolution, Counting, Int8Kernel, Real, Slot, Write};
use super::Cuda;
use super::driver::{Gpu, Memory};
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// Points and outputs of a block.
const TILE: usize = 64;

/// Inputs stand in multiples of so many, which one instruction multiplies.
const INPUTS: usize = 32;

/// Threads of a block of the convolution.
const THREADS: u32 = 128;

/// Kernels that have been met, as they lie on the GPU.
#[derive(Default)]
pub(super) struct Kernels(Vec<Resident>);

struct Resident {
    kernel: Int8Kernel,
    /// `[output][tap][padded inputs]`
    numbers: Memory,
    /// `[output]`
    steps: Memory,
}

impl Kernels {
    /// Addresses of a kernel's numbers and steps. It is copied when it is first met.
    fn addresses(&mut self, gpu: &Gpu, kernel: &Int8Kernel) -> Result<[u64; 2]> {
        // The kept pointer keeps the kernel alive, so that no other has its address.
        let known = self.0.iter().position(|known| Arc::ptr_eq(&known.kernel.0, &kernel.0));
        let index = match known {
            Some(index) => index,
            None => {
                let steps: Vec<u8> = kernel.0.steps.iter().flat_map(|step| step.to_le_bytes()).collect();
                let numbers = Memory::holding(gpu, &turned(&kernel.0))?;
                let steps = Memory::holding(gpu, &steps)?;
                self.0.push(Resident { kernel: kernel.clone(), numbers, steps });
                self.0.len() - 1
            }
        };
        Ok([self.0[index].numbers.start(), self.0[index].steps.start()])
    }
}

fn turned(weights: &Weights) -> Vec<u8> {
    let &Weights { kernel, inputs, outputs, ref numbers, .. } = weights;
    let (taps, padded) = (kernel * kernel, inputs.next_multiple_of(INPUTS));
    let mut turned = vec![0; outputs * taps * padded];
    for (index, &number) in numbers.iter().enumerate() {
        let (output, input, tap) = (index % outputs, index / outputs % inputs, index / outputs / inputs);
        turned[(output * taps + tap) * padded + input] = number as u8;
    }
    turned
}

/// `y (+)= step steps[k] sum q(x) w`.
pub(super) fn convolve<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    x: Slot,
    kernel: &Int8Kernel,
    step: f32,
    y: Slot,
    write: Write,
) -> Result<()> {
    let weights = &*kernel.0;
    assert!((weights.kernel, weights.inputs, weights.outputs) == (s.kernel, s.inputs, s.outputs), "{s:?}");
    assert!(x.len() == s.x_len() && y.len() == s.y_len() && s.y_len() > 0, "slots of {s:?}");
    check_disjoint(&[x], &[y]);
    let padded = s.inputs.next_multiple_of(INPUTS);
    let counted = cuda.scratch(s.x_len() / s.inputs * padded)?;
    let n = s.x_len() / s.inputs * padded / 4;
    let step = f64::from(step);
    let launch = cuda.kernel("count").slot(x).address(counted).int(s.inputs).int(padded);
    launch.real(step).long(n).run(Grid::over(n))?;
    let [numbers, steps] = cuda.int8.borrow_mut().addresses(&cuda.gpu, kernel)?;
    let name = if y.is_activation() { "convolve_int8" } else { "convolve_int8_to_real" };
    let points = s.images * s.rows * s.columns;
    let launch = cuda.kernel(name).address(counted).address(numbers).address(steps).slot(y);
    let launch = launch.int(s.rows).int(s.columns).int(padded).int(s.outputs).int(s.kernel);
    let grid = Grid::blocks(points.div_ceil(TILE)).times(s.outputs.div_ceil(TILE));
    launch
        .real(step)
        .int(usize::from(write == Write::Add))
        .long(points)
        .run(Grid { threads: THREADS, ..grid })
}

pub(super) fn round<T: Real>(cuda: &Cuda<T>, counting: Counting, x: Slot) -> Result<()> {
    let Counting { step, most } = counting;
    let n = x.len();
    let launch = cuda.kernel("round_steps").slot(x).real(step.into());
    launch.real(f64::from(-most - 1.0)).real(most.into()).long(n).run(Grid::over(n))
}

pub(super) fn round_adjoint<T: Real>(cuda: &Cuda<T>, counting: Counting, x: Slot, dx: Slot) -> Result<()> {
    let Counting { step, most } = counting;
    let n = x.len();
    assert_eq!(n, dx.len(), "a gradient is as long as what it is of");
    check_disjoint(&[x], &[dx]);
    let launch = cuda.kernel("round_steps_adjoint").slot(x).slot(dx).real(step.into());
    launch.real(f64::from(-most - 1.0)).real(most.into()).long(n).run(Grid::over(n))
}

pub(super) fn round_columns<T: Real>(
    cuda: &Cuda<T>,
    outputs: usize,
    most: f32,
    w: Slot,
    rounded: Slot,
) -> Result<()> {
    assert!(w.len() == rounded.len() && w.len().is_multiple_of(outputs), "whole rows of {outputs}");
    check_disjoint(&[w], &[rounded]);
    let launch = cuda.kernel("round_columns").slot(w).slot(rounded).int(w.len() / outputs).int(outputs);
    launch.real(most.into()).run(Grid::blocks(outputs.div_ceil(32)))
}
