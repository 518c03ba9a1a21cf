//! Between fields on the outer grid and images of patches on the inner one.

use super::super::{Placement, Readout, Real};
use super::threads::Threads;

/// Below this many numbers a second thread costs more than it saves.
const WORTH_A_THREAD: usize = 1 << 14;

pub(super) fn place<T: Real>(threads: &Threads, p: &Placement, fields: &[T], image: &mut [T]) {
    let len = image_len(p);
    assert_eq!(image.len(), p.images * len, "an image for each placement");
    let each = p.rows * p.columns * p.channels;
    assert_eq!(fields.len(), p.field_images * each, "fields of the placed shape");
    each_image(threads, image, len, |n, image| {
        let fields = if p.field_images == 1 { fields } else { &fields[n * each..][..each] };
        each_element(p, |field, place| image[place] = fields[field]);
    });
}

pub(super) fn place_adjoint<T: Real>(threads: &Threads, p: &Placement, image: &[T], fields: &mut [T]) {
    let len = image_len(p);
    let each = p.rows * p.columns * p.channels;
    assert_eq!(p.field_images, p.images, "the adjoint of a broadcast is not needed");
    each_image(threads, fields, each, |n, fields| {
        fields.fill(T::default());
        let image = &image[n * len..][..len];
        each_element(p, |field, place| fields[field] += image[place]);
    });
}

fn each_image<T: Real>(
    threads: &Threads,
    array: &mut [T],
    each: usize,
    work: impl Fn(usize, &mut [T]) + Sync + Send,
) {
    if array.len() < WORTH_A_THREAD {
        array.chunks_mut(each).enumerate().for_each(|(n, chunk)| work(n, chunk));
    } else {
        threads.chunks(array, each, work);
    }
}

fn image_len(p: &Placement) -> usize {
    let (rows, columns) = (p.rows.div_ceil(p.patch), p.columns / p.patch);
    (rows + 2 * p.halo) * (columns + 2 * p.halo) * p.image_channels
}

/// Calls `work(index in one field image, index in one padded image)` for every element of the image's interior.
#[inline(always)]
fn each_element(p: &Placement, work: impl FnMut(usize, usize)) {
    match p.patch {
        1 => each_element_of::<1>(p, work),
        2 => each_element_of::<2>(p, work),
        4 => each_element_of::<4>(p, work),
        patch => panic!("no patches of {patch}"),
    }
}

/// The patch is a constant here, because dividing by a variable takes longer than the copy.
#[inline(always)]
fn each_element_of<const PATCH: usize>(p: &Placement, mut work: impl FnMut(usize, usize)) {
    let (rows, columns) = (p.rows.div_ceil(PATCH), p.columns / PATCH);
    for inner_row in 0..rows {
        for sub_row in 0..PATCH {
            // Rows beyond the last repeat it.
            let row = (inner_row * PATCH + sub_row).min(p.rows - 1);
            let line =
                ((inner_row + p.halo) * (columns + 2 * p.halo) + p.halo) * p.image_channels + p.first_channel;
            for column in 0..p.columns {
                let (inner_column, sub_column) = (column / PATCH, column % PATCH);
                let field = (row * p.columns + column) * p.channels;
                let place = line + inner_column * p.image_channels + sub_row * PATCH + sub_column;
                for channel in 0..p.channels {
                    work(field + channel, place + channel * PATCH * PATCH);
                }
            }
        }
    }
}

/// `[y, bias, scale, base]`, the last two perhaps empty.
pub(super) fn readout<T: Real>(threads: &Threads, r: &Readout, read: [&[T]; 4], fields: &mut [T]) {
    let [y, bias, scale, base] = read;
    let each = r.rows * r.columns * r.channels;
    let inner = y.len() / r.images;
    each_image(threads, fields, each, |n, fields| {
        let y = &y[n * inner..][..inner];
        each_output(r, |field, place, channel, output| {
            let value = y[place] + bias[output];
            let value = if scale.is_empty() { value } else { scale[channel] * value };
            fields[field] = if base.is_empty() { value } else { base[n * each + field] + value };
        });
    });
}

/// One thread: the head has few channels.
pub(super) fn readout_adjoint<T: Real>(
    r: &Readout,
    dfields: &[T],
    scale: &[T],
    dy: &mut [T],
    dbias: &mut [T],
) {
    let each = r.rows * r.columns * r.channels;
    let inner = dy.len() / r.images;
    dy.fill(T::default());
    for (dfields, dy) in dfields.chunks(each).zip(dy.chunks_mut(inner)) {
        each_output(r, |field, place, channel, _| {
            dy[place] = if scale.is_empty() { dfields[field] } else { scale[channel] * dfields[field] };
        });
        // One image at a time, so that the sums stay short.
        let outputs = dbias.len();
        let mut sums = vec![T::default(); outputs];
        for point in dy.chunks(outputs) {
            sums.iter_mut().zip(point).for_each(|(sum, &value)| *sum += value);
        }
        dbias.iter_mut().zip(&sums).for_each(|(total, &sum)| *total += sum);
    }
}

/// Calls `work(index in one field image, index in one image of y, channel, channel of y)` for all field elements.
#[inline(always)]
fn each_output(r: &Readout, work: impl FnMut(usize, usize, usize, usize)) {
    match r.patch {
        1 => each_output_of::<1>(r, work),
        2 => each_output_of::<2>(r, work),
        4 => each_output_of::<4>(r, work),
        patch => panic!("no patches of {patch}"),
    }
}

#[inline(always)]
fn each_output_of<const PATCH: usize>(r: &Readout, mut work: impl FnMut(usize, usize, usize, usize)) {
    let points = PATCH * PATCH;
    let (columns, outputs) = (r.columns / PATCH, r.channels * points);
    for row in 0..r.rows {
        for column in 0..r.columns {
            let place = ((row / PATCH) * columns + column / PATCH) * outputs;
            let sub = (row % PATCH) * PATCH + column % PATCH;
            for channel in 0..r.channels {
                let output = channel * points + sub;
                work((row * r.columns + column) * r.channels + channel, place + output, channel, output);
            }
        }
    }
}

pub(super) fn mix<T: Real>(share: &[T], truth: &[T], prediction: &[T], mixed: &mut [T]) {
    let each = mixed.len() / share.len();
    let (zero, one) = (T::default(), T::of(1.0));
    for (n, (mixed, &share)) in mixed.chunks_mut(each).zip(share).enumerate() {
        let (truth, prediction) = (&truth[n * each..][..each], &prediction[n * each..][..each]);
        if share == zero {
            mixed.copy_from_slice(prediction);
        } else if share == one {
            mixed.copy_from_slice(truth);
        } else {
            for ((m, &t), &p) in mixed.iter_mut().zip(truth).zip(prediction) {
                *m = share * t + (one - share) * p;
            }
        }
    }
}

pub(super) fn mix_adjoint<T: Real>(share: &[T], dmixed: &[T], dprediction: &mut [T]) {
    let each = dmixed.len() / share.len();
    for ((dprediction, dmixed), &share) in dprediction.chunks_mut(each).zip(dmixed.chunks(each)).zip(share) {
        let rest = T::of(1.0) - share;
        dprediction.iter_mut().zip(dmixed).for_each(|(p, &m)| *p += rest * m);
    }
}
