//! `wxsim bench physics`: the shallow-water equations on the globe in float32, by both schemes.

use std::time::Instant;

use serde::Serialize;

use super::{Machine, Measure, Times, print};
use crate::commands::devices::{Choice, DeviceArgs};
use crate::device::{ArenaPlan, Device};
use crate::error::Result;
use crate::shallow_water::{Case, RUNGE_KUTTA_LIMIT, ShallowWater, dividing_step};

#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Rows of the grids; twice as many columns.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [32, 64, 128, 256, 720])]
    rows: Vec<usize>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Serialize)]
struct Row<'a> {
    scheme: &'static str,
    rows: usize,
    columns: usize,
    /// [s]
    dt: f64,
    step_milliseconds: Times,
    /// Simulated years per day of this machine.
    years_per_day: f64,
    /// Millions per second; of the processor, and thread.
    cell_stages: f64,
    /// What an explicit step must move, [GB s⁻¹].
    traffic: Option<f64>,
    /// Of a copy of an array larger than the caches, read and written [GB s⁻¹].
    copy: f64,
    #[serde(flatten)]
    machine: &'a Machine,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scheme {
    RungeKutta,
    SemiImplicit,
}

/// Numbers that a Runge-Kutta step reads and writes for each cell if nothing is kept in a cache from stage to stage:
/// three fields, each of state, base and sum read, next and sum written; 9, 15, 15 and 12 of them.
const NUMBERS: f64 = 51.0;

pub fn run(args: &Args) -> Result<()> {
    let measure = &args.measure;
    measure.check()?;
    let (mut device, machine) = measure.open::<f32>(args.device.device)?;
    let copy = if machine.gpu { copy_rate_of(&mut *device)? } else { copy_rate(machine.threads) };
    drop(device);
    for &rows in &args.rows {
        for scheme in [Scheme::RungeKutta, Scheme::SemiImplicit] {
            of_grid(measure, args.device.device, rows, scheme, copy)?;
        }
    }
    Ok(())
}

fn of_grid(measure: &Measure, choice: Choice, rows: usize, scheme: Scheme, copy: f64) -> Result<()> {
    let Case { layer, fields } = Case::rossby_haurwitz(rows, 2 * rows)?;
    let deepest = fields.h.iter().copied().fold(0.0, f64::max);
    let (device, machine) = measure.open::<f32>(choice)?;
    let (threads, of_what) = if machine.gpu { (1, "") } else { (machine.threads, " and core") };
    let (name, evaluations, dt) = match scheme {
        Scheme::RungeKutta => ("Runge-Kutta", 4.0, layer.longest_step(RUNGE_KUTTA_LIMIT, deepest)),
        Scheme::SemiImplicit => ("semi-implicit", 1.0, layer.semi_implicit_step()),
    };
    let dt = dividing_step(dt, 3600.0);
    let mut model = match scheme {
        Scheme::RungeKutta => ShallowWater::new(layer, dt, device)?,
        Scheme::SemiImplicit => ShallowWater::semi_implicit(layer, dt, device)?,
    };
    model.start(&fields)?;
    // A look at the state every so many steps is part of the work.
    let steps = ShallowWater::<f32>::LOOK_EVERY as usize;
    let times = measure.times(|| model.advance(steps))?;
    let each = |milliseconds: f64| milliseconds / steps as f64;
    let times = Times { median: each(times.median), min: each(times.min), max: each(times.max) };
    let (seconds, cells) = (times.median / 1e3, (2 * rows * rows) as f64);
    let traffic = (scheme == Scheme::RungeKutta).then(|| cells * NUMBERS * 4.0 / seconds / 1e9);
    let row = Row {
        scheme: name,
        rows,
        columns: 2 * rows,
        dt,
        step_milliseconds: times,
        years_per_day: dt / seconds / 365.25,
        cell_stages: cells * evaluations / seconds / 1e6 / threads as f64,
        traffic,
        copy,
        machine: &machine,
    };
    let share = traffic.map_or(String::new(), |traffic| {
        format!(", {traffic:.1} of {copy:.1} GB/s ({:.0} %)", 100.0 * traffic / copy)
    });
    let sentence = format!(
        "{rows:4} x {:4} {name:13} {dt:6.1} s in {:9.3} ms ({:.3} to {:.3}) {:9.1} years/day {:5.0} million \
         cell-stages/s{of_what}{share}, {}",
        row.columns, times.median, times.min, times.max, row.years_per_day, row.cell_stages, machine.device,
    );
    print(measure, &row, &sentence)
}

/// What a GPU's own copy reads and writes [GB s⁻¹], in larger arrays than its caches hold: the best of five.
fn copy_rate_of(device: &mut dyn Device<f32>) -> Result<f64> {
    /// 512 MiB.
    const NUMBERS: usize = 128 << 20;
    const COPIES: usize = 8;
    let mut plan = ArenaPlan::default();
    let [from, to] = [(); 2].map(|()| plan.slot(NUMBERS));
    device.allocate(&plan)?;
    device.finish()?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        (0..COPIES).for_each(|_| device.copy(from, to));
        device.finish()?;
        best = best.min(start.elapsed().as_secs_f64() / COPIES as f64);
    }
    Ok((2 * NUMBERS * size_of::<f32>()) as f64 / best / 1e9)
}

/// What a plain copy on `threads` threads reads and writes [GB s⁻¹]: the best of five.
fn copy_rate(threads: usize) -> f64 {
    /// 256 MiB.
    const NUMBERS: usize = 64 << 20;
    let from = vec![1.0_f32; NUMBERS];
    let mut to = vec![0.0_f32; NUMBERS];
    let part = NUMBERS.div_ceil(threads);
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for (from, to) in from.chunks(part).zip(to.chunks_mut(part)) {
                scope.spawn(move || to.copy_from_slice(from));
            }
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    (2 * NUMBERS * size_of::<f32>()) as f64 / best / 1e9
}
