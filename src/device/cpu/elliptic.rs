//! The middle of an elliptic equation: one tridiagonal system for each wave of its rows.

use std::ops::Range;

use super::super::{Elliptic, Ends, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{Parts, vectorised};

/// Waves that one task sweeps through all rows at once: a few vectors for each row.
const BLOCK: usize = 64;

/// The tables of an [`Elliptic`].
pub(super) struct Tables<'a, T> {
    pub pivots: &'a [T],
    pub carries: &'a [T],
    pub shares: &'a [T],
}

/// Solves the systems of the waves at `places` of a row of amplitudes, in place: x is `[rows, places]`.
pub(super) fn solve_waves<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    elliptic: &Elliptic,
    tables: &Tables<'_, T>,
    places: Range<usize>,
    x: &mut [T],
) {
    let columns = places.len();
    assert_eq!(x.len(), elliptic.rows() * columns, "one amplitude for each row and place");
    assert!(places.end <= elliptic.columns(), "places of a row");
    let has_mean = places.start == 0 && columns > 0 && !tables.shares.is_empty();
    if has_mean {
        remove_mean_of_sums(x, columns, tables.shares);
    }
    let waves = elliptic.ends().waves(elliptic.columns());
    // Cosines and sines of one k stand apart but have one system.
    let mut blocks = Vec::new();
    let runs: &[(usize, usize, usize)] = match elliptic.ends() {
        Ends::Periodic => &[(0, 0, waves), (waves, 1, elliptic.columns() - waves)],
        Ends::Dirichlet | Ends::Neumann => &[(0, 0, waves)],
    };
    for &(place, wave, len) in runs {
        let here = place.max(places.start)..(place + len).min(places.end);
        for start in here.clone().step_by(BLOCK) {
            blocks.push((start - places.start, wave + start - place, BLOCK.min(here.end - start)));
        }
    }
    let parts = Parts::new(x);
    threads.each(blocks.len(), |task| {
        let (place, wave, len) = blocks[task];
        let tables = [&tables.pivots[wave..], &tables.carries[wave..]];
        sweep(instructions, tables, elliptic.rows(), waves, &parts, columns, place, len);
    });
    if has_mean {
        remove_mean(x, columns, tables.shares);
    }
}

vectorised! {
    /// Eliminates northward, substitutes southward, for `len` waves from column `place` on.
    fn sweep<T: Real>(
        tables: [&[T]; 2],
        rows: usize,
        waves: usize,
        x: &Parts<'_, T>,
        columns: usize,
        place: usize,
        len: usize,
    ) {
        let [pivots, carries] = tables;
        let mut carried = [T::default(); BLOCK];
        let y = &mut carried[..len];
        for j in 0..rows {
            // SAFETY: tasks have disjoint columns, and a task takes one row after the other.
            let row = unsafe { x.part(j * columns + place, len) };
            let carries = &carries[j * waves..][..len];
            for ((y, x), &carry) in y.iter_mut().zip(row).zip(carries) {
                *x = *y - *x;
                *y = carry * *x;
            }
        }
        y.fill(T::default());
        for j in (0..rows).rev() {
            // SAFETY: as above.
            let row = unsafe { x.part(j * columns + place, len) };
            let (pivots, carries) = (&pivots[j * waves..][..len], &carries[j * waves..][..len]);
            for (((y, x), &pivot), &carry) in y.iter_mut().zip(row).zip(pivots).zip(carries) {
                *y = pivot * *x + carry * *y;
                *x = *y;
            }
        }
    }
}

/// Takes from the zonal mean of a right side, which is integrated over areas, what keeps it from being zero in all.
fn remove_mean_of_sums<T: Real>(x: &mut [T], columns: usize, shares: &[T]) {
    let sum: f64 = x.iter().step_by(columns).map(|x| x.wide()).sum();
    for (x, share) in x.iter_mut().step_by(columns).zip(shares) {
        *x = T::of(x.wide() - share.wide() * sum);
    }
}

/// Takes the area mean from the zonal mean.
fn remove_mean<T: Real>(x: &mut [T], columns: usize, shares: &[T]) {
    let mean: f64 = x.iter().step_by(columns).zip(shares).map(|(x, share)| share.wide() * x.wide()).sum();
    for x in x.iter_mut().step_by(columns) {
        *x = T::of(x.wide() - mean);
    }
}

#[cfg(test)]
mod tests;
