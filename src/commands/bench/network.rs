//! `wxsim bench [network]`: whole training steps and forecasts of some usual networks.

use serde::Serialize;

use super::{Machine, Measure, Times, numbers, peak_memory, print};
use crate::commands::devices::PreciseDeviceArgs;
use crate::device::{AdamW, ArenaPlan, Device, Edge, Loss, Sequence};
use crate::error::{Error, Result};
use crate::model::{Architecture, GATES, Geometry, Network, Purpose};
use crate::plan::{Card, Meter};

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Only these: europe, europe7, wb5.6-small, wb5.6-patch2; on a GPU wb5.6-patch2, wb5.6, grid1.5, grid0.25
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    config: Vec<String>,
    #[command(flatten)]
    device: PreciseDeviceArgs,
    #[command(flatten)]
    measure: Measure,
}

/// A network by its inner shapes: patches are already folded into channels.
#[derive(Debug, Clone, Copy)]
struct Config {
    name: &'static str,
    channels: usize,
    hidden: usize,
    layers: usize,
    kernel: usize,
    batch: usize,
    rows: usize,
    columns: usize,
    periodic: bool,
    /// Analyses that a forecast starts from, and predictions.
    frames: usize,
    leads: usize,
}

impl Config {
    const fn new(name: &'static str, [channels, hidden, layers, kernel]: [usize; 4], on: Shape) -> Self {
        let Shape { batch, rows, columns, periodic, frames, leads } = on;
        Self { name, channels, hidden, layers, kernel, batch, rows, columns, periodic, frames, leads }
    }
}

/// What a network runs on.
#[derive(Debug, Clone, Copy)]
struct Shape {
    batch: usize,
    rows: usize,
    columns: usize,
    periodic: bool,
    frames: usize,
    leads: usize,
}

const fn region(batch: usize, frames: usize, leads: usize) -> Shape {
    Shape { batch, rows: 21, columns: 24, periodic: false, frames, leads }
}

const fn globe(batch: usize, rows: usize, frames: usize, leads: usize) -> Shape {
    Shape { batch, rows, columns: 2 * rows, periodic: true, frames, leads }
}

/// For a processor. Europe: 21 x 24 points of a region; wb5.6: the whole earth at 5.6 degrees, and in patches of 2 x 2.
const ON_A_PROCESSOR: [Config; 4] = [
    Config::new("europe", [3, 32, 2, 3], region(16, 4, 3)),
    Config::new("europe7", [3, 32, 3, 7], region(16, 2, 2)),
    Config::new("wb5.6-small", [4, 64, 2, 3], globe(4, 32, 4, 4)),
    Config::new("wb5.6-patch2", [4, 128, 4, 5], globe(1, 16, 4, 4)),
];

/// For a GPU: longer and larger, and the whole earth at 1.5 and at 0.25 degrees.
const ON_A_GPU: [Config; 4] = [
    Config::new("wb5.6-patch2", [4, 128, 4, 5], globe(16, 16, 12, 12)),
    Config::new("wb5.6", [4, 64, 3, 3], globe(16, 32, 6, 6)),
    Config::new("grid1.5", [20, 96, 3, 3], globe(4, 120, 4, 4)),
    Config::new("grid0.25", [20, 64, 2, 3], globe(1, 720, 2, 2)),
];

#[derive(Serialize)]
struct Row<'a> {
    config: &'a str,
    batch: usize,
    train_milliseconds: Times,
    train_gflops: f64,
    /// A forecast of one sample: all analyses and predictions.
    rollout_milliseconds: Times,
    rollout_gflops: f64,
    /// What `wxsim plan` would expect of the training step, of a card whose rates it knows.
    planned_milliseconds: Option<f64>,
    /// Of this process so far.
    peak_mib: Option<f64>,
    /// What training takes on the device.
    arena_mib: f64,
    #[serde(flatten)]
    machine: &'a Machine,
}

