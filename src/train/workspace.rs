//! Everything that a training keeps on the device, in one arena: the network, the averaged network that forecasts, the
//! optimiser's moments and the loss.

use crate::device::{AdamW, ArenaPlan, Device, Loss, Slot};
use crate::error::{Error, Result};
use crate::io::checkpoint::{Tensor, Tensors};
use crate::model::{Architecture, Geometry, Network, Parameter, Purpose};
use crate::train::plan::TrainPlan;
use crate::train::weights::Weights;

pub(super) struct Workspace {
    /// Learns.
    pub network: Network<f32>,
    /// Forecasts with the moving average of the weights; its weights *are* that average.
    pub averaged: Network<f32>,
    /// Moments of AdamW, laid out as the weights.
    moments: [Slot; 2],
    /// Of AdamW: `[4]`.
    settings: Slot,
    /// For the longest rollout.
    loss: Loss,
    optimizer: crate::train::plan::AdamW,
    bytes: usize,
}

/// The number of settings that AdamW reads from the device.
const SETTINGS: usize = 4;

impl Workspace {
    /// Plans and allocates everything, with fresh weights.
    pub fn new(
        plan: &TrainPlan,
        architecture: &Architecture,
        geometry: &Geometry,
        weights: &Weights,
        device: &mut dyn Device<f32>,
    ) -> Result<Self> {
        let mut arena = ArenaPlan::default();
        let leads = plan.longest_rollout();
        let network = Network::plan(&mut arena, architecture, geometry, plan.batch, leads, Purpose::Train)?;
        let averaged = Network::plan(&mut arena, architecture, geometry, plan.batch, 1, Purpose::Forecast)?;
        let moments = [0; 2].map(|_| arena.slot(network.weights().len()));
        let settings = arena.slot(SETTINGS);
        let slots = network.slots();
        let loss = Loss {
            leads,
            images: plan.batch,
            rows: geometry.rows,
            columns: geometry.columns,
            channels: architecture.prognostic,
            huber: plan.loss.kind.huber(),
            scale: weights.scale / plan.batch as f64,
            prediction: slots.predictions,
            truth: slots.frames,
            row_weights: arena.slot(geometry.rows),
            channel_weights: arena.slot(architecture.prognostic),
            lead_weights: arena.slot(leads),
            mask: weights.mask.as_ref().map(|mask| arena.slot(mask.len())),
            values: arena.slot(leads),
            gradient: Some(slots.prediction_gradients),
        };
        let bytes = arena.elements() * size_of::<f32>();
        let optimizer = plan.optimizer;
        device.allocate(&arena)?;
        let workspace = Self { network, averaged, moments, settings, loss, optimizer, bytes };
        workspace.prepare(weights, device);
        workspace.network.initialise(device, plan.seed);
        device.copy(workspace.network.weights(), workspace.averaged.weights());
        Ok(workspace)
    }

    fn prepare(&self, weights: &Weights, device: &mut dyn Device<f32>) {
        self.network.prepare(device);
        self.averaged.prepare(device);
        device.upload(self.loss.row_weights, &weights.rows);
        device.upload(self.loss.channel_weights, &weights.channels);
        if let (Some(slot), Some(mask)) = (self.loss.mask, &weights.mask) {
            device.upload(slot, mask);
        }
    }

    /// Statics `[lat, lon, S]` and the scale of tendencies `[P]`, for both networks.
    pub fn upload_constants(&self, device: &mut dyn Device<f32>, statics: &[f32], tendency_scale: &[f32]) {
        for slots in [self.network.slots(), self.averaged.slots()] {
            device.upload(slots.statics, statics);
            device.upload(slots.tendency_scale, tendency_scale);
        }
    }

    /// The size of the arena.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Learned numbers.
    pub fn parameters(&self) -> usize {
        self.network.parameters().iter().map(Parameter::len).sum()
    }

