//! The table `[serve]`.

mod intake;
mod watch;

pub use intake::{CompleteConfig, DuplicatesConfig, InboxConfig, LateConfig, ScheduleConfig};
pub use watch::{AlarmsConfig, DriftConfig, HttpConfig, LevelsConfig, SkillConfig, Webhook};

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::commands::devices::Precision;
use crate::commands::providers::Choose;
use crate::error::{Error, Result};
use crate::serve::{CanaryPlan, DevicesPlan, KeepPlan, ModelPlan, RetryPlan, ServePlan, Start};
use crate::time::LeadTime;

/// `[serve]`: the operational loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServeConfig {
    /// Where forecasts are published, in a folder for each model.
    pub out: PathBuf,
    /// Where the service keeps its ledger, decoded analyses and recurrent states.
    pub state: PathBuf,
    /// Publishes each forecast as a Zarr store (version 3), too.
    pub zarr: bool,
    pub inbox: InboxConfig,
    pub schedule: ScheduleConfig,
    pub retry: RetryConfig,
    pub keep: KeepConfig,
    pub devices: DevicesConfig,
    pub http: HttpConfig,
    pub levels: LevelsConfig,
    pub drift: DriftConfig,
    pub skill: SkillConfig,
    pub alarms: AlarmsConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryConfig>,
    pub models: Vec<ServedModelConfig>,
}

/// A run that shadows a model that is served, and takes its place once it has proved better.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CanaryConfig {
    /// The model that it shadows.
    pub of: String,
    pub run: PathBuf,
    /// Of the cycles, it makes this share too.
    #[serde(default = "a_quarter")]
    pub share: f64,
    /// After so many forecasts that show no clear difference it is rejected.
    #[serde(default = "two_hundred")]
    pub most: usize,
    /// Days that belong together in the bootstrap, as `verify.bootstrap.block`.
    #[serde(default = "ten_days")]
    pub block: LeadTime,
}

fn a_quarter() -> f64 {
    0.25
}

fn two_hundred() -> usize {
    200
}

fn ten_days() -> LeadTime {
    hours(240)
}

/// What to do about a cycle that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    pub attempts: u32,
    /// Before the second attempt; twice as long before each further one.
    pub first: LeadTime,
    pub longest: LeadTime,
}

/// What is kept of each model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeepConfig {
    /// The newest forecasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<usize>,
    /// Forecasts whose initial time is not older, against the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<LeadTime>,
    /// On a full disk the oldest forecasts are removed, down to so many; without this none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// Decoded analyses and recurrent states that are not older, against the newest forecast.
    pub analyses: LeadTime,
}

/// What computes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DevicesConfig {
    /// `auto`, `cpu`, `cuda:0`, ..: each takes whole cycles, the one with the least to do first.
    pub names: Vec<String>,
    /// Cycles that one of them computes at the same time.
    pub at_once: usize,
    /// What the models on one of them may take together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mebibytes: Option<u64>,
    /// As the flags of `wxsim forecast`.
    pub provider: Choose,
    pub precision: Precision,
}

/// One of `[[serve.models]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServedModelConfig {
    /// Of its folder in the output.
    pub name: String,
    /// A folder that `wxsim train` made.
    pub run: PathBuf,
    /// How far ahead; else as the run says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<LeadTime>,
    /// `cold`: each forecast warms up on the analyses before it; `warm`: it goes on from the one before.
    #[serde(default)]
    pub start: StartConfig,
    /// Of cycles that wait, those of the highest are made first.
    #[serde(default)]
    pub priority: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartConfig {
    #[default]
    Cold,
    Warm,
}

const fn hours(hours: i64) -> LeadTime {
    LeadTime { seconds: 3600 * hours }
}

const fn seconds(seconds: i64) -> LeadTime {
    LeadTime { seconds }
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            out: "published".into(),
            state: "serve-state".into(),
            zarr: false,
            inbox: InboxConfig::default(),
            schedule: ScheduleConfig::default(),
            retry: RetryConfig::default(),
            keep: KeepConfig::default(),
            devices: DevicesConfig::default(),
            http: HttpConfig::default(),
            levels: LevelsConfig::default(),
            drift: DriftConfig::default(),
            skill: SkillConfig::default(),
            alarms: AlarmsConfig::default(),
            canary: None,
            models: Vec::new(),
        }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { attempts: 5, first: seconds(10), longest: seconds(600) }
    }
}

impl Default for KeepConfig {
    fn default() -> Self {
        Self { cycles: None, age: None, at_least: None, analyses: hours(24 * 15) }
    }
}

