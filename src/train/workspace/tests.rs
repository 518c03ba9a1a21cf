//! What a training keeps, with one rank.

use super::*;
use crate::comm::{Alone, Host};
use crate::device::cpu::Cpu;
use crate::field::Layout;
use crate::train::fixture::{self, LEADS};
use crate::train::ranks::ParallelPlan;
use crate::train::weights::lead_weights;

struct Setting {
    plan: TrainPlan,
    architecture: Architecture,
    layout: Layout,
}

impl Setting {
    fn new(batch: usize) -> Self {
        let layout = fixture::layout(vec![40.0, 45.0, 50.0], 4, 5.0, ["msl", "z500"]);
        Self { plan: fixture::plan(batch), architecture: fixture::architecture(vec![4]), layout }
    }

    fn open(&self, device: &mut Cpu<f32>) -> Workspace<f32> {
        let weights = Weights::new(&self.plan.loss, &self.layout, None).unwrap();
        let geometry = Geometry::of(&self.layout);
        let mut arena = ArenaPlan::default();
        let workspace = Workspace::plan(
            &mut arena,
            &self.plan,
            &self.architecture,
            &geometry,
            &weights,
            self.plan.batch,
            Sharding::ALONE,
        )
        .unwrap();
        device.allocate(&arena).unwrap();
        workspace.start(&weights, self.plan.seed, device);
        workspace
    }

    /// Adds the gradient of samples `first..first + batch` of an endless series, giving their loss.
    fn learn(&self, workspace: &Workspace<f32>, device: &mut Cpu<f32>, first: usize) -> f64 {
        let frames = fixture::frames(&self.layout, 0, first..first + self.plan.batch);
        device.upload(workspace.network.slots().frames, &frames);
        workspace.network.forward(device, LEADS);
        let weights = lead_weights(&self.plan.loss, LEADS);
        let values = workspace.loss(device, &weights, 1.0);
        workspace.network.backward(device, LEADS);
        values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
    }
}

/// Does something as the only rank.
fn alone<R>(work: impl FnOnce(&mut Ranks<'_, f32>) -> R) -> R {
    let mut alone = Host::new(Box::new(Alone));
    let mut cpu = Cpu::new(Some(1)).unwrap();
    work(&mut Ranks::new(&mut alone, &mut cpu, ParallelPlan::ALONE).unwrap())
}

fn tensors(workspace: &Workspace<f32>, device: &mut Cpu<f32>) -> Tensors {
    alone(|ranks| workspace.to_tensors(device, ranks))
}

fn gradients(workspace: &Workspace<f32>, device: &Cpu<f32>) -> Vec<f32> {
    let slot = workspace.network.gradients();
    let mut gradients = vec![0.0; slot.len()];
    device.download(slot, &mut gradients);
    gradients
}

#[test]
fn the_mean_gradient_of_two_batches_is_that_of_one_twice_as_large() {
    let (mut one, mut other) = (Cpu::new(Some(1)).unwrap(), Cpu::new(Some(1)).unwrap());
    let (large, small) = (Setting::new(4), Setting::new(2));
    let (whole, parts) = (large.open(&mut one), small.open(&mut other));
    let loss = large.learn(&whole, &mut one, 0);
    let mean = (small.learn(&parts, &mut other, 0) + small.learn(&parts, &mut other, 2)) / 2.0;
    // Float32 sums of some hundred terms in another order.
    assert!((loss - mean).abs() < 1e-6 * loss, "{loss} {mean}");
    let (whole, parts) = (gradients(&whole, &one), gradients(&parts, &other));
    let scale = whole.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
    assert!(scale > 0.0);
    for (w, p) in whole.iter().zip(&parts) {
        assert!((w - p / 2.0).abs() < 1e-5 * scale, "{w} {p}");
    }
}

#[test]
fn updates_lower_the_loss_and_the_average_follows_the_weights() {
    let mut device = Cpu::new(Some(1)).unwrap();
    let setting = Setting::new(4);
    let workspace = setting.open(&mut device);
    let mut losses = Vec::new();
    for update in 1..=60 {
        device.zero(workspace.network.gradients());
        losses.push(setting.learn(&workspace, &mut device, 0));
        workspace.update(&mut device, 0.01, 1.0, update);
        workspace.average(&mut device, 0.5);
    }
    assert!(losses[59] < 0.8 * losses[0], "{losses:?}");
    let tensors = tensors(&workspace, &mut device);
    let of = |name: &str| tensors[name].as_f32().unwrap().to_vec();
    let (average, latest) = (of("weights.head.weight"), of("latest.head.weight"));
    assert_ne!(average, latest);
    // The average of half-life one lags by about one update, and an update moves a weight by about the rate.
    assert!(average.iter().zip(&latest).all(|(a, l)| (a - l).abs() < 0.02));
}

#[test]
fn what_is_learned_comes_back_from_tensors_and_goes_on_with_the_same_bits() {
    let setting = Setting::new(2);
    let mut device = Cpu::new(Some(1)).unwrap();
    let workspace = setting.open(&mut device);
    let advance = |workspace: &Workspace<f32>, device: &mut Cpu<f32>, update| {
        device.zero(workspace.network.gradients());
        setting.learn(workspace, device, update as usize);
        workspace.update(device, 0.01, 1.0, update);
        workspace.average(device, 0.9);
    };
    (1..4).for_each(|update| advance(&workspace, &mut device, update));
    let kept = tensors(&workspace, &mut device);
    (4..7).for_each(|update| advance(&workspace, &mut device, update));
    let uninterrupted = tensors(&workspace, &mut device);

    let mut device = Cpu::new(Some(1)).unwrap();
    let workspace = setting.open(&mut device);
    assert_eq!(alone(|ranks| workspace.read_tensors(&mut device, ranks, &kept)).unwrap(), None);
    (4..7).for_each(|update| advance(&workspace, &mut device, update));
    assert_eq!(tensors(&workspace, &mut device), uninterrupted);

    let mut foreign = kept;
    foreign.remove("adam.first.head.bias");
    let error = alone(|ranks| workspace.read_tensors(&mut device, ranks, &foreign)).unwrap_err();
    assert!(error.to_string().contains("adam.first.head.bias"), "{error}");
}
