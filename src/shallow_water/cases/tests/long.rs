//! The published figures at their own resolutions; minutes in the release profile.
//!
//! The errors that a prototype had against a spectral model are gates here for the distance from a run of this model at
//! four times the resolution, whose own error is a sixteenth of that and less.

use super::*;
use crate::shallow_water::known::{GALEWSKY, GALEWSKY_PLACES, WILLIAMSON_5, WILLIAMSON_5_PLACES};

/// h of a finer grid at the centres of one with a `ratio`-th of its rows and columns, a power of two.
pub(super) fn coarsened(fine: &[f64], rows: usize, columns: usize, ratio: usize) -> Vec<f64> {
    if ratio == 1 {
        return fine.to_vec();
    }
    // Centres coincide in longitude; in latitude they lie between two rows: a cubic through four.
    let value = |j: isize, i: usize| {
        let last = rows as isize - 1;
        let (j, i) = match j {
            j if j < 0 => (-1 - j, i + columns / 2),
            j if j > last => (2 * last + 1 - j, i + columns / 2),
            j => (j, i),
        };
        fine[j as usize * columns + i % columns]
    };
    let halved: Vec<f64> = (0..rows / 2)
        .flat_map(|j| (0..columns / 2).map(move |i| (2 * j as isize, 2 * i)))
        .map(|(j, i)| (9.0 * (value(j, i) + value(j + 1, i)) - value(j - 1, i) - value(j + 2, i)) / 16.0)
        .collect();
    coarsened(&halved, rows / 2, columns / 2, ratio / 2)
}

/// States of a case at some days. What is conserved is checked at the end, energy on grids of at least 128 rows: below,
/// the time scheme damps the gravity waves that coarse initial states of the jet hold.
fn history(name: &str, case: &Case, dt: f64, days: &[f64]) -> Vec<Fields> {
    let mut model = start::<f64>(case, dt);
    let mut done = 0.0;
    let states = days.iter().map(|&day| {
        model.advance(((day - done) * DAY / dt).round() as usize).unwrap();
        done = day;
        model.fields()
    });
    let states: Vec<Fields> = states.collect();
    let drift = drift(case, states.last().unwrap());
    println!("{name}, {} rows, day {done}: {drift}", case.layer.sphere.rows);
    assert!(drift.mass.abs() < 1e-13 && drift.enstrophy.abs() < 1.5e-4);
    assert!(drift.energy.abs() < 5e-8 || case.layer.sphere.rows < 128);
    states
}

/// l2 at some days for several numbers of rows against the last of them, each with its step.
fn convergence(
    name: &str,
    make: impl Fn(usize) -> Case,
    steps: &[(usize, f64)],
    days: &[f64],
) -> (Vec<Vec<f64>>, Vec<Vec<Fields>>) {
    let histories: Vec<Vec<Fields>> =
        steps.iter().map(|&(rows, dt)| history(name, &make(rows), dt, days)).collect();
    let (finest, truth) = (steps[steps.len() - 1].0, &histories[steps.len() - 1]);
    let errors = steps[..steps.len() - 1].iter().zip(&histories).map(|(&(rows, _), states)| {
        let case = make(rows);
        let of_day = |(state, truth): (&Fields, &Fields)| {
            norms(&case, state, &coarsened(&truth.h, finest, 2 * finest, finest / rows)).l2
        };
        let l2: Vec<f64> = states.iter().zip(truth).map(of_day).collect();
        println!(
            "{name}, {rows} rows, days {days:?}: l2 {}",
            l2.iter().map(|l2| format!("{l2:.2e} ")).collect::<String>()
        );
        l2
    });
    (errors.collect(), histories)
}

fn below(found: &[f64], measured: &[f64]) {
    for (found, measured) in found.iter().zip(measured) {
        assert!(*found < 1.3 * measured, "{found:e} where the prototype had {measured:e}");
    }
}

#[test]
#[ignore = "half a minute in release"]
fn case_2_converges_at_second_order() {
    let errors: Vec<[Norms; 3]> = [32, 64, 128].into_iter().map(check_steady).collect();
    for pair in errors.windows(2) {
        for (coarse, fine) in pair[0].iter().zip(&pair[1]) {
            let order = (coarse.l2 / fine.l2).log2();
            assert!(order > 1.9, "order {order}");
        }
    }
}

