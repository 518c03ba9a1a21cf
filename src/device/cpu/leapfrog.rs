//! The two passes over memory of a leapfrog step with implicit gravity waves, before and after the equation is solved.
//!
//! Neither stores p: both make it from the fields, which costs less than writing and reading it again.

use super::super::{HALO, Leapfrog, Real, RowMeasures};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

/// What is read; u, v, h of each.
pub(super) struct Inputs<'a, T> {
    pub before: [&'a [T]; 3],
    pub now: [&'a [T]; 3],
    pub nonlinear: [&'a [T]; 3],
    pub table: &'a [T],
}

/// Steps and factors, in working precision.
#[derive(Clone, Copy)]
struct Factors<T> {
    twice_dt: T,
    /// `2 dt g`
    head: T,
    /// `2 dt depth`
    depth: T,
    /// `alpha nu / 2`
    to_now: T,
    /// `1 + (alpha - 1) nu / 2`
    to_after: T,
}

/// The rows of a step's fields.
#[derive(Clone, Copy)]
struct Shape<'a, T> {
    step: &'a Leapfrog,
    table: &'a [T],
    factors: Factors<T>,
}

impl<'a, T: Real> Shape<'a, T> {
    fn new(step: &'a Leapfrog, table: &'a [T]) -> Self {
        let flow = &step.flow;
        assert_eq!(flow.poles, [true; 2], "a leapfrog step needs the whole globe");
        assert_eq!(table.len(), (flow.rows + 2 * HALO) * RowMeasures::COUNT, "measures of each row");
        let factors = Factors {
            twice_dt: T::of(2.0 * step.dt),
            head: T::of(2.0 * step.dt * flow.g),
            depth: T::of(2.0 * step.dt * flow.depth),
            to_now: T::of(step.alpha * step.filter / 2.0),
            to_after: T::of(1.0 + (step.alpha - 1.0) * step.filter / 2.0),
        };
        Self { step, table, factors }
    }

    /// Where the interior of row j begins.
    fn start(&self, j: usize) -> usize {
        (j + HALO) * (self.step.flow.columns + 2 * HALO) + HALO
    }

    fn row<'b>(&self, field: &'b [T], j: usize) -> &'b [T] {
        &field[self.start(j)..][..self.step.flow.columns]
    }

    fn coefficient(&self, j: usize, which: usize) -> T {
        self.table[(j + HALO) * RowMeasures::COUNT + which]
    }

    /// `2 dt g / dx` of row j, and `2 dt g / dy`.
    fn slopes(&self, j: usize) -> [T; 2] {
        let head = self.factors.head;
        [head * self.coefficient(j, 8), head * T::of(1.0 / self.step.flow.dy)]
    }
}

