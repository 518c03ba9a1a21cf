//! The fourth difference along rows and columns.

use super::super::{Biharmonic, HALO, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, lines_per_task, vectorised};

pub(super) fn biharmonic<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    damping: &Biharmonic,
    x: &[T],
    to: &mut [T],
) {
    let (rows, n) = (damping.rows, damping.columns);
    let width = n + 2 * HALO;
    let len = (rows + 2 * HALO) * width;
    assert!(x.len() == len && to.len() == len, "fields of the damping's shape");
    // Padded row j, or the mean of its neighbours where it lies on a pole.
    let row = |j: usize| &x[j * width + HALO..][..n];
    let poles = [HALO, HALO + rows];
    let means = [0, 1].map(|side| match damping.on_pole[side] {
        true => mean(row(poles[side] - 1), row(poles[side] + 1)),
        false => Vec::new(),
    });
    let meridional = |j: usize| match (0..2).find(|&side| damping.on_pole[side] && j == poles[side]) {
        Some(side) => &means[side],
        None => row(j),
    };
    let to = Parts::new(to);
    let lines = lines_per_task(rows);
    threads.each(rows.div_ceil(lines), |task| {
        for j in HALO + task * lines..HALO + rows.min((task + 1) * lines) {
            if damping.on_pole[0] && j == poles[0] {
                continue;
            }
            // SAFETY: each row is written by one task.
            let to = unsafe { to.part(j * width + HALO, n) };
            let column = [j - 2, j - 1, j, j + 1, j + 2].map(meridional);
            subtract(instructions, T::of(damping.weight), &x[j * width..][..width], column, to);
        }
    });
}

fn mean<T: Real>(a: &[T], b: &[T]) -> Vec<T> {
    a.iter().zip(b).map(|(&a, &b)| T::of(0.5) * (a + b)).collect()
}

vectorised! {
    /// `row` has its halo; the rows of `column` have none.
    fn subtract<T: Real>(weight: T, row: &[T], column: [&[T]; 5], to: &mut [T]) {
        let n = to.len();
        let [x0, x1, x2, x3, x4] = [0, 1, 2, 3, 4].map(|shift| &row[shift..][..n]);
        let [y0, y1, y2, y3, y4] = column.map(|row| &row[..n]);
        let (four, six) = (T::of(4.0), T::of(6.0));
        for i in 0..n {
            let along = (x0[i] + x4[i]) - four * (x1[i] + x3[i]) + six * x2[i];
            let across = (y0[i] + y4[i]) - four * (y1[i] + y3[i]) + six * y2[i];
            to[i] = to[i] - weight * (along + across);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::{Cpu, Instructions};
    use crate::device::{ArenaPlan, Boundary, Channel, Device, Edge, Edges, Stagger};

    #[test]
    fn a_wave_of_two_cells_loses_its_share_in_each_direction() {
        let (rows, n) = (8, 12);
        let width = n + 2 * HALO;
        let sign = |j: usize, i: usize| if (i + j).is_multiple_of(2) { 1.0 } else { -1.0 };
        let x: Vec<f64> = (0..(rows + 2 * HALO) * width).map(|k| sign(k / width, k % width)).collect();
        let mut to = x.clone();
        let slots = ArenaPlan::default().slot(x.len());
        let damping =
            Biharmonic { rows, columns: n, weight: 0.25 / 32.0, x: slots, to: slots, on_pole: [false; 2] };
        biharmonic(&Threads::new(Some(2)).unwrap(), Instructions::best(), &damping, &x, &mut to);
        // D4 is 16 in each direction.
        assert_eq!(to[2 * width + 2], 0.75 * x[2 * width + 2]);
        assert_eq!(to[width], x[width], "the halo stays");
    }

    #[test]
    fn a_wind_straight_across_a_pole_is_smooth_there() {
        // A uniform wind over the pole is v = sin(lon - lon0) on every face about it.
        let (rows, n) = (8, 16);
        let edges = Edges { periodic: true, rows: [Edge::Pole { row_on_pole: false }; 2] };
        let map = edges.map(1, rows, n, HALO, &[Channel { odd: true, stagger: Stagger::South }]).unwrap();
        let width = n + 2 * HALO;
        let mut plan = ArenaPlan::default();
        let (x, to) = (plan.slot(map.cells), plan.slot(map.cells));
        let mut device = Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        let wave = |i: usize| (std::f64::consts::TAU * i as f64 / n as f64).sin();
        let mut field = vec![0.0; map.cells];
        for j in 1..rows {
            for i in 0..n {
                field[(j + HALO) * width + i + HALO] = wave(i);
            }
        }
        device.upload(x, &field);
        device.halo_fill(&map, x);
        device.copy(x, to);
        let damping = Biharmonic { rows, columns: n, weight: 1.0, x, to, on_pole: [true; 2] };
        device.biharmonic(&damping);
        device.download(to, &mut field);
        for j in 1..rows {
            for i in 0..n {
                // Along the row alone: 16 sin^4(pi / n) = 0.0232 times the wave; across it nothing.
                let expected = wave(i) * (1.0 - 16.0 * (std::f64::consts::PI / n as f64).sin().powi(4));
                assert!((field[(j + HALO) * width + i + HALO] - expected).abs() < 1e-13, "{j} {i}");
            }
        }
        assert!(field[HALO * width..][HALO..HALO + n].iter().all(|&v| v == 0.0));
    }
}
