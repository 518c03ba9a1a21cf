//! Convolutions as sums over the kernel, in register tiles: exact to rounding, for every shape.

use super::super::{Convolution, Write};
use super::instructions::Instructions;
use super::product::Product;
use super::simd::dispatch;
use super::threads::{Shared, Threads, with_scratch};

/// Tasks that an operation should at least fall into, so that they spread evenly over any usual number of threads.
const TASKS: usize = 16;

/// Columns of panel `first / panel` with `total` columns, and the stride at which packed panels hold them.
pub(super) fn panel_width(instructions: Instructions, total: usize, first: usize) -> (usize, usize) {
    let width = instructions.panel().min(total - first);
    (width, width.next_multiple_of(instructions.lanes()))
}

/// Numbers in all packed panels of `columns` columns and `steps` rows.
pub(super) fn packed_len(instructions: Instructions, columns: usize, steps: usize) -> usize {
    columns.next_multiple_of(instructions.lanes()) * steps
}

/// `[panel of outputs][a, b, c][output]`
pub(super) fn pack(instructions: Instructions, s: &Convolution, w: &[f32], packed: &mut [f32]) {
    let steps = s.kernel * s.kernel * s.inputs;
    for first in (0..s.outputs).step_by(instructions.panel()) {
        let (width, stride) = panel_width(instructions, s.outputs, first);
        for (step, to) in packed[first * steps..][..stride * steps].chunks_exact_mut(stride).enumerate() {
            to[..width].copy_from_slice(&w[step * s.outputs + first..][..width]);
            to[width..].fill(0.0);
        }
    }
}

/// `[panel of inputs][kernel - 1 - a, kernel - 1 - b, k][input]`
pub(super) fn pack_turned(
    threads: &Threads,
    instructions: Instructions,
    s: &Convolution,
    w: &[f32],
    packed: &mut [f32],
) {
    let steps = s.kernel * s.kernel * s.outputs;
    let panels = s.inputs.div_ceil(instructions.panel());
    threads.chunks(packed, instructions.panel() * steps, |panel, packed| {
        let first = panel * instructions.panel();
        let (width, stride) = panel_width(instructions, s.inputs, first);
        debug_assert!(panel < panels);
        for (tap, to) in packed.chunks_exact_mut(stride * s.outputs).enumerate() {
            let from = &w[((s.kernel * s.kernel - 1 - tap) * s.inputs + first) * s.outputs..];
            for (k, to) in to.chunks_exact_mut(stride).enumerate() {
                for (c, to) in to[..width].iter_mut().enumerate() {
                    *to = from[c * s.outputs + k];
                }
                to[width..].fill(0.0);
            }
        }
    });
}

/// `y (+)= conv(x, w)`, w packed by [`pack`].
pub(super) fn forward(
    threads: &Threads,
    instructions: Instructions,
    s: &Convolution,
    x: &[f32],
    packed: &[f32],
    y: &mut [f32],
    write: Write,
) {
    let row_len = (s.columns + s.kernel - 1) * s.inputs;
    let segment = s.kernel * s.inputs;
    let block = rows_of_a_task(s.images, s.rows);
    let blocks = s.rows.div_ceil(block);
    let y = Shared(y.as_mut_ptr());
    threads.each(s.images * blocks, |task| {
        let (n, first_row) = (task / blocks, task % blocks * block);
        for first in (0..s.outputs).step_by(instructions.panel()) {
            let (width, stride) = panel_width(instructions, s.outputs, first);
            let w = &packed[first * s.kernel * segment..];
            for j in first_row..(first_row + block).min(s.rows) {
                let x = &x[(n * (s.rows + s.kernel - 1) + j) * row_len..];
                let product = Product {
                    rows: s.columns,
                    width,
                    segments: s.kernel,
                    len: segment,
                    x: x.as_ptr(),
                    x_row: s.inputs,
                    x_segment: row_len,
                    x_step: 1,
                    w: w.as_ptr(),
                    w_segment: segment * stride,
                    w_step: stride,
                    y: y.at((n * s.rows + j) * s.columns * s.outputs + first),
                    y_row: s.outputs,
                    add: write == Write::Add,
                };
                // SAFETY: x holds the `kernel` rows from j on (its length was checked), w all steps of the panel, and
                // this task alone writes these rows of y.
                unsafe { dispatch(instructions, product) }
            }
        }
    });
}

