//! Normalisation of gate pre-activations over the units of one point, each gate separately: of units that are all here, or of a
//! part of them in two phases, between which the sums over all parts are made.

use super::super::{LayerNorm, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

const BLOCK: usize = 16;
const GATES: usize = 4;
/// Numbers of a point: two for each gate.
const PAIRS: usize = 2 * GATES;

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

/// Overwrites moments `[points, 4, 2]`: of each gate the mean over the units here of `gates + bias`, and the sum of the squared
/// departures from it.
pub(super) fn moments<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    norm: &LayerNorm,
    [gates, bias]: [&[T]; 2],
    moments: &mut [T],
) {
    let channels = GATES * norm.hidden;
    let moments = Parts::new(moments);
    each_run(threads, norm.points, |_, first, count| {
        // SAFETY: runs of points are disjoint, and each is visited by one task.
        let moments = unsafe { moments.part(first * PAIRS, count * PAIRS) };
        moments_points(
            instructions,
            norm.hidden,
            bias,
            &gates[first * channels..][..count * channels],
            moments,
        );
    });
}

/// As [`forward`], with the moments of all parts of the units, `[parts, points, 4, 2]`, in place of those of the units here.
pub(super) fn forward_among<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    norm: &LayerNorm,
    [bias, gain, moments]: [&[T]; 3],
    written: [&mut [T]; 3],
) {
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
        forward_among_points(
            instructions,
            norm.hidden,
            T::of(norm.epsilon),
            norm.points * PAIRS,
            bias,
            gain,
            &moments[first * PAIRS..],
            gates,
            normalised,
            inverse,
        );
    });
}

/// Overwrites sums `[points, 4, 2]`: of each gate the sum over the units here of `gain dy`, and that of its products with the
/// normalised values. Adds to dgain.
pub(super) fn sums_of_gradient<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    norm: &LayerNorm,
    [gain, normalised, gates]: [&[T]; 3],
    [sums, dgain]: [&mut [T]; 2],
) {
    let channels = GATES * norm.hidden;
    let sums = Parts::new(sums);
    let mut partial = vec![T::default(); tasks(norm.points) * channels];
    let parts = Parts::new(&mut partial);
    each_run(threads, norm.points, |task, first, count| {
        // SAFETY: runs of points are disjoint, and each is visited by one task; a task's sums are its own.
        let (sums, dgain) =
            unsafe { (sums.part(first * PAIRS, count * PAIRS), parts.part(task * channels, channels)) };
        let [normalised, gates] = [normalised, gates].map(|x| &x[first * channels..][..count * channels]);
        sums_points(instructions, norm.hidden, gain, normalised, gates, sums, dgain);
    });
    add_parts(&partial, dgain);
}

/// As [`backward`], with sums over the units of all parts in place of those over the units here; dgain is not added to.
pub(super) fn backward_among<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    norm: &LayerNorm,
    parts: usize,
    [gain, normalised, inverse, sums]: [&[T]; 4],
    [gates, dbias]: [&mut [T]; 2],
) {
    let channels = GATES * norm.hidden;
    let share = T::of(1.0 / (parts * norm.hidden) as f64);
    let gates = Parts::new(gates);
    let mut partial = vec![T::default(); tasks(norm.points) * channels];
    let partials = Parts::new(&mut partial);
    each_run(threads, norm.points, |task, first, count| {
        // SAFETY: as in `sums_of_gradient`.
        let (gates, dbias) = unsafe {
            (gates.part(first * channels, count * channels), partials.part(task * channels, channels))
        };
        let normalised = &normalised[first * channels..][..count * channels];
        let (inverse, sums) =
            (&inverse[first * GATES..][..count * GATES], &sums[first * PAIRS..][..count * PAIRS]);
        backward_among_points(
            instructions,
            norm.hidden,
            share,
            gain,
            normalised,
            inverse,
            sums,
            gates,
            dbias,
        );
    });
    add_parts(&partial, dbias);
}

