//! What a network is made of.

use super::super::{
    Above, AdamW, Boundary, Cell, CellGradients, Channel, Convolution, Counting, Edge, Edges, HaloMap,
    Int8Kernel, LayerNorm, Loss, Placement, Readout, Real, Slot, Write,
};
use super::{Bench, Case, case};
use crate::error::Result;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(convolve),
        case!(convolve_int8),
        case!(round),
        case!(round_adjoint),
        case!(round_columns),
        case!(convolve_input_gradient),
        case!(convolve_weight_gradient),
        case!(place),
        case!(place_adjoint),
        case!(cell_forward),
        case!(cell_forward: cell_forward_bare),
        case!(cell_backward),
        case!(cell_backward: cell_backward_bare),
        case!(layer_norm_forward),
        case!(layer_norm_backward),
        case!(layer_norm_moments),
        case!(layer_norm_forward_among),
        case!(layer_norm_sums),
        case!(layer_norm_backward_among),
        case!(mix),
        case!(mix_adjoint),
        case!(readout),
        case!(readout_adjoint),
        case!(loss),
        case!(loss: loss_beyond_huber),
        case!(adamw),
    ]
}

/// Odd rows, columns and channels; channels for whole vectors; one tap and many.
const SHAPES: [[usize; 6]; 9] = [
    [1, 1, 1, 1, 1, 1],
    [2, 5, 7, 3, 68, 3],
    [3, 4, 13, 16, 64, 5],
    [2, 7, 5, 33, 3, 1],
    [2, 9, 11, 24, 40, 7],
    [3, 5, 7, 24, 6, 1],
    [1, 9, 11, 64, 20, 1],
    [2, 3, 3, 264, 36, 1],
    [4, 8, 16, 32, 128, 3],
];

/// Does `work(shape, x, w, y)` for every shape; a product is a sum of `terms(shape)` numbers.
fn convolutions<T: Real>(
    bench: &mut Bench<'_, T>,
    work: impl Fn(&mut Bench<'_, T>, &Convolution, [Slot; 3]),
) -> Result<()> {
    for [images, rows, columns, inputs, outputs, kernel] in SHAPES {
        let shape = Convolution { images, rows, columns, inputs, outputs, kernel };
        let ([w], [x, y]) = bench.mixed([shape.w_len()], [shape.x_len(), shape.y_len()])?;
        work(bench, &shape, [x, w, y]);
        // As the head has it.
        let ([w, y], [x]) = bench.mixed([shape.w_len(), shape.y_len()], [shape.x_len()])?;
        work(bench, &shape, [x, w, y]);
    }
    Ok(())
}

/// A sum of n products rounds to about sqrt(n) / 4 units of its own size; Winograd's transforms multiply that by up to
/// 10; and a largest number stands further out than the mean by a factor that makes up for the worst of many.
fn roundings(terms: usize) -> f64 {
    20.0 + 12.0 * (terms as f64).sqrt()
}

fn convolve<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    convolutions(bench, |bench, s, [x, w, y]| {
        // Weights may be read in the precision of activations, which holds the noise exactly.
        let terms = s.kernel * s.kernel * s.inputs;
        bench.device.convolve(s, x, w, y, Write::Add);
        bench.compare(y, roundings(terms));
        bench.device.convolve(s, x, w, y, Write::Overwrite);
        bench.compare(y, roundings(terms));
    })
}

/// Beyond every noise's end, and exact: the noise is counted in the same numbers everywhere.
const STEP: f32 = 1.0 / 128.0;

