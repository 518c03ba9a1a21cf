//! The tables of `[serve]` that say what comes in, and when forecasts start.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{hours, positive, seconds};
use crate::error::{Error, Result};
use crate::serve::{Complete, Duplicates, InboxPlan, Late, LatenessPlan, Timetable};
use crate::time::LeadTime;

/// Where analyses arrive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InboxConfig {
    pub folder: PathBuf,
    /// Of file names.
    pub pattern: String,
    /// What shows that a file is whole: that it has its name (`rename`), that it no longer grows (`stable`), or a second
    /// file beside it (`marker`).
    pub complete: CompleteConfig,
    /// For `stable`: how long neither size nor time have changed.
    pub stable_for: LeadTime,
    /// For `marker`: what stands behind the name of the file.
    pub marker: String,
    /// The longest between two looks into the folder.
    pub poll: LeadTime,
    /// Of a field that comes a second time with other values, the `first` or the `last` counts.
    pub duplicates: DuplicatesConfig,
    /// Removes files from the inbox once they are decoded.
    pub remove: bool,
    /// The longest that decoding one file may take.
    pub time_limit: LeadTime,
    /// Files that are decoded at the same time, each by a process of its own.
    pub decoders: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompleteConfig {
    Rename,
    Stable,
    Marker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DuplicatesConfig {
    First,
    Last,
}

/// When forecasts start: at times of the day, as a cron expression says, or, without both, whenever an analysis arrives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScheduleConfig {
    /// Times of the day (UTC), as ["00", "06", "12", "18"].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Vec<String>>,
    /// Minute, hour, day, month, weekday (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// After its initial time, a cycle that has not begun is late.
    pub cutoff: LeadTime,
    /// After its initial time, a cycle waits no longer for its analysis.
    pub wait: LeadTime,
    /// Then it starts from the `newest` analysis that there is, from the `previous` forecast, or is marked as missing (`skip`).
    pub late: LateConfig,
    /// How long ago that analysis or forecast may have started; and the cycle from which a warm one goes on.
    pub bridge: LeadTime,
    /// Cycles that fell due while the service did not run are made up for if they are not older.
    pub catch_up: LeadTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateConfig {
    Newest,
    Previous,
    Skip,
}

impl Default for InboxConfig {
    fn default() -> Self {
        Self {
            folder: "inbox".into(),
            pattern: "*".into(),
            complete: CompleteConfig::Rename,
            stable_for: seconds(10),
            marker: ".done".into(),
            poll: seconds(10),
            duplicates: DuplicatesConfig::First,
            remove: false,
            time_limit: seconds(600),
            decoders: 4,
        }
    }
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            cycles: None,
            cron: None,
            cutoff: hours(6),
            wait: hours(12),
            late: LateConfig::Skip,
            bridge: hours(24),
            catch_up: hours(24),
        }
    }
}

impl InboxConfig {
    pub(super) fn plan(&self) -> Result<InboxPlan> {
        let pattern = glob::Pattern::new(&self.pattern).map_err(|error| {
            Error::input(format!("serve.inbox.pattern: '{}' is no pattern of file names", self.pattern))
                .caused_by(error)
        })?;
        let stable_for = positive("serve.inbox.stable_for", self.stable_for)?;
        let complete = match self.complete {
            CompleteConfig::Rename => Complete::Rename,
            CompleteConfig::Stable => Complete::Stable(stable_for),
            CompleteConfig::Marker if self.marker.is_empty() => {
                return Err(Error::input("serve.inbox.marker is empty: a file would be its own marker"));
            }
            CompleteConfig::Marker => Complete::Marker(self.marker.clone()),
        };
        if self.decoders == 0 {
            return Err(Error::input("serve.inbox.decoders must be at least 1"));
        }
        Ok(InboxPlan {
            folder: self.folder.clone(),
            pattern,
            complete,
            poll: positive("serve.inbox.poll", self.poll)?,
            duplicates: match self.duplicates {
                DuplicatesConfig::First => Duplicates::First,
                DuplicatesConfig::Last => Duplicates::Last,
            },
            removes: self.remove,
            time_limit: positive("serve.inbox.time_limit", self.time_limit)?,
            decoders: self.decoders,
        })
    }
}

impl ScheduleConfig {
    pub(super) fn timetable(&self) -> Result<Timetable> {
        match (&self.cycles, &self.cron) {
            (None, None) => Ok(Timetable::Arrival),
            (Some(cycles), None) => Timetable::daily(cycles),
            (None, Some(cron)) => Timetable::cron(cron),
            (Some(_), Some(_)) => {
                Err(Error::input("serve.schedule has both cycles and cron").hint("leave one of them out"))
            }
        }
    }

    pub(super) fn lateness(&self) -> Result<LatenessPlan> {
        for (name, time) in [
            ("cutoff", self.cutoff),
            ("wait", self.wait),
            ("bridge", self.bridge),
            ("catch_up", self.catch_up),
        ] {
            if time.seconds < 0 {
                return Err(Error::input(format!(
                    "serve.schedule.{name} must not be negative, as {time} is"
                )));
            }
        }
        if self.wait < self.cutoff {
            return Err(Error::input(format!(
                "serve.schedule.wait ({}) ends before serve.schedule.cutoff ({})",
                self.wait, self.cutoff
            ))
            .hint("a cycle is late after the cut-off, and given up after the wait"));
        }
        let then = match self.late {
            LateConfig::Newest => Late::Newest,
            LateConfig::Previous => Late::Previous,
            LateConfig::Skip => Late::Skip,
        };
        let Self { cutoff, wait, bridge, catch_up, .. } = *self;
        Ok(LatenessPlan { cutoff, wait, then, bridge, catch_up })
    }
}