/// Writes the right side to `unknown`.
pub(super) fn predict<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    step: &Leapfrog,
    inputs: &Inputs<'_, T>,
    unknown: &mut [T],
) {
    let (rows, n) = (step.flow.rows, step.flow.columns);
    let shape = Shape::new(step, inputs.table);
    assert_eq!(unknown.len(), rows * n, "one unknown for each cell");
    let block = lines_per_task(rows);
    // p of v on the south face of row j; nothing passes a pole.
    let cross = |j: usize, p: &mut [T]| {
        if j == 0 || j == rows {
            return p.fill(T::default());
        }
        let [_, slope] = shape.slopes(j);
        let at = |field| shape.row(field, j);
        let south = shape.row(inputs.now[2], j - 1);
        let [before, now, k] = [inputs.before[1], inputs.now[1], inputs.nonlinear[1]].map(at);
        predicted(instructions, before, now, k, [at(inputs.now[2]), south], shape.factors.twice_dt, slope, p);
    };
    threads.chunks(unknown, block * n, |task, unknown| {
        let first = task * block;
        let mut along = vec![T::default(); n + 1];
        let (mut south, mut north) = (vec![T::default(); n], vec![T::default(); n]);
        cross(first, &mut south);
        for (j, right) in (first..).zip(unknown.chunks_mut(n)) {
            cross(j + 1, &mut north);
            let at = |field| shape.row(field, j);
            let [before, now, k] = [inputs.before[0], inputs.now[0], inputs.nonlinear[0]].map(at);
            let west = &inputs.now[2][shape.start(j) - 1..][..n];
            let [slope, _] = shape.slopes(j);
            let heads = [at(inputs.now[2]), west];
            predicted(instructions, before, now, k, heads, shape.factors.twice_dt, slope, &mut along[..n]);
            along[n] = along[0];
            let of = |which| shape.coefficient(j, which);
            let north_length = if j + 1 == rows { T::default() } else { shape.coefficient(j + 1, 0) };
            // dy / (2 area) stands for the area.
            let area = T::of(step.flow.dy / 2.0) / of(4);
            let sides = Sides {
                u: at(inputs.now[0]),
                east: inputs.now[0][shape.start(j)],
                v: [at(inputs.now[1]), if j + 1 == rows { &north } else { shape.row(inputs.now[1], j + 1) }],
                lengths: [of(0), north_length],
            };
            let [before, now, k] = [inputs.before[2], inputs.now[2], inputs.nonlinear[2]].map(at);
            right_side(
                instructions,
                [before, now, k],
                &sides,
                &along,
                [&south, &north],
                shape.factors.twice_dt,
                shape.factors.depth * of(4),
                area * T::of(-step.kappa()),
                right,
            );
            std::mem::swap(&mut south, &mut north);
        }
    });
}

/// Wind and lengths of the faces of one row.
struct Sides<'a, T> {
    u: &'a [T],
    /// u beyond the last column.
    east: T,
    v: [&'a [T]; 2],
    lengths: [T; 2],
}

vectorised! {
    /// `p = 2 (x- - x) + 2 dt N - slope (h - h of the cell before)`
    fn predicted<T: Real>(
        before: &[T],
        now: &[T],
        k: &[T],
        heads: [&[T]; 2],
        twice_dt: T,
        slope: T,
        p: &mut [T],
    ) {
        let n = p.len();
        let (before, now, k, [h, h_before]) = (&before[..n], &now[..n], &k[..n], heads.map(|h| &h[..n]));
        for i in 0..n {
            let difference = before[i] - now[i];
            p[i] = (difference + difference) + (twice_dt * k[i] - slope * (h[i] - h_before[i]));
        }
    }
}

vectorised! {
    /// `-kappa A (p_h - dt depth div(p_u, p_v))` with `p_h = 2 (h- - h) + 2 dt (N_h - depth div(u, v))`; lengths are over dy,
    /// `depth` is `2 dt depth dy / (2 A)`.
    fn right_side<T: Real>(
        h: [&[T]; 3],
        sides: &Sides<'_, T>,
        along: &[T],
        cross: [&[T]; 2],
        twice_dt: T,
        depth: T,
        factor: T,
        right: &mut [T],
    ) {
        let n = right.len();
        let [before, now, k] = h.map(|h| &h[..n]);
        let (u, [south, north], [l0, l1]) = (&sides.u[..n], sides.v.map(|v| &v[..n]), sides.lengths);
        let (p, pe, [ps, pn]) = (&along[..n], &along[1..][..n], cross.map(|p| &p[..n]));
        let mut one = |i: usize, east: T| {
            let of_now = (east - u[i]) + (north[i] * l1 - south[i] * l0);
            let of_p = (pe[i] - p[i]) + (pn[i] * l1 - ps[i] * l0);
            let difference = before[i] - now[i];
            let local = (difference + difference) + twice_dt * k[i];
            right[i] = factor * (local - depth * ((of_now + of_now) + of_p));
        };
        for i in 0..n - 1 {
            one(i, u[i + 1]);
        }
        one(n - 1, sides.east);
    }
}