pub fn run(args: &Args) -> Result<()> {
    let measure = &args.measure;
    measure.check()?;
    let (mut opened, machine) = measure.open::<f32>(args.device)?;
    let known = if machine.gpu { ON_A_GPU } else { ON_A_PROCESSOR };
    for name in &args.config {
        if !known.iter().any(|config| config.name == name) {
            let known = known.map(|config| config.name).join(", ");
            return Err(Error::input(format!("no bench on {} is called '{name}'", machine.device))
                .hint(format!("one of {known}")));
        }
    }
    let device = &mut *opened;
    for config in known.iter().filter(|c| args.config.is_empty() || args.config.iter().any(|n| n == c.name)) {
        let training = Training::plan(config, device)?;
        let train = measure.times(|| training.step(device))?;
        let forecast = Forecast::plan(config, device)?;
        let rollout = measure.times(|| forecast.run(device))?;
        let flops = config.flops();
        let known = machine.device.contains("H200");
        let planned =
            if known { Some(config.planned(Card::h200(args.device.precision.into()))?) } else { None };
        let row = Row {
            config: config.name,
            batch: config.batch,
            train_milliseconds: train,
            train_gflops: train.rate(3.0 * flops * config.batch as f64),
            rollout_milliseconds: rollout,
            rollout_gflops: rollout.rate(flops),
            planned_milliseconds: planned,
            peak_mib: peak_memory(),
            arena_mib: training.bytes as f64 / 1024.0 / 1024.0,
            machine: &machine,
        };
        let planned = planned.map(|step| format!(" (planned {step:.2} ms)")).unwrap_or_default();
        let sentence = format!(
            "{:13} training step of {:2} {:8.2} ms ({:.2} to {:.2}) {:4.0} GFLOP/s{planned}   forecast of one {:8.2} ms ({:.2} to \
             {:.2}) {:4.0} GFLOP/s   peak {:.0} MiB, arena {:.0} MiB, {}",
            config.name,
            config.batch,
            train.median,
            train.min,
            train.max,
            row.train_gflops,
            rollout.median,
            rollout.min,
            rollout.max,
            row.rollout_gflops,
            row.peak_mib.unwrap_or(f64::NAN),
            row.arena_mib,
            machine.device,
        );
        print(measure, &row, &sentence)?;
    }
    Ok(())
}

impl Config {
    /// Operations of the convolutions of one sample's forecast, written out as the equations have them; a training
    /// step counts three times as many a sample.
    fn flops(&self) -> f64 {
        let points = (self.rows * self.columns) as f64;
        let taps = (self.kernel * self.kernel) as f64;
        let gates = (GATES * self.hidden) as f64;
        let inputs: usize =
            (0..self.layers).map(|l| if l == 0 { self.channels } else { self.hidden } + self.hidden).sum();
        let head = (self.hidden * self.channels) as f64;
        2.0 * points * (taps * gates * inputs as f64 + head) * (self.frames + self.leads - 1) as f64
    }

    /// What a training step would take on a card [ms].
    fn planned(&self, card: Card) -> Result<f64> {
        let mut meter = Meter::new(card);
        let clock = meter.clock();
        let training = Training::plan(self, &mut meter)?;
        let start = clock.seconds();
        training.step(&mut meter)?;
        Ok(1e3 * (clock.seconds() - start))
    }

    fn network(&self, arena: &mut ArenaPlan, batch: usize, purpose: Purpose) -> Result<Network<f32>> {
        let architecture = Architecture {
            prognostic: self.channels,
            statics: 0,
            forcings: 0,
            hidden: vec![self.hidden; self.layers],
            kernel: self.kernel,
            patch: 1,
            layer_norm: false,
            peepholes: false,
            residual: false,
            input_frames: self.frames,
            dropout: 0.0,
        };
        let pole = Edge::Pole { row_on_pole: false };
        let geometry = Geometry {
            rows: self.rows,
            columns: self.columns,
            periodic: self.periodic,
            north_south: [if self.periodic { pole } else { Edge::Replicate }; 2],
            odd: vec![false; self.channels],
        };
        Network::plan(arena, &architecture, &geometry, batch, self.leads, purpose)
    }
}

/// A network, its loss and its optimiser.
struct Training {
    network: Network<f32>,
    bytes: usize,
    leads: usize,
    loss: Loss,
    optimiser: AdamW,
}

