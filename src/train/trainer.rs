//! The course of a training: epochs, stages, validations, checkpoints.

use std::sync::Arc;

use crate::device::Device;
use crate::error::{Error, Kind, Result};
use crate::field::Layout;
use crate::io::checkpoint;
use crate::io::run_dir::RunDir;
use crate::preprocess::EvaluationWindows;
use crate::time::{InitTime, LeadTime};
use crate::train::curve::{Line, ValidationLine, now};
use crate::train::feed::Feed;
use crate::train::interrupt::Interrupt;
use crate::train::plan::{Stage, TrainPlan};
use crate::train::progress::Progress;
use crate::train::ranks::Ranks;
use crate::train::record::Record;
use crate::train::schedule::stage;
use crate::train::stopping::{Best, Patience};
use crate::train::validation::{Scoring, Validation, validate};
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;
use crate::train::{Ending, Outcome, Outlook, Watcher};

/// A training under way.
pub(super) struct Trainer<'a> {
    pub plan: &'a TrainPlan,
    pub device: &'a mut dyn Device<f32>,
    pub ranks: Ranks<'a, f32>,
    pub interrupt: &'a Interrupt,
    pub watcher: &'a mut dyn Watcher,
    pub run: &'a RunDir,
    pub layout: Arc<Layout>,
    /// Length of a model step.
    pub step: LeadTime,
    pub feed: Feed,
    pub windows: EvaluationWindows,
    pub weights: Weights,
    pub workspace: Workspace<f32>,
    /// The stage's weights of its leads, sum 1.
    pub lead_weights: Vec<f64>,
    pub outlook: Outlook,
    pub progress: Progress,
    /// On the first rank.
    pub record: Option<Record<'a>>,
    /// Starts of the latest batch's samples, for the error of a gradient.
    pub last_inits: Vec<InitTime>,
}

impl Trainer<'_> {
    /// Trains to the end, or until somebody asks to stop.
    pub fn run(&mut self) -> Result<Outcome> {
        while !self.progress.finished {
            if self.progress.validation_due {
                self.validate()?;
            } else {
                self.run_epoch()?;
            }
        }
        let ending = if self.progress.epoch < self.plan.epochs() { Ending::Early } else { Ending::Complete };
        Ok(Outcome { ending, steps: self.progress.step, best: self.progress.stopping.best })
    }

    /// The rest of the epoch under way.
    fn run_epoch(&mut self) -> Result<()> {
        self.enter_stage()?;
        while self.progress.step_in_epoch < self.steps_per_epoch() {
            let (line, stops) = self.train_step()?;
            self.watcher.stepped(&line, &self.outlook);
            self.note(&Line::Train(line))?;
            if self.progress.step_in_epoch == self.steps_per_epoch() {
                break;
            }
            if stops {
                return self.save_and_stop();
            }
            if self.plan.saving.every.is_some_and(|every| self.progress.step.is_multiple_of(every)) {
                self.save()?;
            }
        }
        self.progress.epoch += 1;
        self.progress.step_in_epoch = 0;
        self.progress.position.epoch = self.progress.epoch as u64;
        self.progress.position.batch = 0;
        self.progress.validation_due = true;
        Ok(())
    }

    /// Brings the loader to the length of the stage's rollout and to the next batch.
    fn enter_stage(&mut self) -> Result<()> {
        let leads = self.leads();
        self.lead_weights = lead_weights(&self.plan.loss, leads);
        self.feed.enter(leads, self.progress.position)
    }

    fn validate(&mut self) -> Result<()> {
        let started = std::time::Instant::now();
        let scoring = Scoring {
            leads: self.plan.validation.leads,
            layout: &self.layout,
            plan: &self.plan.loss,
            weights: &self.weights,
            band: self.feed.band(),
        };
        let (device, windows) = (&mut *self.device, &mut self.windows);
        let found = validate(&self.workspace, device, windows, &scoring, self.interrupt, &mut self.ranks)?;
        let Some(validation) = found else {
            return self.save_and_stop();
        };
        let seconds = started.elapsed().as_secs_f64().max(1e-9);
        self.take_in(validation, seconds)?;
        // What the validation read is not the next update's.
        self.feed.line(&*self.device);
        self.save()?;
        if self.ranks.any(self.interrupt.is_requested())? && !self.progress.finished {
            return Err(self.interrupted());
        }
        Ok(())
    }

    /// What a validation means for the rest of the training.
    fn take_in(&mut self, validation: Validation, seconds: f64) -> Result<()> {
        let (step, epoch) = (self.progress.step, self.progress.epoch);
        // The epoch that was validated, not the one to come, decides whether the patience counts.
        let (index, _) = stage(&self.plan.curriculum, epoch.saturating_sub(1));
        let is_last_stage = index + 1 == self.plan.curriculum.len();
        let patience = if is_last_stage { Patience::Counts } else { Patience::Waits };
        let best = self.progress.stopping.add(Best { step, epoch, score: validation.score }, patience);
        let line = ValidationLine {
            step,
            epoch,
            loss: validation.loss.is_finite().then_some(validation.loss),
            lead_loss: validation.lead_loss,
            score: validation.score,
            rmse: validation.rmse,
            best,
            samples_per_second: validation.samples as f64 / seconds,
            time: now(),
        };
        self.watcher.validated(&line);
        self.note(&Line::Validation(line))?;
        self.progress.validation_due = false;
        self.progress.finished =
            epoch >= self.plan.epochs() || self.progress.stopping.is_over(self.plan.validation.patience);
        Ok(())
    }

    /// Adds a line to the curve.
    fn note(&mut self, line: &Line) -> Result<()> {
        self.record.as_mut().map_or(Ok(()), |record| record.add(line))
    }

    /// Writes a checkpoint, each rank its part of it.
    fn save(&mut self) -> Result<()> {
        let step = self.progress.step;
        if let Some(record) = &self.record {
            record.begin(step)?;
        }
        let mut tensors = self.workspace.to_tensors(&mut *self.device, &mut self.ranks);
        self.device.finish()?;
        // Nobody writes before all have told theirs, so that there is a place to write to.
        let mut choices = self.ranks.choices(self.device.choices())?.into_iter();
        self.progress.choices = choices.next().unwrap_or_default();
        self.progress.other_choices = choices.collect();
        if let Some(record) = &self.record {
            tensors.extend(record.fixed_tensors.clone());
        }
        let seals = checkpoint::write_part(&self.run.checkpoint(step), self.ranks.number(), &tensors)?;
        // All parts are on their disks.
        let seals = self.ranks.seals(&seals)?;
        match &mut self.record {
            Some(record) => record.finish(&mut self.progress, seals),
            None => Ok(()),
        }
    }

    fn save_and_stop(&mut self) -> Result<()> {
        self.save()?;
        // Nobody goes before it is saved.
        self.ranks.barrier()?;
        Err(self.interrupted())
    }

    fn interrupted(&self) -> Error {
        Error::new(Kind::Interrupted, format!("stopped and saved after update {}", self.progress.step))
            .hint(self.watcher.how_to_resume())
    }

    /// Length of the rollout of the epoch under way.
    pub fn leads(&self) -> usize {
        self.current_stage().1.leads
    }

    /// Updates of the epoch under way.
    pub fn steps_per_epoch(&self) -> u64 {
        self.outlook.stages[self.current_stage().0].steps_per_epoch
    }

    fn current_stage(&self) -> (usize, Stage) {
        stage(&self.plan.curriculum, self.progress.epoch)
    }
}
