//! Arakawa's Jacobian, and the smoothing of rows that are too fine for the step.

use super::super::{Jacobian, Real, RowSmoothing};
use super::instructions::Instructions;
use super::smoothing::{smooth_alone, smoothing_width};
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

pub(super) fn jacobian<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    shape: &Jacobian,
    [p, q, table]: [&[T]; 3],
    k: &mut [T],
) {
    const MEASURES: usize = Jacobian::MEASURES;
    let (rows, n) = (shape.rows, shape.columns);
    let width = n + 2;
    assert!(
        p.len() == (rows + 2) * width && q.len() == p.len() && table.len() == MEASURES * (rows + 2),
        "a Jacobian of {rows} x {n} points"
    );
    let lines = lines_per_task(rows);
    threads.chunks(k, lines * n, |task, part| {
        for (j, k) in part.chunks_exact_mut(n).enumerate().map(|(j, k)| (task * lines + j, k)) {
            let [p, q] = [p, q].map(|x| [0, 1, 2].map(|d| &x[(j + d) * width..][..width]));
            let measures = [0, 1, 2].map(|d| &table[MEASURES * (j + d)..][..MEASURES]);
            row(instructions, p, q, measures, T::of(shape.diffusion), k);
        }
    });
}

vectorised! {
    /// `p`, `q` (with their halo) and the measures are of rows j - 1, j, j + 1.
    fn row<T: Real>(p: [&[T]; 3], q: [&[T]; 3], measures: [&[T]; 3], diffusion: T, k: &mut [T]) {
        let r = measures.map(|m| m[0]);
        let (per_area, west, south, north) = (measures[1][1], measures[1][2], measures[1][3], measures[2][3]);
        let (scale, diffusion) = (per_area * T::of(1.0 / 12.0), diffusion * per_area);
        let n = k.len();
        let [pm, p0, pp] = p.map(|row| &row[..n + 2]);
        let [qm, q0, qp] = q.map(|row| &row[..n + 2]);
        for i in 0..n {
            let (w, c, e) = (i, i + 1, i + 2);
            let (am, amw, ame) = (qm[c] + r[0], qm[w] + r[0], qm[e] + r[0]);
            let (ap, apw, ape) = (qp[c] + r[2], qp[w] + r[2], qp[e] + r[2]);
            let (aw, ae) = (q0[w] + r[1], q0[e] + r[1]);
            let j1 = (p0[e] - p0[w]) * (ap - am) - (pp[c] - pm[c]) * (ae - aw);
            let j2 = p0[e] * (ape - ame) - p0[w] * (apw - amw) - pp[c] * (ape - apw) + pm[c] * (ame - amw);
            let j3 = ap * (pp[e] - pp[w]) - am * (pm[e] - pm[w]) - ae * (pp[e] - pm[e]) + aw * (pp[w] - pm[w]);
            let along = west * ((q0[w] - q0[c]) + (q0[e] - q0[c]));
            let across = south * (qm[c] - q0[c]) + north * (qp[c] - q0[c]);
            k[i] = diffusion * (along + across) - scale * (j1 + j2 + j3);
        }
    }
}

/// Length of the working memory of [`smooth_rows`].
pub(super) fn work_len(shape: &RowSmoothing) -> usize {
    shape.rows.div_ceil(lines_per_task(shape.rows)) * 2 * smoothing_width(shape.columns)
}

