//! A training that starts from another one, and learns to be rounded: what it reports is what its whole numbers forecast.

mod waves;

use std::sync::Arc;

use waves::Place;
use wxsim::config::{Config, Overrides};
use wxsim::device::cpu::Cpu;
use wxsim::export::{Int8, Trained};
use wxsim::field::State;
use wxsim::io::{checkpoint, run_dir};
use wxsim::preprocess::{Catalogue, ValidationView};
use wxsim::runner::{Native, NetworkStepper};
use wxsim::stepper::Stepper;
use wxsim::time::LeadTime;

const FRESH: [&str; 6] =
    ["--set", "model.dropout=0", "--set", "train.rollout=[[6, 2]]", "--set", "train.sampling.start=0"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    FRESH.into_iter().chain(["--set", "train.sampling.end=0"]).chain(more.iter().copied()).collect()
}

/// Analyses that end at the date with index `last` of the validation span.
fn analyses(validation: &ValidationView, last: usize) -> Vec<State> {
    let end = validation.times()[last];
    let day = LeadTime::from_hours(24);
    [end.after(LeadTime { seconds: -day.seconds }), end].map(|valid| validation.read(valid).unwrap()).to_vec()
}

/// Root mean square errors by variable and lead, in standard deviations of the normaliser.
fn errors(
    trained: &Arc<Trained>,
    stepper: &mut NetworkStepper,
    validation: &ValidationView,
) -> [[f64; 2]; 2] {
    let layout = trained.info.layout.clone();
    let weights = layout.grid.latitude_weights();
    let mut squares = [[0.0_f64; 2]; 2];
    let windows = validation.times().len() - 2;
    for last in 0..windows {
        let mut forecast = stepper.start(&analyses(validation, last)).unwrap();
        for (lead, squares) in squares.iter_mut().enumerate() {
            stepper.step(&mut forecast).unwrap();
            let truth = validation.read(validation.times()[last + lead + 1]).unwrap();
            let [mut a, mut b] = [(); 2].map(|()| vec![0.0; layout.grid.points() * 2]);
            trained.normalizer.normalize(&stepper.observe(&forecast).unwrap(), &mut a).unwrap();
            trained.normalizer.normalize(&truth, &mut b).unwrap();
            for (index, (a, b)) in a.iter().zip(&b).enumerate() {
                squares[index % 2] += weights[index / 2 / layout.grid.columns()] * f64::from(a - b).powi(2);
            }
        }
    }
    squares.map(|of_lead| of_lead.map(|sum| (sum / (windows * layout.grid.points()) as f64).sqrt()))
}

#[test]
fn a_fine_tuned_network_forecasts_in_int8_what_its_training_reported() {
    let place = Place::new();
    let train = |run: &str, more: &[&str]| {
        let output = place.train(run, &with(more));
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (done, text) = train("rounded", &["--set", "train.quantise=int8"]);
    assert!(!done && text.contains("--from RUN"), "{text}");
    let (done, text) = train("run", &[]);
    assert!(done, "{text}");
    let (done, text) = train("other", &["--from", "run", "--set", "model.hidden=[5]"]);
    assert!(!done && text.contains("another network"), "{text}");
    let tune = ["--from", "run", "--set", "train.quantise=int8", "--set", "train.learning_rate=1e-4"];
    let (done, text) = train("tuned", &tune);
    assert!(done && text.contains("ranges of activations from"), "{text}");
    // It goes on as it began: with the ranges in its checkpoint, whatever became of the other run.
    std::fs::rename(place.run("run"), place.run("gone")).unwrap();
    let (done, text) = train("tuned", &[&tune[..], &["--resume"]].concat());
    assert!(done, "{text}");

    let folder = run_dir::find_checkpoint(&place.run("tuned")).unwrap();
    let trained = Arc::new(Trained::open(&folder).unwrap());
    let ranges = trained.ranges.clone().expect("a checkpoint says that it was rounded");
    let mut config = Config::load(&place.run("tuned").join("config.toml"), &Overrides::default()).unwrap();
    config.data.root = Some(place.folder.path().to_owned());
    let validation = Catalogue::build(&config.data.plan().unwrap()).unwrap().validation().unwrap();
    let int8 = Int8::of(&trained, ranges).unwrap();
    let device = Box::new(Cpu::new(Some(1)).unwrap());
    let native = Native::in_int8(trained.clone(), device, &int8).unwrap();
    let found = errors(&trained, &mut NetworkStepper::alone(trained.clone(), native), &validation);

    let step = checkpoint::step_of(&folder).unwrap();
    let line =
        place.curve("tuned").into_iter().find(|l| l["kind"] == "validation" && l["step"] == step).unwrap();
    for (channel, quantity) in trained.info.layout.quantities.iter().enumerate() {
        for (lead, found) in found.iter().enumerate() {
            let expected = line["rmse"][quantity.to_string()][lead].as_f64().unwrap();
            // Both count in the same steps; now and then float32 rounds to the other side of a half, and pressure keeps
            // 1e5 / 900 * 6e-8 of a deviation.
            assert!(
                (found[channel] - expected).abs() < 2e-4,
                "{quantity}, {lead}: {} {expected}",
                found[channel]
            );
        }
    }
}
