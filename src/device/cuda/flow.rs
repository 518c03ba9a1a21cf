//! The flow of a shallow layer: one pass over all cells, and one over the rows that are smoothed; and what is asked of a
//! state between steps.

use super::super::{Flow, FlowOutput, FluxForm, HALO, Rates, Real, RowMeasures, Slot, Triple, Write};
use super::Cuda;
use super::elementary::number_at;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::rows::{Lines, smoothed_bytes, width};
use crate::error::Result;

/// Columns of a strip, which a warp walks along.
const STRIP: usize = 29;
/// Warps that keep a large GPU busy. With more of them than that, each walks further: the three rows before its first cost
/// it as much as rows that it writes.
const WARPS: usize = 4096;
/// The fewest and the most rows of a walk.
const WALK: [usize; 2] = [8, 64];

/// As the kernels count the outputs.
mod mode {
    pub const STAGE: usize = 0;
    pub const STAGE_ADD: usize = 1;
    pub const LAST: usize = 2;
    pub const TENDENCY: usize = 3;
    pub const ROTATIONAL: usize = 4;
}

/// What an output is made of; what it does not have is empty.
struct Parts {
    mode: usize,
    base: Triple,
    next: Triple,
    sum: Triple,
    a: f64,
    b: f64,
}

impl Parts {
    fn of(output: &FlowOutput) -> Self {
        let none = Triple { u: Slot::EMPTY, v: Slot::EMPTY, h: Slot::EMPTY };
        let plain = |mode, next| Self { mode, base: none, next, sum: none, a: 0.0, b: 0.0 };
        match *output {
            FlowOutput::Stage { base, next, a, sum, b, write } => {
                let mode = if write == Write::Add { mode::STAGE_ADD } else { mode::STAGE };
                Self { mode, base, next, sum, a, b }
            }
            FlowOutput::Last { x, sum, b } => Self { base: sum, b, ..plain(mode::LAST, x) },
            FlowOutput::Tendency(k) => plain(mode::TENDENCY, k),
            FlowOutput::Rotational(k) => plain(mode::ROTATIONAL, k),
        }
    }
}

fn slots(triple: Triple) -> [Slot; 3] {
    [triple.u, triple.v, triple.h]
}

pub(super) fn flow<T: Real>(cuda: &Cuda<T>, flow: &Flow, x: Triple, output: &FlowOutput) -> Result<()> {
    let parts = Parts::of(output);
    let (len, rows, columns) = (flow.len(), flow.rows, flow.columns);
    let (b, (base, next, sum)) =
        (flow.b.unwrap_or(Slot::EMPTY), (slots(parts.base), slots(parts.next), slots(parts.sum)));
    assert!(slots(x).into_iter().chain(next).all(|x| x.len() == len), "fields of the flow's shape");
    let fits = |x: Slot| x.is_empty() || x.len() == len;
    assert!(base.into_iter().chain(sum).all(fits), "fields of the flow's shape");
    assert!(fits(b), "a bottom of the flow's shape");
    let f_by_row = flow.f.len() != len;
    assert!(!f_by_row || flow.f.len() == rows + 2 * HALO, "f for each corner or each row");
    assert_eq!(flow.table.len(), (rows + 2 * HALO) * RowMeasures::COUNT, "measures of each row");
    let mut reads = vec![flow.table, flow.f, b];
    reads.extend(slots(x).into_iter().chain(base));
    check_disjoint(&reads, &[next, sum].concat());

    // Until its rows are smoothed a tendency stands where the output will; not where that is still needed.
    let lines = Lines::new(cuda, "flow_rows", 3 * rows, smoothed_bytes::<T>(columns))?;
    let field_bytes = (len * size_of::<T>()).next_multiple_of(256);
    let apart = if parts.mode == mode::LAST { 3 * field_bytes } else { 0 };
    let scratch = if apart + lines.scratch > 0 { cuda.scratch(apart + lines.scratch)? } else { 0 };
    let work = if lines.scratch > 0 { scratch + apart as u64 } else { 0 };
    let raw = [0, 1, 2].map(|field| match apart {
        0 => cuda.arena.address(next[field]),
        _ => scratch + (field * field_bytes) as u64,
    });

    let strips = columns.div_ceil(STRIP);
    let walk = (rows * strips / WARPS).clamp(WALK[0], WALK[1]);
    let warps = strips * rows.div_ceil(walk);
    let mut launch = cuda.kernel("flow");
    for slot in [x.u, x.v, x.h, flow.table, flow.f, b].into_iter().chain(base).chain(next).chain(sum) {
        launch = launch.slot(slot);
    }
    for address in raw {
        launch = launch.address(address);
    }
    let form = match flow.form {
        FluxForm::ArakawaLamb => 0,
        FluxForm::Energy => 1,
        FluxForm::Enstrophy => 2,
    };
    let poles = usize::from(flow.poles[0]) + 2 * usize::from(flow.poles[1]);
    launch = launch.int(rows).int(columns).int(walk).int(form).int(parts.mode).int(poles);
    launch = launch.int(usize::from(f_by_row)).real(flow.g).real(flow.depth).real(1.0 / flow.dy);
    launch = launch.real(flow.dy / flow.cap_area).real(parts.a).real(parts.b);
    launch.run(Grid::over(32 * warps))?;
    if parts.mode == mode::ROTATIONAL {
        return Ok(());
    }

    let mut launch = cuda.kernel("flow_rows").slot(flow.table);
    for address in raw {
        launch = launch.address(address);
    }
    for slot in base.into_iter().chain(next).chain(sum) {
        launch = launch.slot(slot);
    }
    launch = launch.address(work).int(rows).int(columns).int(parts.mode).real(parts.a).real(parts.b);
    launch.run(lines.grid)
}

pub(super) fn fastest_rate<T: Real>(cuda: &Cuda<T>, rates: &Rates) -> Result<f64> {
    let Rates { rows, columns, x, depth, factors } = *rates;
    let len = (rows + 2 * HALO) * width(columns);
    assert!(slots(x).iter().all(|x| x.len() == len), "fields of {rows} x {columns} cells");
    assert_eq!(factors.len(), 3 * rows, "three factors for each row");
    // One for each row behind the result.
    let all = cuda.scratch((1 + rows) * size_of::<f64>())?;
    let parts = all + size_of::<f64>() as u64;
    let launch = cuda.kernel("rate_parts").slot(x.u).slot(x.v).slot(x.h).slot(factors).address(parts);
    launch.int(columns).real(depth).real(f64::INFINITY).run(Grid::blocks(rows))?;
    cuda.kernel("rate_of_parts").address(parts).address(all).int(rows).run(Grid::blocks(1))?;
    number_at(cuda, all)
}
