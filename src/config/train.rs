//! The tables `[train]` and `[loss]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::train::{
    AdamW, Augment, LearningRate, LossKind, LossPlan, NonFinite, Sampling, SavingPlan, Stage, TrainPlan,
    ValidationPlan,
};

/// `[train]`: how the weights are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Decides initial weights, order of samples, dropout and scheduled sampling.
    pub seed: u64,
    /// Windows in one batch.
    pub batch: usize,
    /// Batches whose gradients are averaged for one update.
    pub accumulate: usize,
    /// Less memory for more time: what predictions leave behind is computed again in the backward pass.
    pub recompute: bool,
    /// Stages of the rollout curriculum: `[epochs, lead steps]`.
    pub rollout: Vec<(usize, usize)>,
    /// Peak of the learning rate.
    pub learning_rate: f64,
    /// Learning rate at the end of the cosine.
    pub learning_rate_floor: f64,
    /// Updates of the linear warm-up.
    pub warm_up: u64,
    /// Of AdamW; not applied to biases, peepholes and norms.
    pub weight_decay: f64,
    /// Of AdamW: decay of the first and of the second moment.
    pub betas: (f64, f64),
    /// Of AdamW.
    pub epsilon: f64,
    /// Longest gradient, over all parameters; 0 for no limit.
    pub clip_norm: f64,
    /// Decay of the moving average of the weights, which is what forecasts use; 0 for none.
    pub ema_decay: f64,
    /// Scheduled sampling.
    pub sampling: SamplingConfig,
    /// Rollout that validation scores, in steps; the longest of `rollout` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_leads: Option<usize>,
    /// Validations without a better score before training ends; never when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<usize>,
    /// Updates between checkpoints, besides the one after each epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save_every: Option<u64>,
    /// Newest checkpoints to keep, besides the best.
    pub keep: usize,
    /// A normalised data set up to this size is kept in memory instead of being read again each epoch.
    pub cache_mebibytes: usize,
    /// What to do when a loss is not finite.
    pub non_finite: NonFiniteConfig,
    /// How many updates in a row may be skipped with `non_finite = "skip"`.
    pub skip_limit: u32,
    /// What is changed in each batch at random.
    pub augment: AugmentConfig,
    /// Let a trained network (--from) learn with what its convolutions read rounded, as an export in that precision will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantise: Option<QuantiseConfig>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantiseConfig {
    Int8,
}

/// Random changes that weather does not mind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AugmentConfig {
    /// Turn the globe, static fields and all, by a random angle: for networks with patches on global grids.
    pub rotate: bool,
}

/// How often a rollout step is fed the truth instead of the prediction: from `start` to `end` over `epochs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingConfig {
    pub start: f64,
    pub end: f64,
    pub epochs: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NonFiniteConfig {
    Stop,
    Skip,
}

/// `[loss]`: what counts as an error, and how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossConfig {
    pub kind: LossKindConfig,
    /// Where the Huber error turns from square to linear, in standard deviations.
    pub huber_delta: f64,
    /// Whether a row counts by the area of its cells.
    pub latitude_weights: bool,
    /// Weights by variable, as in `{ z500 = 2.0 }`; 1 where none is given.
    pub variables: BTreeMap<String, f64>,
    /// Weight of each lead; the last one goes on for longer rollouts.
    pub leads: Vec<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKindConfig {
    Squared,
    Huber,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            batch: 16,
            accumulate: 1,
            recompute: false,
            rollout: vec![(10, 1)],
            learning_rate: 1e-3,
            learning_rate_floor: 1e-5,
            warm_up: 100,
            weight_decay: 0.01,
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            clip_norm: 1.0,
            ema_decay: 0.999,
            sampling: SamplingConfig::default(),
            validation_leads: None,
            patience: None,
            save_every: None,
            keep: 2,
            cache_mebibytes: 2048,
            non_finite: NonFiniteConfig::Stop,
            skip_limit: 10,
            augment: AugmentConfig::default(),
            quantise: None,
        }
    }
}

impl Default for LossConfig {
    fn default() -> Self {
        Self {
            kind: LossKindConfig::Squared,
            huber_delta: 1.0,
            latitude_weights: true,
            variables: BTreeMap::new(),
            leads: Vec::new(),
        }
    }
}

