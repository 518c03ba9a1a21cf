//! Any number of ranks learns what one does.

use std::time::Duration;

use super::*;
use crate::comm::{Host, run};
use crate::device::ArenaPlan;
use crate::device::cpu::Cpu;
use crate::field::Layout;
use crate::grid::Grid;
use crate::model::{Architecture, Geometry};
use crate::train::plan::{
    self, LearningRate, LossKind, LossPlan, NonFinite, Sampling, SavingPlan, Stage, TrainPlan, ValidationPlan,
};
use crate::train::progress::Progress;
use crate::train::schedule::uniform;
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;
use crate::variable::Quantity;

const BATCH: usize = 24;
const HIDDEN: usize = 24;
const LEADS: usize = 2;
const FRAMES: usize = 2;
const STEPS: u64 = 5;

fn plan() -> TrainPlan {
    TrainPlan {
        seed: 1,
        batch: BATCH,
        accumulate: 1,
        recompute: false,
        curriculum: vec![Stage { epochs: 1, leads: LEADS }],
        learning_rate: LearningRate { peak: 0.01, floor: 0.0, warm_up: 0 },
        // A larger epsilon than usual: where a gradient is nearly zero, Adam would divide rounding by rounding.
        optimizer: plan::AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-6, weight_decay: 0.01 },
        clip_norm: None,
        ema_decay: 0.9,
        sampling: Sampling { start: 0.0, end: 0.0, epochs: 0 },
        loss: LossPlan {
            kind: LossKind::Squared,
            latitude_weights: true,
            variables: Default::default(),
            leads: Vec::new(),
        },
        validation: ValidationPlan { leads: LEADS, patience: None },
        saving: SavingPlan { every: None, keep: 1 },
        non_finite: NonFinite::Stop,
        augment: Default::default(),
    }
}

/// What follows from the gradients.
#[derive(Clone, Copy, PartialEq)]
enum Optimiser {
    AdamW,
    /// With this rate.
    Descent(f64),
}

/// Every array as it comes out: the gradients of the first step, and the weights after five.
struct Learned {
    names: Vec<String>,
    /// Weights of the network that has not learned.
    fresh: Vec<Vec<f64>>,
    gradients: Vec<Vec<f64>>,
    weights: Vec<Vec<f64>>,
}

/// A training on so many ranks; the first one tells.
fn learn<T: Real>(size: usize, optimiser: Optimiser, shares_moments: bool) -> Learned {
    let limit = Duration::from_secs(60);
    let each = run(vec![(); size], limit, |(), meeting| {
        let mut communicator = Host::new(meeting);
        // Pieces that fit no array.
        let plan = ParallelPlan { domain: 1, channel: 1, bucket_bytes: 1000, shares_moments };
        let mut cpu = Cpu::new(Some(1))?;
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan)?;
        of_rank::<T>(&mut ranks, &mut cpu, optimiser)
    });
    each.unwrap().remove(0)
}

fn of_rank<T: Real>(
    ranks: &mut Ranks<'_, T>,
    device: &mut dyn Device<T>,
    optimiser: Optimiser,
) -> Result<Learned> {
    let plan = plan();
    let layout = Layout {
        grid: Grid::new(vec![40.0, 45.0], vec![0.0, 5.0, 10.0])?,
        quantities: vec![Quantity::parse("msl"), Quantity::parse("z500")],
    };
    let architecture = Architecture {
        prognostic: 2,
        statics: 0,
        forcings: 0,
        hidden: vec![HIDDEN, HIDDEN],
        kernel: 3,
        patch: 1,
        layer_norm: true,
        peepholes: true,
        residual: true,
        input_frames: FRAMES,
        dropout: 0.25,
    };
    let share = ranks.share();
    let own = BATCH / share.of;
    let weights = Weights::new(&plan.loss, &layout, None)?;
    let mut arena = ArenaPlan::default();
    let geometry = Geometry::of(&layout);
    let workspace = Workspace::<T>::plan(
        &mut arena,
        &plan,
        &architecture,
        &geometry,
        &weights,
        own,
        ranks.plan.shard(ranks.part().replica()),
    )?;
    device.allocate(&arena)?;
    workspace.start(&weights, plan.seed, device);
    let network = &workspace.network;
    let arrays = |device: &dyn Device<T>, gradients: bool| -> Vec<Vec<f64>> {
        let slots = network.parameters().iter().map(|p| if gradients { p.gradient } else { p.slot });
        slots.map(|slot| download(device, slot)).collect()
    };
    let fresh = arrays(device, false);
    let mut first = Vec::new();
    for step in 1..=STEPS {
        device.zero(network.gradients());
        network.draw_dropout(device, 9, step, share.number * own);
        let field = (layout.grid.points() * layout.channels()) as u64;
        let number = |frame: usize, sample: usize, i| {
            let sample = (share.number * own + sample) as u64;
            T::of(uniform(3, &[step, frame as u64, sample, i]) - 0.5)
        };
        let samples =
            |frame| (0..own).flat_map(move |sample| (0..field).map(move |i| number(frame, sample, i)));
        let frames: Vec<T> = (0..FRAMES + LEADS).flat_map(samples).collect();
        device.upload(network.slots().frames, &frames);
        network.forward(device, LEADS);
        workspace.loss(device, &lead_weights(&plan.loss, LEADS), 1.0);
        network.backward_by_stretches(device, LEADS, &mut |device, part| ranks.add_up(device, part));
        ranks.barrier()?;
        if step == 1 {
            first = arrays(device, true);
        }
        match optimiser {
            Optimiser::AdamW => {
                workspace.update(device, 0.01, 1.0, step);
                workspace.share_weights(device, ranks);
            }
            Optimiser::Descent(rate) => {
                let (slot, gradient) = (network.weights(), download(device, network.gradients()));
                let moved =
                    download(device, slot).into_iter().zip(gradient).map(|(w, g)| T::of(w - rate * g));
                device.upload(slot, &moved.collect::<Vec<T>>());
            }
        }
    }
    let names = network.parameters().iter().map(|p| p.name.clone()).collect();
    Ok(Learned { names, fresh, gradients: first, weights: arrays(device, false) })
}

