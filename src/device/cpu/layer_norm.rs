//! Normalisation of gate pre-activations over the units of one point, each gate separately.

use super::super::{LayerNorm, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

const BLOCK: usize = 16;
const GATES: usize = 4;

/// `[bias, gain]` are read, `[gates, normalised, inverse deviation]` written.
pub(super) fn forward<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    norm: &LayerNorm,
    read: [&[T]; 2],
    written: [&mut [T]; 3],
) {
    let [bias, gain] = read;
    let channels = GATES * norm.hidden;
    let [gates, normalised, inverse] = written.map(|array| Parts::new(array));
    each_run(threads, norm.points, |_, first, count| {
        // SAFETY: runs of points are disjoint, and each is visited by one task.
        let (gates, normalised, inverse) = unsafe {
            (
                gates.part(first * channels, count * channels),
                normalised.part(first * channels, count * channels),
                inverse.part(first * GATES, count * GATES),
            )
        };
        forward_points(
            instructions,
            norm.hidden,
            T::of(norm.epsilon),
            bias,
            gain,
            gates,
            normalised,
            inverse,
        );
    });
}

/// `[gain, normalised, inverse deviation]` are read; the gates' gradient is overwritten, `[dbias, dgain]` added to.
pub(super) fn backward<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    norm: &LayerNorm,
    read: [&[T]; 3],
    written: [&mut [T]; 3],
) {
    let [gain, normalised, inverse] = read;
    let [gates, dbias, dgain] = written;
    let channels = GATES * norm.hidden;
    let gates = Parts::new(gates);
    // Sums of one task: of dbias, then of dgain.
    let mut partial = vec![T::default(); tasks(norm.points) * 2 * channels];
    let parts = Parts::new(&mut partial);
    each_run(threads, norm.points, |task, first, count| {
        // SAFETY: runs of points are disjoint, and each is visited by one task; a task's sums are its own.
        let (gates, sums) = unsafe {
            (gates.part(first * channels, count * channels), parts.part(task * 2 * channels, 2 * channels))
        };
        let normalised = &normalised[first * channels..][..count * channels];
        let inverse = &inverse[first * GATES..][..count * GATES];
        backward_points(instructions, norm.hidden, gain, normalised, inverse, gates, sums);
    });
    for sums in partial.chunks(2 * channels) {
        let (bias, gain) = sums.split_at(channels);
        dbias.iter_mut().zip(bias).for_each(|(total, &sum)| *total += sum);
        dgain.iter_mut().zip(gain).for_each(|(total, &sum)| *total += sum);
    }
}

vectorised! {
    fn forward_points<T: Real>(
        hidden: usize,
        epsilon: T,
        bias: &[T],
        gain: &[T],
        gates: &mut [T],
        normalised: &mut [T],
        inverse: &mut [T],
    ) {
        let channels = GATES * hidden;
        let share = T::of(1.0 / hidden as f64);
        let points = gates.chunks_exact_mut(channels).zip(normalised.chunks_exact_mut(channels));
        for ((gates, normalised), inverse) in points.zip(inverse.chunks_exact_mut(GATES)) {
            normalised.iter_mut().zip(&*gates).zip(bias).for_each(|((x, &a), &b)| *x = a + b);
            let mean = sums(hidden, |k| normalised[k]).map(|sum| sum * share);
            each_channel(hidden, |gate, k| normalised[k] = normalised[k] - mean[gate]);
            let variance = sums(hidden, |k| normalised[k] * normalised[k]).map(|sum| sum * share);
            for (inverse, variance) in inverse.iter_mut().zip(variance) {
                *inverse = T::of(1.0) / (variance + epsilon).sqrt();
            }
            each_channel(hidden, |gate, k| normalised[k] *= inverse[gate]);
            gates.iter_mut().zip(&*normalised).zip(gain).for_each(|((y, &x), &gain)| *y = gain * x);
        }
    }
}

vectorised! {
    /// With `n` the normalised values and `d = gain dy`: `da = (d - mean(d) - n mean(d n)) / deviation`.
    fn backward_points<T: Real>(
        hidden: usize,
        gain: &[T],
        normalised: &[T],
        inverse: &[T],
        gates: &mut [T],
        partial: &mut [T],
    ) {
        let channels = GATES * hidden;
        let share = T::of(1.0 / hidden as f64);
        let (bias_sums, gain_sums) = partial.split_at_mut(channels);
        let points = gates.chunks_exact_mut(channels).zip(normalised.chunks_exact(channels));
        for ((gates, normalised), inverse) in points.zip(inverse.chunks_exact(GATES)) {
            for k in 0..channels {
                gain_sums[k] += gates[k] * normalised[k];
                gates[k] *= gain[k];
            }
            let mean = sums(hidden, |k| gates[k]).map(|sum| sum * share);
            let slope = sums(hidden, |k| gates[k] * normalised[k]).map(|sum| sum * share);
            each_channel(hidden, |gate, k| {
                gates[k] = (gates[k] - mean[gate] - normalised[k] * slope[gate]) * inverse[gate];
                bias_sums[k] += gates[k];
            });
        }
    }
}

fn tasks(points: usize) -> usize {
    points.div_ceil(lines_per_task(points))
}

/// Calls `work(task, first point, points)` for consecutive runs of points.
fn each_run(threads: &Threads, points: usize, work: impl Fn(usize, usize, usize) + Sync + Send) {
    let per_task = lines_per_task(points);
    threads.each(tasks(points), |task| {
        let first = task * per_task;
        work(task, first, per_task.min(points - first));
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
