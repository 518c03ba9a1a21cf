use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

use super::*;
use crate::device::cpu::Cpu;
use crate::device::{FluxForm, Real};
use crate::shallow_water::known::{WILLIAMSON_2, WILLIAMSON_6, WILLIAMSON_6_PLACES};
use crate::shallow_water::published::between;
use crate::shallow_water::{Invariants, Norms, RUNGE_KUTTA_LIMIT, ShallowWater, dividing_step};

mod long;
mod semi_implicit;

const DAY: f64 = DAY_SECONDS as f64;

fn start<T: Real>(case: &Case, dt: f64) -> ShallowWater<T> {
    let device = Box::new(Cpu::<T>::new(None).unwrap());
    let mut model = ShallowWater::new(case.layer.clone(), dt, device).unwrap();
    model.start(&case.fields).unwrap();
    model
}

/// The state after `days` in steps of `dt`.
fn run<T: Real>(case: &Case, dt: f64, days: f64) -> Fields {
    let mut model = start::<T>(case, dt);
    model.advance((days * DAY / dt).round() as usize).unwrap();
    model.fields()
}

fn longest(case: &Case) -> f64 {
    let deepest = case.fields.h.iter().copied().fold(0.0, f64::max);
    dividing_step(case.layer.longest_step(RUNGE_KUTTA_LIMIT, deepest), DAY)
}

fn norms(case: &Case, fields: &Fields, truth: &[f64]) -> Norms {
    Norms::of(&case.layer.sphere, &fields.h, truth)
}

fn drift(case: &Case, fields: &Fields) -> Invariants {
    Invariants::of(&case.layer, fields).since(&Invariants::of(&case.layer, &case.fields))
}

/// Largest distance from published values at (longitude, latitude).
fn worst_point(sphere: &Sphere, values: &[f64], points: &[(f64, f64)], published: &[f64]) -> f64 {
    assert_eq!(points.len(), published.len());
    let distance = points.iter().zip(published).map(|(&(x, y), p)| (between(sphere, values, x, y) - p).abs());
    distance.fold(0.0, f64::max)
}

fn rest(orography: bool) -> Case {
    let mut case = Case::mountain(32, 64).unwrap();
    let bottom = case.layer.orography.clone().unwrap();
    if !orography {
        case.layer.orography = None;
    }
    let h = bottom.iter().map(|b| 5960.0 - if orography { *b } else { 0.0 }).collect();
    let zero = vec![0.0; bottom.len()];
    Case { fields: Fields { u: zero.clone(), v: zero, h }, ..case }
}

fn fastest(fields: &Fields) -> f64 {
    fields.u.iter().chain(&fields.v).fold(0.0, |m, x| x.abs().max(m))
}

#[test]
fn a_layer_at_rest_over_a_flat_bottom_stays_so_exactly() {
    let case = rest(false);
    assert_eq!(run::<f64>(&case, 900.0, 1.0), case.fields);
    let single = run::<f32>(&case, 900.0, 1.0);
    assert_eq!(fastest(&single), 0.0);
}

#[test]
fn a_layer_at_rest_over_a_mountain_stays_so_to_round_off() {
    let case = rest(true);
    let (double, single) = (run::<f64>(&case, 1080.0, 5.0), run::<f32>(&case, 1080.0, 5.0));
    println!("rest over a mountain: {:e} m/s, {:e} m/s in f32", fastest(&double), fastest(&single));
    assert!(fastest(&double) < 1e-9 && fastest(&single) < 1e-3);
}

#[test]
fn mass_energy_and_enstrophy_hold_through_five_days_of_case_6() {
    let case = Case::rossby_haurwitz(32, 64).unwrap();
    let drift = drift(&case, &run::<f64>(&case, 800.0, 5.0));
    println!("case 6, 32 x 64, 5 days: {drift}");
    // The discretisation conserves energy; what is left is the time scheme's, and of enstrophy the filter's and the caps'.
    assert!(drift.mass.abs() < 1e-13 && drift.energy.abs() < 5e-8 && drift.enstrophy.abs() < 1.5e-4);
}

