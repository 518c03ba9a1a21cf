//! The loss and the optimiser.

use super::super::{AdamW, Loss, Real, Slot};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// The most blocks that add up one lead's loss.
const MOST_PARTS: usize = 256;

pub(super) fn loss<T: Real>(cuda: &Cuda<T>, loss: &Loss) -> Result<()> {
    let n = loss.images * loss.rows * loss.columns * loss.channels;
    let empty = |slot: Option<Slot>| slot.unwrap_or(Slot::EMPTY);
    check_disjoint(
        &[
            loss.prediction,
            loss.truth,
            loss.row_weights,
            loss.channel_weights,
            loss.lead_weights,
            empty(loss.mask),
        ],
        &[loss.values, empty(loss.gradient)],
    );
    assert_eq!(loss.prediction.len(), loss.leads * n, "predictions of the loss's shape");
    assert_eq!(loss.truth.len(), loss.leads * n, "truth of the loss's shape");
    assert!(loss.gradient.is_none_or(|g| g.len() == loss.leads * n), "gradient of the loss's shape");
    assert_eq!(loss.row_weights.len(), loss.rows, "a weight for each row");
    assert_eq!(loss.channel_weights.len(), loss.channels, "a weight for each channel");
    assert!(loss.mask.is_none_or(|mask| mask.len() * loss.images == n), "a mask for each point");
    assert!(
        loss.lead_weights.len() == loss.leads && loss.values.len() == loss.leads,
        "a number for each lead"
    );
    let line = loss.columns * loss.channels;
    let each = loss.rows * line;
    assert!(u32::try_from(each).is_ok() && loss.images < 1 << 16, "{loss:?} is too large");
    let parts = (n.div_ceil(4 * Grid::THREADS).clamp(1, MOST_PARTS)).div_ceil(loss.images);
    let sums = cuda.scratch(loss.leads * loss.images * parts * size_of::<f64>())?;
    let kernel = if line.is_multiple_of(4) { "loss_parts_wide" } else { "loss_parts" };
    let launch = cuda.kernel(kernel).slot(loss.prediction).slot(loss.truth).slot(loss.row_weights);
    let launch =
        launch.slot(loss.channel_weights).slot(loss.lead_weights).maybe(loss.mask).maybe(loss.gradient);
    let launch = launch.address(sums).int(line).int(loss.channels);
    // A width of none is less than zero for the kernel.
    let launch = launch.real(loss.huber.unwrap_or(-1.0)).real(loss.scale).int(each);
    launch
        .run(Grid { blocks: [parts as u32, loss.leads as u32, loss.images as u32], ..Grid::blocks(parts) })?;
    let parts = parts * loss.images;
    let launch = cuda.kernel("loss_values").address(sums).slot(loss.values).int(parts).real(loss.scale);
    launch.run(Grid::blocks(loss.leads))
}

pub(super) fn adamw<T: Real>(cuda: &Cuda<T>, step: &AdamW) -> Result<()> {
    let n = step.gradient.len();
    check_disjoint(&[step.gradient, step.settings], &[step.parameter, step.first, step.second]);
    assert!(
        [step.parameter, step.first, step.second].iter().all(|slot| slot.len() == n),
        "parameter, gradient and moments are of one length"
    );
    let launch = cuda.kernel("adamw").slot(step.parameter).slot(step.gradient).slot(step.first);
    let launch = launch.slot(step.second).slot(step.settings).real(1.0 - step.beta1).real(1.0 - step.beta2);
    launch.real(step.epsilon).real(step.decay).long(n).run(Grid::over(n))
}
