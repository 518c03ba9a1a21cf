//! Everything that a training keeps on the device, in one arena: the network, the averaged network that forecasts, the
//! optimiser's moments and the loss.

use crate::device::{AdamW, ArenaPlan, Device, Loss, Real, Sequence, Slot};
use crate::error::{Error, Result};
use crate::io::checkpoint::{Tensor, Tensors};
use crate::model::{Architecture, Geometry, Network, Parameter, Purpose, Slots};
use crate::preprocess::Share;
use crate::train::feed::Fields;
use crate::train::plan::TrainPlan;
use crate::train::ranks::Ranks;
use crate::train::weights::Weights;

pub(super) struct Workspace<T: Real> {
    /// Learns.
    pub network: Network<T>,
    /// Forecasts with the moving average of the weights; its weights *are* that average.
    pub averaged: Network<T>,
    /// Moments of AdamW, laid out as the weights: of those that this rank updates.
    moments: [Slot; 2],
    /// Which those are.
    shard: Share,
    /// Of AdamW: `[4]`.
    settings: Slot,
    /// For the longest rollout.
    loss: Loss,
    optimizer: crate::train::plan::AdamW,
}

/// The number of settings that AdamW reads from the device.
const SETTINGS: usize = 4;

impl<T: Real> Workspace<T> {
    /// Plans everything for a device that sees `batch` samples of each batch of the plan, and updates a share of the weights.
    pub fn plan(
        arena: &mut ArenaPlan,
        plan: &TrainPlan,
        architecture: &Architecture,
        geometry: &Geometry,
        weights: &Weights,
        batch: usize,
        shard: Share,
    ) -> Result<Self> {
        let leads = plan.longest_rollout();
        let purpose = if plan.recompute { Purpose::Recompute } else { Purpose::Train };
        let network = Network::plan(arena, architecture, geometry, batch, leads, purpose)?;
        let averaged = Network::plan(arena, architecture, geometry, batch, 1, Purpose::Forecast)?;
        let own = part_of(network.weights(), shard).len();
        let moments = [0; 2].map(|_| arena.slot(own));
        let settings = arena.slot(SETTINGS);
        let slots = network.slots();
        let loss = Loss {
            leads,
            images: batch,
            rows: geometry.rows,
            columns: geometry.columns,
            channels: architecture.prognostic,
            huber: plan.loss.kind.huber(),
            // Of the mean over the whole batch.
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
        let optimizer = plan.optimizer;
        Ok(Self { network, averaged, moments, shard, settings, loss, optimizer })
    }

    /// Fresh weights on a device that was allocated from the plan.
    pub fn start(&self, weights: &Weights, seed: u64, device: &mut dyn Device<T>) {
        self.prepare(weights, device);
        self.network.initialise(device, seed);
        device.copy(self.network.weights(), self.averaged.weights());
    }

    /// Where the input of a step belongs.
    pub fn input(&self) -> Fields {
        let &Slots { frames, forcings, statics, .. } = self.network.slots();
        Fields { frames, forcings, statics, mask: self.loss.mask }
    }

    fn prepare(&self, weights: &Weights, device: &mut dyn Device<T>) {
        self.network.prepare(device);
        self.averaged.prepare(device);
        device.upload(self.loss.row_weights, &real(&weights.rows));
        device.upload(self.loss.channel_weights, &real(&weights.channels));
        if let (Some(slot), Some(mask)) = (self.loss.mask, &weights.mask) {
            device.upload(slot, &real(mask));
        }
    }

    /// Statics `[lat, lon, S]` and the scale of tendencies `[P]`, for both networks.
    pub fn upload_constants(&self, device: &mut dyn Device<T>, statics: &[f32], tendency_scale: &[f32]) {
        for slots in [self.network.slots(), self.averaged.slots()] {
            device.upload(slots.statics, &real(statics));
            device.upload(slots.tendency_scale, &real(tendency_scale));
        }
    }

    /// Learned numbers.
    pub fn parameters(&self) -> usize {
        self.network.parameters().iter().map(Parameter::len).sum()
    }

    /// The loss of the first `leads` predictions by lead, and on the device `scale` times its gradient with the leads
    /// weighted by `lead_weights`.
    pub fn loss(&self, device: &mut dyn Device<T>, lead_weights: &[f64], scale: f64) -> Vec<f64> {
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
        let weights: Vec<T> = lead_weights.iter().map(|w| T::of(scale * w)).collect();
        device.upload(loss.lead_weights, &weights);
        device.loss(&loss);
        let mut values = vec![T::default(); leads];
        device.download(loss.values, &mut values);
        values.into_iter().map(T::wide).collect()
    }

    /// One AdamW update of this rank's share of all parameters, the `update`-th (from 1), with gradients multiplied by `scale`.
    pub fn update(&self, device: &mut dyn Device<T>, rate: f64, scale: f64, update: u64) {
        let plan = self.optimizer;
        let exponent = i32::try_from(update).unwrap_or(i32::MAX);
        let unbiased = |beta: f64| 1.0 / (1.0 - beta.powi(exponent));
        let settings = [rate, scale, unbiased(plan.beta1), unbiased(plan.beta2)];
        device.upload(self.settings, &settings.map(T::of));
        let sequence = Sequence { name: "update", of: self.settings, number: 0 };
        device.repeat(sequence, &mut |device| {
            let whole = self.network.weights();
            let own = part_of(whole, self.shard);
            for parameter in self.network.parameters() {
                // Where the parameter and the share overlap.
                let start = parameter.slot.start().max(own.start());
                let end = (parameter.slot.start() + parameter.len()).min(own.start() + own.len());
                if start >= end {
                    continue;
                }
                let within = |slot: Slot, origin: usize| slot.part(start - origin, end - start);
                device.adamw(&AdamW {
                    beta1: plan.beta1,
                    beta2: plan.beta2,
                    epsilon: plan.epsilon,
                    decay: if parameter.decay { plan.weight_decay } else { 0.0 },
                    parameter: within(whole, whole.start()),
                    gradient: within(self.network.gradients(), whole.start()),
                    first: within(self.moments[0], own.start()),
                    second: within(self.moments[1], own.start()),
                    settings: self.settings,
                });
            }
        });
    }

    /// Gives all ranks what each has updated.
    pub fn share_weights(&self, device: &mut dyn Device<T>, ranks: &mut Ranks<'_, T>) {
        let sequence = Sequence { name: "share weights", of: self.settings, number: 0 };
        if self.shard.of > 1 {
            let whole = self.network.weights();
            device.repeat(sequence, &mut |device| {
                ranks.spread(device, whole, |whole, rank| self.part(whole, rank))
            });
        }
    }

    /// The part of what is laid out as the weights that a rank updates.
    fn part(&self, whole: Slot, rank: usize) -> Slot {
        part_of(whole, Share { number: rank, ..self.shard })
    }

    /// Moves the averaged weights towards the weights.
    pub fn average(&self, device: &mut dyn Device<T>, decay: f64) {
        device.lerp(self.averaged.weights(), self.network.weights(), 1.0 - decay);
    }

    /// The part of `whole`, which is laid out as the weights, that belongs to a parameter.
    fn like(&self, parameter: &Parameter, whole: Slot) -> Slot {
        whole.part(parameter.slot.start() - self.network.weights().start(), parameter.len())
    }
}

/// The names in checkpoints of the weights' average, which forecasts use, the weights, and the moments.
const KINDS: [&str; 4] = ["weights", "latest", "adam.first", "adam.second"];

impl Workspace<f32> {
    /// All learned arrays in checkpoint order, of all ranks together; nothing on ranks that do not keep them.
    pub fn to_tensors(&self, device: &mut dyn Device<f32>, ranks: &mut Ranks<'_, f32>) -> Tensors {
        let mut tensors = Tensors::new();
        for (number, kind) in KINDS.into_iter().enumerate() {
            let whole = self.whole(device, ranks, number);
            if !ranks.is_first() {
                continue;
            }
            for parameter in self.network.parameters() {
                let values = parameter.read(device, self.like(parameter, whole));
                let tensor = Tensor::f32(parameter.shape.clone(), values);
                tensors.insert(format!("{kind}.{}", parameter.name), tensor);
            }
        }
        tensors
    }

