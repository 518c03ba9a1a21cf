//! One update of the weights.

use std::time::Instant;

use crate::error::Result;
use crate::preprocess::Input;
use crate::train::curve::{StepLine, now};
use crate::train::fault::{Fault, Scene};
use crate::train::loss_scale::LossScale;
use crate::train::plan::NonFinite;
use crate::train::schedule::{derived_seed, ema_decay, uniform};
use crate::train::trainer::Trainer;

/// Uses of the seed besides initial weights and the order of samples.
const DROPOUT: u64 = 1;
const SAMPLING: u64 = 2;

/// The losses by lead of the batches of one update.
struct Losses {
    lead: Vec<f64>,
    /// Of the first batch that was not finite.
    fault: Option<Fault>,
}

impl Trainer<'_> {
    /// The next batches, forward, backward, and one update of weights and average. Also tells whether somebody asks to stop.
    pub(super) fn train_step(&mut self) -> Result<(StepLine, bool)> {
        let started = Instant::now();
        let mut losses = self.no_losses();
        self.zero_gradients();
        for part in 0..self.plan.accumulate {
            let input = self.next_input()?;
            self.draw(part);
            self.forward();
            self.measure(&input, &mut losses)?;
            self.backward(part + 1 == self.plan.accumulate);
            self.feed.bring_next(&mut *self.device);
        }
        let (squares, are_pieces) = self.workspace.squares(&*self.device);
        // A device that failed leaves NaN, which would be taken for a fault of the data.
        self.device.finish()?;
        let norm = self.gradient_norm(squares, are_pieces)?;
        let scaled_by = self.loss_scale();
        let stops = self.share_losses(&mut losses)?;
        let learning_rate = self.learning_rate();
        let fault = losses.fault.take().or_else(|| self.gradient_fault(norm));
        match &fault {
            None => {
                self.update(learning_rate, self.clipped(norm));
                self.average();
                self.progress.loss_scale.iter_mut().for_each(LossScale::succeed);
            }
            // That the factor is too large is found out in this way, and is no fault of data or network.
            Some(Fault::Gradient { .. }) if self.shrinks_loss_scale() => self.progress.skipped += 1,
            Some(fault) => self.skip_or_stop(fault)?,
        }
        // What waits for later updates is as large as their gradients will be.
        let factor = self.loss_scale() / scaled_by;
        self.workspace.scale_residual(&mut *self.device, factor);
        self.progress.step += 1;
        self.progress.step_in_epoch += 1;
        let samples = (self.plan.batch * self.plan.accumulate) as f64;
        let input = self.feed.line(&*self.device);
        let line = StepLine {
            step: self.progress.step,
            epoch: self.progress.epoch,
            loss: finite(self.weighted(&losses.lead)),
            lead_loss: losses.lead,
            learning_rate,
            gradient_norm: finite(norm),
            truth_probability: self.truth_probability(),
            skipped: fault.is_some(),
            samples_per_second: samples / started.elapsed().as_secs_f64().max(1e-9),
            input,
            wire_bytes: self.workspace.line.sent(),
            time: now(),
        };
        Ok((line, stops))
    }

    /// Adds up the losses of all ranks; tells whether somebody asks to stop.
    fn share_losses(&mut self, losses: &mut Losses) -> Result<bool> {
        let flag = |says: bool| f64::from(u8::from(says));
        let mut sums: Vec<f64> = losses.lead.iter().map(|&loss| self.ranks.once(loss)).collect();
        sums.extend([flag(losses.fault.is_some()), flag(self.interrupt.is_requested())]);
        self.ranks.total(&mut sums)?;
        let (lead, flags) = sums.split_at(losses.lead.len());
        losses.lead.copy_from_slice(lead);
        if flags[0] > 0.0 {
            losses.fault.get_or_insert(Fault::Elsewhere);
        }
        Ok(flags[1] > 0.0)
    }

    fn no_losses(&self) -> Losses {
        Losses { lead: vec![0.0; self.leads()], fault: None }
    }

    fn zero_gradients(&mut self) {
        self.workspace.zero_gradients(&mut *self.device);
    }

    /// Brings the next batch to where the network reads it.
    fn next_input(&mut self) -> Result<Input> {
        let input = self.feed.take(&mut *self.device)?;
        self.progress.position = self.feed.position();
        Ok(input)
    }

    /// Draws dropout, and which rollout steps are fed the truth; `part` counts the batches of one update.
    fn draw(&mut self, part: usize) {
        let count = self.progress.step * self.plan.accumulate as u64 + part as u64;
        let seed = derived_seed(self.plan.seed, DROPOUT);
        let share = self.ranks.share();
        let own = self.plan.batch / share.of;
        let first = share.number * own;
        self.workspace.network.draw_dropout(&mut *self.device, seed, count, first);

        let probability = self.truth_probability();
        let seed = derived_seed(self.plan.seed, SAMPLING);
        // Counted over the batch of all ranks.
        let entries =
            (0..self.leads() - 1).flat_map(|lead| (0..own).map(move |sample| (lead, first + sample)));
        let entries = entries.map(|(lead, sample)| (lead * self.plan.batch + sample) as u64);
        let is_fed = |entry| uniform(seed, &[count, entry]) < probability;
        let fed: Vec<f32> = entries.map(|entry| f32::from(u8::from(is_fed(entry)))).collect();
        self.device.upload(self.workspace.network.slots().sampling.part(0, fed.len()), &fed);
    }

    fn forward(&mut self) {
        let leads = self.leads();
        if !self.ranks.part().is_alone() {
            self.ranks.depend();
        }
        self.workspace.forward(&mut *self.device, &mut self.ranks, leads);
    }

    /// Adds the loss, leaving its gradient on the device.
    fn measure(&mut self, input: &Input, losses: &mut Losses) -> Result<()> {
        let scale = self.loss_scale();
        let values = self.workspace.loss(&mut *self.device, &self.lead_weights, scale);
        for (sum, value) in losses.lead.iter_mut().zip(&values) {
            *sum += value / self.plan.accumulate as f64;
        }
        if losses.fault.is_none() && !values.iter().all(|value| value.is_finite()) {
            // A hole in data that the device decoded is found here, and named.
            let batch = self.feed.prepared(input)?;
            let slot = self.workspace.network.slots().predictions;
            let mut predictions = vec![0.0; slot.len() / self.plan.longest_rollout() * values.len()];
            self.device.download(slot.part(0, predictions.len()), &mut predictions);
            losses.fault = Some(Fault::find(&Scene {
                layout: &self.layout,
                rows: self.workspace.network.geometry().rows,
                step: self.step,
                input_frames: self.workspace.network.architecture().input_frames,
                batch: &batch,
                predictions: &predictions,
            }));
        }
        self.last_inits = input.init().to_vec();
        Ok(())
    }

    /// The last batch of an update adds up the gradients of all ranks as they become complete.
    fn backward(&mut self, is_last: bool) {
        let leads = self.leads();
        self.workspace.backward(&mut *self.device, &mut self.ranks, leads, is_last);
    }

    /// Euclidean norm of the mean gradient, of whose squares this rank knows all or some.
    fn gradient_norm(&mut self, squares: f64, are_pieces: bool) -> Result<f64> {
        let part = self.ranks.part();
        let mut squares = [squares];
        if are_pieces || part.units.of > 1 {
            // Who holds the same weights knows the same, unless each has pieces.
            squares[0] /= if are_pieces { 1.0 } else { part.replica().of as f64 };
            self.ranks.total(&mut squares)?;
        }
        Ok(squares[0].sqrt() / (self.plan.accumulate as f64 * self.loss_scale()))
    }

    fn gradient_fault(&self, norm: f64) -> Option<Fault> {
        (!norm.is_finite()).then(|| Fault::Gradient { inits: self.last_inits.clone() })
    }

    /// What the summed gradient is multiplied by: a mean, no longer than the plan allows.
    fn clipped(&self, norm: f64) -> f64 {
        let factor = match self.plan.clip_norm {
            Some(longest) if norm > longest => longest / norm,
            _ => 1.0,
        };
        factor / (self.plan.accumulate as f64 * self.loss_scale())
    }

    /// What the loss gradient is multiplied by.
    fn loss_scale(&self) -> f64 {
        self.progress.loss_scale.map_or(1.0, |scale| scale.factor)
    }

    /// Whether there is a factor that can be made smaller, which is done.
    fn shrinks_loss_scale(&mut self) -> bool {
        self.progress.loss_scale.as_mut().is_some_and(LossScale::fail)
    }

    fn update(&mut self, learning_rate: f64, scale: f64) {
        self.progress.updates += 1;
        self.progress.skipped_in_a_row = 0;
        self.workspace.update(&mut *self.device, learning_rate, scale, self.progress.updates);
        self.workspace.share_weights(&mut *self.device, &mut self.ranks);
    }

    fn average(&mut self) {
        let decay = ema_decay(self.plan.ema_decay, self.progress.updates);
        self.workspace.average(&mut *self.device, decay);
    }

    fn skip_or_stop(&mut self, fault: &Fault) -> Result<()> {
        let update = self.progress.step + 1;
        let NonFinite::Skip { limit } = self.plan.non_finite else {
            self.leave_to_others(fault)?;
            return Err(fault.stop(update));
        };
        self.progress.skipped += 1;
        self.progress.skipped_in_a_row += 1;
        if self.progress.skipped_in_a_row > limit {
            self.leave_to_others(fault)?;
            return Err(fault
                .stop(update)
                .context(format!("more than {limit} updates in a row were skipped")));
        }
        self.watcher.remark(&format!("update {update} is skipped: {fault}"));
        Ok(())
    }

    /// Waits for the reason of a rank that knows more; it does not come to this.
    fn leave_to_others(&mut self, fault: &Fault) -> Result<()> {
        if *fault == Fault::Elsewhere { self.ranks.barrier() } else { Ok(()) }
    }

    fn learning_rate(&self) -> f64 {
        self.plan.learning_rate.at(self.progress.step, self.outlook.updates)
    }

    fn truth_probability(&self) -> f64 {
        let passed = self.progress.step_in_epoch as f64 / self.steps_per_epoch().max(1) as f64;
        self.plan.sampling.probability(self.progress.epoch as f64 + passed)
    }

    fn weighted(&self, lead_loss: &[f64]) -> f64 {
        lead_loss.iter().zip(&self.lead_weights).map(|(loss, weight)| loss * weight).sum()
    }
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
