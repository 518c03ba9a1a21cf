//! The two passes over memory of a leapfrog step with implicit gravity waves, before and after the equation is solved.
//!
//! Neither stores p: both make it from the fields, which costs less than writing and reading it again.

use super::super::{Filter, HALO, Leapfrog, Real, RowMeasures};
use super::instructions::Instructions;
use super::smoothing::{smooth_alone, smoothing_width};
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

/// Interiors are read; u, v, h of each.
pub(super) struct Inputs<'a, T> {
    pub before: [&'a [T]; 3],
    pub now: [&'a [T]; 3],
    pub tendency: [&'a [T]; 3],
    pub table: &'a [T],
}

/// The rows of a step's fields.
#[derive(Clone, Copy)]
struct Rows<'a, T> {
    step: &'a Leapfrog,
    table: &'a [T],
}

impl<'a, T: Real> Rows<'a, T> {
    fn new(step: &'a Leapfrog, table: &'a [T]) -> Self {
        let flow = &step.flow;
        assert_eq!(flow.poles[0], step.south.is_none(), "a pole, or a row before the first");
        assert_eq!(table.len(), (flow.rows + 2 * HALO) * RowMeasures::COUNT, "measures of each row");
        Self { step, table }
    }

    /// Where the interior of row j begins.
    fn start(&self, j: usize) -> usize {
        (j + HALO) * (self.step.flow.columns + 2 * HALO) + HALO
    }

    fn of<'b>(&self, field: &'b [T], j: usize) -> &'b [T] {
        &field[self.start(j)..][..self.step.flow.columns]
    }

    fn coefficient(&self, j: usize, which: usize) -> T {
        self.table[(j + HALO) * RowMeasures::COUNT + which]
    }

    /// z of the centres, or of the faces.
    fn filter(&self, j: usize, first: usize) -> Filter {
        Filter { z: [first, first + 1].map(|which| self.coefficient(j, which).wide()) }
    }
}

const CENTRE_FILTER: usize = 10;
const FACE_FILTER: usize = 12;

/// Writes the right side to `unknown`.
pub(super) fn predict<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    step: &Leapfrog,
    inputs: &Inputs<'_, T>,
    unknown: &mut [T],
) {
    let (count, n) = (step.flow.rows, step.flow.columns);
    let rows = Rows::new(step, inputs.table);
    assert_eq!(unknown.len(), count * n, "one unknown for each cell");
    let predict = |field: usize, j: usize, p: &mut [T]| {
        let [before, now, k] =
            [inputs.before[field], inputs.now[field], inputs.tendency[field]].map(|x| rows.of(x, j));
        predicted(instructions, before, now, k, T::of(2.0 * step.dt), p);
    };
    let zero = T::default();
    // p of v on the south faces of row j; nothing passes a pole.
    let is_pole = |j: usize| j == count && step.flow.poles[1];
    let cross = |j: usize, p: &mut [T]| if is_pole(j) { p.fill(zero) } else { predict(1, j, p) };
    let block = lines_per_task(count);
    threads.chunks(unknown, block * n, |task, unknown| {
        let first = task * block;
        let mut along = vec![zero; n + 1];
        let (mut south, mut north) = (vec![zero; n], vec![zero; n]);
        let (mut rise, mut work) = (vec![zero; n], vec![zero; 2 * n + 6]);
        cross(first, &mut south);
        for (j, right) in (first..).zip(unknown.chunks_mut(n)) {
            cross(j + 1, &mut north);
            predict(0, j, &mut along[..n]);
            along[n] = along[0];
            predict(2, j, &mut rise);
            roughen(instructions, T::of(rows.filter(j, CENTRE_FILTER).strength()), &mut rise, &mut work);
            let per_area = rows.coefficient(j, 4);
            let north_length = if is_pole(j + 1) { zero } else { rows.coefficient(j + 1, 0) };
            let lengths = [rows.coefficient(j, 0), north_length];
            // dy / (2 area) stands for the area.
            let depth = T::of(2.0 * step.dt * step.flow.depth) * per_area;
            let factor = T::of(-step.kappa() * step.flow.dy / 2.0) / per_area;
            right_side(instructions, &rise, &along, [&south, &north], lengths, depth, factor, right);
            std::mem::swap(&mut south, &mut north);
        }
    });
}

vectorised! {
    /// `p = 2 (x- - x) + 2 dt k`
    fn predicted<T: Real>(before: &[T], now: &[T], k: &[T], twice_dt: T, p: &mut [T]) {
        let n = p.len();
        let (before, now, k) = (&before[..n], &now[..n], &k[..n]);
        for i in 0..n {
            let difference = before[i] - now[i];
            p[i] = (difference + difference) + twice_dt * k[i];
        }
    }
}

/// `x += nu d_i^4 x` on a cyclic row, the inverse of its smoothing; `work` holds twice as much and six more.
fn roughen<T: Real>(instructions: Instructions, nu: T, x: &mut [T], work: &mut [T]) {
    let n = x.len();
    if nu == T::default() {
        return;
    }
    let (padded, second) = work.split_at_mut(n + 4);
    for i in 0..n + 4 {
        padded[i] = x[(i + 2 * n - 2) % n];
    }
    second_difference(instructions, padded, &mut second[..n + 2]);
    second_difference(instructions, &second[..n + 2], &mut padded[..n]);
    add(instructions, nu, &padded[..n], x);
}

