//! Shallow water on bands of latitude, each on a device of its own, is shallow water on one device.

use std::ops::Range;
use std::time::Duration;

use wxsim::comm::{Host, Others, run};
use wxsim::device::cpu::Cpu;
use wxsim::device::{Company, Device, FluxForm};
use wxsim::shallow_water::{Case, Fields, RUNGE_KUTTA_LIMIT, ShallowWater};

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

fn stepped(mut model: ShallowWater<f64>, case: &Case) -> wxsim::error::Result<Fields> {
    model.start(&case.fields)?;
    model.advance(STEPS)?;
    Ok(model.fields())
}

fn on_bands(case: &Case, bands: &[Range<usize>]) -> Fields {
    let each = run(bands.to_vec(), Duration::from_secs(60), |band, meeting| {
        let mut device = device();
        let company: Box<dyn Company<f64>> = Box::new(Others::new(Some(Box::new(Host::new(meeting))), None));
        *device.company() = Some(company);
        stepped(ShallowWater::of_band(case.layer.clone(), band, dt(case), Box::new(device))?, case)
    });
    let each = each.unwrap();
    let join = |of: fn(&Fields) -> &Vec<f64>| each.iter().flat_map(|fields| of(fields).clone()).collect();
    Fields { u: join(|f| &f.u), v: join(|f| &f.v), h: join(|f| &f.h) }
}

#[test]
fn explicit_steps_on_bands_give_the_bits_of_one_device() {
    for form in [FluxForm::ArakawaLamb, FluxForm::Energy] {
        let mut case = case();
        case.layer.form = form;
        let model = ShallowWater::new(case.layer.clone(), dt(&case), Box::new(device())).unwrap();
        let one = stepped(model, &case).unwrap();
        assert!(one.h != case.fields.h);
        // Even ones, uneven ones, and one that is no more than its neighbours' halos.
        for bands in [vec![0..12, 12..24], vec![0..7, 7..9, 9..24], vec![0..6, 6..12, 12..18, 18..24]] {
            assert!(on_bands(&case, &bands) == one, "{form:?} {bands:?}");
        }
    }
}

#[test]
fn a_flow_that_breaks_off_says_where_on_the_whole_globe() {
    let case = case();
    let error = run(vec![0..12, 12..24], Duration::from_secs(60), |band, meeting| {
        let mut device = device();
        let company: Box<dyn Company<f64>> = Box::new(Others::new(Some(Box::new(Host::new(meeting))), None));
        *device.company() = Some(company);
        let long = 4.0 * dt(&case);
        stepped(ShallowWater::of_band(case.layer.clone(), band, long, Box::new(device))?, &case)
    });
    let text = wxsim::error::chain(&error.unwrap_err());
    assert!(text.contains("the flow broke off"), "{text}");
    assert!(ShallowWater::of_band(case.layer, 3..4, 60.0, Box::new(device())).is_err());
}