#[test]
fn mass_holds_in_float32() {
    let case = Case::rossby_haurwitz(32, 64).unwrap();
    let drift = drift(&case, &run::<f32>(&case, 800.0, 5.0));
    println!("case 6, 32 x 64, 5 days, f32: {drift}");
    assert!(drift.mass.abs() < 1e-6 && drift.energy.abs() < 1e-6);
}

fn steady_errors(rows: usize) -> [Norms; 3] {
    [0.0, FRAC_PI_4, FRAC_PI_2].map(|alpha| {
        let case = Case::steady(rows, 2 * rows, alpha).unwrap();
        let fields = run::<f64>(&case, longest(&case), 5.0);
        let norms = norms(&case, &fields, &case.fields.h);
        println!("case 2, {rows} rows, alpha {alpha:.3}: {norms}, {}", drift(&case, &fields));
        norms
    })
}

/// Against what an independent program measured, for tilts of 0, 45 and 90 degrees.
fn check_steady(rows: usize) -> [Norms; 3] {
    let found = steady_errors(rows);
    let known = WILLIAMSON_2.iter().filter(|known| known.rows == rows);
    for (norms, known) in found.iter().zip(known) {
        let [l1, l2, _] = known.norms.map(Option::unwrap);
        assert!(norms.l1 < 1.3 * l1 && norms.l2 < 1.3 * l2, "{rows} rows: {norms:?} for {l1:e} {l2:e}");
    }
    found
}

#[test]
fn case_2_stays_steady_at_any_tilt() {
    check_steady(32);
}

#[test]
fn case_6_passes_through_the_published_heights() {
    let case = Case::rossby_haurwitz(32, 64).unwrap();
    let fields = run::<f64>(&case, 800.0, 5.0);
    let worst = worst_point(&case.layer.sphere, &fields.h, &WILLIAMSON_6_PLACES, WILLIAMSON_6[1].heights);
    println!("case 6, 32 x 64, day 5: at most {worst:.1} m off");
    // Three times the l2 error of 9.5e-3 of 8000 m.
    assert!(worst < 228.0);
}

#[test]
fn float32_follows_float64_through_five_days_of_case_6() {
    let case = Case::rossby_haurwitz(32, 64).unwrap();
    let (double, single) = (run::<f64>(&case, 800.0, 5.0), run::<f32>(&case, 800.0, 5.0));
    let norms = norms(&case, &single, &double.h);
    println!("case 6, 32 x 64, day 5, f32 against f64: {norms}");
    assert!(norms.l2 < 1e-5);
}

#[test]
fn an_undisturbed_jet_stays_zonal_to_round_off() {
    let case = Case::jet(32, 64, Perturbation::None).unwrap();
    let fields = run::<f64>(&case, longest(&case), 5.0);
    let asymmetry = asymmetry(&case, &fields);
    println!("jet, 32 x 64, 5 days: {asymmetry:.1e} m from zonal");
    // Round-off in depths of 10 km is 2e-12 m, and an unstable jet amplifies it.
    assert!(asymmetry < 1e-9);
}

fn asymmetry(case: &Case, fields: &Fields) -> f64 {
    let rows = fields.h.chunks(case.layer.sphere.columns);
    rows.flat_map(|row| row.iter().map(|h| (h - row[0]).abs())).fold(0.0, f64::max)
}