vectorised! {
    fn second_difference<T: Real>(x: &[T], y: &mut [T]) {
        let n = y.len();
        let (west, here, east) = (&x[..n], &x[1..][..n], &x[2..][..n]);
        for i in 0..n {
            y[i] = (east[i] - here[i]) - (here[i] - west[i]);
        }
    }
}

vectorised! {
    fn add<T: Real>(factor: T, x: &[T], y: &mut [T]) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y += factor * x);
    }
}

vectorised! {
    /// `-kappa A (p_h / S - dt depth div(p_u, p_v))`; lengths are over dy, `depth` is `dt depth dy / A`.
    fn right_side<T: Real>(
        rise: &[T],
        along: &[T],
        cross: [&[T]; 2],
        lengths: [T; 2],
        depth: T,
        factor: T,
        right: &mut [T],
    ) {
        let n = right.len();
        let (rise, p, east, [south, north]) =
            (&rise[..n], &along[..n], &along[1..][..n], cross.map(|p| &p[..n]));
        let [l0, l1] = lengths;
        for i in 0..n {
            let out = (east[i] - p[i]) + (north[i] * l1 - south[i] * l0);
            right[i] = factor * (rise[i] - depth * out);
        }
    }
}

/// `before` becomes after, `now` is filtered. Read are the tendencies of u and v, the measures of the rows, the solution, and
/// its row before the first, if there is one.
pub(super) fn correct<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    step: &Leapfrog,
    read: [&[T]; 5],
    before: [&mut [T]; 3],
    now: [&mut [T]; 3],
) {
    let (count, n) = (step.flow.rows, step.flow.columns);
    let [along, cross, table, unknown, beyond] = read;
    let rows = Rows::new(step, table);
    assert_eq!(unknown.len(), count * n, "one unknown for each cell");
    let block = lines_per_task(count);
    let (before, now) = (before.map(Parts::new), now.map(Parts::new));
    let share = step.filter / 2.0;
    let shares = [T::of(step.alpha * share), T::of(1.0 + (step.alpha - 1.0) * share)];
    let (dt, head) = (T::of(step.dt), T::of(step.dt * step.flow.g));
    let [u, v, h] = [0, 1, 2];
    threads.each(count.div_ceil(block), |task| {
        let (mut neighbour, mut fall) = (vec![T::default(); n], vec![T::default(); n]);
        let mut work = vec![T::default(); 2 * smoothing_width(n)];
        for j in task * block..count.min((task + 1) * block) {
            let start = rows.start(j);
            // SAFETY: each row of each field belongs to one task, which holds one field at a time.
            let fields = |field: usize| unsafe { (before[field].part(start, n), now[field].part(start, n)) };
            let w = &unknown[j * n..][..n];
            neighbour[0] = w[n - 1];
            neighbour[1..].copy_from_slice(&w[..n - 1]);
            slope(instructions, head * rows.coefficient(j, 8), w, &neighbour, &mut fall);
            smooth_alone(instructions, rows.filter(j, CENTRE_FILTER).z, &mut fall, &mut work);
            let (x, x_now) = fields(u);
            corrected(instructions, rows.of(along, j), &fall, dt, shares, x, x_now);
            if j > 0 || !beyond.is_empty() {
                let south = j.checked_sub(1).map_or(beyond, |south| &unknown[south * n..][..n]);
                slope(instructions, head * T::of(1.0 / step.flow.dy), w, south, &mut fall);
                smooth_alone(instructions, rows.filter(j, FACE_FILTER).z, &mut fall, &mut work);
                let (x, x_now) = fields(v);
                corrected(instructions, rows.of(cross, j), &fall, dt, shares, x, x_now);
            }
            let (x, x_now) = fields(h);
            stepped(instructions, w, shares, x, x_now);
        }
    });
}

vectorised! {
    /// `y = factor (x - what is before x)`
    fn slope<T: Real>(factor: T, x: &[T], before: &[T], y: &mut [T]) {
        let n = y.len();
        let (x, before) = (&x[..n], &before[..n]);
        for i in 0..n {
            y[i] = factor * (x[i] - before[i]);
        }
    }
}

vectorised! {
    /// `w = p - fall`, then as [`stepped`].
    fn corrected<T: Real>(
        k: &[T],
        fall: &[T],
        dt: T,
        shares: [T; 2],
        before: &mut [T],
        now: &mut [T],
    ) {
        let n = now.len();
        let (k, fall, before, [to_now, to_after]) = (&k[..n], &fall[..n], &mut before[..n], shares);
        let twice_dt = dt + dt;
        for i in 0..n {
            let change = now[i] - before[i];
            let w = (twice_dt * k[i] - fall[i]) - (change + change);
            before[i] = now[i] + (change + to_after * w);
            now[i] += to_now * w;
        }
    }
}

vectorised! {
    /// `x+ = 2 x - x- + w` and the filter: `x+ += (alpha - 1) nu / 2 w`, `x += alpha nu / 2 w`.
    fn stepped<T: Real>(w: &[T], shares: [T; 2], before: &mut [T], now: &mut [T]) {
        let n = now.len();
        let (w, before, [to_now, to_after]) = (&w[..n], &mut before[..n], shares);
        for i in 0..n {
            let change = now[i] - before[i];
            before[i] = now[i] + (change + to_after * w[i]);
            now[i] += to_now * w[i];
        }
    }
}
