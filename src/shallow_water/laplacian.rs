//! The discrete Laplacian of the staggered grid as an elliptic equation for the device.
//!
//! `lap x = div grad x` with the differences of the shallow-water model: gradients on west and south faces, divergence
//! at the centres. Equations are integrated over cells: the right side of `lap x = r` is `area(j) r(j, i)`.

use std::ops::Range;

use crate::device::{Coefficients, Ends};

use super::Sphere;

/// `lap x - kappa(latitude) x = r` on the whole globe, `[rows, columns]`; kappa [m-2] is not negative. With kappa = 0
/// everywhere, the area mean of r does not count and that of x is zero.
pub fn global(sphere: &Sphere, kappa: impl Fn(f64) -> f64) -> Coefficients {
    assert!(sphere.global, "the equation of the whole globe");
    coefficients(sphere, [0, sphere.rows], sphere.columns, Ends::Periodic, |_| 1.0, kappa)
}

/// `div(weight(latitude) grad x) - kappa(latitude) x = r` inside a box, `[rows - 2, columns - 2]`, with x = 0 on the
/// outermost ring of its cells; weight is positive.
pub fn interior(sphere: &Sphere, weight: impl Fn(f64) -> f64, kappa: impl Fn(f64) -> f64) -> Coefficients {
    coefficients(sphere, [1, sphere.rows - 1], sphere.columns - 2, Ends::Dirichlet, weight, kappa)
}

/// `div(weight(latitude) grad x) = r` on the rows of one hemisphere of the globe, with x = 0 on the equator: `rows` are
/// all those to the north or to the south of it.
pub fn hemisphere(sphere: &Sphere, weight: impl Fn(f64) -> f64, rows: Range<usize>) -> Coefficients {
    let [from, to] = [rows.start, rows.end];
    let mut half = coefficients(sphere, [from, to], sphere.columns, Ends::Periodic, weight, |_| 0.0);
    // The equator is a row of centres, or a row of faces half as far away.
    if sphere.rows.is_multiple_of(2) {
        let equator = if from == 0 { to - from } else { 0 };
        half.south[equator] *= 2.0;
    }
    half
}

/// `lap x = r` in a box that nothing leaves or enters, `[rows, columns]`: no gradient across its edges. The area mean of
/// r does not count and that of x is zero.
pub fn closed(sphere: &Sphere) -> Coefficients {
    let [rows, columns] = [sphere.rows, sphere.columns];
    let mut closed = coefficients(sphere, [0, rows], columns, Ends::Neumann, |_| 1.0, |_| 0.0);
    (closed.south[0], closed.south[rows]) = (0.0, 0.0);
    closed
}

