//! Normalisation of gate pre-activations over the units of one point.

use super::super::{LayerNorm, Real, Slot};
use super::Cuda;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::sums;
use crate::error::Result;

/// Points of a block: a warp each.
const POINTS: usize = 8;

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

fn check(norm: &LayerNorm) {
    let channels = 4 * norm.hidden;
    assert_eq!(norm.gates.len(), norm.points * channels, "gates of {norm:?}");
    assert_eq!(norm.normalised.len(), norm.gates.len(), "normalised gates of {norm:?}");
    assert_eq!(norm.inverse_deviation.len(), 4 * norm.points, "deviations of {norm:?}");
    assert!(norm.bias.len() == channels && norm.gain.len() == channels, "bias and gain of {norm:?}");
}
