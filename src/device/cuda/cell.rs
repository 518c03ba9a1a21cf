//! The LSTM cell.

use super::super::{Above, Cell, CellGradients, HaloMap, Real, Slot};
use super::memory::check_disjoint;
use super::modules::Grid;
use super::sums;
use super::{Cuda, halo};
use crate::error::Result;

/// Units whose gates stand together.
const BLOCK: usize = 16;

/// Units of a thread in the wide kernels.
const UNITS: usize = 4;

/// Threads of a block.
const THREADS: usize = 128;

/// The most blocks of a pass, and how often each thread works at least: fixed, so that the order of the backward pass's
/// sums does not depend on the card.
const MOST_FORWARD: usize = 4096;
const MOST_BACKWARD: usize = 660;
const ROUNDS: usize = 4;

pub(super) fn forward<T: Real>(
    cuda: &Cuda<T>,
    cell: &Cell,
    h: Slot,
    map: &HaloMap,
    above: Option<&Above>,
) -> Result<()> {
    let points = check(cell);
    let empty = |slot: Option<Slot>| slot.unwrap_or(Slot::EMPTY);
    let factors = empty(above.and_then(|above| above.factors));
    let up = above.map_or(Slot::EMPTY, |above| above.slot);
    // A forecast keeps one cell state and updates it in place.
    let before = empty(cell.c_before.filter(|&before| before != cell.c));
    check_disjoint(&[cell.bias, empty(cell.peepholes), before, factors], &[cell.gates, cell.c, h, up]);
    assert_eq!(h.len(), padded(cell, cell.halo), "h with its halo");
    if let Some(above) = above {
        assert_eq!(up.len(), padded(cell, above.halo), "what reads h, with its halo");
    }
    let (kernel, units) = if is_wide::<T>(cell) { ("cell_forward_wide", UNITS) } else { ("cell_forward", 1) };
    let made = halo::copies_made(cuda, map, h)?;
    let [copies, firsts] = made.unwrap_or_default();
    for block in blocks(cell, units) {
        let (shares, share) = sums::shares(points, MOST_FORWARD, block.lanes);
        let launch =
            cuda.kernel(kernel).slot(cell.gates).slot(cell.bias).maybe(cell.peepholes).maybe(cell.c_before);
        let launch = launch
            .slot(cell.c)
            .slot(h)
            .slot(up)
            .slot(factors)
            .address(copies)
            .address(firsts)
            .int(cell.rows)
            .int(cell.columns);
        let launch = launch.int(cell.hidden).int(cell.halo).int(above.map_or(0, |above| above.halo));
        let launch = launch.int(usize::from(cell.keeps_gates));
        launch.int(block.first_unit).int(points).int(share).run(block.grid(shares))?;
    }
    // Where channels differ, one kernel cannot do both.
    if made.is_none() { halo::fill(cuda, map, h) } else { Ok(()) }
}

