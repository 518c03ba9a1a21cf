//! The LSTM cell: everything between two convolutions, in one pass over memory.

use super::super::{Cell, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

/// Units whose gates stand together; also one vector of AVX-512.
const BLOCK: usize = 16;

/// Slices of what is read; an empty one is absent.
pub(super) struct Inputs<'a, T> {
    pub bias: &'a [T],
    pub peepholes: &'a [T],
    pub c_before: &'a [T],
    /// c itself holds what `c_before` would.
    pub in_place: bool,
    pub factors: &'a [T],
}

pub(super) struct Outputs<'a, T> {
    pub gates: &'a mut [T],
    pub c: &'a mut [T],
    pub h: &'a mut [T],
    pub above: &'a mut [T],
    pub above_halo: usize,
}

pub(super) struct BackwardInputs<'a, T> {
    pub peepholes: &'a [T],
    pub c_before: &'a [T],
    pub c: &'a [T],
    pub dh: &'a [T],
    pub above: &'a [T],
    pub above_halo: usize,
    pub factors: &'a [T],
}

pub(super) struct BackwardOutputs<'a, T> {
    pub gates: &'a mut [T],
    pub dc: &'a mut [T],
    pub dbias: &'a mut [T],
    pub dpeepholes: &'a mut [T],
}

pub(super) fn forward<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    cell: &Cell,
    inputs: &Inputs<'_, T>,
    outputs: Outputs<'_, T>,
) {
    let line = cell.columns * cell.hidden;
    let above_halo = outputs.above_halo;
    let (gates, c, h, above) =
        (Parts::new(outputs.gates), Parts::new(outputs.c), Parts::new(outputs.h), Parts::new(outputs.above));
    each_line(threads, cell, |_, n| {
        // SAFETY: lines are disjoint in all four arrays, and each is visited by one task.
        let (gates, c, h, above) = unsafe {
            (
                gates.part(4 * n * line, 4 * line),
                c.part(n * line, line),
                h.part(interior(cell, cell.halo, n), line),
                if above.is_empty() { &mut [] } else { above.part(interior(cell, above_halo, n), line) },
            )
        };
        let before = if inputs.c_before.is_empty() { &[] } else { &inputs.c_before[n * line..][..line] };
        let factors = factors_of(cell, inputs.factors, n);
        let (bias, peepholes) = (inputs.bias, inputs.peepholes);
        forward_line(
            instructions,
            cell.hidden,
            bias,
            peepholes,
            before,
            inputs.in_place,
            factors,
            gates,
            c,
            h,
            above,
        );
    });
}

pub(super) fn backward<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    cell: &Cell,
    inputs: &BackwardInputs<'_, T>,
    outputs: BackwardOutputs<'_, T>,
) {
    let line = cell.columns * cell.hidden;
    let (gates, dc) = (Parts::new(outputs.gates), Parts::new(outputs.dc));
    // Sums of one task: of the four gates, then of the three peepholes.
    let sums = 7 * cell.hidden;
    let mut partial = vec![T::default(); tasks(cell) * sums];
    let parts = Parts::new(&mut partial);
    let at = |array: &'_ [T], start: usize| -> std::ops::Range<usize> {
        if array.is_empty() { 0..0 } else { start..start + line }
    };
    each_line(threads, cell, |task, n| {
        // SAFETY: lines are disjoint, and each is visited by one task; a task's sums are its own.
        let (gates, dc, sums) = unsafe {
            (gates.part(4 * n * line, 4 * line), dc.part(n * line, line), parts.part(task * sums, sums))
        };
        let before = &inputs.c_before[at(inputs.c_before, n * line)];
        let c = &inputs.c[n * line..][..line];
        let dh = &inputs.dh[at(inputs.dh, interior(cell, cell.halo, n))];
        let above = &inputs.above[at(inputs.above, interior(cell, inputs.above_halo, n))];
        let factors = factors_of(cell, inputs.factors, n);
        backward_line(
            instructions,
            cell.hidden,
            inputs.peepholes,
            before,
            c,
            dh,
            above,
            factors,
            gates,
            dc,
            sums,
        );
    });
    for sums in partial.chunks(sums) {
        let (gates, peepholes) = sums.split_at(4 * cell.hidden);
        outputs.dbias.iter_mut().zip(gates).for_each(|(total, &sum)| *total += sum);
        outputs.dpeepholes.iter_mut().zip(peepholes).for_each(|(total, &sum)| *total += sum);
    }
}

fn tasks(cell: &Cell) -> usize {
    let lines = cell.images * cell.rows;
    lines.div_ceil(lines_per_task(lines))
}

