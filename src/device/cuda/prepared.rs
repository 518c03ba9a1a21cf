//! Weights as a library reads them: turned, in the precision of activations, made once and kept until they change.

use super::super::{Convolution, Real, Slot};
use super::Cuda;
use super::driver::Memory;
use super::modules::Grid;
use crate::error::Result;

/// Side of the tiles of `kernels/weights.cu`.
const TILE: usize = 32;

/// All copies of one device.
#[derive(Default)]
pub struct Prepared {
    copies: Vec<Copy>,
}

struct Copy {
    weights: Slot,
    shape: Turned,
    memory: Memory,
    is_stale: bool,
}

/// Weights `[output, tap, input]`, with as many inputs as the library wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turned {
    taps: usize,
    inputs: usize,
    padded: usize,
    outputs: usize,
}

impl Turned {
    /// Of a convolution that the library does with `padded` inputs.
    pub fn new(s: &Convolution, padded: usize) -> Self {
        Self { taps: s.kernel * s.kernel, inputs: s.inputs, padded, outputs: s.outputs }
    }

    pub fn len(&self) -> usize {
        self.taps * self.padded * self.outputs
    }
}

/// The address of turned weights.
pub fn get<T: Real>(cuda: &Cuda<T>, weights: Slot, shape: Turned) -> Result<u64> {
    let mut prepared = cuda.prepared.borrow_mut();
    let known = prepared.copies.iter().position(|copy| copy.weights == weights && copy.shape == shape);
    let index = match known {
        Some(index) => index,
        None => {
            let memory = Memory::zeroed(&cuda.gpu, shape.len() * cuda.sizes()[1])?;
            prepared.copies.push(Copy { weights, shape, memory, is_stale: true });
            prepared.copies.len() - 1
        }
    };
    prepared.copies[index].make(cuda)?;
    Ok(prepared.copies[index].memory.start())
}

/// Makes all copies whose weights have changed: before a graph is captured or replayed, which reads the copies alone.
pub fn refresh<T: Real>(cuda: &Cuda<T>) -> Result<()> {
    cuda.prepared.borrow_mut().copies.iter_mut().try_for_each(|copy| copy.make(cuda))
}

impl Prepared {
    /// Whatever `written` held has changed.
    pub fn touch(&mut self, written: Slot) {
        for copy in self.copies.iter_mut().filter(|copy| copy.weights.overlaps(written)) {
            copy.is_stale = true;
        }
    }
}

impl Copy {
    fn make<T: Real>(&mut self, cuda: &Cuda<T>) -> Result<()> {
        if self.is_stale {
            turn(cuda, cuda.arena.address(self.weights), self.memory.start(), self.shape)?;
            self.is_stale = false;
        }
        Ok(())
    }
}

/// From the order of parameters to that of a library.
pub fn turn<T: Real>(cuda: &Cuda<T>, weights: u64, turned: u64, shape: Turned) -> Result<()> {
    let Turned { taps, inputs, padded, outputs } = shape;
    let launch = cuda.kernel("weights_to_library").address(weights).address(turned);
    launch.int(taps).int(inputs).int(padded).int(outputs).run(tiles(shape))
}

/// Back, added.
pub fn add_turned<T: Real>(cuda: &Cuda<T>, turned: u64, weights: u64, shape: Turned) -> Result<()> {
    let Turned { taps, inputs, padded, outputs } = shape;
    let launch = cuda.kernel("weights_from_library").address(turned).address(weights);
    launch.int(taps).int(inputs).int(padded).int(outputs).run(tiles(shape))
}

fn tiles(Turned { taps, inputs, outputs, .. }: Turned) -> Grid {
    let blocks = [outputs.div_ceil(TILE) as u32, inputs.div_ceil(TILE) as u32, taps as u32];
    Grid { blocks, ..Grid::blocks(1) }
}
