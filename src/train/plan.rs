//! What a training shall do: checked settings, free of the configuration file they came from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::{Arithmetic, Ranges};

/// Everything that decides how the weights come out, besides network and data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainPlan {
    /// Decides initial weights, order of samples, dropout and scheduled sampling.
    pub seed: u64,
    /// Windows in one batch.
    pub batch: usize,
    /// Batches whose gradients are averaged for one update.
    pub accumulate: usize,
    /// Whether the backward pass computes the gates of predictions again, which saves their memory.
    #[serde(default)]
    pub recompute: bool,
    /// Stages of growing rollout length, in order.
    pub curriculum: Vec<Stage>,
    pub learning_rate: LearningRate,
    pub optimizer: AdamW,
    /// Longest allowed gradient (Euclidean norm over all parameters), `None` for no limit.
    pub clip_norm: Option<f64>,
    /// Decay of the moving average of the weights per update, once it has warmed up.
    pub ema_decay: f64,
    pub sampling: Sampling,
    pub loss: LossPlan,
    pub validation: ValidationPlan,
    pub saving: SavingPlan,
    pub non_finite: NonFinite,
    #[serde(default)]
    pub augment: Augment,
    /// Rounds what convolutions read to 8 bits, with activations cut off here, so that the weights suit that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantise: Option<Ranges>,
}

/// What is changed in each batch at random, as seed, epoch and number of the batch have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Augment {
    /// Counts longitudes from another meridian: fields, forcings, static fields and mask turn together, so that weather
    /// and planet stay as they are. Only a network that folds patches into channels can tell the difference.
    pub rotate: bool,
}

/// A part of the curriculum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    pub epochs: usize,
    /// Length of the rollout that is trained [steps].
    pub leads: usize,
}

/// Linear warm-up from 0 to `peak`, then half a cosine down to `floor` at the last update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LearningRate {
    pub peak: f64,
    pub floor: f64,
    /// Updates of the warm-up.
    pub warm_up: u64,
}

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamW {
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    /// Not applied to biases, peepholes and norms.
    pub weight_decay: f64,
}

/// Scheduled sampling (Bengio et al. 2015, arXiv:1506.03099): how often a rollout step is fed the truth instead of the
/// network's own prediction. Goes linearly from `start` to `end` over `epochs`, then stays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Probability of the truth at the beginning.
    pub start: f64,
    /// Probability of the truth after `epochs`.
    pub end: f64,
    pub epochs: usize,
}

/// How far a prediction is from the truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LossPlan {
    pub kind: LossKind,
    /// Whether a row counts by the area of its cells.
    pub latitude_weights: bool,
    /// Weights by variable label; 1 where none is given.
    pub variables: BTreeMap<String, f64>,
    /// Weight of each lead, the first step first; the last one goes on for longer rollouts, 1 where there are none.
    pub leads: Vec<f64>,
}