/// `dx[n, j, i, c] = sum over a, b, k of dy[n, j - a, i - b, k] w[a, b, c, k]`, w packed by [`pack_turned`]: a
/// convolution of dy, between `kernel - 1` columns of zeros on each side, whose rows beyond dy are left out.
pub(super) fn input_gradient(
    threads: &Threads,
    instructions: Instructions,
    s: &Convolution,
    dy: &[f32],
    packed: &[f32],
    dx: &mut [f32],
) {
    let (x_rows, x_columns, margin) = (s.rows + s.kernel - 1, s.columns + s.kernel - 1, s.kernel - 1);
    let (dy_len, padded_len) = (s.columns * s.outputs, (s.columns + 2 * margin) * s.outputs);
    let segment = s.kernel * s.outputs;
    let block = rows_of_a_task(s.images, x_rows);
    let blocks = x_rows.div_ceil(block);
    let dx = Shared(dx.as_mut_ptr());
    threads.each(s.images * blocks, |task| {
        let (n, first_row) = (task / blocks, task % blocks * block);
        let end_row = (first_row + block).min(x_rows);
        // Rows of dy that these rows of dx see.
        let (dy_first, dy_end) = (first_row.saturating_sub(margin), end_row.min(s.rows));
        with_scratch((dy_end - dy_first) * padded_len, |padded| {
            for (row, padded) in padded.chunks_exact_mut(padded_len).enumerate() {
                let (left, rest) = padded.split_at_mut(margin * s.outputs);
                let (middle, right) = rest.split_at_mut(dy_len);
                left.fill(0.0);
                middle.copy_from_slice(&dy[(n * s.rows + dy_first + row) * dy_len..][..dy_len]);
                right.fill(0.0);
            }
            for first in (0..s.inputs).step_by(instructions.panel()) {
                let (width, stride) = panel_width(instructions, s.inputs, first);
                for j in first_row..end_row {
                    let (row, row_end) = (j.saturating_sub(margin), (j + 1).min(s.rows));
                    // Row r of dy meets kernel row a = j - r, which stands at kernel - 1 - a.
                    let w = &packed[first * s.kernel * segment + (row + margin - j) * segment * stride..];
                    let product = Product {
                        rows: x_columns,
                        width,
                        segments: row_end - row,
                        len: segment,
                        x: padded[(row - dy_first) * padded_len..].as_ptr(),
                        x_row: s.outputs,
                        x_segment: padded_len,
                        x_step: 1,
                        w: w.as_ptr(),
                        w_segment: segment * stride,
                        w_step: stride,
                        y: dx.at((n * x_rows + j) * x_columns * s.inputs + first),
                        y_row: s.inputs,
                        add: false,
                    };
                    // SAFETY: rows `row..row_end` lie in the padded copy, with `kernel` columns from each of the
                    // x_columns on; this task alone writes these rows of dx.
                    unsafe { dispatch(instructions, product) }
                }
            }
        });
    });
}

/// `dw[a, b, c, k] += sum over n, j, i of x[n, j + a, i + b, c] dy[n, j, i, k]`: each task owns some (b, c) of one a and
/// one panel of outputs, and sees the pixels in the same order whoever runs it.
pub(super) fn weight_gradient(
    threads: &Threads,
    instructions: Instructions,
    s: &Convolution,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) {
    /// Rows of dw in a task: their sums stay in the nearest cache.
    const BLOCK: usize = 48;
    /// Numbers of dy that all rows of dw use before the next ones are fetched.
    const NEAR: usize = 6 << 10;
    let row_len = (s.columns + s.kernel - 1) * s.inputs;
    let steps = s.kernel * s.inputs;
    let blocks = steps.div_ceil(BLOCK);
    let panels = s.outputs.div_ceil(instructions.panel());
    let near = (NEAR / (s.columns * instructions.panel().min(s.outputs))).clamp(1, s.rows);
    let dw = Shared(dw.as_mut_ptr());
    threads.each(s.kernel * blocks * panels, |task| {
        let (a, block, first) =
            (task / panels / blocks, task / panels % blocks, task % panels * instructions.panel());
        let (width, _) = panel_width(instructions, s.outputs, first);
        let step = block * BLOCK;
        for n in 0..s.images {
            for j in (0..s.rows).step_by(near) {
                let x = &x[(n * (s.rows + s.kernel - 1) + j + a) * row_len + step..];
                let dy = &dy[(n * s.rows + j) * s.columns * s.outputs + first..];
                let product = Product {
                    rows: BLOCK.min(steps - step),
                    width,
                    segments: near.min(s.rows - j),
                    len: s.columns,
                    x: x.as_ptr(),
                    x_row: 1,
                    x_segment: row_len,
                    x_step: s.inputs,
                    w: dy.as_ptr(),
                    w_segment: s.columns * s.outputs,
                    w_step: s.outputs,
                    y: dw.at((a * steps + step) * s.outputs + first),
                    y_row: s.outputs,
                    add: true,
                };
                // SAFETY: the rows of x and dy lie in their images, masks keep within `width` columns, and this task
                // alone writes its rows and columns of dw.
                unsafe { dispatch(instructions, product) }
            }
        }
    });
}

fn rows_of_a_task(images: usize, rows: usize) -> usize {
    rows.div_ceil(TASKS.div_ceil(images).min(rows))
}
