//! `wxsim bench conv`: the three directions of the convolutions that networks are made of.

use serde::Serialize;

use super::{Machine, Measure, Times, numbers, print};
use crate::device::{ArenaPlan, Convolution, Device, Write};
use crate::error::Result;

#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    measure: Measure,
}

#[derive(Serialize)]
struct Row<'a> {
    convolution: &'a str,
    images: usize,
    rows: usize,
    columns: usize,
    inputs: usize,
    outputs: usize,
    kernel: usize,
    direction: &'static str,
    milliseconds: Times,
    gflops: f64,
    #[serde(flatten)]
    machine: &'a Machine,
}

/// Name; images, rows, columns, inputs, outputs, kernel. The inner shapes of the networks of `bench network`:
/// recurrences of a batch and of one image, projections of several steps at once, first layers and a head.
const SHAPES: &[(&str, [usize; 6])] = &[
    ("europe h", [16, 21, 24, 32, 128, 3]),
    ("europe h, one image", [1, 21, 24, 32, 128, 3]),
    ("europe x, 4 steps", [64, 21, 24, 32, 128, 3]),
    ("europe first layer", [64, 21, 24, 3, 128, 3]),
    ("europe head", [48, 21, 24, 32, 3, 1]),
    ("europe7 h", [16, 21, 24, 32, 128, 7]),
    ("europe7 h, one image", [1, 21, 24, 32, 128, 7]),
    ("europe7 first layer", [32, 21, 24, 3, 128, 7]),
    ("wb5.6-small h", [4, 32, 64, 64, 256, 3]),
    ("wb5.6-small h, one image", [1, 32, 64, 64, 256, 3]),
    ("wb5.6-patch2 h", [1, 16, 32, 128, 512, 5]),
    ("wb5.6-patch2 x, 4 steps", [4, 16, 32, 128, 512, 5]),
    ("wb5.6-patch2 first layer", [4, 16, 32, 4, 512, 5]),
];

pub fn run(args: &Args) -> Result<()> {
    let measure = &args.measure;
    measure.check()?;
    for &(name, [images, rows, columns, inputs, outputs, kernel]) in SHAPES {
        let shape = Convolution { images, rows, columns, inputs, outputs, kernel };
        let mut plan = ArenaPlan::default();
        let [x, dx] = [(); 2].map(|()| plan.slot(shape.x_len()));
        let [w, dw] = [(); 2].map(|()| plan.slot(shape.w_len()));
        let y = plan.slot(shape.y_len());
        let mut device = measure.device::<f32>()?;
        device.allocate(&plan)?;
        for slot in [x, w, y] {
            device.upload(slot, &numbers(slot.len()));
        }
        let machine = Machine::of(&device);
        let input_gradient = measure.times(|| {
            device.convolve_input_gradient(&shape, y, w, dx);
            device.finish()
        })?;
        let weight_gradient = measure.times(|| {
            device.convolve_weight_gradient(&shape, x, y, dw);
            device.finish()
        })?;
        // Last, since it overwrites what the others read.
        let forward = measure.times(|| {
            device.convolve(&shape, x, w, y, Write::Overwrite);
            device.finish()
        })?;
        let directions =
            [("forward", forward), ("input gradient", input_gradient), ("weight gradient", weight_gradient)];
        for (direction, milliseconds) in directions {
            let gflops = milliseconds.rate(shape.flops());
            let row = Row {
                convolution: name,
                images,
                rows,
                columns,
                inputs,
                outputs,
                kernel,
                direction,
                milliseconds,
                gflops,
                machine: &machine,
            };
            let Times { median, min, max } = milliseconds;
            let sentence = format!(
                "{name:25} {direction:16} {median:9.3} ms ({min:.3} to {max:.3}) {gflops:6.0} GFLOP/s, {}",
                machine.device
            );
            print(measure, &row, &sentence)?;
        }
    }
    Ok(())
}
