//! What happens, told to whoever listens: the log, the metrics, the alarms.

use super::ledger::{Cycle, Ledger};
use crate::error::Result;
use crate::time::{InitTime, ValidTime};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Fields of an analysis came, and were decoded in so many seconds after their file was whole.
    Accepted {
        model: String,
        valid: ValidTime,
        fields: usize,
        source: String,
        seconds: f64,
    },
    Rejected {
        source: String,
        reason: String,
    },
    /// Whatever a file holds had come before.
    Duplicate {
        source: String,
        reason: String,
    },
    Began {
        model: String,
        init: InitTime,
        device: String,
        start: String,
    },
    Published(Box<Cycle>),
    /// An attempt failed; the next comes after so many seconds, or not at all.
    Failed {
        model: String,
        init: InitTime,
        reason: String,
        again: Option<f64>,
    },
    Missing {
        model: String,
        init: InitTime,
        reason: String,
    },
    /// A forecast was removed, because there are newer ones or because the disk is full.
    Removed {
        file: String,
        full: bool,
    },
    /// A canary is promoted or rejected, and why.
    Judged {
        model: String,
        /// Under which its forecasts were published.
        shadow: String,
        canary: String,
        promoted: bool,
        reason: String,
    },
    /// Something small did not work, and nothing waits for it.
    Note(String),
    /// The service itself cannot do something at the moment.
    Trouble(String),
    /// It can again.
    Recovered,
}

/// Of one line of a log, as systemd's journal numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}

impl Event {
    pub fn level(&self) -> Level {
        match self {
            Self::Note(_)
            | Self::Rejected { .. }
            | Self::Missing { .. }
            | Self::Failed { again: Some(_), .. } => Level::Warning,
            Self::Removed { full: true, .. } | Self::Judged { .. } => Level::Warning,
            Self::Failed { .. } | Self::Trouble(_) => Level::Error,
            _ => Level::Info,
        }
    }

    /// One line.
    pub fn describe(&self) -> String {
        match self {
            Self::Accepted { model, valid, fields, source, seconds } => {
                format!("{model}: {fields} fields of {valid} from {source} after {seconds:.1} s")
            }
            Self::Rejected { source, reason } => format!("{source} is rejected: {reason}"),
            Self::Duplicate { source, reason } => format!("{source} brings nothing new: {reason}"),
            Self::Began { model, init, device, start } => {
                format!("{model}: {init} begins on {device} ({start})")
            }
            Self::Published(cycle) => {
                let since_input = match (cycle.input, cycle.published) {
                    (Some(input), Some(published)) if published >= input => {
                        format!(", {:.1} s after its analysis", (published - input) as f64 / 1000.0)
                    }
                    _ => String::new(),
                };
                let seconds = cycle.seconds.unwrap_or_default();
                let late = if cycle.late { ", late" } else { "" };
                let file = cycle.file.as_deref().unwrap_or_default();
                format!(
                    "{}: {} is published as {file} in {seconds:.2} s{since_input}{late}",
                    cycle.model, cycle.init
                )
            }
            Self::Failed { model, init, reason, again: Some(seconds) } => {
                format!("{model}: {init} failed and is tried again in {seconds:.0} s: {reason}")
            }
            Self::Failed { model, init, reason, again: None } => {
                format!("{model}: {init} is given up: {reason}")
            }
            Self::Missing { model, init, reason } => format!("{model}: {init} is missing: {reason}"),
            Self::Removed { file, full: false } => format!("{file} is removed: there are newer ones"),
            Self::Removed { file, full: true } => format!("{file} is removed: the disk is full"),
            Self::Judged { model, canary, promoted: true, reason, .. } => {
                format!("{model} is served by {canary} from now on: {reason}")
            }
            Self::Judged { model, canary, promoted: false, reason, .. } => {
                format!("{canary} does not take the place of {model}: {reason}")
            }
            Self::Note(text) | Self::Trouble(text) => text.clone(),
            Self::Recovered => "all is well again".into(),
        }
    }
}

/// Where the service stands.
pub struct Standing<'a> {
    pub ledger: &'a Ledger,
    /// Cycles that could begin if there were a device free.
    pub queued: usize,
    /// Devices, each with the cycles that it computes.
    pub devices: &'a [(String, usize)],
    /// Files being decoded.
    pub decoding: usize,
}

/// Somebody who listens. A listener that fails is told of, and does not stop the service.
pub trait Listener {
    fn hear(&mut self, event: &Event, ledger: &Ledger) -> Result<()>;

    /// Called every so often.
    fn look(&mut self, _standing: &Standing<'_>) -> Result<()> {
        Ok(())
    }
}