    /// All arrays of a kind, laid out as the weights.
    fn whole(&self, device: &mut dyn Device<f32>, ranks: &mut Ranks<'_, f32>, kind: usize) -> Slot {
        match kind {
            0 => self.averaged.weights(),
            1 => self.network.weights(),
            _ if self.shard.of == 1 => self.moments[kind - 2],
            _ => {
                // Between updates, gradients are nobody's.
                let whole = self.network.gradients();
                device.copy(self.moments[kind - 2], self.part(whole, self.shard.number));
                ranks.spread(device, whole, |whole, rank| self.part(whole, rank));
                whole
            }
        }
    }

    /// The inverse of [`to_tensors`](Self::to_tensors), for any number of ranks.
    pub fn read_tensors(&self, device: &mut dyn Device<f32>, tensors: &Tensors) -> Result<()> {
        let whole = [
            self.averaged.weights(),
            self.network.weights(),
            self.network.gradients(),
            self.network.gradients(),
        ];
        for (number, (kind, whole)) in KINDS.into_iter().zip(whole).enumerate() {
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
            if let Some(moment) = number.checked_sub(2) {
                device.copy(self.part(whole, self.shard.number), self.moments[moment]);
            }
        }
        Ok(())
    }
}

/// A share of what is laid out as the weights, cut where arrays of a device like to begin.
fn part_of(whole: Slot, share: Share) -> Slot {
    const ALIGNMENT: usize = 64;
    let border =
        |number: usize| (whole.len().div_ceil(ALIGNMENT) * number / share.of * ALIGNMENT).min(whole.len());
    whole.part(border(share.number), border(share.number + 1) - border(share.number))
}

fn real<T: Real>(values: &[f32]) -> Vec<T> {
    values.iter().map(|value| T::of(f64::from(*value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{Alone, Host};
    use crate::device::cpu::Cpu;
    use crate::field::Layout;
    use crate::grid::Grid;
    use crate::train::plan::{
        self, LearningRate, LossKind, LossPlan, NonFinite, Sampling, SavingPlan, Stage, ValidationPlan,
    };
    use crate::train::ranks::ParallelPlan;
    use crate::train::schedule::uniform;
    use crate::train::weights::lead_weights;
    use crate::variable::Quantity;

    fn plan(batch: usize) -> TrainPlan {
        TrainPlan {
            seed: 1,
            batch,
            accumulate: 1,
            recompute: false,
            curriculum: vec![Stage { epochs: 1, leads: 2 }],
            learning_rate: LearningRate { peak: 0.01, floor: 0.0, warm_up: 0 },
            optimizer: plan::AdamW { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01 },
            clip_norm: None,
            ema_decay: 0.9,
            sampling: Sampling { start: 0.0, end: 0.0, epochs: 0 },
            loss: LossPlan {
                kind: LossKind::Squared,
                latitude_weights: true,
                variables: Default::default(),
                leads: Vec::new(),
            },
            validation: ValidationPlan { leads: 2, patience: None },
            saving: SavingPlan { every: None, keep: 1 },
            non_finite: NonFinite::Stop,
            augment: Default::default(),
        }
    }

    struct Setting {
        plan: TrainPlan,
        architecture: Architecture,
        layout: Layout,
    }

    impl Setting {
        fn new(batch: usize) -> Self {
            let layout = Layout {
                grid: Grid::new(vec![40.0, 45.0, 50.0], vec![0.0, 5.0, 10.0, 15.0]).unwrap(),
                quantities: vec![Quantity::parse("msl"), Quantity::parse("z500")],
            };
            let architecture = Architecture {
                prognostic: 2,
                statics: 0,
                forcings: 0,
                hidden: vec![4],
                kernel: 3,
                patch: 1,
                layer_norm: false,
                peepholes: false,
                residual: true,
                input_frames: 2,
                dropout: 0.0,
            };
            Self { plan: plan(batch), architecture, layout }
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
                Share::ALL,
            )
            .unwrap();
            device.allocate(&arena).unwrap();
            workspace.start(&weights, self.plan.seed, device);
            workspace
        }

        /// Adds the gradient of samples `first..first + batch` of an endless series, giving their loss.
        fn learn(&self, workspace: &Workspace<f32>, device: &mut Cpu<f32>, first: u64) -> f64 {
            let field = (self.layout.grid.points() * self.layout.channels()) as u64;
            let samples = first..first + self.plan.batch as u64;
            let frames: Vec<f32> = (0..4)
                .flat_map(|frame| samples.clone().map(move |sample| (frame, sample)))
                .flat_map(|(frame, sample)| {
                    (0..field).map(move |i| uniform(3, &[frame, sample, i]) as f32 - 0.5)
                })
                .collect();
            device.upload(workspace.network.slots().frames, &frames);
            workspace.network.forward(device, 2);
            let weights = lead_weights(&self.plan.loss, 2);
            let values = workspace.loss(device, &weights, 1.0);
            workspace.network.backward(device, 2);
            values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
        }
    }

    fn tensors(workspace: &Workspace<f32>, device: &mut Cpu<f32>) -> Tensors {
        let mut alone = Host::new(Box::new(Alone));
        let plan = ParallelPlan { domain: 1, channel: 1, bucket_bytes: 1 << 20, shares_moments: false };
        let mut ranks = Ranks::new(&mut alone, device, plan).unwrap();
        workspace.to_tensors(device, &mut ranks)
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
            setting.learn(workspace, device, update);
            workspace.update(device, 0.01, 1.0, update);
            workspace.average(device, 0.9);
        };
        (1..4).for_each(|update| advance(&workspace, &mut device, update));
        let kept = tensors(&workspace, &mut device);
        (4..7).for_each(|update| advance(&workspace, &mut device, update));
        let uninterrupted = tensors(&workspace, &mut device);

        let mut device = Cpu::new(Some(1)).unwrap();
        let workspace = setting.open(&mut device);
        workspace.read_tensors(&mut device, &kept).unwrap();
        (4..7).for_each(|update| advance(&workspace, &mut device, update));
        assert_eq!(tensors(&workspace, &mut device), uninterrupted);

        let mut foreign = kept;
        foreign.remove("adam.first.head.bias");
        let error = workspace.read_tensors(&mut device, &foreign).unwrap_err();
        assert!(error.to_string().contains("adam.first.head.bias"), "{error}");
    }
}