impl Default for DevicesConfig {
    fn default() -> Self {
        Self {
            names: vec!["auto".into()],
            at_once: 1,
            memory_mebibytes: None,
            provider: Choose::Auto,
            precision: Precision::Fp32,
        }
    }
}

impl ServeConfig {
    /// Takes another canary, for the same model as before or else for the only one.
    pub fn shadow(&mut self, run: &Path) -> Result<()> {
        let of = match (&self.canary, self.models.as_slice()) {
            (Some(canary), _) => canary.of.clone(),
            (None, [model]) => model.name.clone(),
            (None, _) => {
                return Err(Error::input("there are several models that a canary could shadow")
                    .hint("say which: [serve.canary] of = \"NAME\""));
            }
        };
        let usual =
            CanaryConfig { of, run: run.into(), share: a_quarter(), most: two_hundred(), block: ten_days() };
        self.canary = Some(CanaryConfig { run: run.into(), ..self.canary.take().unwrap_or(usual) });
        Ok(())
    }

    /// `lead_of` tells how far ahead a run forecasts, when the configuration does not.
    pub fn plan(&self, lead_of: impl Fn(&ServedModelConfig) -> Result<LeadTime>) -> Result<ServePlan> {
        if self.models.is_empty() {
            return Err(Error::input("serve.models is empty: there is nothing to forecast with")
                .hint("add [[serve.models]] with name = \"europe\" and run = \"runs/europe\""));
        }
        let mut models = Vec::new();
        for model in &self.models {
            let lead = model.lead.map_or_else(|| lead_of(model), Ok)?;
            models.push(model.plan(lead)?);
        }
        for (number, model) in models.iter().enumerate() {
            if models[..number].iter().any(|other| other.name == model.name) {
                return Err(Error::input(format!("serve.models: two of them are called '{}'", model.name)));
            }
        }
        let folders = [("out", &self.out), ("state", &self.state), ("inbox.folder", &self.inbox.folder)];
        for (number, (one, folder)) in folders.iter().enumerate() {
            if let Some((other, _)) = folders[..number].iter().find(|(_, other)| other == folder) {
                return Err(Error::input(format!(
                    "serve.{other} and serve.{one} are both {}",
                    folder.display()
                ))
                .hint("each has files that the others take for their own: name three folders"));
            }
        }
        let canary = self.canary.as_ref().map(|canary| canary.plan(&models)).transpose()?;
        Ok(ServePlan {
            out: self.out.clone(),
            state: self.state.clone(),
            inbox: self.inbox.plan()?,
            timetable: self.schedule.timetable()?,
            lateness: self.schedule.lateness()?,
            retry: self.retry.plan()?,
            keep: self.keep.plan(&self.schedule)?,
            zarr: self.zarr,
            models,
            canary,
            watch: self.watch()?,
            devices: self.devices.plan()?,
        })
    }
}

impl ServedModelConfig {
    fn plan(&self, lead: LeadTime) -> Result<ModelPlan> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.starts_with('.') || !self.name.chars().all(is_plain) {
            return Err(Error::input(format!("serve.models: '{}' is no name of a folder", self.name))
                .hint("use letters, digits, '-', '_' and '.'"));
        }
        let start = match self.start {
            StartConfig::Cold => Start::Cold,
            StartConfig::Warm => Start::Warm,
        };
        Ok(ModelPlan { name: self.name.clone(), run: self.run.clone(), lead, start, priority: self.priority })
    }
}

impl CanaryConfig {
    fn plan(&self, models: &[ModelPlan]) -> Result<CanaryPlan> {
        if !models.iter().any(|model| model.name == self.of) {
            let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
            return Err(Error::input(format!("serve.canary.of: there is no model '{}'", self.of))
                .hint(format!("the models are {}", names.join(", "))));
        }
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(Error::input(format!(
                "serve.canary.share must lie between 0 and 1, not {}",
                self.share
            )));
        }
        if self.most == 0 || self.block.seconds <= 0 {
            return Err(Error::input("serve.canary: most and block must be positive"));
        }
        let Self { of, run, share, most, block } = self.clone();
        Ok(CanaryPlan { of, run, share, most, block })
    }
}

impl RetryConfig {
    fn plan(&self) -> Result<RetryPlan> {
        if self.attempts == 0 {
            return Err(Error::input("serve.retry.attempts must be at least 1"));
        }
        let (first, longest) =
            (positive("serve.retry.first", self.first)?, positive("serve.retry.longest", self.longest)?);
        if longest < first {
            return Err(Error::input("serve.retry.longest is shorter than serve.retry.first"));
        }
        Ok(RetryPlan { attempts: self.attempts, first, longest })
    }
}