fn convolve_int8<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for [images, rows, columns, inputs, outputs, kernel] in SHAPES {
        let s = Convolution { images, rows, columns, inputs, outputs, kernel };
        let numbers = (0..s.w_len()).map(|n| (n * 71 % 255) as u8 as i8).map(|q| q.max(-127)).collect();
        let steps = (0..outputs).map(|k| 0.01 + 0.001 * (k % 7) as f32).collect();
        let weights = Int8Kernel::new(kernel, inputs, outputs, numbers, steps)?;
        let (_, [x, y]) = bench.mixed([], [s.x_len(), s.y_len()])?;
        bench.device.convolve_int8(&s, x, &weights, STEP, y, Write::Add);
        // The product, and the sum.
        bench.compare(y, 2.0);
        bench.device.convolve_int8(&s, x, &weights, STEP, y, Write::Overwrite);
        bench.compare(y, 2.0);
        let ([y], [x]) = bench.mixed([s.y_len()], [s.x_len()])?;
        bench.device.convolve_int8(&s, x, &weights, STEP, y, Write::Add);
        bench.compare(y, 2.0);
    }
    Ok(())
}

/// 7 bits, which every kind of activation holds, cut off within the noise.
const COUNTING: Counting = Counting { step: 1.0 / 128.0, most: 63.0 };

fn round<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let (_, [x]) = bench.mixed([], [5003])?;
    bench.device.round(COUNTING, x);
    bench.compare(x, 0.5);
    Ok(())
}

fn round_adjoint<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let (_, [x, dx]) = bench.mixed([], [5003, 5003])?;
    bench.device.round(COUNTING, x);
    bench.device.round_adjoint(COUNTING, x, dx);
    bench.compare(dx, 0.5);
    Ok(())
}

fn round_columns<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for [terms, outputs] in [[1, 1], [75, 40], [301, 7]] {
        let [w, rounded] = bench.slots([terms * outputs; 2])?;
        bench.device.round_columns(outputs, 127.0, w, rounded);
        // The step, the product, and the last place of the largest.
        bench.compare(rounded, 3.0);
    }
    Ok(())
}

fn convolve_input_gradient<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    convolutions(bench, |bench, s, [x, w, y]| {
        bench.device.convolve_input_gradient(s, y, w, x);
        bench.compare(x, roundings(s.kernel * s.kernel * s.outputs));
    })
}

fn convolve_weight_gradient<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    convolutions(bench, |bench, s, [x, w, y]| {
        bench.device.convolve_weight_gradient(s, x, y, w);
        // Weights' gradients may come in the precision of activations.
        bench.compare_rounded(w, 1.0, roundings(s.images * s.rows * s.columns));
    })
}

/// `[rows, columns, channels, patch]`: rows that the patch does not divide; channels that are whole vectors, and numbers
/// that are none.
const PATCHED: [[usize; 4]; 5] = [[7, 12, 3, 1], [7, 5, 3, 1], [5, 6, 8, 1], [7, 12, 3, 2], [9, 16, 2, 4]];

/// With room for other channels in the image.
fn placements<T: Real>(
    bench: &mut Bench<'_, T>,
    broadcast: bool,
    work: impl Fn(&mut Bench<'_, T>, &Placement),
) -> Result<()> {
    for [rows, columns, channels, patch] in PATCHED {
        // Whole vectors where the channels are.
        let (first_channel, behind) = if channels % 4 == 0 { (4, 8) } else { (2, 1) };
        let (images, halo) = (3, 2);
        let image_channels = first_channel + channels * patch * patch + behind;
        let field_images = if broadcast { 1 } else { images };
        let inner = [rows.div_ceil(patch) + 2 * halo, columns / patch + 2 * halo];
        let ([fields], [image]) = bench.mixed(
            [field_images * rows * columns * channels],
            [images * inner[0] * inner[1] * image_channels],
        )?;
        let placement = Placement {
            images,
            rows,
            columns,
            channels,
            patch,
            fields,
            field_images,
            image,
            halo,
            image_channels,
            first_channel,
        };
        work(bench, &placement);
    }
    Ok(())
}

fn place<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    for broadcast in [false, true] {
        placements(bench, broadcast, |bench, placement| {
            bench.device.place(placement);
            bench.compare(placement.image, 0.5);
        })?;
    }
    Ok(())
}