/// Adds the sums of all tasks, in their order.
fn add_parts<T: Real>(partial: &[T], to: &mut [T]) {
    for sums in partial.chunks(to.len()) {
        to.iter_mut().zip(sums).for_each(|(total, &sum)| *total += sum);
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
            let (mean, squares) = moments_of(hidden, bias, gates);
            let variance = squares.map(|sum| sum * share);
            normalise(hidden, epsilon, [bias, gain], mean, variance, [gates, normalised, inverse]);
        }
    }
}

vectorised! {
    fn moments_points<T: Real>(hidden: usize, bias: &[T], gates: &[T], moments: &mut [T]) {
        for (gates, moments) in gates.chunks_exact(GATES * hidden).zip(moments.chunks_exact_mut(PAIRS)) {
            let (mean, squares) = moments_of(hidden, bias, gates);
            for (gate, pair) in moments.chunks_exact_mut(2).enumerate() {
                (pair[0], pair[1]) = (mean[gate], squares[gate]);
            }
        }
    }
}

vectorised! {
    /// Moments of one part stand `stride` before those of the next. Departures of the parts' means from their mean count for
    /// each of their units (Chan, Golub and LeVeque 1983, doi:10.1080/00031305.1983.10483115).
    fn forward_among_points<T: Real>(
        hidden: usize,
        epsilon: T,
        stride: usize,
        bias: &[T],
        gain: &[T],
        moments: &[T],
        gates: &mut [T],
        normalised: &mut [T],
        inverse: &mut [T],
    ) {
        let channels = GATES * hidden;
        let parts = (moments.len() - 1) / stride + 1;
        let (count, units) = (T::of(1.0 / parts as f64), T::of(hidden as f64));
        let share = T::of(1.0 / (parts * hidden) as f64);
        let points = gates.chunks_exact_mut(channels).zip(normalised.chunks_exact_mut(channels));
        for (point, ((gates, normalised), inverse)) in points.zip(inverse.chunks_exact_mut(GATES)).enumerate() {
            let of = |part: usize, gate: usize, which: usize| {
                moments[part * stride + point * PAIRS + 2 * gate + which]
            };
            let (mut mean, mut variance) = ([T::default(); GATES], [T::default(); GATES]);
            for gate in 0..GATES {
                for part in 0..parts {
                    mean[gate] += of(part, gate, 0);
                }
                mean[gate] *= count;
                for part in 0..parts {
                    let departure = of(part, gate, 0) - mean[gate];
                    variance[gate] += of(part, gate, 1) + units * (departure * departure);
                }
                variance[gate] *= share;
            }
            normalise(hidden, epsilon, [bias, gain], mean, variance, [gates, normalised, inverse]);
        }
    }
}

vectorised! {
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
            let sums = sums_of(hidden, gain, normalised, gates, gain_sums);
            let means = sums.map(|sums| sums.map(|sum| sum * share));
            retreat(hidden, gain, normalised, inverse, means, gates, bias_sums);
        }
    }
}

vectorised! {
    fn sums_points<T: Real>(
        hidden: usize,
        gain: &[T],
        normalised: &[T],
        gates: &[T],
        sums: &mut [T],
        dgain: &mut [T],
    ) {
        let channels = GATES * hidden;
        let points = gates.chunks_exact(channels).zip(normalised.chunks_exact(channels));
        for ((gates, normalised), to) in points.zip(sums.chunks_exact_mut(PAIRS)) {
            let [sums, slopes] = sums_of(hidden, gain, normalised, gates, dgain);
            for (gate, pair) in to.chunks_exact_mut(2).enumerate() {
                (pair[0], pair[1]) = (sums[gate], slopes[gate]);
            }
        }
    }
}

vectorised! {
    fn backward_among_points<T: Real>(
        hidden: usize,
        share: T,
        gain: &[T],
        normalised: &[T],
        inverse: &[T],
        sums: &[T],
        gates: &mut [T],
        dbias: &mut [T],
    ) {
        let channels = GATES * hidden;
        let points = gates.chunks_exact_mut(channels).zip(normalised.chunks_exact(channels));
        let of_points = inverse.chunks_exact(GATES).zip(sums.chunks_exact(PAIRS));
        for ((gates, normalised), (inverse, sums)) in points.zip(of_points) {
            let means = [0, 1].map(|which| [0, 1, 2, 3].map(|gate| sums[2 * gate + which] * share));
            retreat(hidden, gain, normalised, inverse, means, gates, dbias);
        }
    }
}

