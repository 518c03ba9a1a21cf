//! Normalisation of gate pre-activations over the units of one point.

use super::super::{LayerNorm, Real, Slot};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::sums;
use crate::error::Result;

/// Points of a block: a warp each.
const POINTS: usize = 8;

/// Numbers of a point: two for each gate.
const PAIRS: usize = 8;

pub(super) fn forward<T: Real>(cuda: &Cuda<T>, norm: &LayerNorm) -> Result<()> {
    check(norm);
    check_disjoint(&[norm.bias, norm.gain], &[norm.gates, norm.normalised, norm.inverse_deviation]);
    let launch = cuda.kernel("layer_norm_forward").slot(norm.gates).slot(norm.bias).slot(norm.gain);
    let launch =
        launch.slot(norm.normalised).slot(norm.inverse_deviation).int(norm.hidden).real(norm.epsilon);
    launch.long(norm.points).run(Grid::blocks(norm.points.div_ceil(POINTS)))
}

pub(super) fn backward<T: Real>(cuda: &Cuda<T>, norm: &LayerNorm, dbias: Slot, dgain: Slot) -> Result<()> {
    check(norm);
    check_disjoint(&[norm.gain, norm.normalised, norm.inverse_deviation], &[norm.gates, dbias, dgain]);
    let channels = 4 * norm.hidden;
    sums::add_over_points(cuda, norm.gates, Some(norm.normalised), dgain, channels)?;
    let launch = cuda.kernel("layer_norm_backward").slot(norm.gates).slot(norm.gain).slot(norm.normalised);
    let launch = launch.slot(norm.inverse_deviation).int(norm.hidden).long(norm.points);
    launch.run(Grid::blocks(norm.points.div_ceil(POINTS)))?;
    sums::add_over_points(cuda, norm.gates, None, dbias, channels)
}

pub(super) fn moments<T: Real>(cuda: &Cuda<T>, norm: &LayerNorm, moments: Slot) -> Result<()> {
    check(norm);
    assert_eq!(moments.len(), PAIRS * norm.points, "moments of {norm:?}");
    check_disjoint(&[norm.gates, norm.bias], &[moments]);
    let launch = cuda.kernel("layer_norm_moments").slot(norm.gates).slot(norm.bias).slot(moments);
    launch.int(norm.hidden).long(norm.points).run(Grid::blocks(norm.points.div_ceil(POINTS)))
}

pub(super) fn forward_among<T: Real>(cuda: &Cuda<T>, norm: &LayerNorm, moments: Slot) -> Result<()> {
    check(norm);
    let part = PAIRS * norm.points;
    assert!(!moments.is_empty() && moments.len().is_multiple_of(part), "moments of {norm:?}");
    check_disjoint(&[norm.bias, norm.gain, moments], &[norm.gates, norm.normalised, norm.inverse_deviation]);
    let launch = cuda.kernel("layer_norm_forward_among").slot(norm.gates).slot(norm.bias).slot(norm.gain);
    let launch = launch.slot(moments).slot(norm.normalised).slot(norm.inverse_deviation);
    let launch = launch.int(norm.hidden).int(moments.len() / part).real(norm.epsilon);
    launch.long(norm.points).run(Grid::blocks(norm.points.div_ceil(POINTS)))
}

pub(super) fn sums_of_gradient<T: Real>(
    cuda: &Cuda<T>,
    norm: &LayerNorm,
    sums: Slot,
    dgain: Slot,
) -> Result<()> {
    check(norm);
    assert_eq!(sums.len(), PAIRS * norm.points, "sums of {norm:?}");
    check_disjoint(&[norm.gain, norm.normalised, norm.gates], &[sums, dgain]);
    sums::add_over_points(cuda, norm.gates, Some(norm.normalised), dgain, 4 * norm.hidden)?;
    let launch = cuda.kernel("layer_norm_sums").slot(norm.gates).slot(norm.gain).slot(norm.normalised);
    let launch = launch.slot(sums).int(norm.hidden).long(norm.points);
    launch.run(Grid::blocks(norm.points.div_ceil(POINTS)))
}

pub(super) fn backward_among<T: Real>(
    cuda: &Cuda<T>,
    norm: &LayerNorm,
    sums: Slot,
    parts: usize,
    dbias: Slot,
) -> Result<()> {
    check(norm);
    assert_eq!(sums.len(), PAIRS * norm.points, "sums of {norm:?}");
    check_disjoint(&[norm.gain, norm.normalised, norm.inverse_deviation, sums], &[norm.gates, dbias]);
    let launch = cuda.kernel("layer_norm_backward_among").slot(norm.gates).slot(norm.gain);
    let launch = launch.slot(norm.normalised).slot(norm.inverse_deviation).slot(sums);
    let launch = launch.int(norm.hidden).int(parts).long(norm.points);
    launch.run(Grid::blocks(norm.points.div_ceil(POINTS)))?;
    sums::add_over_points(cuda, norm.gates, None, dbias, 4 * norm.hidden)
}

fn check(norm: &LayerNorm) {
    let channels = 4 * norm.hidden;
    assert_eq!(norm.gates.len(), norm.points * channels, "gates of {norm:?}");
    assert_eq!(norm.normalised.len(), norm.gates.len(), "normalised gates of {norm:?}");
    assert_eq!(norm.inverse_deviation.len(), 4 * norm.points, "deviations of {norm:?}");
    assert!(norm.bias.len() == channels && norm.gain.len() == channels, "bias and gain of {norm:?}");
}