fn place_adjoint<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    placements(bench, false, |bench, placement| {
        bench.device.place_adjoint(placement);
        bench.compare(placement.fields, 4.0);
    })
}

/// A cell with everything that a cell may have, or with the least.
struct Setting {
    cell: Cell,
    h: Slot,
    map: HaloMap,
    above: Above,
    gradients: CellGradients,
}

/// Units in whole blocks, in a block and a rest, in less than a block; and more than threads in a block.
fn cells<T: Real>(
    bench: &mut Bench<'_, T>,
    all: bool,
    work: impl Fn(&mut Bench<'_, T>, &Setting),
) -> Result<()> {
    for (images, rows, columns, hidden) in
        [(2, 3, 5, 32), (3, 4, 3, 20), (2, 5, 2, 3), (1, 2, 3, 300), (2, 9, 16, 96)]
    {
        let (halo, above_halo) = (2, 1);
        let points = images * rows * columns;
        let padded = |halo: usize| images * (rows + 2 * halo) * (columns + 2 * halo) * hidden;
        let units = points * hidden;
        let edges = Edges { periodic: true, rows: [Edge::Replicate; 2] };
        let map = edges.map(images, rows, columns, halo, &vec![Channel::centre(false); hidden])?;
        let ([bias, peepholes, c_before, c, factors, dc, dbias, dpeepholes], [gates, h, up]) = bench.mixed(
            [4 * hidden, 3 * hidden, units, units, images * hidden, units, 4 * hidden, 3 * hidden],
            [4 * units, padded(halo), padded(above_halo)],
        )?;
        let some = |slot| all.then_some(slot);
        let above = Above { slot: up, halo: above_halo, factors: some(factors) };
        let setting = Setting {
            cell: Cell {
                images,
                rows,
                columns,
                hidden,
                halo,
                gates,
                keeps_gates: all,
                bias,
                peepholes: some(peepholes),
                c_before: some(c_before),
                c,
            },
            h,
            map,
            above,
            gradients: CellGradients {
                h: some(h),
                above: some(up).map(|_| above),
                c: dc,
                bias: dbias,
                peepholes: some(dpeepholes),
            },
        };
        work(bench, &setting);
    }
    Ok(())
}

/// Four functions with errors of a few roundings each, and what they do to each other.
const CELL: f64 = 40.0;

fn cell_forward<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    cells(bench, true, |bench, s| {
        bench.device.cell_forward(&s.cell, s.h, &s.map, Some(&s.above));
        bench.compare_all(&[s.cell.gates, s.cell.c, s.h, s.above.slot], CELL);
    })
}

fn cell_forward_bare<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    cells(bench, false, |bench, s| {
        bench.device.cell_forward(&s.cell, s.h, &s.map, None);
        bench.fill(s.cell.gates, 11);
        // In place, as a forecast steps.
        bench.device.cell_forward(&Cell { c_before: Some(s.cell.c), ..s.cell }, s.h, &s.map, None);
        bench.compare_all(&[s.cell.c, s.h], CELL);
    })
}

fn cell_backward<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    cells(bench, true, check_backward)
}

fn cell_backward_bare<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    cells(bench, false, check_backward)
}

fn check_backward<T: Real>(bench: &mut Bench<'_, T>, s: &Setting) {
    bench.device.cell_backward(&s.cell, &s.map, &s.gradients);
    bench.compare_all(&[s.cell.gates, s.gradients.c], CELL);
    // Sums over points.
    bench.compare(s.gradients.bias, 4.0 * CELL);
    if let Some(peepholes) = s.gradients.peepholes {
        bench.compare(peepholes, 4.0 * CELL);
    }
}