#[test]
#[ignore = "half a minute in release"]
fn case_2_with_the_other_forms_and_with_damping() {
    let forms =
        [(FluxForm::Energy, [1.41e-5, 1.32e-3, 2.66e-4]), (FluxForm::Enstrophy, [1.41e-5, 8.96e-4, 3.50e-4])];
    for (form, expected) in forms {
        for (alpha, l2) in [0.0, FRAC_PI_4, FRAC_PI_2].into_iter().zip(expected) {
            let mut case = Case::steady(64, 128, alpha).unwrap();
            case.layer.form = form;
            let found = norms(&case, &run::<f64>(&case, longest(&case), 5.0), &case.fields.h);
            println!("case 2, 64 rows, {form:?}, alpha {alpha:.3}: {found}");
            assert!(found.l2 < 1.3 * l2);
        }
    }
    let mut case = Case::steady(64, 128, FRAC_PI_2).unwrap();
    case.layer.damping = Some(6.0 * 3600.0);
    let found = norms(&case, &run::<f64>(&case, longest(&case), 5.0), &case.fields.h);
    println!("case 2, 64 rows, over the pole, damped within 6 h: {found}");
    assert!(found.l2 < 1.3 * 5.22e-4);
}

#[test]
#[ignore = "two minutes in release"]
fn case_6_converges_and_passes_through_the_published_heights() {
    let make = |rows| Case::rossby_haurwitz(rows, 2 * rows).unwrap();
    let (errors, histories) = convergence(
        "case 6",
        make,
        &[(32, 800.0), (64, 400.0), (128, 200.0), (256, 100.0)],
        &[1.0, 5.0, 7.0, 10.0, 14.0],
    );
    below(&errors[0], &[2.52e-3, 9.51e-3, 1.44e-2, 2.34e-2, 3.61e-2]);
    below(&errors[1], &[6.49e-4, 2.50e-3, 3.96e-3, 5.80e-3, 8.39e-3]);
    below(&errors[2], &[1.63e-4, 6.54e-4, 1.01e-3, 1.36e-3, 2.58e-3]);
    let order = (errors[0][1] / errors[2][1]).log2() / 2.0;
    println!("case 6, day 5: order {order:.2}");
    assert!(order > 1.9);
    let extremes = [[10566.1, 7999.4], [10526.1, 8162.3], [10534.0, 8218.4], [10535.4, 8155.7]];
    // The prototype's l2 of days 1, 5, 10, 14; it had none at 256 rows.
    let (coarse, fine) = ([6.49e-4, 2.50e-3, 5.80e-3, 8.39e-3], [1.63e-4, 6.54e-4, 1.36e-3, 2.58e-3]);
    for (k, rows, l2) in [(1, 64, coarse), (2, 128, fine), (3, 256, fine)] {
        let sphere = make(rows).layer.sphere;
        for (day, state) in [0, 1, 3, 4].into_iter().enumerate() {
            let h = &histories[k][state].h;
            let worst = worst_point(&sphere, h, &WILLIAMSON_6_PLACES, WILLIAMSON_6[day].heights);
            let max = h.iter().copied().fold(f64::MIN, f64::max) - extremes[day][0];
            let min = h.iter().copied().fold(f64::MAX, f64::min) - extremes[day][1];
            println!("case 6, {rows} rows, entry {day}: {worst:.2} m off, extremes {max:.2} {min:.2} m");
            // Between centres, and from an extreme to the next centre, depths change by some metres.
            let between = 20.0 * (64.0 / rows as f64).powi(2);
            assert!(worst.max(max.abs()).max(min.abs()) < 3.0 * l2[day] * 8000.0 + between);
        }
    }
}

#[test]
#[ignore = "half a minute in release"]
fn the_other_forms_on_case_6() {
    let truth = history("case 6", &Case::rossby_haurwitz(128, 256).unwrap(), 200.0, &[14.0]).remove(0);
    let truth = coarsened(&truth.h, 128, 256, 2);
    for (form, l2) in [(FluxForm::Energy, 2.27e-3), (FluxForm::Enstrophy, 4.07e-3)] {
        let mut case = Case::rossby_haurwitz(64, 128).unwrap();
        case.layer.form = form;
        let fields = run::<f64>(&case, 400.0, 14.0);
        let found = norms(&case, &fields, &truth);
        println!("case 6, 64 rows, day 14, {form:?}: {found} {}", drift(&case, &fields));
        // The truth itself is 2.6e-3 away from the spectral model that the figures are against.
        assert!(found.l2 < 1.3 * l2 + 2.6e-3);
    }
}

