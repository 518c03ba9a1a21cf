//! What an update asks of a device and of other ranks, without data: for those that only count.

use crate::comm::Communicator;
use crate::device::{ArenaPlan, Device};
use crate::error::{Error, Result};
use crate::field::Layout;
use crate::model::{Architecture, Geometry};
use crate::train::band::Band;
use crate::train::plan::TrainPlan;
use crate::train::ranks::{ParallelPlan, Ranks};
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;

/// Does one update of the longest rollout on a device that does its share of the work. Returns the bytes of the device's arena.
pub fn outline(
    plan: &TrainPlan,
    parallel: ParallelPlan,
    architecture: &Architecture,
    layout: &Layout,
    communicator: &mut dyn Communicator<f32>,
    device: &mut dyn Device<f32>,
) -> Result<usize> {
    plan.check()?;
    let mut ranks = Ranks::new(communicator, device, parallel)?;
    let share = ranks.share();
    let batch = plan.batch / share.of.max(1);
    if batch == 0 {
        return Err(Error::input("a device needs at least one sample of each batch"));
    }
    let geometry = Geometry::of(layout);
    let rows = ranks.part().rows;
    let band = Band::new(architecture.bands(&geometry, rows.of)?.remove(rows.number), layout, 0);
    let geometry = geometry.band(&band.rows);
    let weights = Weights::new(&plan.loss, layout, None)?.band(&band);
    let mut arena = ArenaPlan::default();
    let shard = ranks.plan.shard(ranks.part());
    let workspace =
        Workspace::<f32>::plan(&mut arena, plan, architecture, &geometry, &weights, batch, shard)?;
    // The next batch is made in a place of its own.
    let input = workspace.input();
    let made = [input.frames, input.forcings].map(|slot| (slot, arena.slot(slot.len())));
    let bytes = device.bytes(&arena);
    device.allocate(&arena)?;

    let leads = plan.longest_rollout();
    let lead_weights = lead_weights(&plan.loss, leads);
    workspace.zero_gradients(device);
    for part in 0..plan.accumulate {
        let copies = made.map(|(used, made)| (made, used));
        device.hand_over(&copies);
        workspace.forward(device, &mut ranks, leads);
        workspace.loss(device, &lead_weights, 1.0);
        workspace.backward(device, &mut ranks, leads, part + 1 == plan.accumulate);
    }
    workspace.squares(device);
    ranks.total(&mut [])?;
    workspace.update(device, plan.learning_rate.peak, 1.0, 1);
    workspace.share_weights(device, &mut ranks);
    workspace.average(device, plan.ema_decay);
    ranks.close(device)?;
    Ok(bytes)
}
