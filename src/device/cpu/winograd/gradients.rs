//! The two gradients: transposes of the forward pass, factor by factor.

use super::super::super::Convolution;
use super::super::direct::panel_width;
use super::super::instructions::Instructions;
use super::super::product::Product;
use super::super::simd::dispatch;
use super::super::storage::Workspace;
use super::super::threads::{Shared, Threads, with_scratch};
use super::tile::{Matrix, TileTransform};
use super::{MOST, Pass, Tiling, WIDE, padded, point_stride, taps, tiles_together};
use std::ops::Range;

/// `[panel of inputs][point][output][input]`
pub(in super::super) fn transform_weights_transposed(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    w: &[f32],
    u: &mut [f32],
) {
    /// Outputs that are transformed together before they are turned.
    const BLOCK: usize = 16;
    let (points, panels) = (t.points(), s.inputs.div_ceil(set.panel()));
    let u = Shared(u.as_mut_ptr());
    threads.each(s.outputs.div_ceil(BLOCK) * panels, |task| {
        let (k, first) = (task / panels * BLOCK, task % panels * set.panel());
        let (width, stride) = panel_width(set, s.inputs, first);
        let outputs = BLOCK.min(s.outputs - k);
        with_scratch(points * width * BLOCK, |block| {
            for c in 0..width {
                let transform = TileTransform {
                    matrix: Matrix::Taps,
                    size: t.size,
                    from: taps(s).from(w[(first + c) * s.outputs + k..].as_ptr()),
                    to: t.points_at(width * BLOCK).to(block[c * BLOCK..].as_mut_ptr()),
                    channels: outputs,
                    add: false,
                };
                // SAFETY: w has the length of the shape, and the block holds all points.
                unsafe { dispatch(set, transform) }
            }
            for (point, block) in block.chunks_exact(width * BLOCK).enumerate() {
                for l in 0..outputs {
                    let to = u.at((first * points + point * stride) * s.outputs + (k + l) * stride);
                    for c in 0..width {
                        // SAFETY: row k + l of this point's panel, which only this task writes.
                        unsafe { *to.add(c) = block[c * BLOCK + l] }
                    }
                }
            }
        });
    });
}

/// `dx = transpose of conv(., w) applied to dy`, w transformed by [`transform_weights_transposed`]. Neighbouring tiles
/// overlap in dx, so a task owns whole images, or a panel of inputs of one.
#[allow(clippy::too_many_arguments)]
pub(in super::super) fn input_gradient(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    (dy, u): (&[f32], &[f32]),
    dx: &mut [f32],
    workspace: &mut Workspace<f32>,
) {
    let (points, panels) = (t.points(), s.inputs.div_ceil(set.panel()));
    let pass = Pass { set, s, t };
    let (yc, xc) = (padded(s.outputs), pass.panel_channels(s.inputs));
    let dx = Shared(dx.as_mut_ptr());
    let per_image = t.tiles();
    if u.len() <= WIDE {
        let together = tiles_together(points, yc + xc).min(per_image);
        let m_stride = point_stride(together, yc);
        threads.each(s.images * panels, |task| {
            let (n, panel) = (task / panels, task % panels);
            pass.clear_inputs(n, panel, dx);
            with_scratch(points * (point_stride(together, xc) + m_stride), |scratch| {
                let (m, v) = scratch.split_at_mut(points * m_stride);
                for first_tile in (n * per_image..(n + 1) * per_image).step_by(together) {
                    let tiles = first_tile..(first_tile + together).min((n + 1) * per_image);
                    for (row, tile) in tiles.clone().enumerate() {
                        pass.result_gradient(tile, 0, s.outputs, dy, m[row * yc..].as_mut_ptr(), m_stride);
                    }
                    pass.data_gradient(panel, tiles, (m.as_ptr(), m_stride), u, v, dx);
                }
            });
        });
        return;
    }
    let together = (2 * tiles_together(points, xc)).min(per_image);
    let images = (MOST / (points * yc * per_image)).clamp(1, s.images);
    let m_stride = point_stride(images * per_image, yc);
    let m = Shared(workspace.numbers(points * m_stride).as_mut_ptr());
    for first_image in (0..s.images).step_by(images) {
        let images = images.min(s.images - first_image);
        threads.each(images * per_image, |tile| {
            let from = first_image * per_image + tile;
            pass.result_gradient(from, 0, s.outputs, dy, m.at(tile * yc), m_stride);
        });
        threads.each(images * panels, |task| {
            let (panel, n) = (task / images, task % images);
            pass.clear_inputs(first_image + n, panel, dx);
            with_scratch(points * point_stride(together, xc), |v| {
                for chunk in (0..per_image).step_by(together) {
                    let first_tile = (first_image + n) * per_image + chunk;
                    let tiles = first_tile..first_tile + together.min(per_image - chunk);
                    let from = (m.at((n * per_image + chunk) * yc).cast_const(), m_stride);
                    pass.data_gradient(panel, tiles, from, u, v, dx);
                }
            });
        });
    }
}

