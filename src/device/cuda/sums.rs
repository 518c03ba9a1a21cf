//! Sums over points, channel by channel, in an order that depends on the shape alone.

use super::super::{Real, Slot};
use super::Cuda;
use super::modules::Grid;
use crate::error::Result;

/// The most shares that a sum over points is split into.
const MOST_SHARES: usize = 512;

/// The fewest points that are worth a block.
const SHARE: usize = 16;

/// How many shares `points` are split into, at most `most`, and the points of each, `fewest` at least.
pub(super) fn shares(points: usize, most: usize, fewest: usize) -> (usize, usize) {
    let share = points.div_ceil(most).max(fewest).max(1);
    (points.div_ceil(share), share)
}

/// `to[c] += sum over points of x[point, c]`, times `y[point, c]` where there is y.
pub(super) fn add_over_points<T: Real>(
    cuda: &Cuda<T>,
    x: Slot,
    y: Option<Slot>,
    to: Slot,
    channels: usize,
) -> Result<()> {
    let points = x.len() / channels;
    let (shares, share) = shares(points, MOST_SHARES, SHARE);
    let parts = cuda.scratch(shares * channels * size_of::<T>())?;
    let kernel = if x.is_activation() { "channel_sums" } else { "channel_sums_of_real" };
    let launch = cuda.kernel(kernel).slot(x).maybe(y).address(parts);
    launch.int(channels).long(points).long(share).run(Grid::blocks(shares))?;
    add_shares(cuda, parts, to, channels, shares)
}

/// Adds `shares` arrays as long as `to`, `stride` numbers apart, to it.
pub(super) fn add_shares<T: Real>(
    cuda: &Cuda<T>,
    parts: u64,
    to: Slot,
    stride: usize,
    shares: usize,
) -> Result<()> {
    add_shares_at(cuda, parts, cuda.arena.address(to), to.len(), stride, shares)
}

/// The same for `n` numbers at the address `to`.
pub(super) fn add_shares_at<T: Real>(
    cuda: &Cuda<T>,
    parts: u64,
    to: u64,
    n: usize,
    stride: usize,
    shares: usize,
) -> Result<()> {
    let launch = cuda.kernel("add_shares").address(parts).address(to).long(n).long(stride).int(shares);
    launch.run(Grid::blocks(n.div_ceil(8)))
}