/// The error of one normalised value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// `e^2`
    Squared,
    /// `e^2` up to `|e| = delta`, then `delta (2 |e| - delta)`.
    Huber { delta: f64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationPlan {
    /// Length of the rollout that is scored [steps].
    pub leads: usize,
    /// Validations without a better score in the last stage of the curriculum before training ends, `None` for never.
    pub patience: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavingPlan {
    /// Updates between checkpoints, besides the one after each epoch; `None` for those only.
    pub every: Option<u64>,
    /// Newest checkpoints to keep, besides the best.
    pub keep: usize,
}

/// What to do when a loss or a gradient is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonFinite {
    /// Stop with the sample's dates, the variable and the step.
    Stop,
    /// Leave out the update and count it; more than `limit` in a row stop.
    Skip { limit: u32 },
}

/// Epochs and lead steps beyond this are a slip of the pen.
const MOST: usize = 1_000_000;

impl TrainPlan {
    pub fn epochs(&self) -> usize {
        self.curriculum.iter().map(|stage| stage.epochs).sum()
    }

    /// What convolutions compute with.
    pub fn arithmetic(&self) -> Arithmetic {
        self.quantise.clone().map_or(Arithmetic::Plain, Arithmetic::rounded)
    }

    /// The longest rollout that is trained [steps].
    pub fn longest_rollout(&self) -> usize {
        self.curriculum.iter().map(|stage| stage.leads).max().unwrap_or(1)
    }

    /// Refuses settings that cannot train.
    pub fn check(&self) -> Result<()> {
        let wrong =
            |name: &str, expected: &str| Err(Error::input(format!("train.{name} must be {expected}")));
        let fraction = |x: f64| (0.0..=1.0).contains(&x);
        if self.batch == 0 {
            return wrong("batch", "at least 1");
        }
        if self.accumulate == 0 {
            return wrong("accumulate", "at least 1");
        }
        if self.curriculum.is_empty() || self.curriculum.iter().any(|s| s.epochs == 0 || s.leads == 0) {
            return wrong(
                "rollout",
                "a list of [epochs, lead steps], each at least 1, as in [[5, 1], [5, 3]]",
            );
        }
        let much = |x: usize| x > MOST;
        if self.curriculum.iter().any(|s| much(s.epochs) || much(s.leads)) || much(self.curriculum.len()) {
            return wrong("rollout", &format!("a list of at most {MOST} epochs and lead steps"));
        }
        if much(self.validation.leads) {
            return wrong("validation_leads", &format!("at most {MOST}"));
        }
        let rate = self.learning_rate;
        if !(rate.peak > 0.0 && rate.peak.is_finite()) {
            return wrong("learning_rate", "a positive number");
        }
        if !(0.0..=rate.peak).contains(&rate.floor) {
            return wrong("learning_rate_floor", "between 0 and learning_rate");
        }
        let adam = self.optimizer;
        if !((0.0..1.0).contains(&adam.beta1) && (0.0..1.0).contains(&adam.beta2)) {
            return wrong("betas", "two numbers of at least 0 and less than 1");
        }
        if !(adam.epsilon > 0.0 && adam.epsilon.is_finite()) {
            return wrong("epsilon", "a positive number");
        }
        if !(adam.weight_decay >= 0.0 && adam.weight_decay.is_finite()) {
            return wrong("weight_decay", "0 or a positive number");
        }
        if self.clip_norm.is_some_and(|norm| !(norm > 0.0 && norm.is_finite())) {
            return wrong("clip_norm", "a positive number, or 0 for no limit");
        }
        if !(0.0..1.0).contains(&self.ema_decay) {
            return wrong("ema_decay", "at least 0 (no averaging) and less than 1");
        }
        if !(fraction(self.sampling.start) && fraction(self.sampling.end)) {
            return wrong("sampling", "probabilities between 0 and 1");
        }
        if self.validation.leads == 0 {
            return wrong("validation_leads", "at least 1");
        }
        if self.validation.patience == Some(0) {
            return wrong("patience", "at least 1, or left out");
        }
        if self.saving.every == Some(0) {
            return wrong("save_every", "at least 1, or left out");
        }
        if self.saving.keep == 0 {
            return wrong("keep", "at least 1");
        }
        self.loss.check()?;
        // A stage whose leads all weigh nothing has nothing to learn from.
        let weight = |leads| (0..leads).map(|lead| self.loss.lead_weight(lead)).sum::<f64>();
        let leads = self.curriculum.iter().map(|stage| stage.leads).chain([self.validation.leads]);
        match leads.into_iter().find(|leads| weight(*leads) == 0.0) {
            Some(leads) => {
                Err(Error::input(format!("loss.leads gives a rollout of {leads} steps no weight"))
                    .hint("give at least one of its leads a weight above 0"))
            }
            None => Ok(()),
        }
    }
}

impl LossPlan {
    fn check(&self) -> Result<()> {
        if let LossKind::Huber { delta } = self.kind
            && !(delta > 0.0 && delta.is_finite())
        {
            return Err(Error::input("loss.huber_delta must be a positive number"));
        }
        let weight = |x: &f64| *x >= 0.0 && x.is_finite();
        if !self.leads.iter().all(weight) || !self.variables.values().all(weight) {
            return Err(Error::input("loss: weights must be 0 or positive numbers"));
        }
        Ok(())
    }

    /// Weight of the lead with index `lead`, the first step is 0.
    pub fn lead_weight(&self, lead: usize) -> f64 {
        self.leads.get(lead).or(self.leads.last()).copied().unwrap_or(1.0)
    }
}
