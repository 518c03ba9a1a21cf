//! Convolutions by our own kernels: any shape, in the precision of the numbers. Slower than a library's, and what a library's
//! plans are held against.

use super::super::{Convolution, Real, Write};
use super::modules::Grid;
use super::{Cuda, Launch, sums};
use crate::error::Result;

/// Outputs of a block of the kernels, in both directions.
const TILE: usize = 64;

/// A weight gradient is split over its points until it has so many blocks; fixed, so that the order of its sums does not
/// depend on the card.
const ENOUGH_BLOCKS: usize = 264;

/// The fewest points of one share of a weight gradient.
const SHARE: usize = 256;

/// Addresses of x, of w `[tap, input, output]` in full precision, of y, which is an activation
/// or not.
pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    [x, w, y]: [u64; 3],
    is_activation: bool,
    write: Write,
) -> Result<()> {
    let points = s.images * s.rows * s.columns;
    let launch =
        cuda.kernel(of(is_activation, ["convolve", "convolve_to_real"])).address(x).address(w).address(y);
    let launch = shape(launch, s).int(usize::from(write == Write::Add)).long(points);
    launch.run(Grid::blocks(points.div_ceil(TILE)).times(s.outputs.div_ceil(TILE)))
}

/// Addresses of dx, w and dy.
pub(super) fn input_gradient<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    [dx, w, dy]: [u64; 3],
    is_activation: bool,
) -> Result<()> {
    let points = s.images * (s.rows + s.kernel - 1) * (s.columns + s.kernel - 1);
    let kernel = of(is_activation, ["convolve_input_gradient", "convolve_input_gradient_of_real"]);
    let launch = cuda.kernel(kernel).address(dy).address(w).address(dx);
    let grid = Grid::blocks(points.div_ceil(TILE)).times(s.inputs.div_ceil(TILE));
    shape(launch, s).long(points).run(grid)
}

/// Addresses of x, of dw in full precision, to which is added, and of dy.
pub(super) fn weight_gradient<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    [x, dw, dy]: [u64; 3],
    is_activation: bool,
) -> Result<()> {
    let points = s.images * s.rows * s.columns;
    let tiles = [(s.w_len() / s.outputs).div_ceil(TILE), s.outputs.div_ceil(TILE)];
    let shares = (ENOUGH_BLOCKS / (tiles[0] * tiles[1])).clamp(1, points.div_ceil(SHARE));
    let share = points.div_ceil(shares);
    let parts = cuda.scratch(shares * s.w_len() * size_of::<T>())?;
    let kernel = of(is_activation, ["convolve_weight_gradient", "convolve_weight_gradient_of_real"]);
    let launch = cuda.kernel(kernel).address(x).address(dy).address(parts);
    let grid = Grid { blocks: [tiles[0] as u32, tiles[1] as u32, shares as u32], ..Grid::blocks(1) };
    shape(launch, s).long(points).long(share).run(grid)?;
    sums::add_shares_at(cuda, parts, dw, s.w_len(), s.w_len(), shares)
}

/// The kernel for a y of this kind.
fn of(is_activation: bool, [activation, real]: [&'static str; 2]) -> &'static str {
    if is_activation { activation } else { real }
}

fn shape<'a, T: Real>(launch: Launch<'a, T>, s: &Convolution) -> Launch<'a, T> {
    launch.int(s.rows).int(s.columns).int(s.inputs).int(s.outputs).int(s.kernel)
}
