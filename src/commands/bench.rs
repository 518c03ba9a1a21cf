//! `wxsim bench`: what this machine does in a second.

mod archive;
mod comm;
mod convolutions;
mod export;
mod network;
mod physics;
mod precision;
mod preprocess;

use std::fs;
use std::time::Instant;

use serde::Serialize;

use crate::commands::devices::{Choice, Opened, PreciseDeviceArgs};
use crate::commands::output;
use crate::device::cpu::{Cpu, Instructions};
use crate::device::{Device, Real};
use crate::error::{Error, Result};

/// Measure this machine: training steps and forecasts, the parts they are made of, or the physics.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    network: network::Args,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Whole training steps and forecasts (the default).
    Network(network::Args),
    /// Convolutions in their three directions.
    Conv(convolutions::Args),
    /// The shallow-water equations on the globe.
    Physics(physics::Args),
    Preprocess(preprocess::Args),
    Comm(comm::Args),
    /// One step of a trained network, beside ONNX Runtime on its exported graph.
    Export(export::Args),
    Precision(precision::Args),
    Io(super::bench_io::Args),
}

/// How to measure.
#[derive(Debug, Clone, clap::Args)]
struct Measure {
    /// Repetitions of each measurement, after two that do not count.
    #[arg(long, default_value_t = 7, value_name = "N")]
    repeats: usize,
    /// Threads; all cores by default.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Use no faster instructions than these.
    #[arg(long, value_enum)]
    instructions: Option<Named>,
    /// Print JSON: one object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Named {
    Portable,
    Avx2,
    Avx512,
}

pub fn run(args: &Args) -> Result<()> {
    match &args.what {
        None => network::run(&args.network),
        Some(What::Network(args)) => network::run(args),
        Some(What::Conv(args)) => convolutions::run(args),
        Some(What::Physics(args)) => physics::run(args),
        Some(What::Preprocess(args)) => preprocess::run(args),
        Some(What::Comm(args)) => comm::run(args),
        Some(What::Export(args)) => export::run(args),
        Some(What::Precision(args)) => precision::run(args),
        Some(What::Io(args)) => super::bench_io::run(args),
    }
}

impl Measure {
    fn device<T: Real>(&self) -> Result<Cpu<T>> {
        let instructions = match self.instructions {
            None => Instructions::best(),
            Some(Named::Portable) => Instructions::Portable,
            Some(Named::Avx2) => Instructions::Avx2,
            Some(Named::Avx512) => Instructions::Avx512,
        };
        Cpu::with_instructions(self.threads, instructions)
    }

    /// The device that was asked for, and its description. Flags about the processor ask for that.
    fn open<T: Real>(&self, args: impl Into<PreciseDeviceArgs>) -> Result<(Box<dyn Device<T>>, Machine)> {
        let args = args.into();
        if args.device == Choice::Cpu || self.threads.is_some() || self.instructions.is_some() {
            let cpu = self.device::<T>()?;
            let machine = Machine::of(&cpu);
            return Ok((Box::new(cpu), machine));
        }
        let Opened { device, threads, instructions, gpu, .. } = Opened::new(args, None)?;
        let machine = Machine { device: device.describe(), threads, instructions, gpu };
        Ok((device, machine))
    }

    fn check(&self) -> Result<()> {
        if self.repeats == 0 {
            return Err(Error::input("nothing is measured in 0 repetitions").hint("use --repeats 7"));
        }
        Ok(())
    }

    /// Times of `work`, without the first two.
    fn times(&self, mut work: impl FnMut() -> Result<()>) -> Result<Times> {
        for _ in 0..2 {
            work()?;
        }
        let mut milliseconds = Vec::with_capacity(self.repeats);
        for _ in 0..self.repeats {
            let start = Instant::now();
            work()?;
            milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
        }
        milliseconds.sort_by(f64::total_cmp);
        let middle = milliseconds.len() / 2;
        Ok(Times {
            median: milliseconds[middle],
            min: milliseconds[0],
            max: milliseconds[milliseconds.len() - 1],
        })
    }
}

/// [ms]
#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    median: f64,
    min: f64,
    max: f64,
}

impl Times {
    /// At the median, of `flops` operations [GFLOP s⁻¹].
    fn rate(&self, flops: f64) -> f64 {
        flops / self.median / 1e6
    }
}

/// What a figure is worth nothing without.
#[derive(Debug, Clone, Serialize)]
struct Machine {
    device: String,
    threads: usize,
    instructions: String,
    #[serde(skip)]
    gpu: bool,
}

impl Machine {
    fn of<T: Real>(cpu: &Cpu<T>) -> Self {
        Self {
            device: Device::<T>::describe(cpu),
            threads: cpu.threads(),
            instructions: cpu.instructions().to_string(),
            gpu: false,
        }
    }
}

/// Most memory that this process has had at once [MiB]; `None` where the system does not say.
fn peak_memory() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
}

/// Prints one row: as JSON, or as the sentence.
fn print(measure: &Measure, row: &impl Serialize, sentence: &str) -> Result<()> {
    if measure.json {
        let json = serde_json::to_string(row)
            .map_err(|error| Error::run("a figure cannot be printed").caused_by(error))?;
        output::print_line(&json)
    } else {
        output::print_line(sentence)
    }
}

/// Numbers between -1 and 1 that look random and are the same every time.
fn numbers(len: usize) -> Vec<f32> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / (1 << 23) as f32 - 1.0)
        .collect()
}
