//! What an update asks of a device, without data: for one that only counts.

use crate::device::{ArenaPlan, Device, Slot};
use crate::error::{Error, Result};
use crate::field::Layout;
use crate::model::{Architecture, Geometry};
use crate::preprocess::Share;
use crate::train::plan::TrainPlan;
use crate::train::ranks::ParallelPlan;
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;

/// Does one update of the longest rollout on a device that does a share of the work. `complete` is called for each stretch of
/// the gradients when nothing will be added to it any more. Returns the bytes of the device's arena.
pub fn outline(
    plan: &TrainPlan,
    parallel: ParallelPlan,
    architecture: &Architecture,
    layout: &Layout,
    share: Share,
    device: &mut dyn Device<f32>,
    complete: &mut dyn FnMut(&mut dyn Device<f32>, Slot),
) -> Result<usize> {
    plan.check()?;
    let batch = plan.batch / share.of.max(1);
    if batch == 0 {
        return Err(Error::input("a device needs at least one sample of each batch"));
    }
    let weights = Weights::new(&plan.loss, layout, None)?;
    let mut arena = ArenaPlan::default();
    let geometry = Geometry::of(layout);
    let shard = parallel.shard(share);
    let workspace =
        Workspace::<f32>::plan(&mut arena, plan, architecture, &geometry, &weights, batch, shard)?;
    // The next batch is made in a place of its own.
    let input = workspace.input();
    let made = [input.frames, input.forcings].map(|slot| (slot, arena.slot(slot.len())));
    let bytes = device.bytes(&arena);
    device.allocate(&arena)?;

    let leads = plan.longest_rollout();
    let lead_weights = lead_weights(&plan.loss, leads);
    let network = &workspace.network;
    device.zero(network.gradients());
    for part in 0..plan.accumulate {
        let copies = made.map(|(used, made)| (made, used));
        device.hand_over(&copies);
        network.forward(device, leads);
        workspace.loss(device, &lead_weights, 1.0);
        if part + 1 < plan.accumulate {
            network.backward(device, leads);
        } else {
            network.backward_by_stretches(device, leads, complete);
        }
    }
    device.sum_of_squares(network.gradients());
    workspace.update(device, plan.learning_rate.peak, 1.0, 1);
    workspace.average(device, plan.ema_decay);
    Ok(bytes)
}
