//! Numbers on their way to other devices: in 16 bits each, or only the largest of them.

use super::super::{Picking, Real, Slot};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// Places for numbers of 16 bits in a slot.
fn places<T: Real>(slot: Slot) -> usize {
    slot.len() * size_of::<T>() / 2
}

pub(super) fn pack<T: Real>(cuda: &Cuda<T>, x: Slot, packed: Slot) -> Result<()> {
    check_disjoint(&[x], &[packed]);
    let (n, places) = (x.len(), places::<T>(packed));
    assert!(places >= n, "room for all numbers");
    cuda.kernel("pack").slot(x).slot(packed).long(n).long(places).run(Grid::over(places))
}

pub(super) fn unpack<T: Real>(cuda: &Cuda<T>, packed: Slot, parts: usize, x: Slot) -> Result<()> {
    check_disjoint(&[packed], &[x]);
    assert!(parts > 0 && packed.len().is_multiple_of(parts), "parts of one length");
    let (n, places) = (x.len(), places::<T>(packed) / parts);
    assert!(n <= places, "a place for each number");
    cuda.kernel("unpack").slot(packed).slot(x).int(parts).long(n).long(places).run(Grid::over(n))
}

pub(super) fn pick<T: Real>(cuda: &Cuda<T>, picking: &Picking) -> Result<()> {
    let Picking { x, residual, picked, keep } = *picking;
    picking.check();
    check_disjoint(&[x], &[residual, picked]);
    let launch = cuda.kernel("pick").slot(x).slot(residual).slot(picked).int(keep).long(x.len());
    launch.run(Grid::blocks(x.len().div_ceil(Picking::BLOCK)))
}

pub(super) fn lay_out<T: Real>(
    cuda: &Cuda<T>,
    picked: Slot,
    keep: usize,
    parts: usize,
    x: Slot,
) -> Result<()> {
    check_disjoint(&[picked], &[x]);
    let pairs = Picking::pairs(x.len(), keep);
    assert_eq!(picked.len(), 2 * parts * pairs, "pairs of {parts} devices");
    let launch = cuda.kernel("lay_out").slot(picked).slot(x).int(parts).int(keep).long(pairs).long(x.len());
    launch.run(Grid::blocks(x.len().div_ceil(Picking::BLOCK)))
}
