//! Leapfrog steps with implicit gravity waves: what comes before and after the equation.

use super::super::{HALO, Leapfrog, Real, RowMeasures, Slot};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::rows::{Lines, smoothed_bytes};
use crate::error::Result;

/// Fields of before, now and the tendency, in this order.
fn fields(step: &Leapfrog) -> [Slot; 9] {
    let (before, now, k) = (step.before, step.now, step.tendency);
    [before.u, before.v, before.h, now.u, now.v, now.h, k.u, k.v, k.h]
}

fn check(step: &Leapfrog) {
    let flow = &step.flow;
    assert_eq!(flow.poles[0], step.south.is_none(), "a pole, or a row before the first");
    assert!(step.south.is_none_or(|south| south.len() == flow.columns), "a row of the solution");
    assert!(fields(step).iter().all(|x| x.len() == flow.len()), "fields of the flow's shape");
    assert_eq!(flow.table.len(), (flow.rows + 2 * HALO) * RowMeasures::COUNT, "measures of each row");
    assert_eq!(step.unknown.len(), flow.rows * flow.columns, "one unknown for each cell");
}

pub(super) fn predict<T: Real>(cuda: &Cuda<T>, step: &Leapfrog) -> Result<()> {
    check(step);
    let (fields, flow) = (fields(step), &step.flow);
    check_disjoint(&[&fields[..], &[flow.table]].concat(), &[step.unknown]);
    let mut launch = cuda.kernel("leapfrog_predict");
    for slot in fields.into_iter().chain([flow.table, step.unknown]) {
        launch = launch.slot(slot);
    }
    launch = launch.int(flow.rows).int(flow.columns).int(usize::from(flow.poles[1])).real(2.0 * step.dt);
    launch = launch.real(2.0 * step.dt * flow.depth).real(-step.kappa() * flow.dy / 2.0);
    launch.run(Grid::over(flow.columns).times(flow.rows))
}

pub(super) fn correct<T: Real>(cuda: &Cuda<T>, step: &Leapfrog) -> Result<()> {
    check(step);
    let (fields, flow) = (fields(step), &step.flow);
    let [bu, bv, bh, u, v, h, ku, kv, _] = fields;
    let south = step.south.unwrap_or(Slot::EMPTY);
    check_disjoint(&[ku, kv, flow.table, step.unknown, south], &[bu, bv, bh, u, v, h]);
    let lines = Lines::new(cuda, "leapfrog_correct", 3 * flow.rows, smoothed_bytes::<T>(flow.columns))?;
    let mut launch = cuda.kernel("leapfrog_correct");
    for slot in [ku, kv, flow.table, step.unknown, south, bu, bv, bh, u, v, h] {
        launch = launch.slot(slot);
    }
    let share = step.filter / 2.0;
    launch = launch.address(lines.memory(cuda)?).int(flow.rows).int(flow.columns).real(step.dt);
    launch = launch.real(step.dt * flow.g).real(1.0 / flow.dy);
    launch.real(step.alpha * share).real(1.0 + (step.alpha - 1.0) * share).run(lines.grid)
}
