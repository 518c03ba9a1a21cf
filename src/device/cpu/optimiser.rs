//! Passes over all parameters.

use super::super::{AdamW, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, vectorised};

/// Elements of one task; fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 14;

const LANES: usize = 16;

/// `[gradient, settings]` are read, `[parameter, first, second]` updated.
pub(super) fn adamw<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    step: &AdamW,
    read: [&[T]; 2],
    written: [&mut [T]; 3],
) {
    let [gradient, settings] = read;
    let len = gradient.len();
    assert!(
        written.iter().all(|array| array.len() == len),
        "parameter, gradient and moments are of one length"
    );
    let [parameter, first, second] = written.map(|array| Parts::new(array));
    threads.each(len.div_ceil(CHUNK), |task| {
        let (start, len) = (task * CHUNK, CHUNK.min(len - task * CHUNK));
        // SAFETY: tasks have disjoint chunks.
        let (parameter, first, second) =
            unsafe { (parameter.part(start, len), first.part(start, len), second.part(start, len)) };
        adamw_chunk(instructions, step, settings, &gradient[start..start + len], parameter, first, second);
    });
}

vectorised! {
    fn adamw_chunk<T: Real>(
        step: &AdamW,
        settings: &[T],
        gradient: &[T],
        parameter: &mut [T],
        first: &mut [T],
        second: &mut [T],
    ) {
        let (rate, scale, c1, c2) = (settings[0], settings[1], settings[2], settings[3]);
        let (new1, new2) = (T::of(1.0 - step.beta1), T::of(1.0 - step.beta2));
        let (epsilon, decay) = (T::of(step.epsilon), T::of(step.decay));
        let moments = first.iter_mut().zip(second);
        for ((p, &g), (m, v)) in parameter.iter_mut().zip(gradient).zip(moments) {
            let g = scale * g;
            *m += new1 * (g - *m);
            *v += new2 * (g * g - *v);
            *p = *p - rate * (c1 * *m / ((c2 * *v).sqrt() + epsilon) + decay * *p);
        }
    }
}

pub(super) fn sum_of_squares<T: Real>(threads: &Threads, instructions: Instructions, x: &[T]) -> f64 {
    let mut sums = vec![0.0_f64; x.len().div_ceil(CHUNK)];
    threads.chunks(&mut sums, 1, |task, sum| {
        sum[0] = squares_of_chunk(instructions, &x[task * CHUNK..x.len().min((task + 1) * CHUNK)]);
    });
    sums.iter().sum()
}

vectorised! {
    fn squares_of_chunk<T: Real>(x: &[T]) -> f64 {
        let mut lanes = [0.0_f64; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        for values in whole {
            for (lane, value) in lanes.iter_mut().zip(values) {
                *lane += value.wide() * value.wide();
            }
        }
        lanes.iter().sum::<f64>() + rest.iter().map(|value| value.wide() * value.wide()).sum::<f64>()
    }
}

pub(super) fn scale<T: Real>(threads: &Threads, instructions: Instructions, x: &mut [T], factor: f64) {
    threads.chunks(x, CHUNK, |_, x| scale_chunk(instructions, x, T::of(factor)));
}

vectorised! {
    fn scale_chunk<T: Real>(x: &mut [T], factor: T) {
        x.iter_mut().for_each(|x| *x *= factor);
    }
}

pub(super) fn lerp<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    x: &mut [T],
    target: &[T],
    weight: f64,
) {
    assert_eq!(x.len(), target.len(), "what is moved is as long as where it goes");
    threads.chunks(x, CHUNK, |task, x| {
        lerp_chunk(instructions, x, &target[task * CHUNK..][..x.len()], T::of(weight));
    });
}

vectorised! {
    fn lerp_chunk<T: Real>(x: &mut [T], target: &[T], weight: T) {
        x.iter_mut().zip(target).for_each(|(x, &target)| *x += weight * (target - *x));
    }
}

pub(super) fn relax<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    x: &mut [T],
    target: &[T],
    weights: &[T],
) {
    assert!(target.len() == x.len() && weights.len() == x.len(), "a target and a weight for each number");
    threads.chunks(x, CHUNK, |task, x| {
        let range = task * CHUNK..task * CHUNK + x.len();
        relax_chunk(instructions, x, &target[range.clone()], &weights[range]);
    });
}

vectorised! {
    fn relax_chunk<T: Real>(x: &mut [T], target: &[T], weights: &[T]) {
        let one = T::of(1.0);
        for ((x, &target), &weight) in x.iter_mut().zip(target).zip(weights) {
            let moved = (one - weight) * *x + weight * target;
            *x = if weight == one { target } else { moved };
        }
    }
}