/// Steps u and v, then h: `before` becomes after, `now` is filtered. Read are N of u and v, the measures of the rows, and
/// the solution.
pub(super) fn correct<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    step: &Leapfrog,
    read: [&[T]; 4],
    before: [&mut [T]; 3],
    now: [&mut [T]; 3],
) {
    let (rows, n) = (step.flow.rows, step.flow.columns);
    let [along, cross, table, unknown] = read;
    let shape = Shape::new(step, table);
    assert_eq!(unknown.len(), rows * n, "one unknown for each cell");
    let block = lines_per_task(rows);
    let tasks = rows.div_ceil(block);
    let [before_u, before_v, before_h] = before.map(|field| Parts::new(field));
    let [now_u, now_v, h] = now;
    let (now_u, now_v) = (Parts::new(now_u), Parts::new(now_v));
    // SAFETY (all parts): each row belongs to one task.
    threads.each(tasks, |task| {
        let mut shifted = vec![T::default(); n];
        for j in task * block..rows.min((task + 1) * block) {
            let ([slope_x, slope_y], start) = (shape.slopes(j), shape.start(j));
            let w = &unknown[j * n..][..n];
            shifted[0] = w[n - 1];
            shifted[1..].copy_from_slice(&w[..n - 1]);
            let heads = [shape.row(h, j), &h[start - 1..][..n]];
            // SAFETY: as above.
            let (x, now) = unsafe { (before_u.part(start, n), now_u.part(start, n)) };
            let k = shape.row(along, j);
            corrected(instructions, k, heads, [w, &shifted], shape.factors, slope_x, x, now);
            if j == 0 {
                continue;
            }
            let (heads, w) = ([shape.row(h, j), shape.row(h, j - 1)], [w, &unknown[(j - 1) * n..][..n]]);
            // SAFETY: as above.
            let (x, now) = unsafe { (before_v.part(start, n), now_v.part(start, n)) };
            corrected(instructions, shape.row(cross, j), heads, w, shape.factors, slope_y, x, now);
        }
    });
    // Only now, since the winds of the next row need h of this one.
    let h = Parts::new(h);
    threads.each(tasks, |task| {
        for j in task * block..rows.min((task + 1) * block) {
            let start = shape.start(j);
            // SAFETY: as above.
            let (x, now) = unsafe { (before_h.part(start, n), h.part(start, n)) };
            stepped(instructions, &unknown[j * n..][..n], shape.factors, x, now);
        }
    });
}

vectorised! {
    /// `w = p - slope / 2 (w_h - w_h of the cell before)`; then as [`stepped`].
    fn corrected<T: Real>(
        k: &[T],
        heads: [&[T]; 2],
        unknowns: [&[T]; 2],
        factors: Factors<T>,
        slope: T,
        before: &mut [T],
        now: &mut [T],
    ) {
        let n = now.len();
        let (k, [h, hb], [w, wb]) = (&k[..n], heads.map(|h| &h[..n]), unknowns.map(|w| &w[..n]));
        let before = &mut before[..n];
        let half = T::of(0.5);
        for i in 0..n {
            let change = now[i] - before[i];
            let rise = (h[i] - hb[i]) + half * (w[i] - wb[i]);
            let w = (factors.twice_dt * k[i] - slope * rise) - (change + change);
            before[i] = now[i] + (change + factors.to_after * w);
            now[i] += factors.to_now * w;
        }
    }
}

vectorised! {
    /// `x+ = 2 x - x- + w` and the filter.
    fn stepped<T: Real>(w: &[T], factors: Factors<T>, before: &mut [T], now: &mut [T]) {
        let n = now.len();
        let (w, before) = (&w[..n], &mut before[..n]);
        for i in 0..n {
            let change = now[i] - before[i];
            before[i] = now[i] + (change + factors.to_after * w[i]);
            now[i] += factors.to_now * w[i];
        }
    }
}