/// Rows `from..to` of the grid.
fn coefficients(
    sphere: &Sphere,
    [from, to]: [usize; 2],
    columns: usize,
    ends: Ends,
    weight: impl Fn(f64) -> f64,
    kappa: impl Fn(f64) -> f64,
) -> Coefficients {
    let rows = || (from..to).map(|j| j as isize);
    let area: Vec<f64> = rows().map(|j| sphere.area(j)).collect();
    Coefficients {
        columns,
        ends,
        west: rows().map(|j| weight(sphere.latitude(j)) * sphere.dy() / sphere.dxu(j)).collect(),
        south: (from..=to)
            .map(|j| j as isize)
            .map(|j| weight(sphere.face_latitude(j)) * sphere.dxv(j) / sphere.dy())
            .collect(),
        diagonal: rows().zip(&area).map(|(j, area)| kappa(sphere.latitude(j)) * area).collect(),
        area,
        smoothing: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ArenaPlan, Device, Elliptic, cpu::Cpu};
    use crate::grid::Grid;

    fn solve(coefficients: Coefficients, right: &[f64]) -> Vec<f64> {
        let mut plan = ArenaPlan::default();
        let elliptic = Elliptic::new(&mut plan, coefficients);
        let x = plan.slot(right.len());
        let mut device = Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        elliptic.upload(&mut device);
        device.upload(x, right);
        elliptic.solve(&mut device, x, x);
        let mut solution = right.to_vec();
        device.download(x, &mut solution);
        solution
    }

    /// Largest error against `truth(latitude, longitude)`, relative to its largest value.
    fn error(sphere: &Sphere, x: &[f64], ring: usize, truth: impl Fn(f64, f64) -> f64) -> f64 {
        let columns = sphere.columns - 2 * ring;
        let (mut worst, mut most) = (0.0_f64, 0.0_f64);
        for (n, x) in x.iter().enumerate() {
            let (j, i) = ((n / columns + ring) as isize, (n % columns + ring) as isize);
            let truth = truth(sphere.latitude(j), sphere.longitude(i));
            (worst, most) = (worst.max((x - truth).abs()), most.max(truth.abs()));
        }
        worst / most
    }

    #[test]
    fn spherical_harmonics_are_eigenfunctions_to_second_order() {
        let harmonic = |lat: f64, lon: f64| lat.sin() * lat.cos().powi(3) * (3.0 * lon).cos();
        let mut errors = Vec::new();
        for rows in [16, 32, 64] {
            let sphere = Sphere::global(rows, 2 * rows, 2.0).unwrap();
            // Degree 4 on a sphere of radius 2: lap Y = -4 * 5 / 4 Y.
            let right = |kappa: f64| -> Vec<f64> {
                (0..rows as isize)
                    .flat_map(|j| (0..2 * rows as isize).map(move |i| (j, i)))
                    .map(|(j, i)| {
                        (-5.0 - kappa) * sphere.area(j) * harmonic(sphere.latitude(j), sphere.longitude(i))
                    })
                    .collect()
            };
            let poisson = solve(global(&sphere, |_| 0.0), &right(0.0));
            let helmholtz = solve(global(&sphere, |_| 7.0), &right(7.0));
            errors.push((error(&sphere, &poisson, 0, harmonic), error(&sphere, &helmholtz, 0, harmonic)));
        }
        println!("{errors:?}");
        for pair in errors.windows(2) {
            assert!((pair[0].0 / pair[1].0).log2() > 1.9 && (pair[0].1 / pair[1].1).log2() > 1.9);
        }
        assert!(errors[2].0 < 4e-3, "{errors:?}");
    }

    #[test]
    fn in_a_box_the_solution_is_that_of_its_own_differences() {
        let even = |n: usize, first: f64| (0..n).map(|i| first + 2.5 * i as f64).collect::<Vec<f64>>();
        let grid = Grid::new(even(9, 30.0), even(13, -20.0)).unwrap();
        let sphere = Sphere::regional(&grid, 3.0).unwrap();
        let (rows, columns) = (9, 13);
        let weight = |lat: f64| 2.0 * lat.sin();
        // Any field that vanishes on the ring, its divergence of weighted gradients face by face, and back.
        let x = |j: isize, i: isize| {
            let inside = j > 0 && j < rows - 1 && i > 0 && i < columns - 1;
            if inside { ((3 * j + 5 * i) % 7) as f64 } else { 0.0 }
        };
        let (mut right, mut truth) = (Vec::new(), Vec::new());
        for j in 1..rows - 1 {
            for i in 1..columns - 1 {
                let across = |j: isize, i: isize| {
                    let west = weight(sphere.latitude(j)) * sphere.dy() / sphere.dxu(j);
                    west * (x(j, i) - x(j, i - 1))
                };
                let along = |j: isize, i: isize| {
                    let south = weight(sphere.face_latitude(j)) * sphere.dxv(j) / sphere.dy();
                    south * (x(j, i) - x(j - 1, i))
                };
                right.push(across(j, i + 1) - across(j, i) + along(j + 1, i) - along(j, i));
                truth.push(x(j, i));
            }
        }
        let found = solve(interior(&sphere, weight, |_| 0.0), &right);
        let worst = found.iter().zip(&truth).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        assert!(worst < 1e-12, "{worst}");
    }

    #[test]
    fn a_closed_box_returns_what_has_no_gradient_across_its_edges() {
        let even = |n: usize, first: f64| (0..n).map(|i| first + 2.0 * i as f64).collect::<Vec<f64>>();
        let sphere = Sphere::regional(&Grid::new(even(8, -9.0), even(11, 0.0)).unwrap(), 1.0).unwrap();
        let x: Vec<f64> = (0..88).map(|n| f64::from(n * n % 11)).collect();
        let at = |j: isize, i: isize| x[(j.clamp(0, 7) * 11 + i.clamp(0, 10)) as usize];
        let right: Vec<f64> = (0..88_isize)
            .map(|n| {
                let (j, i) = (n / 11, n % 11);
                let west = sphere.dy() / sphere.dxu(j);
                let south = |j: isize| sphere.dxv(j) / sphere.dy();
                west * (at(j, i + 1) - 2.0 * at(j, i) + at(j, i - 1))
                    + south(j + 1) * (at(j + 1, i) - at(j, i))
                    + south(j) * (at(j - 1, i) - at(j, i))
            })
            .collect();
        let found = solve(closed(&sphere), &right);
        let mean = sphere.mean(&x);
        let worst = found.iter().zip(&x).fold(0.0_f64, |m, (a, b)| m.max((a - b + mean).abs()));
        assert!(worst < 1e-11, "{worst}");
    }
}