    /// The loss of the first `leads` predictions by lead, and on the device its gradient with the leads weighted by
    /// `lead_weights`.
    pub fn loss(&self, device: &mut dyn Device<f32>, lead_weights: &[f64]) -> Vec<f64> {
        let leads = lead_weights.len();
        let slots = self.network.slots();
        let field = slots.predictions.len() / self.loss.leads;
        let first = self.network.architecture().input_frames * field;
        let loss = Loss {
            leads,
            prediction: slots.predictions.part(0, leads * field),
            truth: slots.frames.part(first, leads * field),
            lead_weights: self.loss.lead_weights.part(0, leads),
            values: self.loss.values.part(0, leads),
            gradient: Some(slots.prediction_gradients.part(0, leads * field)),
            ..self.loss
        };
        let weights: Vec<f32> = lead_weights.iter().map(|w| *w as f32).collect();
        device.upload(loss.lead_weights, &weights);
        device.loss(&loss);
        let mut values = vec![0.0_f32; leads];
        device.download(loss.values, &mut values);
        values.iter().map(|value| f64::from(*value)).collect()
    }

    /// One AdamW update of all parameters, the `update`-th (from 1), with gradients multiplied by `scale`.
    pub fn update(&self, device: &mut dyn Device<f32>, rate: f64, scale: f64, update: u64) {
        let plan = self.optimizer;
        let exponent = i32::try_from(update).unwrap_or(i32::MAX);
        let unbiased = |beta: f64| 1.0 / (1.0 - beta.powi(exponent));
        let settings = [rate, scale, unbiased(plan.beta1), unbiased(plan.beta2)];
        device.upload(self.settings, &settings.map(|x| x as f32));
        for parameter in self.network.parameters() {
            device.adamw(&AdamW {
                beta1: plan.beta1,
                beta2: plan.beta2,
                epsilon: plan.epsilon,
                decay: if parameter.decay { plan.weight_decay } else { 0.0 },
                parameter: parameter.slot,
                gradient: parameter.gradient,
                first: self.like(parameter, self.moments[0]),
                second: self.like(parameter, self.moments[1]),
                settings: self.settings,
            });
        }
    }

    /// Moves the averaged weights towards the weights.
    pub fn average(&self, device: &mut dyn Device<f32>, decay: f64) {
        device.lerp(self.averaged.weights(), self.network.weights(), 1.0 - decay);
    }

    /// All learned arrays in checkpoint order: `weights.*` is what forecasts use.
    pub fn to_tensors(&self, device: &dyn Device<f32>) -> Tensors {
        let mut tensors = Tensors::new();
        for (kind, whole) in self.kinds() {
            for parameter in self.network.parameters() {
                let values = parameter.read(device, self.like(parameter, whole));
                let tensor = Tensor::f32(parameter.shape.clone(), values);
                tensors.insert(format!("{kind}.{}", parameter.name), tensor);
            }
        }
        tensors
    }

    /// The inverse of [`to_tensors`](Self::to_tensors).
    pub fn read_tensors(&self, device: &mut dyn Device<f32>, tensors: &Tensors) -> Result<()> {
        for (kind, whole) in self.kinds() {
            for parameter in self.network.parameters() {
                let name = format!("{kind}.{}", parameter.name);
                let values = tensors
                    .get(&name)
                    .filter(|tensor| tensor.shape == parameter.shape)
                    .and_then(Tensor::as_f32)
                    .ok_or_else(|| {
                        Error::input(format!("the checkpoint has no {name} of shape {:?}", parameter.shape))
                            .hint("it belongs to another network; start another run")
                    })?;
                parameter.write(device, self.like(parameter, whole), values);
            }
        }
        Ok(())
    }

    fn kinds(&self) -> [(&'static str, Slot); 4] {
        [
            ("weights", self.averaged.weights()),
            ("latest", self.network.weights()),
            ("adam.first", self.moments[0]),
            ("adam.second", self.moments[1]),
        ]
    }

    /// The part of `whole`, which is laid out as the weights, that belongs to a parameter.
    fn like(&self, parameter: &Parameter, whole: Slot) -> Slot {
        whole.part(parameter.slot.start() - self.network.weights().start(), parameter.len())
    }
}
