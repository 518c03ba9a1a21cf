use super::*;
use crate::constants::{EARTH_RADIUS, EARTH_ROTATION};
use crate::grid::Grid;

fn regional(rows: usize, columns: usize, south: f64, step: f64) -> Sphere {
    let even = |n: usize, first: f64| (0..n).map(|i| first + step * i as f64).collect::<Vec<f64>>();
    Sphere::regional(&Grid::new(even(rows, south), even(columns, 10.0)).unwrap(), EARTH_RADIUS).unwrap()
}

fn field(sphere: &Sphere, at: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    (0..sphere.rows * sphere.columns)
        .map(|k| ((k / sphere.columns) as isize, (k % sphere.columns) as isize))
        .map(|(j, i)| at(sphere.latitude(j), sphere.longitude(i)))
        .collect()
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |m, x| m.max(x.abs()))
}

/// Largest difference, relative to the largest value of the truth.
fn error(found: &[f64], truth: &[f64]) -> f64 {
    largest(found.iter().zip(truth).map(|(x, y)| x - y)) / largest(truth.iter().copied())
}

/// A harmonic of degree 3, the winds along its contours, and those down its gradient.
fn harmonic(sphere: &Sphere) -> (Vec<f64>, [Vec<f64>; 2], [Vec<f64>; 2]) {
    let a = sphere.a;
    let psi = field(sphere, |p, l| a * p.sin() * p.cos().powi(2) * (2.0 * l).cos());
    let north = field(sphere, |p, l| p.cos() * (p.cos().powi(2) - 2.0 * p.sin().powi(2)) * (2.0 * l).cos());
    let east = field(sphere, |p, l| -2.0 * p.sin() * p.cos() * (2.0 * l).sin());
    let minus = north.iter().map(|x| -x).collect();
    (psi, [minus, east.clone()], [east, north])
}

#[test]
fn the_globe_finds_the_stream_function_of_its_winds_and_not_that_of_a_divergent_part() {
    let mut errors = Vec::new();
    for rows in [24, 48] {
        let sphere = Sphere::global(rows, 2 * rows, EARTH_RADIUS).unwrap();
        let mut inversion = Inversion::new(&sphere, EARTH_ROTATION).unwrap();
        let (truth, [u, v], [du, dv]) = harmonic(&sphere);
        let add = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
        let (psi, zeta) = inversion.of_winds(&add(&u, &du), &add(&v, &dv));
        // Degree 3: lap psi = -12 / a^2 psi.
        let vorticity: Vec<f64> = truth.iter().map(|x| -12.0 * x / EARTH_RADIUS.powi(2)).collect();
        let [back_u, back_v] = inversion.winds(&truth);
        errors.push([
            error(&psi, &truth),
            error(&zeta, &vorticity),
            error(&back_u, &u),
            error(&back_v, &v),
            error(&inversion.vorticity(&truth), &vorticity),
        ]);
    }
    println!("{errors:?}");
    for (coarse, fine) in errors[0].iter().zip(&errors[1]) {
        assert!(*coarse < 0.06 && coarse / fine > 3.5, "second order: {errors:?}");
    }
}

#[test]
fn a_box_finds_the_stream_function_of_its_winds_but_for_a_constant() {
    let mut errors = Vec::new();
    for (n, step) in [(17, 2.0), (33, 1.0)] {
        let sphere = regional(n, n, 30.0, step);
        let mut inversion = Inversion::new(&sphere, EARTH_ROTATION).unwrap();
        let (truth, [u, v], _) = harmonic(&sphere);
        let (psi, zeta) = inversion.of_winds(&u, &v);
        let mean = sphere.mean(&truth);
        let truth: Vec<f64> = truth.iter().map(|x| x - mean).collect();
        let vorticity: Vec<f64> =
            harmonic(&sphere).0.iter().map(|x| -12.0 * x / EARTH_RADIUS.powi(2)).collect();
        let inner = inversion.inner();
        errors.push([
            error(&psi, &truth),
            error(&inner.cut(&zeta), &inner.cut(&vorticity)),
            // On the ring of first order.
            error(&zeta, &vorticity),
        ]);
        let of_psi = inner.cut(&inversion.vorticity(&psi));
        assert!(error(&of_psi, &inner.cut(&zeta)) < 1e-9, "inside, both are the same differences");
    }
    println!("{errors:?}");
    assert!(errors[1][0] < 1e-3 && errors[1][1] < 1e-3 && errors[1][2] < 0.05, "{errors:?}");
    for (coarse, fine) in errors[0][..2].iter().zip(&errors[1]) {
        assert!(coarse / fine > 3.5, "second order: {errors:?}");
    }
}

#[test]
fn a_change_of_geopotential_comes_back_from_its_stream_function() {
    let sphere = regional(13, 17, -55.0, 2.5);
    let mut inversion = Inversion::new(&sphere, EARTH_ROTATION).unwrap();
    let inner = inversion.inner();
    let before = field(&sphere, |p, l| 5e4 + 2e3 * (5.0 * p).sin() + 1e3 * (7.0 * l).cos());
    let mut after = before.clone();
    for k in inner.points() {
        after[k] += (k * k % 23) as f64;
    }
    let [a, b] = [&after, &before].map(|phi| inversion.of_geopotential(phi).unwrap());
    let mut change: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
    // The mean of the box, which the values on the ring are taken from, is another: the ring of psi moved.
    let offset = change[0];
    assert!((0..17).all(|k| (change[k] - offset).abs() < 1e-6 * largest(a.iter().copied())));
    change.iter_mut().for_each(|x| *x -= offset);
    let back = inversion.geopotential(&change);
    let worst = largest((0..back.len()).map(|k| back[k] - (after[k] - before[k])));
    assert!(worst < 1e-6, "{worst} m2/s2 of 23");
}

#[test]
fn on_the_globe_solid_rotation_has_its_geopotential() {
    // psi = -a^2 w sin(p): div(f grad psi) = lap Phi for Phi = -a^2 w Omega sin^2(p).
    let sphere = Sphere::global(48, 8, EARTH_RADIUS).unwrap();
    let mut inversion = Inversion::new(&sphere, EARTH_ROTATION).unwrap();
    let scale = EARTH_RADIUS.powi(2) * 4e-6;
    let phi = inversion.geopotential(&field(&sphere, |p, _| -scale * p.sin()));
    let truth = field(&sphere, |p, _| -scale * EARTH_ROTATION * (p.sin().powi(2) - 1.0 / 3.0));
    // Second order: (pi / 48)^2 = 4e-3.
    assert!(error(&phi, &truth) < 4e-3, "{}", error(&phi, &truth));
}
