//! Between fields on the outer grid and images of patches on the inner one.

use super::super::{Placement, Readout, Real, Slot};
use super::Cuda;
use super::launch::Launch;
use super::memory::check_disjoint;
use super::modules::Grid;
use super::sums;
use crate::error::Result;

/// Numbers of a thread where patches are of one point.
const VECTOR: usize = 4;

pub(super) fn place<T: Real>(cuda: &Cuda<T>, p: &Placement) -> Result<()> {
    check(p);
    check_disjoint(&[p.fields], &[p.image]);
    let shared_fields = usize::from(p.field_images == 1 && p.images > 1);
    if p.patch == 1 {
        let launch = cuda.kernel("place_points").slot(p.fields).slot(p.image);
        let launch = launch.int(p.rows).int(p.columns).int(p.channels).int(shared_fields);
        return points(launch, p);
    }
    let n = p.rows.div_ceil(p.patch) * (p.columns / p.patch) * p.channels * p.patch * p.patch;
    let launch = cuda.kernel("place").slot(p.fields).slot(p.image);
    let launch = launch.int(p.rows).int(p.columns).int(p.channels).int(p.patch);
    let launch = launch.int(shared_fields);
    let launch = launch.int(p.halo).int(p.image_channels).int(p.first_channel).int(n);
    launch.run(Grid::over(n).times(p.images))
}

pub(super) fn place_adjoint<T: Real>(cuda: &Cuda<T>, p: &Placement) -> Result<()> {
    check(p);
    assert_eq!(p.field_images, p.images, "the adjoint of a broadcast is not needed");
    check_disjoint(&[p.image], &[p.fields]);
    if p.patch == 1 {
        let launch = cuda.kernel("place_points_adjoint").slot(p.image).slot(p.fields);
        return points(launch.int(p.rows).int(p.columns).int(p.channels), p);
    }
    let n = p.rows * p.columns * p.channels;
    let launch = cuda.kernel("place_adjoint").slot(p.image).slot(p.fields);
    let launch = launch.int(p.rows).int(p.columns).int(p.channels).int(p.patch);
    let launch = launch.int(p.halo).int(p.image_channels).int(p.first_channel).int(n);
    launch.run(Grid::over(n).times(p.images))
}

/// The rest of the arguments where patches are of one point.
fn points<T: Real>(launch: Launch<'_, T>, p: &Placement) -> Result<()> {
    let whole = [p.channels, p.image_channels, p.first_channel].iter().all(|n| n.is_multiple_of(VECTOR));
    let n = p.rows * p.columns * p.channels.div_ceil(VECTOR);
    let launch = launch.int(p.halo).int(p.image_channels).int(p.first_channel).int(usize::from(whole));
    launch.int(n).run(Grid::over(n).times(p.images))
}

fn check(p: &Placement) {
    let (rows, columns) = (p.rows.div_ceil(p.patch), p.columns / p.patch);
    let image = (rows + 2 * p.halo) * (columns + 2 * p.halo) * p.image_channels;
    assert_eq!(p.image.len(), p.images * image, "an image for each placement");
    assert_eq!(
        p.fields.len(),
        p.field_images * p.rows * p.columns * p.channels,
        "fields of the placed shape"
    );
    assert!(p.first_channel + p.channels * p.patch * p.patch <= p.image_channels, "channels of the image");
    assert!(p.images < 1 << 16 && u32::try_from(image).is_ok(), "{p:?} is too large");
}

pub(super) fn mix<T: Real>(
    cuda: &Cuda<T>,
    share: Slot,
    truth: Slot,
    prediction: Slot,
    mixed: Slot,
) -> Result<()> {
    check_disjoint(&[share, truth, prediction], &[mixed]);
    assert!(truth.len() == mixed.len() && prediction.len() == mixed.len(), "what is mixed is of one shape");
    let n = mixed.len() / share.len();
    let launch = cuda.kernel("mix").slot(share).slot(truth).slot(prediction).slot(mixed).long(n);
    launch.run(Grid::over(n).times(share.len()))
}

pub(super) fn mix_adjoint<T: Real>(
    cuda: &Cuda<T>,
    share: Slot,
    dmixed: Slot,
    dprediction: Slot,
) -> Result<()> {
    check_disjoint(&[share, dmixed], &[dprediction]);
    assert_eq!(dmixed.len(), dprediction.len(), "gradients of one shape");
    let n = dmixed.len() / share.len();
    let launch = cuda.kernel("mix_adjoint").slot(share).slot(dmixed).slot(dprediction).long(n);
    launch.run(Grid::over(n).times(share.len()))
}

pub(super) fn readout<T: Real>(cuda: &Cuda<T>, r: &Readout, base: Option<Slot>, fields: Slot) -> Result<()> {
    let empty = Slot::EMPTY;
    check_disjoint(&[r.y, r.bias, r.scale.unwrap_or(empty), base.unwrap_or(empty)], &[fields]);
    check_readout(r, fields, r.y, r.bias);
    assert!(base.is_none_or(|base| base.len() == fields.len()), "a base of the fields' shape");
    if r.patch == 1 {
        let n = fields.len();
        let launch = cuda.kernel("readout_points").slot(r.y).slot(r.bias).maybe(r.scale).maybe(base);
        let launch = launch.slot(fields).int(r.channels).int(usize::from(n.is_multiple_of(VECTOR)));
        return launch.long(n).run(Grid::over(n.div_ceil(VECTOR)));
    }
    let n = r.rows * r.columns * r.channels;
    let launch = cuda.kernel("readout").slot(r.y).slot(r.bias).maybe(r.scale).maybe(base).slot(fields);
    let launch = launch.int(r.rows).int(r.columns).int(r.channels).int(r.patch).int(n);
    launch.run(Grid::over(n).times(r.images))
}

pub(super) fn readout_adjoint<T: Real>(
    cuda: &Cuda<T>,
    r: &Readout,
    dfields: Slot,
    dy: Slot,
    dbias: Slot,
) -> Result<()> {
    check_disjoint(&[dfields, r.scale.unwrap_or(Slot::EMPTY)], &[dy, dbias]);
    check_readout(r, dfields, dy, dbias);
    if r.patch == 1 {
        let n = dy.len();
        let launch = cuda.kernel("readout_points_gradient").slot(dfields).maybe(r.scale).slot(dy);
        let launch = launch.int(r.channels).int(usize::from(n.is_multiple_of(VECTOR)));
        launch.long(n).run(Grid::over(n.div_ceil(VECTOR)))?;
    } else {
        let n = dy.len() / r.images;
        let launch = cuda.kernel("readout_gradient").slot(dfields).maybe(r.scale).slot(dy);
        let launch = launch.int(r.rows).int(r.columns).int(r.channels).int(r.patch).int(n);
        launch.run(Grid::over(n).times(r.images))?;
    }
    sums::add_over_points(cuda, dy, None, dbias, dbias.len())
}

fn check_readout(r: &Readout, fields: Slot, y: Slot, bias: Slot) {
    let outputs = r.channels * r.patch * r.patch;
    assert_eq!(fields.len(), r.images * r.rows * r.columns * r.channels, "fields of {r:?}");
    let points = r.rows.div_ceil(r.patch) * (r.columns / r.patch);
    assert_eq!(y.len(), r.images * points * outputs, "y of {r:?}");
    assert_eq!(bias.len(), outputs, "bias of {r:?}");
    assert!(r.scale.is_none_or(|scale| scale.len() == r.channels), "scale of {r:?}");
    assert!(r.images < 1 << 16 && u32::try_from(points * outputs).is_ok(), "{r:?} is too large");
}
