//! The implicit smoothing of a cyclic row, pass by pass: see [`Filter`].

use super::super::{Filter, Real};
use super::instructions::Instructions;
use super::vector::vectorised;

/// Smooths a cyclic row of `n`. `row` and `work` are of [`smoothing_width`]; the row stands in the middle third of `row`,
/// before and after.
pub(super) fn smooth<'a, T: Real>(
    instructions: Instructions,
    mut z: [f64; 2],
    n: usize,
    row: &mut &'a mut [T],
    work: &mut &'a mut [T],
) {
    let mut stride = 1_usize;
    while z[0] * z[0] + z[1] * z[1] >= Filter::NEGLIGIBLE * Filter::NEGLIGIBLE {
        let [c1, c2] = Filter::weights(z);
        let strides = [stride % n, 2 * stride % n];
        // So much of the row is repeated on either side that no neighbour has to be looked for.
        let margin = strides[0].max(strides[1]);
        row.copy_within(2 * n - margin..2 * n, n - margin);
        row.copy_within(n..n + margin, 2 * n);
        smooth_once(instructions, T::of(c1), T::of(c2), strides, row, &mut work[n..2 * n]);
        std::mem::swap(row, work);
        z = Filter::square(z);
        stride *= 2;
    }
}

/// Smooths a cyclic row that stands by itself; `work` is twice as long as [`smoothing_width`].
pub(super) fn smooth_alone<T: Real>(instructions: Instructions, z: [f64; 2], row: &mut [T], work: &mut [T]) {
    if z == [0.0; 2] {
        return;
    }
    let n = row.len();
    let (mut from, mut to) = work.split_at_mut(smoothing_width(n));
    from[n..2 * n].copy_from_slice(row);
    smooth(instructions, z, n, &mut from, &mut to);
    row.copy_from_slice(&from[n..2 * n]);
}

/// Of a row of `n` with room for its repetitions.
pub(super) fn smoothing_width(n: usize) -> usize {
    (3 * n).next_multiple_of(16)
}

vectorised! {
    /// One pass with two strides of at most the length of `to`.
    fn smooth_once<T: Real>(c1: T, c2: T, strides: [usize; 2], x: &[T], to: &mut [T]) {
        let n = to.len();
        let [s1, s2] = strides;
        let (w2, w1, here, e1, e2) =
            (&x[n - s2..][..n], &x[n - s1..][..n], &x[n..][..n], &x[n + s1..][..n], &x[n + s2..][..n]);
        for i in 0..n {
            let near = (w1[i] - here[i]) + (e1[i] - here[i]);
            let far = (w2[i] - here[i]) + (e2[i] - here[i]);
            to[i] = here[i] + (c1 * near + c2 * far);
        }
    }
}