impl KeepConfig {
    fn plan(&self, schedule: &ScheduleConfig) -> Result<KeepPlan> {
        for (name, count) in [("cycles", self.cycles), ("at_least", self.at_least)] {
            if count == Some(0) {
                return Err(Error::input(format!(
                    "serve.keep.{name} must be at least 1: the newest always stays"
                )));
            }
        }
        if self.age.is_some_and(|age| age.seconds <= 0) {
            return Err(Error::input("serve.keep.age must be positive"));
        }
        if self.analyses < schedule.bridge {
            return Err(Error::input(format!(
                "serve.keep.analyses ({}) is shorter than serve.schedule.bridge ({}), over which they are needed",
                self.analyses, schedule.bridge
            )));
        }
        let Self { cycles, age, at_least, analyses } = *self;
        Ok(KeepPlan { cycles, age, at_least, analyses })
    }
}

impl DevicesConfig {
    fn plan(&self) -> Result<DevicesPlan> {
        for name in &self.names {
            name.parse::<crate::commands::devices::Choice>()
                .map_err(|error| Error::input(format!("serve.devices.names: '{name}': {error}")))?;
        }
        if self.names.is_empty() || self.at_once == 0 {
            return Err(Error::input(
                "serve.devices must name at least one device, and allow at least one cycle on it",
            ));
        }
        let memory = self.memory_mebibytes.map(|mebibytes| mebibytes.saturating_mul(1 << 20));
        Ok(DevicesPlan { names: self.names.clone(), at_once: self.at_once, memory })
    }
}

fn positive(name: &str, time: LeadTime) -> Result<Duration> {
    match u64::try_from(time.seconds) {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err(Error::input(format!("{name} must be positive, not {time}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Timetable;

    fn plan(text: &str) -> Result<ServePlan> {
        let model = "[[models]]\nname = 'a'\nrun = 'r'\n";
        let config: ServeConfig = toml::from_str(&format!("{text}\n{model}")).unwrap();
        config.plan(|_| Ok(LeadTime::from_hours(24)))
    }

    #[test]
    fn the_defaults_are_a_plan_once_there_is_a_model() {
        let plan = plan("").unwrap();
        assert!(matches!(plan.timetable, Timetable::Arrival));
        assert_eq!(plan.models[0].lead, LeadTime::from_hours(24));
        assert!(ServeConfig::default().plan(|_| Ok(LeadTime::from_hours(24))).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (text, name) in [
            ("inbox.pattern = '***'", "serve.inbox.pattern"),
            ("inbox.poll = '0s'", "serve.inbox.poll"),
            ("inbox.decoders = 0", "serve.inbox.decoders"),
            ("inbox.complete = 'marker'\ninbox.marker = ''", "serve.inbox.marker"),
            ("schedule.cycles = ['25']", "serve.schedule.cycles"),
            ("schedule.cron = 'x'", "serve.schedule.cron"),
            ("schedule.cron = '0 0 * * *'\nschedule.cycles = ['00']", "serve.schedule has both"),
            ("schedule.wait = '1h'", "serve.schedule.wait"),
            ("schedule.bridge = '-1h'", "serve.schedule.bridge"),
            ("retry.attempts = 0", "serve.retry.attempts"),
            ("retry.first = '2d'", "serve.retry.longest"),
            ("keep.cycles = 0", "serve.keep.cycles"),
            ("keep.analyses = '1h'", "serve.keep.analyses"),
            ("devices.names = []", "serve.devices"),
            ("devices.names = ['gpu']", "serve.devices.names"),
            ("devices.at_once = 0", "serve.devices"),
            ("levels.window = 0", "serve.levels.window"),
            ("levels.error_rate = 2", "serve.levels.error_rate"),
            ("levels.latency_p99 = '0s'", "serve.levels.latency_p99"),
            ("drift.threshold = -1", "serve.drift.threshold"),
            ("skill.tolerance = -1", "serve.skill.tolerance"),
            ("alarms.webhook = 'me'", "serve.alarms.webhook"),
            ("canary = { of = 'b', run = 'r' }", "serve.canary.of"),
            ("canary = { of = 'a', run = 'r', share = 0 }", "serve.canary.share"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.to_string().starts_with(name), "{text}: {error}");
        }
        for name in ["", "..", "a/b", ".hidden", "a b"] {
            let model = ServedModelConfig {
                name: name.into(),
                run: "r".into(),
                lead: None,
                start: StartConfig::Cold,
                priority: 0,
            };
            assert!(model.plan(LeadTime::from_hours(1)).is_err(), "{name}");
        }
    }
}