#[test]
#[ignore = "ten seconds in release"]
fn float32_follows_float64_at_the_full_resolution_of_case_6() {
    let case = Case::rossby_haurwitz(64, 128).unwrap();
    let (double, single) = (run::<f64>(&case, 400.0, 5.0), run::<f32>(&case, 400.0, 5.0));
    let found = norms(&case, &single, &double.h);
    println!("case 6, 64 rows, day 5, f32 against f64: {found}");
    assert!(found.l2 < 1e-5);
    let single = run::<f32>(&case, 400.0, 14.0);
    println!("case 6, 64 rows, day 14, f32: {}", drift(&case, &single));
    let conserved = drift(&case, &run::<f64>(&case, 400.0, 14.0));
    println!("case 6, 64 rows, day 14: {conserved}");
    assert!(
        conserved.mass.abs() < 1e-13 && conserved.energy.abs() < 5e-8 && conserved.enstrophy.abs() < 1.5e-4
    );
    assert!(drift(&case, &single).mass.abs() < 1e-6);
}

#[test]
#[ignore = "ten seconds in release"]
fn a_layer_at_rest_over_a_mountain_stays_so_at_twice_the_resolution() {
    let mountain = Case::mountain(64, 128).unwrap();
    let bottom = mountain.layer.orography.clone().unwrap();
    let zero = vec![0.0; bottom.len()];
    let h = bottom.iter().map(|b| 5960.0 - b).collect();
    let case = Case { fields: Fields { u: zero.clone(), v: zero, h }, ..mountain };
    let (double, single) = (run::<f64>(&case, 480.0, 5.0), run::<f32>(&case, 480.0, 5.0));
    println!("rest over a mountain, 64 rows: {:e} m/s, {:e} m/s in f32", fastest(&double), fastest(&single));
    assert!(fastest(&double) < 1e-9 && fastest(&single) < 1e-3);
}

#[test]
#[ignore = "two minutes in release"]
fn case_5_converges_and_passes_through_the_published_heights() {
    let make = |rows| Case::mountain(rows, 2 * rows).unwrap();
    let (errors, histories) = convergence(
        "case 5",
        make,
        &[(32, 960.0), (64, 480.0), (128, 240.0), (256, 120.0)],
        &[1.0, 5.0, 10.0, 15.0],
    );
    // The spectral reference cannot resolve the cone and has an error of 1.1e-4 of its own.
    below(&errors[0], &[4.49e-4, 1.47e-3, 2.39e-3, 4.46e-3]);
    below(&errors[1], &[2.26e-4, 7.72e-4, 9.65e-4, 1.62e-3]);
    below(&errors[2], &[1.42e-4, 2.33e-4, 3.77e-4, 6.17e-4]);
    let order = (errors[0][3] / errors[2][3]).log2() / 2.0;
    println!("case 5, day 15: order {order:.2}");
    assert!(order > 1.3);
    // The top of the mountain is left out: the spectral model cannot resolve it, and is 48 m off at every day and resolution.
    let resolved = |n: &usize| WILLIAMSON_5_PLACES[*n] != (270.0, 30.0);
    let places: Vec<usize> = (0..WILLIAMSON_5_PLACES.len()).filter(resolved).collect();
    let points: Vec<(f64, f64)> = places.iter().map(|&n| WILLIAMSON_5_PLACES[n]).collect();
    for (k, rows) in [(1, 64), (2, 128), (3, 256)] {
        let case = make(rows);
        for (day, known) in WILLIAMSON_5.iter().enumerate() {
            let published: Vec<f64> = places.iter().map(|&n| known.heights[n]).collect();
            let h = &histories[k][day + 1].h;
            let surface: Vec<f64> =
                h.iter().zip(case.layer.orography.as_ref().unwrap()).map(|(h, b)| h + b).collect();
            let worst = worst_point(&case.layer.sphere, &surface, &points, &published);
            println!("case 5, {rows} rows, day {}: {worst:.2} m off", 5 * (day + 1));
            assert!(worst < 3.0 * [7.72e-4, 9.65e-4, 1.62e-3][day] * 8000.0);
        }
    }
}

