//! Everything that a training keeps on the device, in one arena: the network, the averaged network that forecasts, the
//! optimiser's moments and the loss.

use crate::device::{AdamW, ArenaPlan, Device, Loss, Real, Sequence, Slot};
use crate::error::{Error, Result};
use crate::io::checkpoint::{Tensor, Tensors};
use crate::model::{Architecture, Batch, Geometry, Holding, Network, Parameter, Purpose, Slots};
use crate::train::feed::Fields;
use crate::train::moments::Moments;
use crate::train::plan::TrainPlan;
use crate::train::ranks::Ranks;
use crate::train::weights::Weights;
use crate::train::wire::Line;
use crate::train::zero::{Cut, Exchange, Kept, Sharding, Shared, spread};

pub(super) struct Workspace<T: Real> {
    /// Learns.
    pub network: Network<T>,
    /// Forecasts with the moving average of the weights; its weights *are* that average.
    pub averaged: Network<T>,
    /// What this rank has of the weights, their average and the gradients.
    pub weights: Kept,
    pub average: Kept,
    gradients: Kept,
    /// Of AdamW, for the weights that this rank updates.
    pub moments: Moments<T>,
    /// Which those are.
    pub cut: Cut,
    pub line: Line,
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
        sharding: Sharding,
    ) -> Result<Self> {
        let leads = plan.longest_rollout();
        let purpose = if plan.recompute { Purpose::Recompute } else { Purpose::Train };
        let units = sharding.units;
        let plan_network = |arena: &mut ArenaPlan, lead_steps, purpose, holding| {
            let batch = Batch { samples: batch, lead_steps };
            Network::plan_holding(arena, architecture, geometry, batch, purpose, plan.arithmetic(), holding)
        };
        let holding = Holding { units, keeping: sharding.keeping(), beside: None };
        let network = plan_network(arena, leads, purpose, holding)?;
        let holding = Holding { units, keeping: sharding.keeping_of_average(), beside: Some(&network) };
        let averaged = plan_network(arena, 1, Purpose::Forecast, holding)?;
        let cut = Cut::new(network.blocks(), sharding.shard());
        let shared = sharding.shared;
        let mut kept = |is_shared: bool, whole: Slot| {
            if is_shared { Kept::Pieces(arena.slot(cut.pieces())) } else { Kept::Whole(whole) }
        };
        let own_weights = kept(shared >= Shared::Weights, network.weights());
        let average = kept(shared >= Shared::Weights, averaged.weights());
        let gradients = kept(shared >= Shared::Gradients, network.gradients());
        let moments = Moments::plan(arena, cut.pieces(), sharding.offload);
        let line = sharding.line::<T>(arena, &cut);
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
        Ok(Self {
            network,
            averaged,
            weights: own_weights,
            average,
            gradients,
            moments,
            cut,
            line,
            settings,
            loss,
            optimizer,
        })
    }

    /// Fresh weights on a device that was allocated from the plan.
    pub fn start(&self, weights: &Weights, seed: u64, device: &mut dyn Device<T>) {
        self.prepare(weights, device);
        match self.weights {
            Kept::Whole(_) => self.network.initialise(device, seed),
            Kept::Pieces(_) => self.network.each_start(seed, &mut |parameter, values| {
                self.put(device, self.weights, parameter, &values);
            }),
        }
        device.copy(self.weights.slot(), self.average.slot());
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
        self.network.parameters().iter().map(|p| p.whole_shape().iter().product::<usize>()).sum()
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

    /// What is left of the update before: no gradients.
    pub fn zero_gradients(&self, device: &mut dyn Device<T>) {
        device.zero(self.network.gradients());
        if let Kept::Pieces(slot) = self.gradients {
            device.zero(slot);
        }
    }

    /// Makes the first `leads` predictions.
    pub fn forward(&self, device: &mut dyn Device<T>, ranks: &mut Ranks<'_, T>, leads: usize) {
        match self.weights {
            Kept::Whole(_) => self.network.forward(device, leads),
            Kept::Pieces(_) => {
                ranks.depend();
                self.network.forward_with(device, leads, &mut self.exchange(ranks, self.weights));
            }
        }
    }

    /// Adds the gradients of a batch, and those of all ranks where it `is_last` of an update.
    pub fn backward(
        &self,
        device: &mut dyn Device<T>,
        ranks: &mut Ranks<'_, T>,
        leads: usize,
        is_last: bool,
    ) {
        match self.gradients {
            Kept::Whole(_) if !is_last => self.network.backward(device, leads),
            // Those of other batches have no room: they are added up at once.
            _ => {
                ranks.depend();
                self.network.backward_with(device, leads, &mut self.exchange(ranks, self.weights));
            }
        }
    }

    /// The averaged network passes over the analyses, or makes a step.
    pub fn forecast(&self, device: &mut dyn Device<T>, ranks: &mut Ranks<'_, T>, is_step: bool) {
        if self.forecasts_together() {
            ranks.depend();
        }
        let mut exchange = self.exchange(ranks, self.average);
        match is_step {
            true => self.averaged.step_with(device, &mut exchange),
            false => self.averaged.warm_up_with(device, &mut exchange),
        }
    }

    /// Whether a forecast takes all ranks.
    pub fn forecasts_together(&self) -> bool {
        matches!(self.average, Kept::Pieces(_))
    }

    fn exchange<'a>(&'a self, ranks: &'a mut Ranks<'_, T>, weights: Kept) -> Exchange<'a, T> {
        let (cut, line, gradients) = (&self.cut, &self.line, self.gradients);
        Exchange { cut, line, ranks: ranks.replicas(), weights, gradients }
    }

    /// Squares of the gradients that this rank has, added up; and whether others have others.
    pub fn squares(&self, device: &dyn Device<T>) -> (f64, bool) {
        let mut squares = device.sum_of_squares(self.gradients.slot());
        // What those who hold other units have, too, counts once.
        for parameter in self.network.parameters().iter().filter(|p| !p.is_counted()) {
            let here = self.gradients.here(&self.cut, parameter.block);
            let own = here.start.max(parameter.start)..here.end.min(parameter.start + parameter.len());
            if !own.is_empty() {
                squares -= device.sum_of_squares(self.gradients.at(&self.cut, parameter.block, own));
            }
        }
        (squares, matches!(self.gradients, Kept::Pieces(_)))
    }

    /// Multiplies what was not sent yet.
    pub fn scale_residual(&self, device: &mut dyn Device<T>, factor: f64) {
        if factor != 1.0 && !self.line.residual().is_empty() {
            device.scale(self.line.residual(), factor);
        }
    }

    /// One AdamW update of this rank's share of all parameters, the `update`-th (from 1), with gradients multiplied by `scale`.
    pub fn update(&self, device: &mut dyn Device<T>, rate: f64, scale: f64, update: u64) {
        let plan = self.optimizer;
        let exponent = i32::try_from(update).unwrap_or(i32::MAX);
        let unbiased = |beta: f64| 1.0 / (1.0 - beta.powi(exponent));
        let settings = [rate, scale, unbiased(plan.beta1), unbiased(plan.beta2)];
        device.upload(self.settings, &settings.map(T::of));
        let mut work = |device: &mut dyn Device<T>| {
            for parameter in self.network.parameters() {
                // Where the parameter and this rank's piece of its block overlap.
                let (block, own) = (parameter.block, self.cut.own(parameter.block));
                let range = parameter.start.max(own.start)..(parameter.start + parameter.len()).min(own.end);
                if range.is_empty() {
                    continue;
                }
                let whole = |kept: Kept| kept.at(&self.cut, block, range.clone());
                let first = self.cut.start_of_piece(block) + range.start - own.start;
                self.moments.update(
                    device,
                    first..first + range.len(),
                    &AdamW {
                        beta1: plan.beta1,
                        beta2: plan.beta2,
                        epsilon: plan.epsilon,
                        decay: if parameter.decay { plan.weight_decay } else { 0.0 },
                        parameter: whole(self.weights),
                        gradient: whole(self.gradients),
                        first: Slot::EMPTY,
                        second: Slot::EMPTY,
                        settings: self.settings,
                    },
                );
            }
        };
        if self.moments.are_on_the_host() {
            return work(device);
        }
        let sequence = Sequence { name: "update", of: self.settings, number: 0 };
        device.repeat(sequence, &mut work);
    }

    /// Gives all ranks what each has updated.
    pub fn share_weights(&self, device: &mut dyn Device<T>, ranks: &mut Ranks<'_, T>) {
        let sequence = Sequence { name: "share weights", of: self.settings, number: 0 };
        if let (Kept::Whole(_), 2..) = (self.weights, self.cut.ranks()) {
            device.repeat(sequence, &mut |device| {
                let place = |block| self.weights.at(&self.cut, block, 0..self.cut.length(block));
                spread(&self.cut, ranks.replicas(), device, self.cut.blocks(), place);
            });
        }
    }

    /// Moves the averaged weights towards the weights.
    pub fn average(&self, device: &mut dyn Device<T>, decay: f64) {
        device.lerp(self.average.slot(), self.weights.slot(), 1.0 - decay);
    }

    /// Writes what is here of a parameter to an array; `values` in the device's order.
    pub fn put(&self, device: &mut dyn Device<T>, kept: Kept, parameter: &Parameter, values: &[T]) {
        let here = kept.here(&self.cut, parameter.block);
        let range = parameter.start.max(here.start)..(parameter.start + parameter.len()).min(here.end);
        if !range.is_empty() {
            let slot = kept.at(&self.cut, parameter.block, range.clone());
            device.upload(slot, &values[range.start - parameter.start..][..range.len()]);
        }
    }
}

impl Workspace<f32> {
    /// Starts from the weights that another network forecasts with.
    pub fn begin_with(&self, device: &mut dyn Device<f32>, tensors: &Tensors) -> Result<()> {
        for parameter in self.network.parameters() {
            let name = format!("weights.{}", parameter.name);
            let values = tensors
                .get(&name)
                .filter(|tensor| tensor.shape == parameter.shape)
                .and_then(Tensor::as_f32)
                .ok_or_else(|| {
                    Error::input(format!("the checkpoint has no {name} of shape {:?}", parameter.shape))
                        .hint("it belongs to another network; start another run")
                })?;
            let values = parameter.to_device(values);
            self.put(device, self.weights, parameter, &values);
            self.put(device, self.average, parameter, &values);
        }
        Ok(())
    }
}

fn real<T: Real>(values: &[f32]) -> Vec<T> {
    values.iter().map(|value| T::of(f64::from(*value))).collect()
}

#[cfg(test)]
mod tests;