impl TrainConfig {
    /// The checked plan of `[train]` and `[loss]` together.
    pub fn plan(&self, loss: &LossConfig) -> Result<TrainPlan> {
        let curriculum: Vec<Stage> =
            self.rollout.iter().map(|&(epochs, leads)| Stage { epochs, leads }).collect();
        let longest = curriculum.iter().map(|stage| stage.leads).max().unwrap_or(1);
        let plan = TrainPlan {
            seed: self.seed,
            batch: self.batch,
            accumulate: self.accumulate,
            recompute: self.recompute,
            curriculum,
            learning_rate: LearningRate {
                peak: self.learning_rate,
                floor: self.learning_rate_floor,
                warm_up: self.warm_up,
            },
            optimizer: AdamW {
                beta1: self.betas.0,
                beta2: self.betas.1,
                epsilon: self.epsilon,
                weight_decay: self.weight_decay,
            },
            clip_norm: (self.clip_norm != 0.0).then_some(self.clip_norm),
            ema_decay: self.ema_decay,
            sampling: Sampling {
                start: self.sampling.start,
                end: self.sampling.end,
                epochs: self.sampling.epochs,
            },
            loss: loss.plan(),
            validation: ValidationPlan {
                leads: self.validation_leads.unwrap_or(longest),
                patience: self.patience,
            },
            saving: SavingPlan { every: self.save_every, keep: self.keep },
            non_finite: match self.non_finite {
                NonFiniteConfig::Stop => NonFinite::Stop,
                NonFiniteConfig::Skip => NonFinite::Skip { limit: self.skip_limit },
            },
            augment: Augment { rotate: self.augment.rotate },
            // From forecasts of the network that it starts from.
            quantise: None,
        };
        plan.check()?;
        Ok(plan)
    }
}

impl LossConfig {
    fn plan(&self) -> LossPlan {
        LossPlan {
            kind: match self.kind {
                LossKindConfig::Squared => LossKind::Squared,
                LossKindConfig::Huber => LossKind::Huber { delta: self.huber_delta },
            },
            latitude_weights: self.latitude_weights,
            variables: self.variables.clone(),
            leads: self.leads.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_a_plan_and_read_back_from_what_they_print() {
        let plan = TrainConfig::default().plan(&LossConfig::default()).unwrap();
        assert_eq!(plan.validation.leads, 1);
        let text = toml::to_string(&TrainConfig::default()).unwrap();
        assert_eq!(toml::from_str::<TrainConfig>(&text).unwrap(), TrainConfig::default());
        let text = toml::to_string(&LossConfig::default()).unwrap();
        assert_eq!(toml::from_str::<LossConfig>(&text).unwrap(), LossConfig::default());
    }

    #[test]
    fn settings_that_cannot_train_are_refused_by_name() {
        for (text, name) in [
            ("batch = 0", "train.batch"),
            ("accumulate = 0", "train.accumulate"),
            ("rollout = []", "train.rollout"),
            ("rollout = [[1, 0]]", "train.rollout"),
            ("rollout = [[1, 9223372036854775807]]", "train.rollout"),
            ("rollout = [[9223372036854775807, 1]]", "train.rollout"),
            ("validation_leads = 9223372036854775807", "train.validation_leads"),
            ("learning_rate = -1.0", "train.learning_rate"),
            ("learning_rate = nan", "train.learning_rate"),
            ("learning_rate_floor = 1.0", "train.learning_rate_floor"),
            ("betas = [1.0, 0.9]", "train.betas"),
            ("epsilon = 0.0", "train.epsilon"),
            ("weight_decay = -0.1", "train.weight_decay"),
            ("clip_norm = -1.0", "train.clip_norm"),
            ("ema_decay = 1.0", "train.ema_decay"),
            ("sampling = { start = 2.0 }", "train.sampling"),
            ("validation_leads = 0", "train.validation_leads"),
            ("patience = 0", "train.patience"),
            ("save_every = 0", "train.save_every"),
            ("keep = 0", "train.keep"),
        ] {
            let config: TrainConfig = toml::from_str(text).unwrap();
            let error = config.plan(&LossConfig::default()).unwrap_err();
            assert!(error.to_string().starts_with(name), "{text}: {error}");
        }
        for text in ["kind = 'huber'\nhuber_delta = 0.0", "leads = [0.0]", "variables = { msl = -1.0 }"] {
            let loss: LossConfig = toml::from_str(text).unwrap();
            assert!(TrainConfig::default().plan(&loss).is_err(), "{text}");
        }
        assert!(toml::from_str::<TrainConfig>("epoch = 3").is_err(), "unknown keys are errors");
    }
}
