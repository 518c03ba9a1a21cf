//! What each stage of the input takes alone, and all of them together with the training that they feed.

use std::time::Instant;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::train::ranks::Part;
use crate::train::start::{Opened, Training};
use crate::train::weights::lead_weights;

/// Time of one batch [s].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rehearsal {
    /// By the loader's threads, with nothing else to do.
    pub reading: f64,
    /// From the loader to the slots of the network; of that, on a GPU, copies and kernels.
    pub giving: f64,
    pub copying: f64,
    pub preparing: f64,
    /// Forward, backward and update, on a batch that is there.
    pub training: f64,
    /// All of it, the next batch beside the training on this one.
    pub together: f64,
    /// Of that, how long the training waited for its batch.
    pub waiting: f64,
    /// Read from files for one batch [bytes].
    pub bytes: f64,
    /// Whether the device decodes what the files hold.
    pub is_raw: bool,
}

/// Measures `batches` batches of each, after two that do not count.
pub fn rehearse(training: &Training<'_>, device: &mut dyn Device<f32>, batches: usize) -> Result<Rehearsal> {
    if batches == 0 {
        return Err(Error::input("nothing is measured in 0 batches"));
    }
    let Opened { workspace, mut feed, .. } = Opened::new(training, Part::ALL, device)?;
    let leads = training.plan.curriculum.first().map_or(1, |stage| stage.leads);
    feed.enter(leads, feed.position())?;
    let weights = lead_weights(&training.plan.loss, leads);
    let mut updates = 0;
    let mut train = |device: &mut dyn Device<f32>| {
        workspace.zero_gradients(device);
        workspace.network.forward(device, leads);
        workspace.loss(device, &weights, 1.0);
        workspace.network.backward(device, leads);
        updates += 1;
        workspace.update(device, training.plan.learning_rate.peak, 1.0, updates);
    };

    let mut read = || feed.read();
    let (reading, input) = mean(batches, |_| read())?;
    let mut beside = crate::device::Beside::default();
    let (giving, ()) = mean(batches, |counts| {
        feed.give_again(device, &input);
        device.finish()?;
        if counts && let Some(times) = device.beside() {
            beside.copying += times.copying / batches as f64;
            beside.preparing += times.preparing / batches as f64;
        }
        Ok(())
    })?;
    let (training_alone, ()) = mean(batches, |_| {
        train(device);
        device.finish()
    })?;
    let mut waiting = 0.0;
    let mut bytes = 0.0;
    let (together, ()) = mean(batches, |counts| {
        feed.take(device)?;
        train(device);
        feed.bring_next(device);
        device.finish()?;
        let line = feed.line(device);
        if counts {
            waiting += line.wait_s / batches as f64;
            bytes += line.bytes as f64 / batches as f64;
        }
        Ok(())
    })?;
    Ok(Rehearsal {
        reading,
        giving,
        copying: beside.copying,
        preparing: beside.preparing,
        training: training_alone,
        together,
        waiting,
        bytes,
        is_raw: feed.is_raw(),
    })
}

/// Mean time of some calls of `work`, after two that do not count, and what the last gave.
fn mean<R>(calls: usize, mut work: impl FnMut(bool) -> Result<R>) -> Result<(f64, R)> {
    work(false)?;
    let mut last = work(false)?;
    let start = Instant::now();
    for _ in 0..calls {
        last = work(true)?;
    }
    Ok((start.elapsed().as_secs_f64() / calls as f64, last))
}