#[test]
#[ignore = "ten minutes in release"]
fn the_unstable_jet_converges_and_passes_through_the_published_heights() {
    let make = |rows| Case::jet(rows, 2 * rows, Perturbation::Bump).unwrap();
    let days = [1.0, 4.0, 5.0, 6.0];
    let (errors, histories) =
        convergence("jet", make, &[(64, 360.0), (128, 180.0), (256, 90.0), (512, 45.0)], &days);
    below(&errors[0], &[1.16e-3, 2.04e-3, 5.14e-3, 6.50e-3]);
    below(&errors[1], &[3.58e-4, 6.92e-4, 1.66e-3, 2.14e-3]);
    let order = (errors[0][3] / errors[2][3]).log2() / 2.0;
    println!("jet, day 6: order {order:.2}");
    assert!(order > 1.5);
    let extremes = [[1.208e-4, -1.026e-4], [1.378e-4, -1.061e-4], [1.510e-4, -1.054e-4]];
    // All places stand in the jet, which covers a fifteenth of the globe and has nearly all of the error: there its mean
    // square is fifteen times that of the globe, whose layer is 10 km deep. The largest of ten errors is three times the mean.
    let local = 3.0 * 15.0_f64.sqrt() * 10_000.0;
    // Of the grids with half and a quarter of the rows.
    let mut coarser = [[f64::INFINITY; 2]; 2];
    for (k, rows) in [(0, 64), (1, 128), (2, 256), (3, 512)] {
        let case = make(rows);
        for (day, known) in GALEWSKY.iter().enumerate() {
            let h = &histories[k][1 + 2 * day].h;
            let worst = worst_point(&case.layer.sphere, h, &GALEWSKY_PLACES, known.heights);
            println!("jet, {rows} rows, day {}: {worst:.1} m off", 4 + 2 * day);
            // From the prototype's l2 at 128 rows, by the order of convergence that is asked for.
            let l2 = [6.92e-4, 2.14e-3][day] * (128.0 / rows as f64).powf(1.5);
            let [once, twice] = coarser[day];
            assert!(
                worst < local * l2 && worst < once && worst < 0.3 * twice,
                "{worst} after {once}, {twice}"
            );
            coarser[day] = [worst, once];
        }
        for (day, expected) in extremes.iter().enumerate() {
            let (most, least) = vorticity_extremes(&case, &histories[k][1 + day]);
            println!("jet, {rows} rows, day {}: vorticity {least:.3e} to {most:.3e}", 4 + day);
            let relative = (most / expected[0] - 1.0).abs().max((least / expected[1] - 1.0).abs());
            assert!(k < 3 || relative < 0.05, "{relative}");
        }
    }
}

fn vorticity_extremes(case: &Case, fields: &Fields) -> (f64, f64) {
    let (sphere, n) = (&case.layer.sphere, case.layer.sphere.columns);
    let mut extremes = (f64::MIN, f64::MAX);
    for j in 1..sphere.rows {
        for i in 0..n {
            let row = j as isize;
            let west = (i + n - 1) % n;
            let zeta = ((fields.v[j * n + i] - fields.v[j * n + west]) * sphere.dy()
                - fields.u[j * n + i] * sphere.dxu(row)
                + fields.u[(j - 1) * n + i] * sphere.dxu(row - 1))
                / sphere.corner_area(row);
            extremes = (extremes.0.max(zeta), extremes.1.min(zeta));
        }
    }
    extremes
}

#[test]
#[ignore = "ten seconds in release"]
fn the_undisturbed_jet_keeps_its_shape() {
    for (rows, l2) in [(64, 1.10e-3), (128, 3.38e-4)] {
        let case = Case::jet(rows, 2 * rows, Perturbation::None).unwrap();
        let fields = history("undisturbed jet", &case, longest(&case), &[5.0]).remove(0);
        let found = norms(&case, &fields, &case.fields.h);
        println!("undisturbed jet, {rows} rows: {found}, {:.1e} m from zonal", asymmetry(&case, &fields));
        assert!(found.l2 < 1.3 * l2 && asymmetry(&case, &fields) < 1e-9);
    }
}
