//! How fast the fastest thing in a flow happens.

use super::super::{HALO, Rates, Real};
use super::instructions::Instructions;
use super::threads::Threads;
use super::vector::{lines_per_task, vectorised};

/// Numbers that are compared at once.
const LANES: usize = 16;

/// Read are u, v, h and the factors.
pub(super) fn fastest_rate<T: Real>(
    threads: &Threads,
    instructions: Instructions,
    rates: &Rates,
    [u, v, h, factors]: [&[T]; 4],
) -> f64 {
    let (rows, n) = (rates.rows, rates.columns);
    let width = n + 2 * HALO;
    assert!([u, v, h].iter().all(|x| x.len() == (rows + 2 * HALO) * width), "fields of {rows} x {n} cells");
    assert_eq!(factors.len(), 3 * rows, "three factors for each row");
    let lines = lines_per_task(rows);
    let mut largest = vec![T::default(); rows.div_ceil(lines)];
    threads.chunks(&mut largest, 1, |task, largest| {
        for j in task * lines..rows.min((task + 1) * lines) {
            let [u, v, h] = [u, v, h].map(|x| &x[(j + HALO) * width + HALO..][..n]);
            let factors = [factors[3 * j], factors[3 * j + 1], factors[3 * j + 2]];
            largest[0] = larger(largest[0], of_row(instructions, u, v, h, factors, T::of(rates.depth)));
        }
    });
    largest.into_iter().fold(T::default(), larger).wide()
}

#[inline(always)]
fn larger<T: Real>(x: T, y: T) -> T {
    if x > y { x } else { y }
}

/// Comparisons with NaN are false, so that what is no number is infinite.
#[inline(always)]
fn rate<T: Real>(u: T, v: T, thickness: T, factors: [T; 3]) -> T {
    let (zero, infinity) = (T::default(), T::of(f64::INFINITY));
    let [by_u, by_v, by_root] = factors;
    let rate = u.abs() * by_u + v.abs() * by_v + larger(thickness, zero).sqrt() * by_root;
    let rate = if rate < infinity { rate } else { infinity };
    if thickness > zero { rate } else { infinity }
}

vectorised! {
    fn of_row<T: Real>(u: &[T], v: &[T], h: &[T], factors: [T; 3], depth: T) -> T {
        let mut largest = [T::default(); LANES];
        let ((u, u_rest), (v, v_rest), (h, h_rest)) =
            (u.as_chunks::<LANES>(), v.as_chunks::<LANES>(), h.as_chunks::<LANES>());
        for ((u, v), h) in u.iter().zip(v).zip(h) {
            for lane in 0..LANES {
                largest[lane] = larger(largest[lane], rate(u[lane], v[lane], h[lane] + depth, factors));
            }
        }
        for ((&u, &v), &h) in u_rest.iter().zip(v_rest).zip(h_rest) {
            largest[0] = larger(largest[0], rate(u, v, h + depth, factors));
        }
        largest.into_iter().fold(T::default(), larger)
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{ArenaPlan, Device, HALO, Rates, Triple, cpu::Cpu};

    #[test]
    fn the_fastest_rate_is_that_of_one_cell_and_infinite_where_there_is_no_number() {
        let (rows, columns) = (3, 37);
        let width = columns + 2 * HALO;
        let mut plan = ArenaPlan::default();
        let mut slot = || plan.slot((rows + 2 * HALO) * width);
        let x = Triple { u: slot(), v: slot(), h: slot() };
        let factors = plan.slot(3 * rows);
        let mut device = Cpu::<f64>::new(Some(2)).unwrap();
        device.allocate(&plan).unwrap();
        device.upload(factors, &[1.0, 1.0, 1.0, 2.0, 3.0, 0.5, 1.0, 1.0, 1.0]);
        let at = (1 + HALO) * width + HALO + 36;
        // Halos are not looked at.
        for slot in [x.u, x.v, x.h] {
            device.upload(slot.part(0, 1), &[f64::NAN]);
        }
        for (slot, value) in [(x.u, -2.0), (x.v, 1.0), (x.h, 5.0)] {
            device.upload(slot.part(at, 1), &[value]);
        }
        let rates = Rates { rows, columns, x, depth: 4.0, factors };
        assert_eq!(device.fastest_rate(&rates), 2.0 * 2.0 + 3.0 + 0.5 * 3.0);
        for (slot, value) in [(x.u, f64::NAN), (x.v, f64::NEG_INFINITY), (x.h, f64::NAN), (x.h, -4.0)] {
            let mut before = [0.0];
            device.download(slot.part(at, 1), &mut before);
            device.upload(slot.part(at, 1), &[value]);
            assert_eq!(device.fastest_rate(&rates), f64::INFINITY, "{value}");
            device.upload(slot.part(at, 1), &before);
        }
    }
}