/// Calls `work(task, line)` for every row of every image.
fn each_line(threads: &Threads, cell: &Cell, work: impl Fn(usize, usize) + Sync + Send) {
    let lines = cell.images * cell.rows;
    let per_task = lines_per_task(lines);
    threads.each(tasks(cell), |task| {
        for n in task * per_task..((task + 1) * per_task).min(lines) {
            work(task, n);
        }
    });
}

/// Where line `n` of the interior begins in padded images.
fn interior(cell: &Cell, halo: usize, n: usize) -> usize {
    let (image, row) = (n / cell.rows, n % cell.rows);
    let (rows, columns) = (cell.rows + 2 * halo, cell.columns + 2 * halo);
    ((image * rows + row + halo) * columns + halo) * cell.hidden
}

fn factors_of<'a, T>(cell: &Cell, factors: &'a [T], n: usize) -> &'a [T] {
    if factors.is_empty() { &[] } else { &factors[n / cell.rows * cell.hidden..][..cell.hidden] }
}

/// The units `first..first + width` of one point, and where their gates are.
#[derive(Clone, Copy)]
struct Units {
    width: usize,
    /// In `[.., hidden]` of one point.
    first: usize,
    /// In the line.
    at: usize,
    /// Of the point's gates, in the line.
    gates: usize,
}

/// The blocks of units of all points of a line. Not a function that calls back: the loop's body must be compiled into the
/// loop, for the instructions of the loop.
#[inline(always)]
fn blocks(points: usize, hidden: usize) -> impl Iterator<Item = Units> {
    (0..points).flat_map(move |point| {
        (0..hidden).step_by(BLOCK).map(move |first| Units {
            width: BLOCK.min(hidden - first),
            first,
            at: point * hidden + first,
            gates: 4 * (point * hidden + first),
        })
    })
}

/// Up to one block of numbers; beyond the width they are zero.
type Lanes<T> = [T; BLOCK];

#[inline(always)]
fn load<T: Real>(array: &[T], start: usize, width: usize) -> Lanes<T> {
    let array = &array[start..start + width];
    // Most blocks are whole: one vector.
    if let Ok(lanes) = array.try_into() {
        return lanes;
    }
    let mut lanes = [T::default(); BLOCK];
    for (lane, &value) in lanes.iter_mut().zip(array) {
        *lane = value;
    }
    lanes
}

#[inline(always)]
fn store<T: Real>(array: &mut [T], start: usize, width: usize, lanes: &Lanes<T>) {
    let array = &mut array[start..start + width];
    if let Ok(whole) = <&mut Lanes<T>>::try_from(&mut *array) {
        *whole = *lanes;
        return;
    }
    for (to, &lane) in array.iter_mut().zip(lanes) {
        *to = lane;
    }
}

#[inline(always)]
fn add<T: Real>(array: &mut [T], start: usize, width: usize, lanes: &Lanes<T>) {
    let mut sums = load(array, start, width);
    for (sum, &lane) in sums.iter_mut().zip(lanes) {
        *sum += lane;
    }
    store(array, start, width, &sums);
}

/// `a + b`
#[inline(always)]
fn sum<T: Real>(a: &[T], a_start: usize, b: &[T], b_start: usize, width: usize) -> Lanes<T> {
    let (a, b) = (load(a, a_start, width), load(b, b_start, width));
    lanes(|u| a[u] + b[u])
}

/// `a + peephole . cell`, where there are peepholes.
#[inline(always)]
fn plus_peephole<T: Real>(
    a: Lanes<T>,
    peepholes: &[T],
    start: usize,
    width: usize,
    cell: &Lanes<T>,
) -> Lanes<T> {
    if peepholes.is_empty() {
        return a;
    }
    let p = load(peepholes, start, width);
    lanes(|u| a[u] + p[u] * cell[u])
}

#[inline(always)]
fn lanes<T: Real>(f: impl Fn(usize) -> T) -> Lanes<T> {
    let mut lanes = [T::default(); BLOCK];
    for (u, lane) in lanes.iter_mut().enumerate() {
        *lane = f(u);
    }
    lanes
}

