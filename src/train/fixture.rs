//! What the trainings of tests have in common: a plan, a network, noise to learn from, and how far two results are apart.

use std::ops::Range;

use crate::device::{Device, Real, Slot};
use crate::field::Layout;
use crate::grid::Grid;
use crate::model::Architecture;
use crate::train::plan::{
    self, LearningRate, LossKind, LossPlan, NonFinite, Sampling, SavingPlan, Stage, TrainPlan, ValidationPlan,
};
use crate::train::schedule::uniform;
use crate::variable::Quantity;

/// Predictions, and analyses before them.
pub const LEADS: usize = 2;
pub const FRAMES: usize = 2;

/// Nothing but gradients and AdamW.
pub fn plan(batch: usize) -> TrainPlan {
    TrainPlan {
        seed: 1,
        batch,
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
        quantise: None,
    }
}

/// Two fields, and nothing that a network could do without.
pub fn architecture(hidden: Vec<usize>) -> Architecture {
    Architecture {
        prognostic: 2,
        statics: 0,
        forcings: 0,
        hidden,
        kernel: 3,
        patch: 1,
        layer_norm: false,
        peepholes: false,
        residual: true,
        input_frames: FRAMES,
        dropout: 0.0,
    }
}

/// The two fields on a grid whose columns are so many degrees apart.
pub fn layout(latitudes: Vec<f64>, columns: usize, width: f64, quantities: [&str; 2]) -> Layout {
    let longitudes = (0..columns).map(|i| i as f64 * width).collect();
    let quantities = quantities.map(Quantity::parse).to_vec();
    Layout { grid: Grid::new(latitudes, longitudes).unwrap(), quantities }
}

/// Frames of these samples of a batch, the same wherever they are learned from.
pub fn frames(layout: &Layout, batch: u64, samples: Range<usize>) -> Vec<f32> {
    let field = (layout.grid.points() * layout.channels()) as u64;
    let number = |frame: usize, sample: usize, i| uniform(3, &[batch, frame as u64, sample as u64, i]) - 0.5;
    let of = |frame| {
        samples.clone().flat_map(move |sample| (0..field).map(move |i| number(frame, sample, i) as f32))
    };
    (0..FRAMES + LEADS).flat_map(of).collect()
}

pub fn upload<T: Real>(device: &mut dyn Device<T>, to: Slot, values: &[f32]) {
    device.upload(to, &values.iter().map(|&x| T::of(f64::from(x))).collect::<Vec<T>>());
}

pub fn download<T: Real>(device: &dyn Device<T>, slot: Slot) -> Vec<f64> {
    let mut values = vec![T::default(); slot.len()];
    device.download(slot, &mut values);
    values.into_iter().map(T::wide).collect()
}

pub fn norm(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|x| x * x).sum::<f64>().sqrt()
}

/// The relative L2 difference of two arrays.
pub fn difference(found: &[f64], expected: &[f64]) -> f64 {
    let scale = norm(expected.iter().copied());
    assert!(scale > 0.0 && found.len() == expected.len(), "an array that learns nothing");
    norm(found.iter().zip(expected).map(|(a, b)| a - b)) / scale
}
