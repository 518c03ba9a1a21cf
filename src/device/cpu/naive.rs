//! The three directions of a convolution as they are written on paper: for float64 and as the measure of the others.

use super::super::{Convolution, Real, Write};
use super::threads::Threads;

/// `y[n, j, i, k] (+)= sum over a, b, c of x[n, j + a, i + b, c] w[a, b, c, k]`, a row of y at a time.
pub(super) fn forward<T: Real>(
    threads: &Threads,
    s: &Convolution,
    x: &[T],
    w: &[T],
    y: &mut [T],
    write: Write,
) {
    let row_len = (s.columns + s.kernel - 1) * s.inputs;
    threads.chunks(y, s.columns * s.outputs, |row, y| {
        let (n, j) = (row / s.rows, row % s.rows);
        if write == Write::Overwrite {
            y.fill(T::default());
        }
        for a in 0..s.kernel {
            let x = &x[(n * (s.rows + s.kernel - 1) + j + a) * row_len..][..row_len];
            for (i, y) in y.chunks_exact_mut(s.outputs).enumerate() {
                // Kernel columns and inputs lie side by side in x and in w.
                let taps = s.kernel * s.inputs;
                let w = &w[a * taps * s.outputs..][..taps * s.outputs];
                for (&x, w) in x[i * s.inputs..][..taps].iter().zip(w.chunks_exact(s.outputs)) {
                    for (y, &w) in y.iter_mut().zip(w) {
                        *y += x * w;
                    }
                }
            }
        }
    });
}

/// `dx[n, j, i, c] = sum over a, b, k of dy[n, j - a, i - b, k] w[a, b, c, k]`, a row of dx at a time.
pub(super) fn input_gradient<T: Real>(threads: &Threads, s: &Convolution, dy: &[T], w: &[T], dx: &mut [T]) {
    let x_rows = s.rows + s.kernel - 1;
    threads.chunks(dx, (s.columns + s.kernel - 1) * s.inputs, |row, dx| {
        let (n, j) = (row / x_rows, row % x_rows);
        dx.fill(T::default());
        for a in (0..s.kernel).filter(|&a| a <= j && j - a < s.rows) {
            let dy = &dy[(n * s.rows + j - a) * s.columns * s.outputs..][..s.columns * s.outputs];
            for (i, dy) in dy.chunks_exact(s.outputs).enumerate() {
                let taps = s.kernel * s.inputs;
                let w = &w[a * taps * s.outputs..][..taps * s.outputs];
                for (dx, w) in dx[i * s.inputs..][..taps].iter_mut().zip(w.chunks_exact(s.outputs)) {
                    let mut sum = T::default();
                    for (&dy, &w) in dy.iter().zip(w) {
                        sum += dy * w;
                    }
                    *dx += sum;
                }
            }
        }
    });
}

/// `dw[a, b, c, k] += sum over n, j, i of x[n, j + a, i + b, c] dy[n, j, i, k]`, a kernel row of dw at a time.
pub(super) fn weight_gradient<T: Real>(threads: &Threads, s: &Convolution, x: &[T], dy: &[T], dw: &mut [T]) {
    let row_len = (s.columns + s.kernel - 1) * s.inputs;
    let taps = s.kernel * s.inputs;
    threads.chunks(dw, taps * s.outputs, |a, dw| {
        for n in 0..s.images {
            for j in 0..s.rows {
                let x = &x[(n * (s.rows + s.kernel - 1) + j + a) * row_len..][..row_len];
                let dy = &dy[(n * s.rows + j) * s.columns * s.outputs..][..s.columns * s.outputs];
                for (i, dy) in dy.chunks_exact(s.outputs).enumerate() {
                    for (&x, dw) in x[i * s.inputs..][..taps].iter().zip(dw.chunks_exact_mut(s.outputs)) {
                        for (dw, &dy) in dw.iter_mut().zip(dy) {
                            *dw += x * dy;
                        }
                    }
                }
            }
        }
    });
}
