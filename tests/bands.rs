//! Shallow water on bands of latitude, each on a device of its own, is shallow water on one device.

use std::iter::once;
use std::ops::Range;
use std::time::Duration;

use wxsim::comm::{Host, Others, run};
use wxsim::device::cpu::Cpu;
use wxsim::device::{Company, Device, FluxForm};
use wxsim::error::Result;
use wxsim::shallow_water::{Case, Fields, Layer, RUNGE_KUTTA_LIMIT, ShallowWater};

const ROWS: usize = 24;
const COLUMNS: usize = 48;
const STEPS: usize = 40;

/// Flow over a mountain across the poles' filters, with everything that a step can do.
fn case() -> Case {
    let mut case = Case::mountain(ROWS, COLUMNS).unwrap();
    case.layer.damping = Some(86_400.0);
    case
}

fn device() -> Cpu<f64> {
    Cpu::new(Some(1)).unwrap()
}

fn dt(case: &Case) -> f64 {
    case.layer.longest_step(RUNGE_KUTTA_LIMIT, 6_500.0)
}

fn stepped(mut model: ShallowWater<f64>, case: &Case) -> Result<Fields> {
    model.start(&case.fields)?;
    model.advance(STEPS)?;
    Ok(model.fields())
}

/// Makes a model of one band.
type Make = fn(Layer, &[Range<usize>], usize, f64, Box<dyn Device<f64>>) -> Result<ShallowWater<f64>>;

fn on_bands(case: &Case, dt: f64, bands: &[Range<usize>], make: Make) -> Result<Fields> {
    let each = run((0..bands.len()).collect(), Duration::from_secs(60), |own, meeting| {
        let mut device = device();
        let company: Box<dyn Company<f64>> = Box::new(Others::new(Some(Box::new(Host::new(meeting))), None));
        *device.company() = Some(company);
        stepped(make(case.layer.clone(), bands, own, dt, Box::new(device))?, case)
    })?;
    let join = |of: fn(&Fields) -> &Vec<f64>| each.iter().flat_map(|fields| of(fields).clone()).collect();
    Ok(Fields { u: join(|f| &f.u), v: join(|f| &f.v), h: join(|f| &f.h) })
}

/// Even ones, uneven ones, and one that is no more than its neighbours' halos.
fn cuts() -> [Vec<Range<usize>>; 3] {
    [vec![0..12, 12..24], vec![0..7, 7..9, 9..24], vec![0..6, 6..12, 12..18, 18..24]]
}

#[test]
fn explicit_steps_on_bands_give_the_bits_of_one_device() {
    for form in [FluxForm::ArakawaLamb, FluxForm::Energy] {
        let mut case = case();
        case.layer.form = form;
        let model = ShallowWater::new(case.layer.clone(), dt(&case), Box::new(device())).unwrap();
        let one = stepped(model, &case).unwrap();
        assert!(one.h != case.fields.h);
        for bands in cuts() {
            let found = on_bands(&case, dt(&case), &bands, ShallowWater::of_band).unwrap();
            assert!(found == one, "{form:?} {bands:?}");
        }
    }
}

#[test]
fn implicit_steps_on_bands_are_those_of_one_device() {
    let case = case();
    let dt = case.layer.semi_implicit_step();
    let model = ShallowWater::semi_implicit(case.layer.clone(), dt, Box::new(device())).unwrap();
    let one = stepped(model, &case).unwrap();
    assert!(one.h != case.fields.h);
    // Bands that are no more than the halos of their neighbours.
    let middle = (2..10).map(|n| 2 * n..2 * n + 2);
    let narrow: Vec<_> = once(0..4).chain(middle).chain(once(20..24)).collect();
    for bands in cuts().into_iter().chain([narrow]) {
        let found = on_bands(&case, dt, &bands, ShallowWater::semi_implicit_of_band).unwrap();
        // Two rows are transformed at a time: where other pairs of them are, so are the roundings.
        if bands.iter().all(|band| band.start % 2 == 0) {
            assert!(found == one, "{bands:?}");
        }
        for (found, one) in [(&found.u, &one.u), (&found.v, &one.v), (&found.h, &one.h)] {
            let largest = one.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
            let worst = found.iter().zip(one).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
            println!("{bands:?}: {:.1e}", worst / largest);
            assert!(worst < 1e-12 * largest, "{bands:?}: {worst:e} of {largest:e}");
        }
    }
}

#[test]
fn a_flow_that_breaks_off_says_where_on_the_whole_globe() {
    let case = case();
    let error = on_bands(&case, 4.0 * dt(&case), &cuts()[0], ShallowWater::of_band).unwrap_err();
    let text = wxsim::error::chain(&error);
    assert!(text.contains("the flow broke off"), "{text}");
}

#[test]
fn what_is_no_cut_of_the_globe_is_refused() {
    for (bands, own) in [
        (vec![0..22, 22..24], 0),
        (vec![0..12, 13..24], 0),
        (vec![0..12, 12..20], 0),
        (vec![0..12, 12..24], 2),
    ] {
        let model = ShallowWater::of_band(case().layer, &bands, own, 60.0, Box::new(device()));
        assert!(model.is_err(), "{bands:?}");
    }
}