fn norms<T: Real>(
    bench: &mut Bench<'_, T>,
    work: impl Fn(&mut Bench<'_, T>, &LayerNorm, [Slot; 3]),
) -> Result<()> {
    for (points, hidden) in [(30, 32), (77, 20), (5, 3), (9, 70)] {
        let channels = 4 * hidden;
        let ([bias, gain, inverse_deviation, dbias, dgain, sums], [gates, normalised]) = bench.mixed(
            [channels, channels, 4 * points, channels, channels, PARTS * 8 * points],
            [points * channels, points * channels],
        )?;
        let norm =
            LayerNorm { points, hidden, epsilon: 1e-5, gates, bias, gain, normalised, inverse_deviation };
        work(bench, &norm, [dbias, dgain, sums]);
    }
    Ok(())
}

/// Parts of the units, as many as are here.
const PARTS: usize = 3;

fn layer_norm_forward<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    norms(bench, |bench, norm, _| {
        bench.device.layer_norm_forward(norm);
        // Three units of nearly one value are divided by a small deviation.
        bench.compare_all(&[norm.gates, norm.normalised, norm.inverse_deviation], 200.0);
    })
}

fn layer_norm_backward<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    norms(bench, |bench, norm, [dbias, dgain, _]| {
        bench.device.layer_norm_backward(norm, dbias, dgain);
        bench.compare_all(&[norm.gates, dgain], 100.0);
        // A sum of the gradients as they were stored.
        bench.compare_rounded(dbias, 1.0, 100.0);
    })
}

fn layer_norm_moments<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    norms(bench, |bench, norm, [.., sums]| {
        let moments = sums.part(0, 8 * norm.points);
        bench.device.layer_norm_moments(norm, moments);
        bench.compare(moments, 40.0);
    })
}

fn layer_norm_forward_among<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    norms(bench, |bench, norm, [.., moments]| {
        // Means of some hundredths, and squares that are not negative.
        let pair =
            |i: usize| if i.is_multiple_of(2) { (i % 16) as f64 / 64.0 } else { 0.5 + (i % 32) as f64 / 8.0 };
        bench.upload(moments, &(0..moments.len()).map(pair).collect::<Vec<_>>());
        bench.device.layer_norm_forward_among(norm, moments);
        bench.compare_all(&[norm.gates, norm.normalised, norm.inverse_deviation], 40.0);
    })
}

fn layer_norm_sums<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    norms(bench, |bench, norm, [_, dgain, sums]| {
        let sums = sums.part(0, 8 * norm.points);
        bench.device.layer_norm_sums(norm, sums, dgain);
        bench.compare_all(&[sums, dgain], 100.0);
    })
}

fn layer_norm_backward_among<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    norms(bench, |bench, norm, [dbias, _, sums]| {
        bench.device.layer_norm_backward_among(norm, sums.part(0, 8 * norm.points), PARTS, dbias);
        bench.compare(norm.gates, 100.0);
        bench.compare_rounded(dbias, 1.0, 100.0);
    })
}

fn mix<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [share, truth, prediction, mixed] = bench.slots([3, 3 * 1001, 3 * 1001, 3 * 1001])?;
    bench.upload(share, &[1.0, 0.0, 0.25]);
    // What is not asked for may be missing.
    bench.upload(prediction.part(0, 1), &[f64::NAN]);
    bench.upload(truth.part(1001, 1), &[f64::NAN]);
    bench.device.mix(share, truth, prediction, mixed);
    bench.compare(mixed, 3.0);
    Ok(())
}

fn mix_adjoint<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [share, dmixed, dprediction] = bench.slots([3, 3 * 1001, 3 * 1001])?;
    bench.device.mix_adjoint(share, dmixed, dprediction);
    bench.compare(dprediction, 3.0);
    Ok(())
}

