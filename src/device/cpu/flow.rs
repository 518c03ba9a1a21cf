//! The flow of a shallow layer in one pass over memory: each thread walks northward through a block of rows and keeps
//! the fluxes, vorticities and heads of the last rows in work rows that stay in its cache.

use super::super::{Flow, FlowOutput, FluxForm, HALO, Real, RowMeasures, Write};
use super::flow_rows as rows;
use super::instructions::Instructions;
use super::smoothing::{smooth, smoothing_width};
use super::threads::Threads;
use super::vector::Parts;

/// What is read. An empty slice is absent.
pub(super) struct Inputs<'a, T> {
    pub u: &'a [T],
    pub v: &'a [T],
    pub h: &'a [T],
    pub table: &'a [T],
    pub f: &'a [T],
    pub b: &'a [T],
    /// Of a stage: u, v, h.
    pub base: [&'a [T]; 3],
}

/// What is written, u, v, h: next, or the tendency, or x; and the sums of a stage.
pub(super) struct Outputs<'a, T> {
    pub next: [&'a mut [T]; 3],
    pub sum: [&'a mut [T]; 3],
}

/// A block is worth a thread with at least so many cells.
const CELLS: usize = 1 << 11;
/// For each thread, so that one with the rows that are filtered does not finish last.
const BLOCKS: usize = 4;
/// Work rows of one block, besides those that are smoothed.
const WORK_ROWS: usize = 15;
/// Tendencies, and one row to smooth them into.
const SMOOTHED_ROWS: usize = 4;

/// Rows of a block, and numbers of working memory for all of them. A row's bits do not depend on its block.
pub(super) fn blocks(flow: &Flow, threads: usize) -> (usize, usize) {
    let enough = CELLS.div_ceil(flow.columns);
    let block = if threads == 1 { flow.rows } else { flow.rows.div_ceil(BLOCKS * threads).max(enough) };
    let each = WORK_ROWS * work_width(flow) + SMOOTHED_ROWS * smoothing_width(flow.columns);
    (block, flow.rows.div_ceil(block) * each)
}

/// Columns -1 to n, in whole cache lines.
fn work_width(flow: &Flow) -> usize {
    (flow.columns + 2).next_multiple_of(16)
}

pub(super) fn flow<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    flow: &Flow,
    output: &FlowOutput,
    inputs: &Inputs<'_, T>,
    outputs: Outputs<'_, T>,
    work: &mut [T],
) {
    let len = flow.len();
    assert!([inputs.u, inputs.v, inputs.h].iter().all(|x| x.len() == len), "fields of the flow's shape");
    assert!(inputs.b.is_empty() || inputs.b.len() == len, "a bottom of the flow's shape");
    assert!(inputs.f.len() == len || inputs.f.len() == flow.rows + 2 * HALO, "f for each corner or each row");
    assert_eq!(inputs.table.len(), (flow.rows + 2 * HALO) * RowMeasures::COUNT, "measures of each row");
    let (block, work_len) = blocks(flow, threads.count());
    let tasks = flow.rows.div_ceil(block);
    let each = work_len / tasks;
    let pass = Pass { instructions, flow, output, inputs, caps: caps(flow, inputs) };
    let work = Parts::new(work);
    let outputs = (outputs.next.map(Parts::new), outputs.sum.map(Parts::new));
    threads.each(tasks, |task| {
        // SAFETY: each task has its own part.
        let work = unsafe { work.part(task * each, each) };
        pass.block(task * block, flow.rows.min((task + 1) * block), work, &outputs);
    });
}

