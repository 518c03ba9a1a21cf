//! Convolutions of one tap from activations to few numbers that are kept as they are: a network's head.

use super::super::{Convolution, Real, Write};
use super::Cuda;
use super::modules::Grid;
use super::sums;
use crate::error::Result;

/// Outputs, and points, that a thread makes at once.
const FEW: usize = 4;

/// Inputs of a vector.
const VECTOR: usize = 8;

/// Points that a block of the weight gradient goes through at least, and the most blocks.
const SHARE: usize = 64;
const MOST_SHARES: usize = 528;

/// Shared memory that every kernel may have [bytes].
const SHARED: usize = 48 << 10;

/// Whether these kernels can do a convolution, whose y is kept as it is.
pub(super) fn suits<T: Real>(s: &Convolution) -> bool {
    s.kernel == 1 && s.inputs.is_multiple_of(VECTOR) && shared::<T>(s) <= SHARED
}

/// Addresses of x, w and y.
pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    [x, w, y]: [u64; 3],
    write: Write,
) -> Result<()> {
    let launch = cuda.kernel("head_forward").address(x).address(w).address(y).int(s.inputs).int(s.outputs);
    let launch = launch.int(usize::from(write == Write::Add)).int(whole(s)).long(points(s));
    let n = points(s).div_ceil(FEW) * s.outputs.div_ceil(FEW);
    launch.run(Grid::over(n).shared(shared::<T>(s)))
}

/// Addresses of dx, w and dy.
pub(super) fn input_gradient<T: Real>(cuda: &Cuda<T>, s: &Convolution, [dx, w, dy]: [u64; 3]) -> Result<()> {
    let launch = cuda.kernel("head_input_gradient").address(dy).address(w).address(dx);
    let launch = launch.int(s.inputs).int(s.outputs).int(whole(s)).long(points(s));
    let n = points(s).div_ceil(FEW) * (s.inputs / VECTOR);
    launch.run(Grid::over(n).shared(shared::<T>(s)))
}

/// Addresses of x, of dw, to which is added, and of dy.
pub(super) fn weight_gradient<T: Real>(cuda: &Cuda<T>, s: &Convolution, [x, dw, dy]: [u64; 3]) -> Result<()> {
    let all_tiles = (s.inputs / VECTOR) * s.outputs.div_ceil(FEW);
    let tiles = all_tiles.min(Grid::THREADS);
    let (shares, share) = sums::shares(points(s), MOST_SHARES, SHARE);
    let parts = cuda.scratch(shares * s.w_len() * size_of::<T>())?;
    let launch = cuda.kernel("head_weight_gradient").address(x).address(dy).address(parts);
    let launch = launch.int(s.inputs).int(s.outputs).int(whole(s)).int(tiles).long(points(s)).long(share);
    let threads = (tiles * (Grid::THREADS / tiles)) as u32;
    launch.run(Grid { threads, ..Grid::blocks(shares).times(all_tiles.div_ceil(tiles)) })?;
    sums::add_shares_at(cuda, parts, dw, s.w_len(), s.w_len(), shares)
}

/// Bytes of the weights in shared memory.
fn shared<T: Real>(s: &Convolution) -> usize {
    s.inputs * s.outputs.next_multiple_of(FEW) * size_of::<T>()
}

fn points(s: &Convolution) -> usize {
    s.images * s.rows * s.columns
}

/// Whether all outputs are made in whole vectors.
fn whole(s: &Convolution) -> usize {
    usize::from(s.outputs.is_multiple_of(FEW))
}