pub(super) fn smooth_rows<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    shape: &RowSmoothing,
    filters: &[T],
    x: &mut [T],
    work: &mut [T],
) {
    let (rows, n, halo) = (shape.rows, shape.columns, shape.x.halo);
    let width = n + 2 * halo;
    assert!(
        x.len() == (rows + 2 * halo) * width && filters.len() == 2 * rows,
        "{rows} x {n} points to smooth"
    );
    let lines = lines_per_task(rows);
    let (work, each) = (Parts::new(work), 2 * smoothing_width(n));
    threads.chunks(&mut x[halo * width..][..rows * width], lines * width, |task, part| {
        // SAFETY: each task has a part of its own.
        let work = unsafe { work.part(task * each, each) };
        for (line, z) in part.chunks_exact_mut(width).zip(filters[2 * task * lines..].chunks_exact(2)) {
            smooth_alone(instructions, [z[0].wide(), z[1].wide()], &mut line[halo..][..n], work);
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::device::{ArenaPlan, Boundary, Channel, Device, Edge, Edges, Jacobian, cpu::Cpu};

    /// The tendency of q on a ring of latitude with walls of equal p, and unequal areas.
    fn tendency(p: &[f64], q: &[f64], diffusion: f64) -> (Vec<f64>, Vec<f64>) {
        let (rows, n) = (9, 14);
        let edges = Edges { periodic: true, rows: [Edge::Replicate; 2] };
        let map = edges.map(1, rows, n, 1, &[Channel::centre(false)]).unwrap();
        let mut plan = ArenaPlan::default();
        let [ps, qs] = [0; 2].map(|_| plan.slot(map.cells));
        let (table, k) = (plan.slot(Jacobian::MEASURES * (rows + 2)), plan.slot(rows * n));
        let mut device = Cpu::<f64>::new(Some(2)).unwrap();
        device.allocate(&plan).unwrap();
        let areas: Vec<f64> = (0..rows).map(|j| 2.0 + j as f64).collect();
        for (slot, x) in [(ps, p), (qs, q)] {
            let mut padded = vec![0.0; map.cells];
            for j in 0..rows {
                padded[(j + 1) * (n + 2) + 1..][..n].copy_from_slice(&x[j * n..][..n]);
            }
            device.upload(slot, &padded);
            device.halo_fill(&map, slot);
        }
        let mut measures = vec![0.0; Jacobian::MEASURES * (rows + 2)];
        for j in 0..rows + 2 {
            let area = areas[j.clamp(1, rows) - 1];
            // Nothing diffuses through the walls.
            let south = if j == 1 || j == rows + 1 { 0.0 } else { 0.5 };
            measures[Jacobian::MEASURES * j..][..4].copy_from_slice(&[
                0.3 * j as f64,
                1.0 / area,
                0.7,
                south,
            ]);
        }
        device.upload(table, &measures);
        device.jacobian(&Jacobian { rows, columns: n, p: ps, q: qs, table, diffusion, k });
        let mut values = vec![0.0; rows * n];
        device.download(k, &mut values);
        (values, areas)
    }

    fn noise(seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(u32::MAX) - 0.25
        };
        (0..9 * 14).map(|_| next()).collect()
    }

    #[test]
    fn the_jacobian_conserves_q_its_square_and_the_energy() {
        let (mut p, mut q) = (noise(1), noise(2));
        // Zero in two rows by each wall: what remains then is what the interior does.
        for x in [&mut p, &mut q] {
            x[..28].fill(0.0);
            x[7 * 14..].fill(0.0);
        }
        let (k, areas) = tendency(&p, &q, 0.0);
        // r is part of the vorticity whose square is conserved: take it as q.
        let total = |weight: &dyn Fn(usize) -> f64| -> (f64, f64) {
            let parts = (0..k.len()).map(|i| areas[i / 14] * weight(i) * k[i]);
            parts.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
        };
        let r = |i: usize| 0.3 * (i / 14 + 1) as f64;
        for (what, (sum, size)) in
            [("q", total(&|_| 1.0)), ("square", total(&|i| q[i] + r(i))), ("energy", total(&|i| p[i]))]
        {
            // Some hundred terms, rounded each.
            assert!(sum.abs() < 1e-13 * size, "{what}: {sum} of {size}");
        }
    }

    #[test]
    fn diffusion_keeps_the_sum_and_takes_from_the_square() {
        let (q, none) = (noise(3), vec![0.0; 9 * 14]);
        let (k, areas) = tendency(&none, &q, 2.0);
        let sum: f64 = k.iter().enumerate().map(|(i, k)| areas[i / 14] * k).sum();
        let square: f64 = k.iter().zip(&q).enumerate().map(|(i, (k, q))| areas[i / 14] * k * q).sum();
        assert!(sum.abs() < 1e-13 && square < -1.0, "{sum} {square}");
    }
}