impl Pass<'_> {
    /// Zeroes one panel of inputs of one image of dx, which the caller's task owns.
    fn clear_inputs(&self, n: usize, panel: usize, dx: Shared) {
        let s = self.s;
        let first = panel * self.set.panel();
        let (width, _) = panel_width(self.set, s.inputs, first);
        let cells = s.x_len() / s.images / s.inputs;
        for cell in n * cells..(n + 1) * cells {
            // SAFETY: inside dx, and only the caller's task writes these inputs of this image.
            unsafe { std::slice::from_raw_parts_mut(dx.at(cell * s.inputs + first), width) }.fill(0.0);
        }
    }

    /// Takes transformed gradients of results back through one panel of inputs and adds them to dx.
    fn data_gradient(
        &self,
        panel: usize,
        tiles: Range<usize>,
        (m, m_stride): (*const f32, usize),
        u: &[f32],
        v: &mut [f32],
        dx: Shared,
    ) {
        let Pass { set, s, t } = *self;
        let first = panel * set.panel();
        let (width, stride) = panel_width(set, s.inputs, first);
        let xc = self.panel_channels(s.inputs);
        let v_stride = point_stride(tiles.len(), xc);
        for point in 0..t.points() {
            let product = Product {
                rows: tiles.len(),
                width,
                segments: 1,
                len: s.outputs,
                x: m.wrapping_add(point * m_stride),
                x_row: padded(s.outputs),
                x_segment: 0,
                x_step: 1,
                w: u[(first * t.points() + point * stride) * s.outputs..].as_ptr(),
                w_segment: 0,
                w_step: stride,
                y: v[point * v_stride..].as_mut_ptr(),
                y_row: xc,
                add: false,
            };
            // SAFETY: m, u and v hold this point's rows.
            unsafe { dispatch(set, product) }
        }
        for (row, tile) in tiles.enumerate() {
            let (start, extent) = t.data(s, tile);
            let transform = TileTransform {
                matrix: Matrix::DataAdjoint,
                size: t.size,
                from: t.points_at(v_stride).from(v[row * xc..].as_ptr()),
                to: extent.to(dx.at(start + first)),
                channels: width,
                add: true,
            };
            // SAFETY: the extent keeps within the image, whose inputs of this panel are the caller's task's own.
            unsafe { dispatch(set, transform) }
        }
    }
}

/// Inputs of one product in the weight gradient.
const ROWS: usize = 48;

/// `dw += transpose of conv(x, .) applied to dy`: sums over tiles at each point, then goes back to the kernel.
#[allow(clippy::too_many_arguments)]
pub(in super::super) fn weight_gradient(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    (x, dy): (&[f32], &[f32]),
    dw: &mut [f32],
    workspace: &mut Workspace<f32>,
) {
    /// Sums of a panel of outputs that stay in the second cache, beside the transforms of some tiles.
    const NEAR: usize = 3 << 16;
    let pass = Pass { set, s, t };
    let near = t.points() * s.inputs * pass.panel_channels(s.outputs) <= NEAR;
    let du = if near {
        pass.sums_in_parts(threads, (x, dy), workspace)
    } else {
        pass.sums_in_rounds(threads, (x, dy), workspace)
    };
    let yc = padded(s.outputs);
    let dw = Shared(dw.as_mut_ptr());
    threads.each(s.inputs, |c| {
        let transform = TileTransform {
            matrix: Matrix::TapsAdjoint,
            size: t.size,
            from: t.points_at(s.inputs * yc).from(du.at(c * yc)),
            to: taps(s).to(dw.at(c * s.outputs)),
            channels: s.outputs,
            add: true,
        };
        // SAFETY: du holds all points, and this task alone writes this input's weights.
        unsafe { dispatch(set, transform) }
    });
}

