//! A trained network forecasts as its validation said, and refuses what it was not trained for.

mod waves;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waves::Place;
use wxsim::config::{Config, Overrides};
use wxsim::device::cpu::Cpu;
use wxsim::error::chain;
use wxsim::field::{Layout, State};
use wxsim::grid::Grid;
use wxsim::io::{checkpoint, run_dir};
use wxsim::preprocess::{Catalogue, Normalizer, ValidationView};
use wxsim::runner::NetworkStepper;
use wxsim::stepper::Stepper;
use wxsim::time::LeadTime;

/// The test writes its file outside of the lock under which the library reads: one test at a time.
static FILES: Mutex<()> = Mutex::new(());

struct Trained {
    _files: MutexGuard<'static, ()>,
    place: Place,
    stepper: NetworkStepper,
    validation: ValidationView,
}

fn trained() -> Trained {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let output = place.train("run", &["--set", "train.rollout=[[2, 2]]"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let device = Box::new(Cpu::new(Some(1)).unwrap());
    let stepper = NetworkStepper::open(&place.run("run"), device).unwrap();
    let mut config = Config::load(&place.run("run").join("config.toml"), &Overrides::default()).unwrap();
    config.data.root = Some(place.folder.path().to_owned());
    let catalogue = Catalogue::build(&config.data.plan().unwrap()).unwrap();
    let validation = catalogue.validation().unwrap();
    Trained { _files: files, place, stepper, validation }
}

/// Analyses that end at the date with index `last` of the validation span.
fn analyses(validation: &ValidationView, last: usize) -> Vec<State> {
    let end = validation.times()[last];
    let day = LeadTime::from_hours(24);
    [end.after(LeadTime { seconds: -day.seconds }), end].map(|valid| validation.read(valid).unwrap()).to_vec()
}

#[test]
fn the_errors_of_the_stepper_are_those_that_validation_reported() {
    let Trained { _files, place, mut stepper, validation } = trained();
    let folder = run_dir::find_checkpoint(&place.run("run")).unwrap();
    let read = checkpoint::load(&folder).unwrap();
    let card = checkpoint::Card::read(&read).unwrap();
    let layout = stepper.info().layout.clone();
    let normalizer = Normalizer::from_tensors(layout.clone(), &card.normalizer, &read.tensors).unwrap();

    let weights = layout.grid.latitude_weights();
    let mut squares = [[0.0_f64; 2]; 2];
    let mut windows = 0;
    for last in 0..validation.times().len() - 2 {
        let mut forecast = stepper.start(&analyses(&validation, last)).unwrap();
        for (lead, squares) in squares.iter_mut().enumerate() {
            stepper.step(&mut forecast).unwrap();
            let truth = validation.read(validation.times()[last + lead + 1]).unwrap();
            let [mut a, mut b] = [(); 2].map(|()| vec![0.0; layout.grid.points() * 2]);
            normalizer.normalize(&stepper.observe(&forecast).unwrap(), &mut a).unwrap();
            normalizer.normalize(&truth, &mut b).unwrap();
            for (index, (a, b)) in a.iter().zip(&b).enumerate() {
                let row = index / 2 / layout.grid.columns();
                squares[index % 2] += weights[row] * f64::from(a - b).powi(2);
            }
        }
        windows += 1;
    }
    let step = checkpoint::step_of(&folder).unwrap();
    let line =
        place.curve("run").into_iter().find(|l| l["kind"] == "validation" && l["step"] == step).unwrap();
    for (channel, quantity) in layout.quantities.iter().enumerate() {
        for (lead, squares) in squares.iter().enumerate() {
            let found = (squares[channel] / (windows * layout.grid.points()) as f64).sqrt();
            let expected = line["rmse"][quantity.to_string()][lead].as_f64().unwrap();
            // To physical units and back in float32: pressure keeps 1e5 / 900 * 6e-8 of a deviation.
            assert!((found - expected).abs() < 1e-4, "{quantity}, lead {lead}: {found} {expected}");
        }
    }
}

#[test]
fn a_forecast_begins_with_the_analysis_and_another_one_replaces_it() {
    let Trained { _files, place: _place, mut stepper, validation } = trained();
    let given = analyses(&validation, 3);
    let mut forecast = stepper.start(&given).unwrap();
    let first = stepper.observe(&forecast).unwrap();
    assert_eq!((first.valid, &first.values), (given[1].valid, &given[1].values));
    stepper.step(&mut forecast).unwrap();
    let next = stepper.observe(&forecast).unwrap();
    assert_eq!(next.valid, validation.times()[4]);
    assert_ne!(next.values, first.values);

    let mut again = stepper.start(&given).unwrap();
    assert!(stepper.observe(&forecast).is_err() && stepper.step(&mut forecast).is_err());
    stepper.step(&mut again).unwrap();
    assert_eq!(stepper.observe(&again).unwrap().values, next.values, "the same start gives the same bits");
}

#[test]
fn analyses_that_the_network_was_not_trained_for_are_refused_by_name() {
    let Trained { _files, place: _place, mut stepper, validation } = trained();
    let good = analyses(&validation, 3);
    let mut refused = |analyses: &[State], text: &str| {
        let Err(error) = stepper.start(analyses) else { panic!("not refused: {text}") };
        let all = format!("{} {}", chain(&error), error.advice().unwrap_or_default());
        assert!(all.contains(text), "{all}");
    };
    refused(&good[1..], "2 analyses 1d apart");
    refused(&[good[0].clone(), validation.read(validation.times()[4]).unwrap()], "are 2d apart");

    let with = |layout: Layout| {
        let layout = Arc::new(layout);
        good.iter().map(|s| State { layout: layout.clone(), ..s.clone() }).collect::<Vec<_>>()
    };
    let layout = (*good[0].layout).clone();
    let mut other = layout.clone();
    other.quantities[1].name = "d2m".into();
    refused(&with(other), "the network needs t2m");
    let longitude = layout.grid.longitude.iter().map(|x| x + 1.0).collect();
    let grid = Grid::new(layout.grid.latitude.clone(), longitude).unwrap();
    refused(&with(Layout { grid, ..layout }), "was trained on the grid 4 x 6");

    let mut missing = good.clone();
    missing[0].values[[1, 1, 0]] = f32::NAN;
    refused(&missing, "msl at 2001-03-24T00:00Z has missing values");
}
