//! Elliptic equations: rows to waves, the systems of all waves at once, waves to rows.

use super::super::{Elliptic, Real, Slot};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::waves;
use crate::error::Result;

/// Columns of a block.
const COLUMNS: usize = 8;

pub(super) fn solve<T: Real>(cuda: &Cuda<T>, elliptic: &Elliptic, right: Slot, x: Slot) -> Result<()> {
    let (rows, columns, ends) = (elliptic.rows(), elliptic.columns(), elliptic.ends());
    let count = ends.waves(columns);
    assert!(x.len() == rows * columns && right.len() == x.len(), "one value for each point");
    let Elliptic { pivots, carries, shares, .. } = *elliptic;
    assert!(
        pivots.len() == rows * count && carries.len() == pivots.len(),
        "one pivot for each wave of a row"
    );
    assert!([0, rows].contains(&shares.len()), "one share for each row");
    let read = if right == x { Slot::EMPTY } else { right };
    check_disjoint(&[pivots, carries, shares, read], &[x]);
    waves::forward(cuda, ends, columns, right, x)?;
    let launch = cuda.kernel("solve_waves").slot(x).slot(pivots).slot(carries).slot(shares);
    launch.int(rows).int(columns).int(count).int(count).run(Grid::blocks(columns.div_ceil(COLUMNS)))?;
    waves::backward(cuda, ends, columns, x)
}
