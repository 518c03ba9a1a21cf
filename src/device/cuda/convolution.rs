//! Convolutions by our own kernels: any shape, in the precision of the numbers.

use super::super::{Convolution, Real, Slot, Write};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::sums;
use crate::error::Result;

/// Outputs of a block of the kernels, in both directions.
const TILE: usize = 64;

/// A weight gradient is split over its points until it has so many blocks; fixed, so that the order of its sums does not
/// depend on the card.
const ENOUGH_BLOCKS: usize = 264;

/// The fewest points of one share of a weight gradient.
const SHARE: usize = 256;

pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    x: Slot,
    w: Slot,
    y: Slot,
    write: Write,
) -> Result<()> {
    check(s, x, w, y);
    check_disjoint(&[x, w], &[y]);
    let points = s.images * s.rows * s.columns;
    let launch = cuda.kernel("convolve").slot(x).slot(w).slot(y);
    let launch = shape(launch, s).int(usize::from(write == Write::Add)).long(points);
    launch.run(Grid::blocks(points.div_ceil(TILE)).times(s.outputs.div_ceil(TILE)))
}

pub(super) fn input_gradient<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    dy: Slot,
    w: Slot,
    dx: Slot,
) -> Result<()> {
    check(s, dx, w, dy);
    check_disjoint(&[dy, w], &[dx]);
    let points = s.images * (s.rows + s.kernel - 1) * (s.columns + s.kernel - 1);
    let launch = shape(cuda.kernel("convolve_input_gradient").slot(dy).slot(w).slot(dx), s).long(points);
    launch.run(Grid::blocks(points.div_ceil(TILE)).times(s.inputs.div_ceil(TILE)))
}

pub(super) fn weight_gradient<T: Real>(
    cuda: &Cuda<T>,
    s: &Convolution,
    x: Slot,
    dy: Slot,
    dw: Slot,
) -> Result<()> {
    check(s, x, dw, dy);
    check_disjoint(&[x, dy], &[dw]);
    let points = s.images * s.rows * s.columns;
    let tiles = [(s.w_len() / s.outputs).div_ceil(TILE), s.outputs.div_ceil(TILE)];
    let shares = (ENOUGH_BLOCKS / (tiles[0] * tiles[1])).clamp(1, points.div_ceil(SHARE));
    let share = points.div_ceil(shares);
    let parts = cuda.scratch(shares * s.w_len() * size_of::<T>())?;
    let launch = cuda.kernel("convolve_weight_gradient").slot(x).slot(dy).address(parts);
    let grid = Grid { blocks: [tiles[0] as u32, tiles[1] as u32, shares as u32], ..Grid::blocks(1) };
    shape(launch, s).long(points).long(share).run(grid)?;
    sums::add_shares(cuda, parts, dw, s.w_len(), shares)
}

fn shape<'a, T: Real>(launch: super::Launch<'a, T>, s: &Convolution) -> super::Launch<'a, T> {
    launch.int(s.rows).int(s.columns).int(s.inputs).int(s.outputs).int(s.kernel)
}

fn check(s: &Convolution, x: Slot, w: Slot, y: Slot) {
    assert!(s.kernel % 2 == 1, "a kernel of {} has no middle", s.kernel);
    assert!(s.y_len() > 0 && s.inputs > 0, "{s:?} is empty");
    assert_eq!(x.len(), s.x_len(), "x of {s:?}");
    assert_eq!(w.len(), s.w_len(), "w of {s:?}");
    assert_eq!(y.len(), s.y_len(), "y of {s:?}");
}