/// Potential vorticity of the caps: circulation along the outermost row of u, over area and mean thickness.
fn caps<T: Real>(flow: &Flow, inputs: &Inputs<'_, T>) -> [T; 2] {
    let mean = |x: &[T]| x.iter().map(|x| x.wide()).sum::<f64>() / flow.columns as f64;
    let cap = |pole: bool, row: isize, face: isize, sign: f64| {
        if !pole {
            return T::default();
        }
        let around = flow.columns as f64 * mean(interior(flow, inputs.u, row));
        let zeta = sign * around * coefficient(inputs, row, 5).wide() * flow.dy / flow.cap_area;
        let f = match inputs.f.len() == flow.len() {
            true => interior(flow, inputs.f, face)[0],
            false => inputs.f[(face + HALO as isize) as usize],
        };
        T::of((f.wide() + zeta) / (flow.depth + mean(interior(flow, inputs.h, row))))
    };
    let last = flow.rows as isize - 1;
    [cap(flow.poles[0], 0, 0, -1.0), cap(flow.poles[1], last, last + 1, 1.0)]
}

/// Row j of a field with its halo columns; j may lie in the halo.
fn padded<'a, T>(flow: &Flow, field: &'a [T], j: isize) -> &'a [T] {
    let width = flow.columns + 2 * HALO;
    &field[(j + HALO as isize) as usize * width..][..width]
}

fn interior<'a, T>(flow: &Flow, field: &'a [T], j: isize) -> &'a [T] {
    &padded(flow, field, j)[HALO..][..flow.columns]
}

fn coefficient<T: Real>(inputs: &Inputs<'_, T>, j: isize, which: usize) -> T {
    inputs.table[(j + HALO as isize) as usize * RowMeasures::COUNT + which]
}

struct Pass<'a, T> {
    instructions: Instructions,
    flow: &'a Flow,
    output: &'a FlowOutput,
    inputs: &'a Inputs<'a, T>,
    /// q of the southern and of the northern cap.
    caps: [T; 2],
}

/// The last N rows of a quantity.
struct Ring<'a, T, const N: usize> {
    rows: [&'a mut [T]; N],
}

impl<'a, T, const N: usize> Ring<'a, T, N> {
    fn take(work: &mut &'a mut [T], width: usize, used: usize) -> Self {
        Self { rows: std::array::from_fn(|_| take(work, width, used)) }
    }

    fn at(&self, j: isize) -> &[T] {
        &*self.rows[j.rem_euclid(N as isize) as usize]
    }

    fn at_mut(&mut self, j: isize) -> &mut [T] {
        &mut *self.rows[j.rem_euclid(N as isize) as usize]
    }
}

fn take<'a, T>(work: &mut &'a mut [T], width: usize, used: usize) -> &'a mut [T] {
    let (row, rest) = std::mem::take(work).split_at_mut(width);
    *work = rest;
    &mut row[..used]
}

struct Work<'a, T> {
    /// `h_i + h_{i-1} + 2 depth`
    s: Ring<'a, T, 2>,
    flux: Ring<'a, T, 3>,
    cross: Ring<'a, T, 3>,
    q: Ring<'a, T, 3>,
    head: Ring<'a, T, 2>,
    /// Tendencies of one row, each in the middle of its work row.
    k: [&'a mut [T]; 3],
    smoothing: &'a mut [T],
    /// f of a row where it depends on the row alone.
    f: &'a mut [T],
}