fn readouts<T: Real>(
    bench: &mut Bench<'_, T>,
    work: impl Fn(&mut Bench<'_, T>, &Readout, [Slot; 3]),
) -> Result<()> {
    for [rows, columns, channels, patch] in PATCHED {
        let (images, outputs) = (3, channels * patch * patch);
        let len = images * rows * columns * channels;
        let [y, bias, scale, base, fields] = bench.slots([
            images * rows.div_ceil(patch) * (columns / patch) * outputs,
            outputs,
            channels,
            len,
            len,
        ])?;
        let readout = Readout { images, rows, columns, channels, patch, y, bias, scale: Some(scale) };
        work(bench, &readout, [bias, base, fields]);
    }
    Ok(())
}

fn readout<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    readouts(bench, |bench, readout, [_, base, fields]| {
        bench.device.readout(readout, Some(base), fields);
        bench.compare(fields, 4.0);
        bench.device.readout(&Readout { scale: None, ..*readout }, None, fields);
        bench.compare(fields, 2.0);
    })
}

fn readout_adjoint<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    readouts(bench, |bench, readout, [bias, _, fields]| {
        bench.device.readout_adjoint(readout, fields, readout.y, bias);
        bench.compare(readout.y, 2.0);
        bench.compare(bias, 40.0);
        bench.device.readout_adjoint(&Readout { scale: None, ..*readout }, fields, readout.y, bias);
        bench.compare(bias, 40.0);
    })
}

fn losses<T: Real>(bench: &mut Bench<'_, T>, huber: Option<f64>, shape: [usize; 3]) -> Result<()> {
    let (leads, images, [rows, columns, channels]) = (2, 3, shape);
    let each = rows * columns * channels;
    let len = leads * images * each;
    let [prediction, truth, row_weights, channel_weights, lead_weights, mask, values, gradient] =
        bench.slots([len, len, rows, channels, leads, each, leads, len])?;
    // Weights are positive, so that their sum does not cancel; masked points have no truth.
    for (slot, period) in [(row_weights, 5), (channel_weights, 3), (lead_weights, 2), (mask, 2)] {
        let first = if slot == mask { 0.0 } else { 0.5 };
        bench.upload(slot, &(0..slot.len()).map(|i| first + (i % period) as f64).collect::<Vec<_>>());
    }
    bench.upload(truth.part(0, 1), &[f64::NAN]);
    let mut loss = Loss {
        leads,
        images,
        rows,
        columns,
        channels,
        huber,
        scale: 0.01,
        prediction,
        truth,
        row_weights,
        channel_weights,
        lead_weights,
        mask: Some(mask),
        values,
        gradient: Some(gradient),
    };
    bench.device.loss(&loss);
    // Values are sums in double precision, whose order is each device's own.
    let roundings = if size_of::<T>() == 4 { 12.0 } else { each as f64 / 16.0 };
    bench.compare_all(&[values, gradient], roundings);
    bench.upload(truth.part(0, 1), &[0.5]);
    (loss.mask, loss.gradient) = (None, None);
    bench.device.loss(&loss);
    bench.compare(values, roundings);
    Ok(())
}

fn loss<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    losses(bench, None, [13, 17, 5])?;
    losses(bench, None, [13, 6, 10])
}

fn loss_beyond_huber<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    losses(bench, Some(0.5), [13, 17, 5])?;
    losses(bench, Some(0.5), [13, 6, 10])
}

fn adamw<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let n = 40_001;
    let [parameter, gradient, first, second, settings] = bench.slots([n, n, n, n, 4])?;
    bench.upload(settings, &[0.0625, 0.5, 2.0, 4.0]);
    // Squares of gradients are not negative, nor so near 0 that the quotient is large.
    bench.upload(second, &(0..n).map(|i| 0.25 + (i % 64) as f64 / 64.0).collect::<Vec<_>>());
    let step = AdamW {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        decay: 0.1,
        parameter,
        gradient,
        first,
        second,
        settings,
    };
    bench.device.adamw(&step);
    bench.compare_all(&[parameter, first, second], 12.0);
    Ok(())
}
