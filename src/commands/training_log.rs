//! What a user sees of a training under way: a progress bar on a terminal, plain lines elsewhere. All of it on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::device::cuda::{Load, Monitor};
use crate::train::{Outlook, StepLine, ValidationLine, Watcher};

/// Shows a training on stderr.
pub struct TrainingLog {
    /// `None` where nobody looks on.
    bar: Option<ProgressBar>,
    resume_command: String,
    /// Of the GPU, if there is one.
    monitor: Option<Monitor>,
    started: Instant,
    /// When the last plain line was written.
    told: Option<Instant>,
    /// Updates since the start of this process.
    updates: u64,
    /// Smoothed, for people.
    samples_per_second: Option<f64>,
}

/// Time between plain lines.
const PAUSE: Duration = Duration::from_secs(10);

/// Share of a new rate in the smoothed one.
const NEW: f64 = 0.1;

impl TrainingLog {
    /// `resume_command` is what continues the training after an interruption.
    pub fn new(resume_command: String, monitor: Option<Monitor>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0));
        let started = Instant::now();
        Self { bar, resume_command, monitor, started, told: None, updates: 0, samples_per_second: None }
    }

    fn say(&self, sentence: &str) {
        match &self.bar {
            Some(bar) => bar.println(sentence),
            None => eprintln!("{sentence}"),
        }
    }

    /// At the mean pace of this process.
    fn time_left(&self, line: &StepLine, outlook: &Outlook) -> String {
        let pace = self.started.elapsed().as_secs_f64() / self.updates.max(1) as f64;
        duration(pace * outlook.updates.saturating_sub(line.step) as f64)
    }
}

/// A rank besides the first, which shows the course for all: only what it alone knows is said.
pub struct OtherRank {
    rank: usize,
    resume_command: String,
}

impl OtherRank {
    pub fn new(rank: usize, resume_command: String) -> Self {
        Self { rank, resume_command }
    }
}

impl Watcher for OtherRank {
    fn begins(&mut self, _: &Outlook) {}

    fn stepped(&mut self, _: &StepLine, _: &Outlook) {}

    fn validated(&mut self, _: &ValidationLine) {}

    fn remark(&mut self, sentence: &str) {
        eprintln!("rank {}: {sentence}", self.rank);
    }

    fn how_to_resume(&self) -> String {
        self.resume_command.clone()
    }
}

impl Watcher for TrainingLog {
    fn begins(&mut self, outlook: &Outlook) {
        let each = if outlook.ranks == 1 { "" } else { " on each rank" };
        self.say(&format!(
            "network: {} parameters; {:.0} MiB for training{each}",
            outlook.parameters,
            outlook.memory as f64 / f64::from(1 << 20)
        ));
        for stage in &outlook.stages {
            self.say(&format!(
                "stage: {} epochs of {} updates, rollout of {} steps",
                stage.stage.epochs, stage.steps_per_epoch, stage.stage.leads
            ));
        }
        self.say(&format!(
            "{} updates in all; each validation forecasts {} windows",
            outlook.updates, outlook.validation_windows
        ));
        if let Some(bar) = &self.bar {
            bar.set_length(outlook.updates);
            bar.set_position(outlook.done);
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        self.started = Instant::now();
    }

    fn stepped(&mut self, line: &StepLine, outlook: &Outlook) {
        self.updates += 1;
        let smoothed = self.samples_per_second.unwrap_or(line.samples_per_second);
        let rate = smoothed + NEW * (line.samples_per_second - smoothed);
        self.samples_per_second = Some(rate);
        let loss = line.loss.map_or("not finite".into(), |loss| format!("{loss:.4}"));
        let left = self.time_left(line, outlook);
        let epoch = line.epoch + 1;
        let load = self.monitor.as_ref().and_then(Monitor::latest).map(busy).unwrap_or_default();
        match &self.bar {
            Some(bar) => {
                bar.set_position(line.step);
                bar.set_message(format!(
                    "epoch {epoch}  loss {loss}  {rate:.0} samples/s{load}  {left} left"
                ));
            }
            None if self.told.is_none_or(|told| told.elapsed() >= PAUSE) => {
                self.told = Some(Instant::now());
                eprintln!(
                    "epoch {epoch}  update {}/{}  loss {loss}  {rate:.0} samples/s{load}  {left} left",
                    line.step, outlook.updates
                );
            }
            None => {}
        }
    }

    fn validated(&mut self, line: &ValidationLine) {
        let errors: Vec<String> = line
            .rmse
            .iter()
            .map(|(variable, leads)| {
                let leads: Vec<String> = leads.iter().map(|x| format!("{x:.3}")).collect();
                format!("{variable} {}", leads.join(" "))
            })
            .collect();
        self.say(&format!(
            "validation after epoch {}: score {:.4}{}  [{}]",
            line.epoch,
            line.score,
            if line.best { " (best)" } else { "" },
            errors.join(", ")
        ));
    }

    fn remark(&mut self, sentence: &str) {
        self.say(sentence);
    }

    fn how_to_resume(&self) -> String {
        format!("continue with: {}", self.resume_command)
    }
}

impl Drop for TrainingLog {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.abandon();
        }
    }
}

/// `  GPU 98 %, 3.1 of 139.7 GiB`
fn busy(load: Load) -> String {
    let gibibytes = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let (used, total) = (gibibytes(load.used), gibibytes(load.total));
    let utilization = load.utilization.map(|share| format!(" {share} %,")).unwrap_or_default();
    format!("  GPU{utilization} {used:.1} of {total:.1} GiB")
}

/// `45 s`, `12 min`, `3 h 5 min`
fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0..=1 => format!("{seconds:.0} s"),
        2..=119 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_says_how_busy_it_is() {
        let load = Load { utilization: Some(98), used: 3 << 30, total: 140 << 30, power: None, energy: None };
        assert_eq!(busy(load), "  GPU 98 %, 3.0 of 140.0 GiB");
    }

    #[test]
    fn durations_are_said_as_people_say_them() {
        assert_eq!(duration(45.2), "45 s");
        assert_eq!(duration(720.0), "12 min");
        assert_eq!(duration(11_100.0), "3 h 5 min");
    }
}
