//! The tables of `[serve]` that say how closely a service is watched, and who is told.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize, Serializer};

use super::{ServeConfig, positive};
use crate::error::{Error, Result};
use crate::serve::{DriftPlan, LevelsPlan, SkillPlan, WatchPlan};
use crate::time::LeadTime;

/// The status page, and what a monitor asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpConfig {
    pub enabled: bool,
    /// Whoever can reach it sees what is served: other machines cannot reach a loopback address.
    pub address: SocketAddr,
}

/// What the last cycles of a model have to keep: a breach is an alarm. What is left out is not watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LevelsConfig {
    /// From the last file that a cycle needed to its publication, in 99 of 100 cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_p99: Option<LeadTime>,
    /// Failed, of the cycles that are over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
    /// Cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<usize>,
    /// How many cycles are looked at.
    pub window: usize,
}

/// Whether analyses look like the training data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DriftConfig {
    /// The Jensen-Shannon divergence, of a variable in the last analyses together, from which on there is an alarm.
    pub threshold: f64,
    /// How many analyses these are.
    pub window: usize,
}

/// Whether forecasts are as good as they were at training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SkillConfig {
    /// By how much the error may exceed that of the validation: 0.2 is a fifth.
    pub tolerance: f64,
    /// Over so many forecasts at least.
    pub least: usize,
    /// And at most.
    pub window: usize,
}

/// Who is told of alarms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlarmsConfig {
    /// A web address that each alarm is posted to, as JSON, when it is raised and when it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
}

/// A web address that nobody gets to see: whoever knows it can post there.
#[derive(Clone, PartialEq, Deserialize)]
pub struct Webhook(String);

/// What is shown in its place.
const HIDDEN: &str = "hidden";

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Webhook {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

impl Webhook {
    fn plan(&self) -> Result<String> {
        let wrong = || {
            Error::input("serve.alarms.webhook is no web address")
                .hint("write https://...; wxsim config prints it as 'hidden'")
        };
        let address: ureq::http::Uri = self.0.parse().map_err(|_| wrong())?;
        match address.scheme_str() {
            Some("http" | "https") if address.host().is_some() => Ok(self.0.clone()),
            _ => Err(wrong()),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { enabled: true, address: SocketAddr::from(([127, 0, 0, 1], 8642)) }
    }
}

impl Default for LevelsConfig {
    fn default() -> Self {
        Self { latency_p99: None, error_rate: None, missing: None, window: 100 }
    }
}

impl Default for DriftConfig {
    fn default() -> Self {
        Self { threshold: 0.15, window: 30 }
    }
}

impl Default for SkillConfig {
    fn default() -> Self {
        Self { tolerance: 0.2, least: 10, window: 60 }
    }
}

impl ServeConfig {
    pub(super) fn watch(&self) -> Result<WatchPlan> {
        let Self { http, levels, drift, skill, alarms, .. } = self;
        let between = |name: &str, value: f64| match value {
            value if (0.0..=1.0).contains(&value) => Ok(value),
            value => Err(Error::input(format!("{name} must lie between 0 and 1, not {value}"))),
        };
        for (name, count) in [
            ("serve.levels.window", levels.window),
            ("serve.drift.window", drift.window),
            ("serve.skill.least", skill.least),
            ("serve.skill.window", skill.window),
        ] {
            if count == 0 {
                return Err(Error::input(format!("{name} must be at least 1")));
            }
        }
        if !(skill.tolerance >= 0.0) {
            return Err(Error::input(format!(
                "serve.skill.tolerance must not be negative, as {} is",
                skill.tolerance
            )));
        }
        let latency = levels.latency_p99.map(|time| positive("serve.levels.latency_p99", time));
        let error_rate = levels.error_rate.map(|rate| between("serve.levels.error_rate", rate));
        Ok(WatchPlan {
            address: http.enabled.then_some(http.address),
            webhook: alarms.webhook.as_ref().map(Webhook::plan).transpose()?,
            levels: LevelsPlan {
                latency_p99: latency.transpose()?,
                error_rate: error_rate.transpose()?,
                missing: levels.missing,
                window: levels.window,
            },
            drift: DriftPlan {
                threshold: between("serve.drift.threshold", drift.threshold)?,
                window: drift.window,
            },
            skill: SkillPlan { tolerance: skill.tolerance, least: skill.least, window: skill.window },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_webhook_is_read_and_not_shown() {
        let address = "https://hooks.example.org/s3cret";
        let config: AlarmsConfig = toml::from_str(&format!("webhook = '{address}'")).unwrap();
        assert_eq!(config.webhook.as_ref().unwrap().plan().unwrap(), address);
        for shown in [toml::to_string(&config).unwrap(), format!("{config:?}")] {
            assert!(shown.contains(HIDDEN) && !shown.contains("s3cret"), "{shown}");
        }
        for text in [HIDDEN, "ftp://a.b", "https://", "http://a b/", ""] {
            assert!(Webhook(text.into()).plan().is_err(), "{text}");
        }
    }
}