/// Of one point: of each gate the mean of `gates + bias`, and the sum of the squared departures from it.
#[inline(always)]
fn moments_of<T: Real>(hidden: usize, bias: &[T], gates: &[T]) -> ([T; GATES], [T; GATES]) {
    let (bias, gates) = (&bias[..GATES * hidden], &gates[..GATES * hidden]);
    let share = T::of(1.0 / hidden as f64);
    let mean = sums(hidden, |_, k| gates[k] + bias[k]).map(|sum| sum * share);
    let squares = sums(hidden, |gate, k| {
        let departure = gates[k] + bias[k] - mean[gate];
        departure * departure
    });
    (mean, squares)
}

/// Of one point: writes gates, normalised values and inverse deviations.
#[inline(always)]
fn normalise<T: Real>(
    hidden: usize,
    epsilon: T,
    [bias, gain]: [&[T]; 2],
    mean: [T; GATES],
    variance: [T; GATES],
    [gates, normalised, inverse]: [&mut [T]; 3],
) {
    let channels = GATES * hidden;
    let (bias, gain) = (&bias[..channels], &gain[..channels]);
    let (gates, normalised) = (&mut gates[..channels], &mut normalised[..channels]);
    let scale = variance.map(|variance| T::of(1.0) / (variance + epsilon).sqrt());
    inverse.copy_from_slice(&scale);
    each_channel(hidden, |gate, k| {
        normalised[k] = (gates[k] + bias[k] - mean[gate]) * scale[gate];
        gates[k] = gain[k] * normalised[k];
    });
}

/// Of one point, with `d = gain dy` and n the normalised values: of each gate the sums of d and of `d n`. Adds to dgain.
#[inline(always)]
fn sums_of<T: Real>(
    hidden: usize,
    gain: &[T],
    normalised: &[T],
    gates: &[T],
    dgain: &mut [T],
) -> [[T; GATES]; 2] {
    let channels = GATES * hidden;
    let (gain, normalised, gates) = (&gain[..channels], &normalised[..channels], &gates[..channels]);
    for ((dgain, &dy), &n) in dgain.iter_mut().zip(gates).zip(normalised) {
        *dgain += dy * n;
    }
    [sums(hidden, |_, k| gates[k] * gain[k]), sums(hidden, |_, k| gates[k] * gain[k] * normalised[k])]
}

/// Of one point, with d and n as in [`sums_of`]: `da = (d - mean(d) - n mean(d n)) / deviation`. Adds to dbias.
#[inline(always)]
fn retreat<T: Real>(
    hidden: usize,
    gain: &[T],
    normalised: &[T],
    inverse: &[T],
    [mean, slope]: [[T; GATES]; 2],
    gates: &mut [T],
    dbias: &mut [T],
) {
    let channels = GATES * hidden;
    let (gain, normalised) = (&gain[..channels], &normalised[..channels]);
    let (gates, dbias) = (&mut gates[..channels], &mut dbias[..channels]);
    each_channel(hidden, |gate, k| {
        gates[k] = (gates[k] * gain[k] - mean[gate] - normalised[k] * slope[gate]) * inverse[gate];
        dbias[k] += gates[k];
    });
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

/// Sum over the units of each gate of `value(gate, channel)`, taken in sixteen lanes so that it can be a vector.
#[inline(always)]
fn sums<T: Real>(hidden: usize, value: impl Fn(usize, usize) -> T) -> [T; GATES] {
    let mut lanes = [[T::default(); BLOCK]; GATES];
    for first in (0..hidden).step_by(BLOCK) {
        let width = BLOCK.min(hidden - first);
        for (gate, lanes) in lanes.iter_mut().enumerate() {
            let start = GATES * first + gate * width;
            for (u, lane) in lanes[..width].iter_mut().enumerate() {
                *lane += value(gate, start + u);
            }
        }
    }
    lanes.map(|lanes| lanes.into_iter().fold(T::default(), |sum, lane| sum + lane))
}