/// The frequency at which a wave `cos^4(lat) cos(4 lon)` of 1 mm stands on a sphere that does not rotate, relative to
/// that of the continuum, `sqrt(g H l (l + 1)) / a`, l = 4.
fn frequency(rows: usize) -> f64 {
    let sphere = Sphere::global(rows, 2 * rows, RADIUS).unwrap();
    let depth = 1000.0;
    let wave = |x: f64, y: f64| y.cos().powi(4) * (4.0 * x).cos();
    let fields = Fields::sample(&sphere, |_, _| 0.0, |_, _| 0.0, |x, y| depth + 1e-3 * wave(x, y));
    let shape: Vec<f64> = fields.h.iter().map(|h| h - depth).collect();
    let layer = Layer::new(sphere.clone(), GRAVITY, 0.0, depth);
    let case = Case { layer, fields };
    let exact = (GRAVITY * depth * 20.0).sqrt() / RADIUS;
    // Three eighths of a period: the phase is 135 degrees and the cosine's slope is large.
    let time = 0.375 * TAU / exact;
    let dt = dividing_step(longest(&case) / 4.0, time);
    let after = run::<f64>(&case, dt, time / DAY);
    let product = |field: &dyn Fn(usize) -> f64| {
        sphere.mean(&(0..shape.len()).map(|k| field(k) * shape[k]).collect::<Vec<_>>())
    };
    let cosine = product(&|k| after.h[k] - depth) / product(&|k| shape[k]);
    cosine.acos() / time / exact
}

#[test]
fn gravity_waves_travel_at_their_speed_and_converge_at_second_order() {
    let (coarse, fine) = (frequency(16) - 1.0, frequency(32) - 1.0);
    println!("gravity wave of zonal number 4: {coarse:.2e} at 16 rows, {fine:.2e} at 32");
    // Centred differences on a C grid are slow by (k dx)^2 / 24: 0.6 % at 32 rows, more for the filtered rows.
    assert!(fine.abs() < 1e-2);
    assert!((coarse / fine).abs() > 3.5);
}

#[test]
fn a_step_that_is_too_long_ends_the_run_and_says_which_would_do() {
    let case = Case::rossby_haurwitz(32, 64).unwrap();
    let device = Box::new(Cpu::<f64>::new(Some(1)).unwrap());
    let mut model = ShallowWater::new(case.layer.clone(), 2400.0, device).unwrap();
    let message = model.start(&case.fields).unwrap_err().to_string();
    assert!(
        message.contains("step 0") && message.contains("(row ") && message.contains("stable"),
        "{message}"
    );
    let stable: f64 = message.split("a step of ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    // And it is true.
    run::<f64>(&case, dividing_step(stable, DAY), 5.0);
}

#[test]
fn a_value_that_is_no_number_is_named_with_its_place() {
    let mut case = Case::rossby_haurwitz(16, 32).unwrap();
    let mut model = start::<f32>(&case, 600.0);
    case.fields.v[5 * 32 + 8] = f64::NAN;
    let message = model.start(&case.fields).unwrap_err().to_string();
    assert!(message.contains("v is NaN at 28.125S, 90E (row 5, column 8)"), "{message}");
    assert!(model.advance(16).unwrap_err().to_string().contains("step 16 (2.67 h)"));
    assert!(ShallowWater::new(case.layer, 0.0, Box::new(Cpu::<f32>::new(Some(1)).unwrap())).is_err());
}

#[test]
fn damping_leaves_a_smooth_flow_over_the_pole_alone() {
    let mut case = Case::steady(32, 64, FRAC_PI_2).unwrap();
    let free = norms(&case, &run::<f64>(&case, 900.0, 2.0), &case.fields.h);
    case.layer.damping = Some(6.0 * 3600.0);
    let damped = norms(&case, &run::<f64>(&case, 900.0, 2.0), &case.fields.h);
    println!("case 2 over the pole, 2 days: free {free}, damped {damped}");
    assert!(damped.l2 < 1.1 * free.l2);
}

#[test]
fn the_jet_has_its_mean_depth_and_drop() {
    let case = Case::jet(128, 8, Perturbation::None).unwrap();
    assert!((case.layer.depth - 1e4).abs() < 0.2, "{}", case.layer.depth);
    let drop = case.fields.h[0] - case.fields.h[case.fields.h.len() - 1];
    assert!((drop - 1086.978).abs() < 1e-3, "{drop}");
    let perturbed = Case::jet(128, 256, Perturbation::Bump).unwrap();
    assert!(
        perturbed
            .fields
            .h
            .iter()
            .zip(0..)
            .any(|(&h, k): (&f64, usize)| h - case.fields.h[k / 256 * 8] > 80.0)
    );
}
