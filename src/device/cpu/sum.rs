//! Weighted sums of fields.

use super::super::{Image, Real, Sum};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{lines_per_task, vectorised};

/// `terms` are x and its factors, the latter perhaps empty.
pub(super) fn sum<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    sum: &Sum,
    y: &mut [T],
    terms: &[(&[T], &[T])],
) {
    let (rows, n, Image { halo, .. }) = (sum.rows, sum.columns, sum.y);
    let width = n + 2 * halo;
    assert_eq!(y.len(), (rows + 2 * halo) * width, "a sum of {rows} x {n} points");
    for (term, (x, factors)) in sum.terms.iter().zip(terms) {
        assert_eq!(
            x.len(),
            (rows + 2 * term.x.halo) * (n + 2 * term.x.halo),
            "a term of {rows} x {n} points"
        );
        assert!(
            [0, rows, rows * n].contains(&factors.len()),
            "a factor for all, for each row or for each point"
        );
    }
    let lines = lines_per_task(rows);
    threads.chunks(&mut y[halo * width..][..rows * width], lines * width, |task, part| {
        for (j, line) in part.chunks_exact_mut(width).enumerate().map(|(j, line)| (task * lines + j, line)) {
            let y = &mut line[halo..][..n];
            if sum.keep == 0.0 {
                y.fill(T::default());
            } else if sum.keep != 1.0 {
                multiply(instructions, T::of(sum.keep), y);
            }
            for (term, (x, factors)) in sum.terms.iter().zip(terms) {
                let x = &x[(j + term.x.halo) * (n + 2 * term.x.halo) + term.x.halo..][..n];
                let weight = T::of(term.weight);
                match factors.len() {
                    0 => add(instructions, weight, x, y),
                    len if len == rows => add(instructions, weight * factors[j], x, y),
                    _ => add_products(instructions, weight, &factors[j * n..][..n], x, y),
                }
            }
        }
    });
}

vectorised! {
    fn multiply<T: Real>(factor: T, y: &mut [T]) {
        y.iter_mut().for_each(|y| *y = factor * *y);
    }
}

vectorised! {
    fn add<T: Real>(weight: T, x: &[T], y: &mut [T]) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y += weight * x);
    }
}

vectorised! {
    fn add_products<T: Real>(weight: T, factors: &[T], x: &[T], y: &mut [T]) {
        for ((y, &x), &factor) in y.iter_mut().zip(x).zip(factors) {
            *y += weight * factor * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{ArenaPlan, Device, Image, Sum, Term, cpu::Cpu};

    #[test]
    fn a_sum_scales_its_terms_by_row_or_point_and_leaves_the_halo() {
        let mut plan = ArenaPlan::default();
        let [y, a, b, by_row, by_point] = [12, 2, 12, 2, 2].map(|len| plan.slot(len));
        let mut device = Cpu::<f64>::new(Some(2)).unwrap();
        device.allocate(&plan).unwrap();
        device.upload(y, &[5.0; 12]);
        device.upload(a, &[1.0, 2.0]);
        device.upload(b, &(0..12).map(f64::from).collect::<Vec<_>>());
        device.upload(by_row, &[10.0, 20.0]);
        device.upload(by_point, &[100.0, 200.0]);
        // Two rows of one column: the interior of b is 4 and 7.
        let terms = [
            Term::new(Image::plain(a), 1.0),
            Term::new(Image::plain(a), 2.0).times(by_row),
            Term::new(Image::padded(b), 1.0).times(by_point),
        ];
        let mut values = [0.0; 12];
        for (keep, expected) in [(0.0, [421.0, 1482.0]), (2.0, [1263.0, 4446.0])] {
            device.sum(&Sum { rows: 2, columns: 1, y: Image::padded(y), keep, terms: &terms });
            device.download(y, &mut values);
            assert_eq!([values[4], values[7]], expected);
        }
        assert!((0..12).filter(|k| ![4, 7].contains(k)).all(|k| values[k] == 5.0));
    }
}
