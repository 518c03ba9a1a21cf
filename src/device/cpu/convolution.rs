//! Chooses the kernel for a convolution: by number type, instructions and shape, never by the number of threads.

use super::super::{Convolution, Real, Write};
use super::instructions::Instructions;
use super::naive;
use super::threads::Threads;

/// `y (+)= conv(x, w)`.
pub(super) fn forward<T: Real>(
    threads: &Threads,
    _: Instructions,
    shape: &Convolution,
    x: &[T],
    w: &[T],
    y: &mut [T],
    write: Write,
) {
    check(shape, x, w, y);
    naive::forward(threads, shape, x, w, y, write);
}

/// `dx = transpose of conv(., w) applied to dy`.
pub(super) fn input_gradient<T: Real>(
    threads: &Threads,
    _: Instructions,
    shape: &Convolution,
    dy: &[T],
    w: &[T],
    dx: &mut [T],
) {
    check(shape, dx, w, dy);
    naive::input_gradient(threads, shape, dy, w, dx);
}

/// `dw += transpose of conv(x, .) applied to dy`.
pub(super) fn weight_gradient<T: Real>(
    threads: &Threads,
    _: Instructions,
    shape: &Convolution,
    x: &[T],
    dy: &[T],
    dw: &mut [T],
) {
    check(shape, x, dw, dy);
    naive::weight_gradient(threads, shape, x, dy, dw);
}

fn check<T>(shape: &Convolution, x: &[T], w: &[T], y: &[T]) {
    assert!(shape.kernel % 2 == 1, "a kernel of {} has no middle", shape.kernel);
    assert!(shape.y_len() > 0 && shape.inputs > 0, "{shape:?} is empty");
    assert_eq!(x.len(), shape.x_len(), "x of {shape:?}");
    assert_eq!(w.len(), shape.w_len(), "w of {shape:?}");
    assert_eq!(y.len(), shape.y_len(), "y of {shape:?}");
}

#[cfg(test)]
mod tests;
