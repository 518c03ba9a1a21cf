//! The big-brother twin: a box is carved from a run of the globe, is told that run at its edge, and has to find the rest.

use super::*;
use crate::constants::WILLIAMSON;
use crate::device::cpu::Cpu;
use crate::grid::Grid;
use crate::shallow_water::{Case, ShallowWater, Sphere};

const ROWS: std::ops::Range<usize> = 36..56;
const COLUMNS: std::ops::Range<usize> = 20..84;
const HOUR: f64 = 3600.0;

/// Case 6 at 64 x 128; filtered only poleward of the box, which filters nothing.
fn big_brother() -> Case {
    let mut case = Case::rossby_haurwitz(64, 128).unwrap();
    case.layer.filter_latitude = 70.0_f64.to_radians();
    case
}

fn carved(values: &[f64]) -> Vec<f64> {
    values.chunks(128).take(ROWS.end).skip(ROWS.start).flat_map(|row| row[COLUMNS].to_vec()).collect()
}

fn carved_fields(fields: &Fields) -> Fields {
    Fields { u: carved(&fields.u), v: carved(&fields.v), h: carved(&fields.h) }
}

fn box_of(case: &Case) -> Layer {
    let globe = case.layer.sphere.grid().unwrap();
    let grid = Grid::new(globe.latitude[ROWS].to_vec(), globe.longitude[COLUMNS].to_vec()).unwrap();
    let sphere = Sphere::regional(&grid, WILLIAMSON[0]).unwrap();
    Layer::new(sphere, WILLIAMSON[2], WILLIAMSON[1], case.layer.depth)
}

/// Root mean square over the cells that no zone touches.
fn inside(a: &[f64], b: &[f64]) -> f64 {
    let (rows, columns) = (ROWS.len(), COLUMNS.len());
    let squares: Vec<f64> = (ZONE..rows - ZONE)
        .flat_map(|j| (ZONE..columns - ZONE).map(move |i| j * columns + i))
        .map(|k| (a[k] - b[k]) * (a[k] - b[k]))
        .collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

/// States of the globe at every step, carved.
fn history(case: &Case, dt: f64, hours: f64) -> Vec<(f64, Fields)> {
    let mut globe =
        ShallowWater::new(case.layer.clone(), dt, Box::new(Cpu::<f64>::new(None).unwrap())).unwrap();
    globe.start(&case.fields).unwrap();
    let steps = (hours * HOUR / dt).round() as usize;
    let mut states = vec![(0.0, carved_fields(&case.fields))];
    for _ in 0..steps {
        globe.advance(1).unwrap();
        states.push((globe.time(), carved_fields(&globe.fields())));
    }
    states
}

/// Error of h inside the box at the end of a history [m].
fn error(case: &Case, dt: f64, states: &[(f64, Fields)], driving: Driving) -> f64 {
    let device = Box::new(Cpu::<f64>::new(None).unwrap());
    let mut twin = ShallowWater::regional(box_of(case), dt, driving, ZONE, device).unwrap();
    twin.start(&states[0].1).unwrap();
    twin.advance(states.len() - 1).unwrap();
    inside(&twin.fields().h, &states[states.len() - 1].1.h)
}

fn every(states: &[(f64, Fields)], seconds: f64) -> Driving {
    let wanted = |time: f64| (time / seconds).fract().min(1.0 - (time / seconds).fract()) < 1e-9;
    Driving::Analyses(states.iter().filter(|(time, _)| wanted(*time)).cloned().collect())
}

#[test]
fn a_box_that_is_told_its_edge_finds_the_inside() {
    let (case, dt) = (big_brother(), 360.0);
    let states = history(&case, dt, 12.0);
    let persistence = inside(&states[0].1.h, &states[states.len() - 1].1.h);
    let found = [dt, HOUR, 3.0 * HOUR].map(|interval| error(&case, dt, &states, every(&states, interval)));
    let frozen = error(&case, dt, &states, Driving::Frozen);
    let [each, hourly, three_hourly] = found;
    println!(
        "12 h: fed at each step {each:.1e}, 1 h {hourly:.2}, 3 h {three_hourly:.2} m, frozen {frozen:.1} m, persistence \
         {persistence:.1} m"
    );
    assert!(found[0] < 1e-3 && found[1] < 2.0 && found[2] < 12.0 && frozen < persistence);
}

#[test]
#[ignore = "ten seconds in release"]
fn a_box_follows_its_big_brother_for_two_days() {
    let (case, dt) = (big_brother(), 400.0);
    let states = history(&case, dt, 48.0);
    let persistence = inside(&states[0].1.h, &states[states.len() - 1].1.h);
    let found =
        [HOUR, 3.0 * HOUR, 6.0 * HOUR].map(|interval| error(&case, dt, &states, every(&states, interval)));
    let frozen = error(&case, dt, &states, Driving::Frozen);
    println!("48 h: every 1, 3, 6 h {found:.2?} m, frozen {frozen:.1} m, persistence {persistence:.1} m");
    assert!(found.iter().zip([2.0, 12.0, 18.0]).all(|(found, most)| *found < most));
    assert!(frozen < persistence);
    // Within a step its edge follows a straight line: that error falls with the fourth power of the step and faster.
    let fed = [400.0, 200.0, 80.0].map(|dt| {
        let states = history(&case, dt, 48.0);
        let found = error(&case, dt, &states, every(&states, dt));
        println!("48 h, steps of {dt} s, fed at each: {found:.1e} m");
        found
    });
    assert!(fed[1] < fed[0] / 16.0 && fed[2] < 1e-6);
}

#[test]
fn a_box_asks_for_what_it_needs() {
    let case = big_brother();
    let initial = carved_fields(&case.fields);
    let device = || Box::new(Cpu::<f32>::new(Some(1)).unwrap());
    let make = |driving, zone| ShallowWater::regional(box_of(&case), 400.0, driving, zone, device());
    assert!(ShallowWater::new(box_of(&case), 400.0, device()).is_err());
    assert!(make(Driving::Frozen, 10).is_err() && make(Driving::Frozen, 0).is_err());
    assert!(make(Driving::Analyses(vec![(0.0, initial.clone())]), ZONE).is_err());
    let hour = vec![(0.0, initial.clone()), (HOUR, initial.clone())];
    let mut twin = make(Driving::Analyses(hour), ZONE).unwrap();
    twin.start(&initial).unwrap();
    twin.advance(9).unwrap();
    assert!(twin.advance(1).unwrap_err().to_string().contains("driven for 1.00 h"));
    // On the ring it stands where it was told, to the rounding of float32 departures of a kilometre.
    let ring: Vec<f64> = twin.fields().h[..64].iter().zip(&initial.h).map(|(a, b)| (a - b).abs()).collect();
    assert!(ring.iter().all(|d| *d < 1e-3));
}
