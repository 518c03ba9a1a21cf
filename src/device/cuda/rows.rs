//! Rows that a block holds whole: the memory for them, and their smoothing.

use super::super::{HALO, Real, RowSmoothing};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// The most blocks that share scratch memory; each then does one line after the other.
const MOST_BLOCKS: usize = 512;

/// Blocks that hold a line each, in shared memory where it fits there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines {
    pub grid: Grid,
    /// Bytes of scratch memory for all blocks; 0 where they have shared memory.
    pub scratch: usize,
}

impl Lines {
    /// For a kernel that does `lines` lines and needs `bytes` for each.
    pub fn new<T: Real>(cuda: &Cuda<T>, kernel: &str, lines: usize, bytes: usize) -> Result<Self> {
        if bytes <= cuda.modules.kernel(kernel)?.shared {
            return Ok(Self { grid: Grid::blocks(lines).shared(bytes), scratch: 0 });
        }
        let blocks = lines.min(MOST_BLOCKS);
        Ok(Self { grid: Grid::blocks(blocks), scratch: blocks * bytes })
    }

    /// Where their scratch memory begins, or null.
    pub fn memory<T: Real>(&self, cuda: &Cuda<T>) -> Result<u64> {
        if self.scratch == 0 { Ok(0) } else { cuda.scratch(self.scratch) }
    }
}

/// Bytes of a row of `columns` that is smoothed.
pub(super) fn smoothed_bytes<T: Real>(columns: usize) -> usize {
    2 * columns * size_of::<T>()
}

/// Numbers from one row of a field of a flow to the next.
pub(super) fn width(columns: usize) -> usize {
    columns + 2 * HALO
}

pub(super) fn smooth<T: Real>(cuda: &Cuda<T>, shape: &RowSmoothing) -> Result<()> {
    let (rows, n, halo) = (shape.rows, shape.columns, shape.x.halo);
    let width = n + 2 * halo;
    assert!(
        shape.x.slot.len() == (rows + 2 * halo) * width && shape.filters.len() == 2 * rows,
        "{rows} x {n} points to smooth"
    );
    check_disjoint(&[shape.filters], &[shape.x.slot]);
    let interior = shape.x.interior(n);
    let lines = Lines::new(cuda, "smooth_rows", rows, smoothed_bytes::<T>(n))?;
    let launch = cuda.kernel("smooth_rows").slot(interior).slot(shape.filters);
    launch.address(lines.memory(cuda)?).int(rows).int(n).int(width).run(lines.grid)
}