pub(super) fn backward<T: Real>(
    cuda: &Cuda<T>,
    cell: &Cell,
    map: &HaloMap,
    gradients: &CellGradients,
) -> Result<()> {
    let points = check(cell);
    let empty = |slot: Option<Slot>| slot.unwrap_or(Slot::EMPTY);
    let above = gradients.above;
    let factors = empty(above.and_then(|above| above.factors));
    let up = above.map_or(Slot::EMPTY, |above| above.slot);
    check_disjoint(
        &[empty(cell.peepholes), empty(cell.c_before), cell.c, empty(gradients.h), up, factors],
        &[cell.gates, gradients.c, gradients.bias, empty(gradients.peepholes)],
    );
    assert_eq!(gradients.c.len(), cell.c.len(), "the gradient of c");
    assert!(
        gradients.h.is_none_or(|h| h.len() == padded(cell, cell.halo)),
        "the gradient of h with its halo"
    );
    if let Some(above) = above {
        assert_eq!(up.len(), padded(cell, above.halo), "the gradient of what reads h");
    }
    let hidden = cell.hidden;
    let (kernel, units) = match (is_wide::<T>(cell), cell.peepholes) {
        (false, _) => ("cell_backward", 1),
        (true, None) => ("cell_backward_wide", UNITS),
        (true, Some(_)) => ("cell_backward_wide_peepholes", UNITS),
    };
    let lanes = blocks(cell, units).map(|block| block.lanes).max().unwrap_or(1);
    let (shares, share) = sums::shares(points, MOST_BACKWARD, ROUNDS * lanes);
    let made = match gradients.h {
        Some(h) => halo::copies_made(cuda, map, h)?,
        None => None,
    };
    if let (None, Some(h)) = (made, gradients.h) {
        halo::adjoint(cuda, map, h)?;
    }
    let [copies, firsts] = made.unwrap_or_default();
    let parts = cuda.scratch(shares * 7 * hidden * size_of::<T>())?;
    for block in blocks(cell, units) {
        let launch =
            cuda.kernel(kernel).slot(cell.gates).maybe(cell.peepholes).maybe(cell.c_before).slot(cell.c);
        let launch = launch
            .maybe(gradients.h)
            .slot(up)
            .slot(factors)
            .address(copies)
            .address(firsts)
            .slot(gradients.c)
            .address(parts);
        let launch = launch.int(cell.rows).int(cell.columns).int(hidden).int(cell.halo);
        let launch = launch.int(above.map_or(0, |above| above.halo)).int(block.first_unit);
        let shared = block.threads * units * size_of::<T>();
        launch.int(points).int(share).run(block.grid(shares).shared(shared))?;
    }
    sums::add_shares(cuda, parts, gradients.bias, 7 * hidden, shares)?;
    if let Some(peepholes) = gradients.peepholes {
        let parts = parts + (4 * hidden * size_of::<T>()) as u64;
        sums::add_shares(cuda, parts, peepholes, 7 * hidden, shares)?;
    }
    Ok(())
}

/// Blocks that make neighbouring units of all points.
struct Block {
    first_unit: usize,
    threads: usize,
    /// Points that it makes at once.
    lanes: usize,
}

impl Block {
    fn grid(&self, blocks: usize) -> Grid {
        Grid { threads: self.threads as u32, ..Grid::blocks(blocks) }
    }
}

/// A block holds all units of a point if it can, and as many points at once as there is room for.
fn blocks(cell: &Cell, units: usize) -> impl Iterator<Item = Block> {
    let hidden = cell.hidden;
    (0..hidden).step_by(THREADS * units).map(move |first_unit| {
        let groups = (hidden - first_unit).div_ceil(units).min(THREADS);
        let lanes = THREADS / groups;
        Block { first_unit, threads: groups * lanes, lanes }
    })
}

/// Whether threads can take several units: whole blocks of them, in single precision.
fn is_wide<T: Real>(cell: &Cell) -> bool {
    cell.hidden.is_multiple_of(BLOCK) && size_of::<T>() == 4
}

fn padded(cell: &Cell, halo: usize) -> usize {
    cell.images * (cell.rows + 2 * halo) * (cell.columns + 2 * halo) * cell.hidden
}

/// The number of points.
fn check(cell: &Cell) -> usize {
    let points = cell.images * cell.rows * cell.columns;
    assert_eq!(cell.gates.len(), points * 4 * cell.hidden, "gates of {cell:?}");
    assert_eq!(cell.c.len(), points * cell.hidden, "c of {cell:?}");
    assert_eq!(cell.bias.len(), 4 * cell.hidden, "bias of {cell:?}");
    assert!(cell.c_before.is_none_or(|before| before.len() == cell.c.len()), "c before of {cell:?}");
    assert!(cell.peepholes.is_none_or(|p| p.len() == 3 * cell.hidden), "peepholes of {cell:?}");
    assert!(u32::try_from(points * cell.hidden).is_ok(), "{points} points of {} units", cell.hidden);
    points
}
