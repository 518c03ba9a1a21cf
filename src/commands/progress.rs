//! How far a long command is: a bar on a terminal, now and then a line elsewhere; always on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Seconds between two lines where there is no terminal.
const QUIET: Duration = Duration::from_secs(30);

/// Counts pieces of work.
pub struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
    done: usize,
    all: usize,
    started: Instant,
    spoken: Instant,
}

impl Progress {
    pub fn new(all: usize, what: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(all as u64);
            let template = format!("{{bar:40}} {{pos}}/{{len}} {what}, {{per_sec}}, {{eta}} left");
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style);
            }
            bar
        });
        let now = Instant::now();
        Self { bar, what, done: 0, all, started: now, spoken: now }
    }

    /// One piece more is done.
    pub fn advance(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if self.spoken.elapsed() >= QUIET {
            self.spoken = Instant::now();
            let rate = self.done as f64 / self.started.elapsed().as_secs_f64();
            let left = (self.all - self.done.min(self.all)) as f64 / rate;
            eprintln!("{} of {} {}, {rate:.1} a second, {left:.0} s left", self.done, self.all, self.what);
        }
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.started.elapsed().as_secs_f64();
        eprintln!("{} {} in {seconds:.1} s", self.done, self.what);
    }
}