type Written<'a, T> = ([Parts<'a, T>; 3], [Parts<'a, T>; 3]);

impl<T: Real> Pass<'_, T> {
    fn block(&self, start: usize, end: usize, mut work: &mut [T], outputs: &Written<'_, T>) {
        let (n, width) = (self.flow.columns, work_width(self.flow));
        let smoothed = smoothing_width(n);
        let mut work = Work {
            s: Ring::take(&mut work, width, n + 2),
            flux: Ring::take(&mut work, width, n + 2),
            cross: Ring::take(&mut work, width, n + 2),
            q: Ring::take(&mut work, width, n + 2),
            head: Ring::take(&mut work, width, n + 2),
            k: std::array::from_fn(|_| take(&mut work, smoothed, smoothed)),
            smoothing: take(&mut work, smoothed, smoothed),
            // Indexed as padded rows are, whose last column the kernels leave out.
            f: take(&mut work, 2 * width, n + 3),
        };
        let (start, end) = (start as isize, end as isize);
        for j in start - 2..=start {
            self.corners(j, j > start - 2, &mut work);
        }
        self.head(start - 1, &mut work);
        for j in start..end {
            self.corners(j + 1, true, &mut work);
            self.head(j, &mut work);
            self.tendency(j, &mut work);
            self.write(j, &work, outputs);
        }
    }

    /// Whether row j lies beyond a pole.
    fn beyond(&self, j: isize) -> bool {
        let [south, north] = self.flow.poles;
        (south && j < 0) || (north && j >= self.flow.rows as isize)
    }

    /// Fluxes of row j, and if `all` (the row before it is there) also those through its south faces and q.
    fn corners(&self, j: isize, all: bool, work: &mut Work<'_, T>) {
        let (flow, instructions) = (self.flow, self.instructions);
        let row = |field, j| padded(flow, field, j);
        let pole = match j {
            0 if flow.poles[0] => Some(self.caps[0]),
            j if flow.poles[1] && j == flow.rows as isize => Some(self.caps[1]),
            _ => None,
        };
        let twice_depth = T::of(2.0 * flow.depth);
        let (u, v, h) = (self.inputs.u, self.inputs.v, self.inputs.h);
        if !self.beyond(j) {
            let s = work.s.at_mut(j);
            rows::mass_flux(instructions, row(h, j), row(u, j), twice_depth, s, work.flux.at_mut(j));
        }
        if let Some(cap) = pole {
            work.cross.at_mut(j).fill(T::default());
            work.q.at_mut(j).fill(cap);
        } else if all && !self.beyond(j) {
            let of = |j, which| coefficient(self.inputs, j, which);
            let cross = work.cross.at_mut(j);
            rows::cross_flux(
                instructions,
                [row(h, j), row(h, j - 1)],
                row(v, j),
                twice_depth,
                of(j, 0),
                cross,
            );
            let f = if self.inputs.f.len() == flow.len() {
                row(self.inputs.f, j)
            } else {
                work.f.fill(self.inputs.f[(j + HALO as isize) as usize]);
                &*work.f
            };
            rows::vorticity(
                instructions,
                [row(u, j), row(u, j - 1)],
                row(v, j),
                [work.s.at(j), work.s.at(j - 1)],
                f,
                [of(j, 5), of(j - 1, 5)],
                of(j, 7),
                [of(j, 6), of(j - 1, 6)],
                work.q.at_mut(j),
            );
        }
    }

    /// What the tendencies of row j take the gradient of.
    fn head(&self, j: isize, work: &mut Work<'_, T>) {
        if self.beyond(j) {
            return;
        }
        let (flow, instructions) = (self.flow, self.instructions);
        let head = work.head.at_mut(j);
        if let FlowOutput::Rotational(_) = self.output {
            head.fill(T::default());
            return;
        }
        self.kinetic(j, head);
        let (g, h, b) = (T::of(flow.g), padded(flow, self.inputs.h, j), self.inputs.b);
        match b.is_empty() {
            true => rows::add_head(instructions, g, h, head),
            false => rows::add_heads(instructions, g, h, padded(flow, b, j), head),
        }
    }

    /// K of row j, for columns -1, 0, ... of which `k` has any number.
    fn kinetic(&self, j: isize, k: &mut [T]) {
        let row = |field, j| padded(self.flow, field, j);
        let (u, v) = (self.inputs.u, self.inputs.v);
        let of = |which| coefficient(self.inputs, j, which);
        let factors = [of(1), of(2), of(3)];
        rows::kinetic(self.instructions, row(u, j), [row(v, j), row(v, j + 1)], factors, k);
    }

    fn tendency(&self, j: isize, work: &mut Work<'_, T>) {
        let (flow, inputs, instructions) = (self.flow, self.inputs, self.instructions);
        let of = |which| coefficient(inputs, j, which);
        let (q, cross, flux, head) = (&work.q, &work.cross, &work.flux, &work.head);
        let n = flow.columns;
        let [du, dv, dh] = &mut work.k;
        let (du, dv, dh) = (&mut du[n..2 * n], &mut dv[n..2 * n], &mut dh[n..2 * n]);

        let (q2, g2) = ([q.at(j), q.at(j + 1)], [cross.at(j), cross.at(j + 1)]);
        let (scale, per_dx) = (of(9), of(8));
        match flow.form {
            FluxForm::ArakawaLamb => {
                rows::u_arakawa_lamb(instructions, q2, g2, flux.at(j), head.at(j), scale, per_dx, du);
            }
            FluxForm::Energy => rows::u_energy(instructions, q2, g2, head.at(j), scale, per_dx, du),
            FluxForm::Enstrophy => rows::u_enstrophy(instructions, q2, g2, head.at(j), scale, per_dx, du),
        }

        if j == 0 && flow.poles[0] {
            dv.fill(T::default());
        } else {
            let (flux2, head2) = ([flux.at(j - 1), flux.at(j)], [head.at(j - 1), head.at(j)]);
            let (scale, per_dy) = (T::of(0.5), T::of(1.0 / flow.dy));
            match flow.form {
                FluxForm::ArakawaLamb => rows::v_arakawa_lamb(
                    instructions,
                    [q.at(j - 1), q.at(j), q.at(j + 1)],
                    [cross.at(j - 1), cross.at(j + 1)],
                    flux2,
                    head2,
                    scale,
                    per_dy,
                    dv,
                ),
                FluxForm::Energy => rows::v_energy(instructions, q.at(j), flux2, head2, scale, per_dy, dv),
                FluxForm::Enstrophy => {
                    rows::v_enstrophy(instructions, q.at(j), flux2, head2, scale, per_dy, dv);
                }
            }
        }

        if let FlowOutput::Rotational(_) = self.output {
            // Columns -1 and 0 to n - 1, of which the first goes.
            let k = &mut work.smoothing[..n + 1];
            self.kinetic(j, k);
            dh.copy_from_slice(&k[1..]);
            return;
        }
        rows::h_divergence(instructions, flux.at(j), g2, of(4), dh);

        let (centre, face) = ([of(10).wide(), of(11).wide()], [of(12).wide(), of(13).wide()]);
        for (k, z) in work.k.iter_mut().zip([centre, face, centre]) {
            smooth(instructions, z, n, k, &mut work.smoothing);
        }
    }

    fn write(&self, j: isize, work: &Work<'_, T>, (next, sum): &Written<'_, T>) {
        let n = self.flow.columns;
        let start = (j as usize + HALO) * (n + 2 * HALO) + HALO;
        for (field, k) in work.k.iter().enumerate() {
            let k = &k[n..2 * n];
            // SAFETY: each row of each field is written by the one task whose block it is in.
            let (next, sum) = unsafe {
                let sum = &sum[field];
                (next[field].part(start, n), if sum.is_empty() { &mut [] } else { sum.part(start, n) })
            };
            let instructions = self.instructions;
            match *self.output {
                FlowOutput::Stage { a, b, write, .. } => {
                    rows::advance(instructions, &self.inputs.base[field][start..][..n], T::of(a), k, next);
                    match write {
                        Write::Overwrite => rows::multiply(instructions, T::of(b), k, sum),
                        Write::Add => rows::accumulate(instructions, T::of(b), k, sum),
                    }
                }
                FlowOutput::Last { b, .. } => {
                    rows::finish(instructions, &self.inputs.base[field][start..][..n], T::of(b), k, next);
                }
                FlowOutput::Tendency(_) | FlowOutput::Rotational(_) => {
                    next.copy_from_slice(k);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
