//! Normalisation of gate pre-activations over the units of one point, each gate separately.

use super::super::{LayerNorm, Real};
use super::threads::Threads;
use super::vector::{Parts, lines_per_task};

const BLOCK: usize = 16;
const GATES: usize = 4;

/// `[bias, gain]` are read, `[gates, normalised, inverse deviation]` written.
pub(super) fn forward<T: Real>(threads: &Threads, norm: &LayerNorm, read: [&[T]; 2], written: [&mut [T]; 3]) {
    let [bias, gain] = read;
    let channels = GATES * norm.hidden;
    let [gates, normalised, inverse] = written.map(|array| Parts::new(array));
    let share = T::of(1.0 / norm.hidden as f64);
    let epsilon = T::of(norm.epsilon);
    each_point(threads, norm.points, |_, point| {
        // SAFETY: each point is visited by one task, and points are disjoint in all arrays.
        let (gates, normalised, inverse) = unsafe {
            (
                gates.part(point * channels, channels),
                normalised.part(point * channels, channels),
                inverse.part(point * GATES, GATES),
            )
        };
        normalised.iter_mut().zip(&*gates).zip(bias).for_each(|((x, &a), &b)| *x = a + b);
        let mean = sums(norm.hidden, |k| normalised[k]).map(|sum| sum * share);
        each_channel(norm.hidden, |gate, k| normalised[k] = normalised[k] - mean[gate]);
        let variance = sums(norm.hidden, |k| normalised[k] * normalised[k]).map(|sum| sum * share);
        for (inverse, variance) in inverse.iter_mut().zip(variance) {
            *inverse = T::of(1.0) / (variance + epsilon).sqrt();
        }
        each_channel(norm.hidden, |gate, k| normalised[k] *= inverse[gate]);
        gates.iter_mut().zip(&*normalised).zip(gain).for_each(|((y, &x), &gain)| *y = gain * x);
    });
}

/// `[gain, normalised, inverse deviation]` are read; the gates' gradient is overwritten, `[dbias, dgain]` added to.
///
/// With `n` the normalised values and `d = gain dy`: `da = (d - mean(d) - n mean(d n)) / deviation`.
pub(super) fn backward<T: Real>(
    threads: &Threads,
    norm: &LayerNorm,
    read: [&[T]; 3],
    written: [&mut [T]; 3],
) {
    let [gain, normalised, inverse] = read;
    let [gates, dbias, dgain] = written;
    let channels = GATES * norm.hidden;
    let share = T::of(1.0 / norm.hidden as f64);
    let gates = Parts::new(gates);
    // Sums of one task: of dbias, then of dgain.
    let mut partial = vec![T::default(); tasks(norm.points) * 2 * channels];
    let parts = Parts::new(&mut partial);
    each_point(threads, norm.points, |task, point| {
        // SAFETY: each point is visited by one task, and points are disjoint; a task's sums are its own.
        let (gates, sums_of_task) = unsafe {
            (gates.part(point * channels, channels), parts.part(task * 2 * channels, 2 * channels))
        };
        let (bias_sums, gain_sums) = sums_of_task.split_at_mut(channels);
        let normalised = &normalised[point * channels..][..channels];
        for k in 0..channels {
            gain_sums[k] += gates[k] * normalised[k];
            gates[k] *= gain[k];
        }
        let mean = sums(norm.hidden, |k| gates[k]).map(|sum| sum * share);
        let slope = sums(norm.hidden, |k| gates[k] * normalised[k]).map(|sum| sum * share);
        let inverse = &inverse[point * GATES..][..GATES];
        each_channel(norm.hidden, |gate, k| {
            gates[k] = (gates[k] - mean[gate] - normalised[k] * slope[gate]) * inverse[gate];
            bias_sums[k] += gates[k];
        });
    });
    for sums in partial.chunks(2 * channels) {
        let (bias, gain) = sums.split_at(channels);
        dbias.iter_mut().zip(bias).for_each(|(total, &sum)| *total += sum);
        dgain.iter_mut().zip(gain).for_each(|(total, &sum)| *total += sum);
    }
}

/// Points are cut into at most this many times the usual number of lines; a point is short.
fn tasks(points: usize) -> usize {
    points.div_ceil(lines_per_task(points))
}

fn each_point(threads: &Threads, points: usize, work: impl Fn(usize, usize) + Sync + Send) {
    let per_task = lines_per_task(points);
    threads.each(tasks(points), |task| {
        for point in task * per_task..((task + 1) * per_task).min(points) {
            work(task, point);
        }
    });
}

/// Calls `work(gate, channel)` in the order of the channels.
#[inline(always)]
fn each_channel(hidden: usize, mut work: impl FnMut(usize, usize)) {
    for first in (0..hidden).step_by(BLOCK) {
        let width = BLOCK.min(hidden - first);
        for gate in 0..GATES {
            let start = GATES * first + gate * width;
            (start..start + width).for_each(|k| work(gate, k));
        }
    }
}

/// Sum over the units of each gate, taken in sixteen lanes so that it can be a vector.
#[inline(always)]
fn sums<T: Real>(hidden: usize, value: impl Fn(usize) -> T) -> [T; GATES] {
    let mut lanes = [[T::default(); BLOCK]; GATES];
    for first in (0..hidden).step_by(BLOCK) {
        let width = BLOCK.min(hidden - first);
        for (gate, lanes) in lanes.iter_mut().enumerate() {
            let start = GATES * first + gate * width;
            for (u, lane) in lanes[..width].iter_mut().enumerate() {
                *lane += value(start + u);
            }
        }
    }
    lanes.map(|lanes| lanes.into_iter().fold(T::default(), |sum, lane| sum + lane))
}
