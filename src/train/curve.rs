//! The course of a training: `metrics.jsonl` and the TensorBoard events beside it.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::io::events::Event;
use crate::io::run_dir::{Journal, RunDir};

/// A line of `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    Train(StepLine),
    Validation(ValidationLine),
}

/// One update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// Updates so far, this one counted.
    pub step: u64,
    pub epoch: usize,
    /// Weighted mean over the leads; `null` when it was not finite.
    pub loss: Option<f64>,
    /// By lead, without the weights of the leads.
    pub lead_loss: Vec<f64>,
    pub learning_rate: f64,
    /// Before clipping.
    pub gradient_norm: Option<f64>,
    /// Probability that a rollout step was fed the truth.
    pub truth_probability: f64,
    /// The update was left out because loss or gradient were not finite.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    pub samples_per_second: f64,
    #[serde(default)]
    pub input: InputLine,
    /// Sent by the first rank to add up gradients [bytes].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wire_bytes: u64,
    /// Seconds since 1970.
    pub time: f64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What the input of an update cost [s]. Threads that load data work beside each other and ahead of the updates, and a
/// GPU copies and prepares beside them: only `wait_s` is time that an update took longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct InputLine {
    /// Read from files since the update before, packed and deflated as they are [bytes].
    pub bytes: u64,
    /// Threads that read, inflate and, without a GPU, decode.
    pub read_s: f64,
    /// Decoding on the GPU, normalising, forcings.
    pub prepare_s: f64,
    /// To the device; on a GPU, like its part of `prepare_s`, that of the update's last batch.
    pub copy_s: f64,
    /// Until there was a batch, and on a GPU until it was prepared.
    pub wait_s: f64,
}

/// One validation, with the averaged weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationLine {
    /// Updates so far.
    pub step: u64,
    /// Epochs so far.
    pub epoch: usize,
    /// As in training, over `validation_leads`.
    pub loss: Option<f64>,
    pub lead_loss: Vec<f64>,
    /// Mean of `rmse` over variables and leads.
    pub score: f64,
    /// Root mean square error by variable and lead, in standard deviations of the training data.
    pub rmse: BTreeMap<String, Vec<f64>>,
    /// Whether the score is the best so far.
    pub best: bool,
    pub samples_per_second: f64,
    /// Seconds since 1970.
    pub time: f64,
}

/// How long the two files were at a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurveLength {
    pub metrics_bytes: u64,
    pub events_bytes: u64,
}

/// Both files, open for appending.
#[derive(Debug)]
pub struct Curve {
    metrics: Journal,
    events: Journal,
}

/// TensorBoard takes any file whose name holds `tfevents`; a resumed run continues the same one.
const EVENTS: &str = "events.out.tfevents.0000000000.wxsim";

impl Curve {
    /// Opens the files and cuts them back to `length`. Gives a sentence for each that is shorter than that.
    pub fn open(run: &RunDir, length: CurveLength) -> Result<(Self, Vec<String>)> {
        let mut remarks = Vec::new();
        let mut open = |name: &str, length| -> Result<Journal> {
            let (journal, missing) = Journal::open(&run.path(name), length)?;
            if missing > 0 {
                remarks.push(format!("{name} has lost its last {missing} bytes; the curve will have a gap"));
            }
            Ok(journal)
        };
        let metrics = open("metrics.jsonl", length.metrics_bytes)?;
        let mut events = open(EVENTS, length.events_bytes)?;
        if length.events_bytes == 0 {
            events.append(&Event::version(now()).frame())?;
        }
        Ok((Self { metrics, events }, remarks))
    }

    pub fn add(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line)
            .map_err(|error| Error::run("cannot write a line of metrics.jsonl").caused_by(error))?;
        text.push(b'\n');
        self.metrics.append(&text)?;
        self.events.append(&event(line).frame())
    }

    /// Brings both files to the disk.
    pub fn sync(&mut self) -> Result<CurveLength> {
        Ok(CurveLength { metrics_bytes: self.metrics.sync()?, events_bytes: self.events.sync()? })
    }
}

fn event(line: &Line) -> Event {
    match line {
        Line::Train(line) => {
            let scalars = [
                ("train/loss", line.loss.unwrap_or(f64::NAN)),
                ("train/gradient_norm", line.gradient_norm.unwrap_or(f64::NAN)),
                ("train/learning_rate", line.learning_rate),
                ("train/samples_per_second", line.samples_per_second),
                ("train/input_wait", line.input.wait_s),
            ];
            Event::scalars(line.time, line.step, &scalars)
        }
        Line::Validation(line) => {
            let mut scalars = vec![
                ("validation/loss".to_owned(), line.loss.unwrap_or(f64::NAN)),
                ("validation/score".to_owned(), line.score),
            ];
            for (variable, rmse) in &line.rmse {
                let leads = rmse.iter().enumerate();
                scalars.extend(leads.map(|(i, x)| (format!("validation/{variable}/lead {}", i + 1), *x)));
            }
            let scalars: Vec<(&str, f64)> = scalars.iter().map(|(tag, x)| (tag.as_str(), *x)).collect();
            Event::scalars(line.time, line.step, &scalars)
        }
    }
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_its_kind_and_reads_back() {
        let line = Line::Train(StepLine {
            step: 3,
            epoch: 0,
            loss: None,
            lead_loss: vec![0.1, 0.25],
            learning_rate: 1e-3,
            gradient_norm: Some(2.0),
            truth_probability: 0.0,
            skipped: true,
            samples_per_second: 10.0,
            input: InputLine { bytes: 7, wait_s: 0.5, ..InputLine::default() },
            wire_bytes: 0,
            time: 1.0,
        });
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.starts_with(r#"{"kind":"train","step":3,"epoch":0,"loss":null"#), "{text}");
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