impl Training {
    fn plan(config: &Config, device: &mut dyn Device<f32>) -> Result<Self> {
        let mut arena = ArenaPlan::default();
        let network = config.network(&mut arena, config.batch, Purpose::Train)?;
        let slots = network.slots();
        let state = config.batch * config.rows * config.columns * config.channels;
        let mut ones = |len| (arena.slot(len), vec![1.0; len]);
        let weights = [ones(config.rows), ones(config.channels), ones(config.leads)];
        let loss = Loss {
            leads: config.leads,
            images: config.batch,
            rows: config.rows,
            columns: config.columns,
            channels: config.channels,
            huber: None,
            scale: 1.0 / (config.leads * state) as f64,
            prediction: slots.predictions,
            truth: slots.frames.part(config.frames * state, config.leads * state),
            row_weights: weights[0].0,
            channel_weights: weights[1].0,
            lead_weights: weights[2].0,
            mask: None,
            values: arena.slot(config.leads),
            gradient: Some(slots.prediction_gradients),
        };
        let [first, second] = [(); 2].map(|()| arena.slot(network.weights().len()));
        let settings = arena.slot(4);
        let optimiser = AdamW {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            decay: 0.01,
            parameter: network.weights(),
            gradient: network.gradients(),
            first,
            second,
            settings,
        };
        device.allocate(&arena)?;
        network.prepare(device);
        network.initialise(device, 1);
        for (slot, ones) in weights {
            device.upload(slot, &ones);
        }
        device.upload(settings, &[1e-3, 1.0, 10.0, 1000.0]);
        device.upload(slots.frames, &numbers(slots.frames.len()));
        Ok(Self { network, bytes: device.bytes(&arena), leads: config.leads, loss, optimiser })
    }

    fn step(&self, device: &mut dyn Device<f32>) -> Result<()> {
        let sequence = Sequence { name: "training step", of: self.loss.values, number: 0 };
        device.repeat(sequence, &mut |device| {
            device.zero(self.network.gradients());
            self.network.forward(device, self.leads);
            device.loss(&self.loss);
            self.network.backward(device, self.leads);
            device.adamw(&self.optimiser);
        });
        device.finish()
    }
}

/// A network that forecasts one sample.
struct Forecast {
    network: Network<f32>,
    leads: usize,
}

impl Forecast {
    fn plan(config: &Config, device: &mut dyn Device<f32>) -> Result<Self> {
        let mut arena = ArenaPlan::default();
        let network = config.network(&mut arena, 1, Purpose::Forecast)?;
        device.allocate(&arena)?;
        network.prepare(device);
        network.initialise(device, 1);
        let slots = network.slots();
        device.upload(slots.frames, &numbers(slots.frames.len()));
        Ok(Self { network, leads: config.leads })
    }

    /// The predictions stay on the device.
    fn run(&self, device: &mut dyn Device<f32>) -> Result<()> {
        self.network.warm_up(device);
        for _ in 0..self.leads {
            self.network.step(device);
        }
        device.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cuda::Compute;

    /// Medians of one sitting on an H200, 2026-12-01, bfloat16 [ms].
    const MEASURED: [(&str, f64); 4] =
        [("wb5.6-patch2", 26.6), ("wb5.6", 5.70), ("grid1.5", 20.2), ("grid0.25", 22.4)];

    /// Memory of the same trainings without the driver's context, as nvidia-smi told it [GiB].
    const MEMORY: [f64; 4] = [1.73, 1.13, 3.90, 8.05];

    #[test]
    fn memory_is_planned_to_5_percent_of_what_was_measured() {
        for (config, measured) in ON_A_GPU.iter().zip(MEMORY) {
            let card = Card::h200(Compute::Bf16);
            let training = Training::plan(config, &mut Meter::new(card)).unwrap();
            let planned = (training.bytes as f64 + card.working) / f64::from(1 << 30);
            println!("{}: planned {planned:.3} GiB, took {measured}", config.name);
            assert!(
                (planned / measured - 1.0).abs() < 0.05,
                "{}: {planned} GiB, took {measured}",
                config.name
            );
        }
    }

    #[test]
    fn training_steps_are_planned_to_15_percent_of_what_was_measured() {
        for (config, (name, measured)) in ON_A_GPU.iter().zip(MEASURED) {
            assert_eq!(config.name, name);
            let planned = config.planned(Card::h200(Compute::Bf16)).unwrap();
            assert!(
                (planned / measured - 1.0).abs() < 0.15,
                "{name}: planned {planned:.2} ms, took {measured}"
            );
        }
    }
}
