//! Sums over points, channel by channel, in an order that depends on the shape alone.

use super::super::{Real, Slot};
use super::Cuda;
use super::modules::Grid;
use crate::error::Result;

/// The most shares that a sum over points is split into.
const MOST_SHARES: usize = 512;

/// The fewest points that are worth a block.
const SHARE: usize = 16;

/// How many shares `points` are split into, and the points of each.
pub(super) fn shares(points: usize, fewest: usize) -> (usize, usize) {
    let share = points.div_ceil(MOST_SHARES).max(fewest).max(1);
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
    let (shares, share) = shares(points, SHARE);
    let parts = cuda.scratch(shares * channels * size_of::<T>())?;
    let launch = cuda.kernel("channel_sums").slot(x).maybe(y).address(parts);
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
    let n = to.len();
    let launch = cuda.kernel("add_shares").address(parts).slot(to).long(n).long(stride).int(shares);
    launch.run(Grid::blocks(n.div_ceil(32)))
}
