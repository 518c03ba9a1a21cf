//! `wxsim bench export`: one step of a trained network, by wxsim itself and by ONNX Runtime from its graph.

use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;

use super::{Machine, Measure, numbers, print};
use crate::commands::devices::PreciseDeviceArgs;
use crate::commands::run_folder;
use crate::device::{ArenaPlan, Device};
use crate::error::Result;
use crate::export::onnx::{self, Extent, Form, names};
use crate::export::{Fed, Int8, OnnxRuntime, Precision, Trained};
use crate::model::{Arithmetic, Batch, Network, Purpose};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run folder that wxsim train made, or one of its checkpoints
    #[arg(value_name = "RUN")]
    model: PathBuf,
    /// Forecasts at once
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    batch: Vec<usize>,
    #[command(flatten)]
    device: PreciseDeviceArgs,
    #[command(flatten)]
    measure: Measure,
}

/// One step of `batch` forecasts, whose fields come back to the host.
#[derive(Serialize)]
struct Row<'a> {
    provider: &'a str,
    batch: usize,
    /// [ms], of all repetitions.
    p50: f64,
    p95: f64,
    p99: f64,
    /// At the median.
    steps_per_second: f64,
    machine: &'a Machine,
}

pub fn run(args: &Args) -> Result<()> {
    args.measure.check()?;
    let trained = Trained::open(&args.model)?;
    let runtime = OnnxRuntime::open();
    if let Err(error) = &runtime {
        eprintln!("note: wxsim alone: {error}; {}", error.advice().unwrap_or_default());
    }
    let (device, in_int8) = args.device.for_network();
    let (mut device, machine) = args.measure.open::<f32>(device)?;
    let int8 = match in_int8 {
        true => Some(Int8::read(&run_folder::int8_file(&run_folder::folder(&args.model)?), &trained)?),
        false => None,
    };
    let precision = if in_int8 { Precision::Int8 } else { Precision::Fp32 };
    let ranges = int8.as_ref().map(|int8| &int8.ranges);
    let graph = onnx::encode(&trained, precision, Extent::Step, Form::Native, ranges)?;
    for &batch in &args.batch {
        let arithmetic = match &int8 {
            Some(int8) => Arithmetic::Int8(int8.weights(&trained.architecture)?),
            None => Arithmetic::Plain,
        };
        let times = sorted(&args.measure, own(&trained, &mut *device, batch, arithmetic)?)?;
        args.tell("wxsim", batch, &times, &machine)?;
        // Beside a GPU, the processor of ONNX Runtime is no comparison.
        if let (Ok(runtime), false) = (&runtime, machine.gpu) {
            let work = foreign(&trained, runtime, &graph, machine.threads, batch)?;
            let times = sorted(&args.measure, work)?;
            args.tell("onnxruntime", batch, &times, &machine)?;
        }
    }
    Ok(())
}

/// Times of `work` [ms], ascending; the first two do not count.
pub(super) fn sorted(measure: &Measure, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    for _ in 0..2 {
        work()?;
    }
    let mut times = Vec::with_capacity(measure.repeats);
    for _ in 0..measure.repeats {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

impl Args {
    fn tell(&self, provider: &str, batch: usize, times: &[f64], machine: &Machine) -> Result<()> {
        // The least that so large a share does not exceed.
        let share =
            |share: f64| times[((share * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1];
        let (p50, p95, p99) = (share(0.5), share(0.95), share(0.99));
        let steps_per_second = batch as f64 / p50 * 1e3;
        let row = Row { provider, batch, p50, p95, p99, steps_per_second, machine };
        let sentence = format!(
            "{provider:12} batch {batch:3}   p50 {p50:9.3} ms   p95 {p95:9.3}   p99 {p99:9.3}   {steps_per_second:9.1} steps/s   {}",
            machine.device
        );
        print(&self.measure, &row, &sentence)
    }
}

pub(super) fn own<'a>(
    trained: &Trained,
    device: &'a mut dyn Device<f32>,
    batch: usize,
    arithmetic: Arithmetic,
) -> Result<impl FnMut() -> Result<()> + use<'a>> {
    let mut arena = ArenaPlan::default();
    let network = Network::<f32>::plan_in(
        &mut arena,
        &trained.architecture,
        &trained.geometry,
        Batch { samples: batch, lead_steps: 1 },
        Purpose::Forecast,
        arithmetic,
    )?;
    device.allocate(&arena)?;
    trained.load(&network, device)?;
    let slots = *network.slots();
    device.upload(slots.frames, &numbers(slots.frames.len()));
    network.warm_up(device);
    let mut fields = vec![0.0; slots.predictions.len()];
    Ok(move || {
        network.step(device);
        device.download(slots.predictions, &mut fields);
        device.finish()
    })
}

pub(super) fn foreign(
    trained: &Trained,
    runtime: &OnnxRuntime,
    graph: &[u8],
    threads: usize,
    batch: usize,
) -> Result<impl FnMut() -> Result<()> + use<>> {
    let mut loaded = runtime.load(graph, threads)?;
    let (rows, columns, channels) = trained.info.layout.shape();
    let (inner_rows, inner_columns) = trained.geometry.inner(trained.architecture.patch);
    let mut inputs: Vec<(String, Vec<usize>)> = vec![(names::X.into(), vec![batch, rows, columns, channels])];
    if trained.architecture.forcings > 0 {
        let shape = vec![batch, rows, columns, trained.architecture.forcings];
        inputs.push((names::FORCINGS.into(), shape));
    }
    if trained.normalizer.has_climatology() {
        let shape = vec![batch, rows, columns, channels];
        inputs.extend([names::CLIMATOLOGY, names::CLIMATOLOGY_NEXT].map(|name| (name.into(), shape.clone())));
    }
    for (number, name) in names::memories(trained.architecture.hidden.len()).into_iter().enumerate() {
        inputs.push((name, vec![batch, trained.architecture.hidden[number / 2], inner_rows, inner_columns]));
    }
    let values: Vec<Vec<f32>> = inputs.iter().map(|(_, shape)| numbers(shape.iter().product())).collect();
    let wanted = [names::Y.to_string()];
    Ok(move || {
        let fed: Vec<Fed<'_>> = inputs
            .iter()
            .zip(&values)
            .map(|((name, shape), values)| (name.as_str(), shape.clone(), &values[..]))
            .collect();
        loaded.run(&fed, &wanted).map(|_| ())
    })
}