impl Pass<'_> {
    /// Few channels: a fixed number of parts of the tiles, each with sums of its own, added in order at the end.
    fn sums_in_parts(
        &self,
        threads: &Threads,
        (x, dy): (&[f32], &[f32]),
        workspace: &mut Workspace<f32>,
    ) -> Shared {
        /// Enough for any usual number of threads, times the panels.
        const PARTS: usize = 8;
        let Pass { set, s, t } = *self;
        let (points, tiles) = (t.points(), s.images * t.tiles());
        let (xc, yc, mc) = (padded(s.inputs), padded(s.outputs), self.panel_channels(s.outputs));
        let panels = s.outputs.div_ceil(set.panel());
        let together = tiles_together(points, xc + mc);
        let part = tiles.div_ceil(PARTS).max(24);
        let parts = tiles.div_ceil(part);
        let sums = points * s.inputs * yc;
        let du = Shared(workspace.numbers(parts * sums).as_mut_ptr());
        let (v_stride, m_stride) =
            (point_stride(together.min(part), xc), point_stride(together.min(part), mc));
        threads.each(parts * panels, |task| {
            let (first_part, panel) = (task / panels, task % panels);
            let end = ((first_part + 1) * part).min(tiles);
            let first = panel * set.panel();
            let (width, _) = panel_width(set, s.outputs, first);
            with_scratch(points * (v_stride + m_stride), |scratch| {
                let (v, m) = scratch.split_at_mut(points * v_stride);
                for first_tile in (first_part * part..end).step_by(together) {
                    let tiles = together.min(end - first_tile);
                    for row in 0..tiles {
                        self.data(first_tile + row, x, v[row * xc..].as_mut_ptr(), v_stride);
                        let to = m[row * mc..].as_mut_ptr();
                        self.result_gradient(first_tile + row, first, width, dy, to, m_stride);
                    }
                    for point in 0..points {
                        let product = Product {
                            rows: s.inputs,
                            width,
                            segments: 1,
                            len: tiles,
                            x: v[point * v_stride..].as_ptr(),
                            x_row: 1,
                            x_segment: 0,
                            x_step: xc,
                            w: m[point * m_stride..].as_ptr(),
                            w_segment: 0,
                            w_step: mc,
                            y: du.at(first_part * sums + point * s.inputs * yc + first),
                            y_row: yc,
                            add: first_tile > first_part * part,
                        };
                        // SAFETY: v and m hold these tiles; this task alone writes this panel of its part's sums.
                        unsafe { dispatch(set, product) }
                    }
                }
            });
        });
        threads.each(points, |point| {
            let slice = |part: usize| du.at(part * sums + point * s.inputs * yc);
            // SAFETY: this task alone touches this point of all parts.
            let total = unsafe { std::slice::from_raw_parts_mut(slice(0), s.inputs * yc) };
            for part in 1..parts {
                // SAFETY: as above, and parts are disjoint.
                let more = unsafe { std::slice::from_raw_parts(slice(part), s.inputs * yc) };
                total.iter_mut().zip(more).for_each(|(total, more)| *total += more);
            }
        });
        du
    }

    /// Many channels: rounds of many tiles, which all threads first transform, then sum over, point by point.
    fn sums_in_rounds(
        &self,
        threads: &Threads,
        (x, dy): (&[f32], &[f32]),
        workspace: &mut Workspace<f32>,
    ) -> Shared {
        let Pass { set, s, t } = *self;
        let (points, tiles) = (t.points(), s.images * t.tiles());
        let (xc, yc) = (padded(s.inputs), padded(s.outputs));
        let (panels, blocks) = (s.outputs.div_ceil(set.panel()), s.inputs.div_ceil(ROWS));
        let rounds = tiles.div_ceil((MOST / (points * (xc + yc))).max(16));
        let round = tiles.div_ceil(rounds);
        let (v_stride, m_stride) = (point_stride(round, xc), point_stride(round, yc));
        let sums = s.inputs * yc;
        let v = Shared(workspace.numbers(points * (v_stride + m_stride + sums)).as_mut_ptr());
        let m = Shared(v.at(points * v_stride));
        let du = Shared(m.at(points * m_stride));
        for first_tile in (0..tiles).step_by(round) {
            let round = round.min(tiles - first_tile);
            threads.each(round, |row| {
                self.data(first_tile + row, x, v.at(row * xc), v_stride);
                self.result_gradient(first_tile + row, 0, s.outputs, dy, m.at(row * yc), m_stride);
            });
            threads.each(points * panels * blocks, |task| {
                let (point, panel, block) =
                    (task / panels / blocks, task / blocks % panels, task % blocks * ROWS);
                let first = panel * set.panel();
                let product = Product {
                    rows: ROWS.min(s.inputs - block),
                    width: panel_width(set, s.outputs, first).0,
                    segments: 1,
                    len: round,
                    x: v.at(point * v_stride + block),
                    x_row: 1,
                    x_segment: 0,
                    x_step: xc,
                    w: m.at(point * m_stride + first),
                    w_segment: 0,
                    w_step: yc,
                    y: du.at(point * sums + block * yc + first),
                    y_row: yc,
                    add: first_tile > 0,
                };
                // SAFETY: v and m hold all tiles of the round at this point; this task alone writes its block of du.
                unsafe { dispatch(set, product) }
            });
        }
        du
    }
}