fn download<T: Real>(device: &dyn Device<T>, slot: Slot) -> Vec<f64> {
    let mut values = vec![T::default(); slot.len()];
    device.download(slot, &mut values);
    values.into_iter().map(T::wide).collect()
}

fn norm(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|x| x * x).sum::<f64>().sqrt()
}

/// The relative L2 difference of two arrays.
fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let scale = norm(expected.iter().copied());
    assert!(scale > 0.0, "an array that learns nothing");
    norm(found.iter().zip(expected).map(|(a, b)| a - b)) / scale
}

/// Of the arrays whose number passes.
fn worst(found: &[Vec<f64>], expected: &[Vec<f64>], passes: impl Fn(usize) -> bool) -> f64 {
    (0..found.len()).filter(|&i| passes(i)).map(|i| difference(&found[i], &expected[i])).fold(0.0, f64::max)
}

#[test]
fn every_rank_goes_on_with_its_own_choices() {
    let all = run(vec![(); 3], Duration::from_secs(60), |(), meeting| {
        let mut communicator = Host::new(meeting);
        let plan = ParallelPlan { domain: 1, channel: 1, bucket_bytes: 1, shares_moments: false };
        let mut cpu = Cpu::<f32>::new(Some(1))?;
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan)?;
        let own = ranks.share().number;
        ranks.choices([("convolution".to_owned(), format!("plan \"{own}\""))].into())
    });
    let mut choices = all.unwrap().remove(2).into_iter();
    let progress = Progress {
        choices: choices.next().unwrap(),
        other_choices: choices.collect(),
        ..Progress::default()
    };
    let of = |rank| progress.choices_of(rank)["convolution"].as_str();
    assert_eq!([of(0), of(1), of(2)], ["plan \"0\"", "plan \"1\"", "plan \"2\""]);
    assert_eq!(of(3), of(0), "a rank that was not there follows the first");
}

#[test]
fn a_mesh_numbers_channels_first_then_bands_then_samples() {
    let plan = ParallelPlan { domain: 3, channel: 2, bucket_bytes: 1, shares_moments: true };
    let part = plan.part(17, 24).unwrap();
    let share = |number, of| Share { number, of };
    assert_eq!(part, Part { samples: share(2, 4), rows: share(2, 3), units: share(1, 2) });
    assert_eq!(part.replica(), share(8, 12));
    let error = plan.part(0, 8).unwrap_err();
    assert!(
        error.to_string().contains("8 ranks are no multiple of") && error.advice().unwrap().contains("12")
    );
    // Those that hold the same weights meet.
    let sums = run(vec![(); 12], Duration::from_secs(60), |(), meeting| {
        let mut communicator = Host::new(meeting);
        let mut cpu = Cpu::<f64>::new(Some(1))?;
        let own = Communicator::<f64>::rank(&communicator);
        let mut ranks = Ranks::new(&mut communicator, &mut cpu, plan)?;
        let mut sum = [own as f64];
        ranks.replicas().total(&mut sum)?;
        assert_eq!(ranks.replicas().rank(), ranks.part().replica().number);
        ranks.close()?;
        Ok(sum[0])
    });
    assert_eq!(sums.unwrap(), [30.0, 36.0].repeat(6));
}

const SIZES: [usize; 5] = [2, 3, 4, 6, 8];

#[test]
fn any_number_of_ranks_learns_what_one_learns_in_float64() {
    let one = learn::<f64>(1, Optimiser::AdamW, false);
    for size in SIZES {
        let many = learn::<f64>(size, Optimiser::AdamW, false);
        // Who updates what changes no bit.
        assert!(learn::<f64>(size, Optimiser::AdamW, true).weights == many.weights, "{size} ranks");
        assert_eq!(many.names, one.names);
        let worst = worst(&many.weights, &one.weights, |_| true);
        println!("{size} ranks, float64, five AdamW steps: {worst:.1e}");
        // Sums in another order, each 1e-16 off, through a division by the root of a square.
        assert!(worst < 1e-9, "{size} ranks: {worst:e}");
    }
}

#[test]
fn any_number_of_ranks_learns_what_one_learns_in_float32() {
    let one = learn::<f32>(1, Optimiser::Descent(0.1), false);
    let starts_at_zero = |i: usize| norm(one.fresh[i].iter().copied()) == 0.0;
    for size in SIZES {
        let many = learn::<f32>(size, Optimiser::Descent(0.1), false);
        let gradients = worst(&many.gradients, &one.gradients, |_| true);
        let weights = worst(&many.weights, &one.weights, |i| !starts_at_zero(i));
        // These are nothing but gradients added up, and no more exact.
        let sums = worst(&many.weights, &one.weights, starts_at_zero);
        println!(
            "{size} ranks, float32: gradients {gradients:.1e}, weights {weights:.1e}, from zero {sums:.1e}"
        );
        assert!(gradients < 1e-5 && weights < 1e-6 && sums < 1e-5, "{size} ranks");
    }
}
