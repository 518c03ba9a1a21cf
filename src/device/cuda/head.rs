//! Convolutions of one tap from activations to few numbers that are kept as they are: a network's head.

use super::super::{Convolution, Real, Write};
use super::Cuda;
use super::modules::Grid;
use super::sums;
use crate::error::Result;

/// Outputs that a thread makes at once.
const FEW: usize = 8;

/// Inputs of a vector.
const VECTOR: usize = 8;

/// Points that a block of the weight gradient goes through at least, and the most blocks.
const SHARE: usize = 64;
const MOST_SHARES: usize = 528;

/// Shared memory that every kernel may have [bytes].
const SHARED: usize = 48 << 10;

/// Whether these kernels can do a convolution, whose y is kept as it is.
pub(super) fn suits<T: Real>(s: &Convolution) -> bool {
    s.kernel == 1
        && s.inputs.is_multiple_of(VECTOR)
        && s.inputs <= Grid::THREADS
        && s.inputs * s.outputs.max(FEW) * size_of::<T>() <= SHARED
}

/// Addresses of x, w and y.
pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    [x, w, y]: [u64; 3],
    write: Write,
) -> Result<()> {
    let points = s.images * s.rows * s.columns;
    let launch = cuda.kernel("head_forward").address(x).address(w).address(y).int(s.inputs).int(s.outputs);
    let launch = launch.int(usize::from(write == Write::Add)).long(points);
    let shared = (s.inputs * FEW * size_of::<T>()) as u32;
    launch.run(Grid { shared, ..Grid::over(points).times(s.outputs.div_ceil(FEW)) })
}

/// Addresses of dx, w and dy.
pub(super) fn input_gradient<T: Real>(cuda: &Cuda<T>, s: &Convolution, [dx, w, dy]: [u64; 3]) -> Result<()> {
    let n = s.images * s.rows * s.columns * s.inputs / VECTOR;
    let launch = cuda.kernel("head_input_gradient").address(dy).address(w).address(dx);
    let shared = (s.inputs * s.outputs * size_of::<T>()) as u32;
    launch.int(s.inputs).int(s.outputs).long(n).run(Grid { shared, ..Grid::over(n) })
}

/// Addresses of x, of dw, to which is added, and of dy.
pub(super) fn weight_gradient<T: Real>(cuda: &Cuda<T>, s: &Convolution, [x, dw, dy]: [u64; 3]) -> Result<()> {
    let points = s.images * s.rows * s.columns;
    let (shares, share) = sums::shares(points, MOST_SHARES, SHARE);
    let parts = cuda.scratch(shares * s.w_len() * size_of::<T>())?;
    let launch = cuda.kernel("head_weight_gradient").address(x).address(dy).address(parts);
    let grid = Grid::blocks(shares).times(s.outputs.div_ceil(FEW));
    let threads = (s.inputs * (Grid::THREADS / s.inputs)) as u32;
    launch.int(s.inputs).int(s.outputs).long(points).long(share).run(Grid { threads, ..grid })?;
    sums::add_shares_at(cuda, parts, dw, s.w_len(), s.w_len(), shares)
}
