//! A network that learned to be rounded forecasts better in whole numbers than one that was rounded afterwards.

use crate::device::cpu::Cpu;
use crate::device::{ArenaPlan, Device};
use crate::io::checkpoint::{Tensor, Tensors};
use crate::model::{Geometry, Ranges};
use crate::train::fixture::{self, LEADS};
use crate::train::plan::{AdamW, LossPlan, TrainPlan};
use crate::train::schedule::uniform;
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;
use crate::train::zero::Sharding;

const BATCH: usize = 4;

/// All inputs lie within, many h do not, so that rounding costs what 8 bits of a calibrated network would cost over many steps.
fn ranges() -> Ranges {
    Ranges { input: 1.0, hidden: vec![0.3] }
}

fn plan(quantise: Option<Ranges>) -> TrainPlan {
    let plan = fixture::plan(BATCH);
    TrainPlan {
        optimizer: AdamW { epsilon: 1e-8, weight_decay: 0.0, ..plan.optimizer },
        ema_decay: 0.0,
        loss: LossPlan { latitude_weights: false, ..plan.loss },
        quantise,
        ..plan
    }
}

/// A network that learns four windows by heart.
struct Pupil {
    plan: TrainPlan,
    workspace: Workspace<f32>,
    device: Cpu<f32>,
    updates: u64,
}

impl Pupil {
    fn new(quantise: Option<Ranges>, initial: Option<&Tensors>) -> Self {
        let layout = fixture::layout(vec![40.0, 45.0, 50.0], 4, 5.0, ["msl", "z500"]);
        let architecture = fixture::architecture(vec![16]);
        let plan = plan(quantise);
        let weights = Weights::new(&plan.loss, &layout, None).unwrap();
        let (geometry, mut arena) = (Geometry::of(&layout), ArenaPlan::default());
        let workspace =
            Workspace::plan(&mut arena, &plan, &architecture, &geometry, &weights, BATCH, Sharding::ALONE)
                .unwrap();
        let mut device = Cpu::new(Some(1)).unwrap();
        device.allocate(&arena).unwrap();
        workspace.start(&weights, 1, &mut device);
        if let Some(tensors) = initial {
            workspace.begin_with(&mut device, tensors).unwrap();
        }
        let frames = workspace.network.slots().frames;
        let values: Vec<f32> = (0..frames.len() as u64).map(|i| uniform(3, &[i]) as f32 - 0.5).collect();
        device.upload(frames, &values);
        Self { plan, workspace, device, updates: 0 }
    }

    /// The loss, and its gradient.
    fn loss(&mut self) -> f64 {
        self.workspace.network.forward(&mut self.device, LEADS);
        let weights = lead_weights(&self.plan.loss, LEADS);
        let values = self.workspace.loss(&mut self.device, &weights, 1.0);
        values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
    }

    fn learn(&mut self, updates: u64, rate: f64) {
        for _ in 0..updates {
            self.device.zero(self.workspace.network.gradients());
            self.loss();
            self.workspace.network.backward(&mut self.device, LEADS);
            self.updates += 1;
            self.workspace.update(&mut self.device, rate, 1.0, self.updates);
        }
    }

    /// As a checkpoint has them.
    fn weights(&self) -> Tensors {
        let network = &self.workspace.network;
        let read = |parameter: &crate::model::Parameter| {
            let values = parameter.read(&self.device, parameter.slot);
            (format!("weights.{}", parameter.name), Tensor::f32(parameter.shape.clone(), values))
        };
        network.parameters().iter().map(read).collect()
    }
}

#[test]
fn whoever_learned_to_be_rounded_errs_less_in_whole_numbers() {
    let mut first = Pupil::new(None, None);
    first.learn(800, 0.01);
    first.learn(200, 0.002);
    let (learned, weights) = (first.loss(), first.weights());
    let afterwards = Pupil::new(Some(ranges()), Some(&weights)).loss();
    // Both go on for as long, one of them rounded.
    let mut longer = Pupil::new(None, Some(&weights));
    longer.learn(200, 0.001);
    let longer_afterwards = Pupil::new(Some(ranges()), Some(&longer.weights())).loss();
    let mut tuned = Pupil::new(Some(ranges()), Some(&weights));
    tuned.learn(200, 0.001);
    let tuned = tuned.loss();
    println!(
        "{learned:.2e} in float32, {afterwards:.2e} rounded, {longer_afterwards:.2e} after more, {tuned:.2e} tuned"
    );
    assert!(afterwards > 1.2 * learned, "rounding costs something: {learned:.2e}, {afterwards:.2e}");
    assert!(
        tuned < 0.8 * afterwards.min(longer_afterwards),
        "{tuned:.2e}, {afterwards:.2e}, {longer_afterwards:.2e}"
    );
}