vectorised! {
    /// One row of points; empty slices are absent.
    fn forward_line<T: Real>(
        hidden: usize,
        bias: &[T],
        peepholes: &[T],
        c_before: &[T],
        in_place: bool,
        factors: &[T],
        gates: &mut [T],
        c: &mut [T],
        h: &mut [T],
        above: &mut [T],
    ) {
        for Units { width: w, first, at, gates: g } in blocks(c.len() / hidden, hidden) {
            let before = match (in_place, c_before.is_empty()) {
                (true, _) => load(c, at, w),
                (false, false) => load(c_before, at, w),
                (false, true) => [T::default(); BLOCK],
            };
            // Pre-activations, all of them before the gates are overwritten.
            let (ai, af) = (sum(gates, g, bias, 4 * first, w), sum(gates, g + w, bias, 4 * first + w, w));
            let ag = sum(gates, g + 2 * w, bias, 4 * first + 2 * w, w);
            let ao = sum(gates, g + 3 * w, bias, 4 * first + 3 * w, w);
            let of_peephole = |p: usize| p * hidden + first;
            let (i, f) = (
                plus_peephole(ai, peepholes, of_peephole(0), w, &before),
                plus_peephole(af, peepholes, of_peephole(1), w, &before),
            );
            let (i, f) = (lanes(|u| i[u].sigmoid()), lanes(|u| f[u].sigmoid()));
            let candidate = lanes(|u| ag[u].tanh());
            let cell = lanes(|u| f[u] * before[u] + i[u] * candidate[u]);
            let o = plus_peephole(ao, peepholes, of_peephole(2), w, &cell);
            let o = lanes(|u| o[u].sigmoid());
            let out = lanes(|u| o[u] * cell[u].tanh());
            for (gate, values) in [&i, &f, &candidate, &o].into_iter().enumerate() {
                store(gates, g + gate * w, w, values);
            }
            store(c, at, w, &cell);
            store(h, at, w, &out);
            if !above.is_empty() {
                if factors.is_empty() {
                    store(above, at, w, &out);
                } else {
                    let factor = load(factors, first, w);
                    store(above, at, w, &lanes(|u| factor[u] * out[u]));
                }
            }
        }
    }
}

vectorised! {
    /// One row of points backward; `sums` are `[4 hidden]` of the gates' gradients and `[3, hidden]` of the peepholes'.
    fn backward_line<T: Real>(
        hidden: usize,
        peepholes: &[T],
        c_before: &[T],
        c: &[T],
        dh: &[T],
        above: &[T],
        factors: &[T],
        gates: &mut [T],
        dc: &mut [T],
        sums: &mut [T],
    ) {
        let one = T::of(1.0);
        for Units { width: w, first, at, gates: g } in blocks(c.len() / hidden, hidden) {
            let maybe = |array: &[T], start: usize| {
                if array.is_empty() { [T::default(); BLOCK] } else { load(array, start, w) }
            };
            let (recurrent, upward) = (maybe(dh, at), maybe(above, at));
            let out = if factors.is_empty() {
                lanes(|u| recurrent[u] + upward[u])
            } else {
                let factor = load(factors, first, w);
                lanes(|u| recurrent[u] + factor[u] * upward[u])
            };
            let (before, cell) = (maybe(c_before, at), load(c, at, w));
            let (i, f) = (load(gates, g, w), load(gates, g + w, w));
            let (candidate, o) = (load(gates, g + 2 * w, w), load(gates, g + 3 * w, w));
            let peephole = |gate: usize| maybe(peepholes, gate * hidden + first);
            let (pi, pf, po) = (peephole(0), peephole(1), peephole(2));
            let tanh = lanes(|u| cell[u].tanh());

            let d_o = lanes(|u| out[u] * tanh[u] * o[u] * (one - o[u]));
            let later = load(dc, at, w);
            let d_cell = lanes(|u| later[u] + out[u] * o[u] * (one - tanh[u] * tanh[u]) + po[u] * d_o[u]);
            let d_i = lanes(|u| d_cell[u] * candidate[u] * i[u] * (one - i[u]));
            let d_f = lanes(|u| d_cell[u] * before[u] * f[u] * (one - f[u]));
            let d_candidate = lanes(|u| d_cell[u] * i[u] * (one - candidate[u] * candidate[u]));
            let d_before = lanes(|u| d_cell[u] * f[u] + pi[u] * d_i[u] + pf[u] * d_f[u]);

            store(dc, at, w, &d_before);
            for (gate, values) in [&d_i, &d_f, &d_candidate, &d_o].into_iter().enumerate() {
                store(gates, g + gate * w, w, values);
                add(sums, 4 * first + gate * w, w, values);
            }
            if !peepholes.is_empty() {
                let of_peepholes = &mut sums[4 * hidden..];
                add(of_peepholes, first, w, &lanes(|u| d_i[u] * before[u]));
                add(of_peepholes, hidden + first, w, &lanes(|u| d_f[u] * before[u]));
                add(of_peepholes, 2 * hidden + first, w, &lanes(|u| d_o[u] * cell[u]));
            }
        }
    }
}
