//! The two gradients: transposes of the forward pass, factor by factor.

use super::super::super::Convolution;
use super::super::direct::panel_width;
use super::super::instructions::Instructions;
use super::super::product::Product;
use super::super::simd::dispatch;
use super::super::storage::Arena;
use super::super::threads::{Shared, Threads, with_scratch};
use super::tile::{Matrix, TileTransform};
use super::{Tiling, padded, point_stride, taps, tiles_together};

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
pub(in super::super) fn input_gradient(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    dy: &[f32],
    u: &[f32],
    dx: &mut [f32],
) {
    const TASKS: usize = 8;
    let (points, panels) = (t.points(), s.inputs.div_ceil(set.panel()));
    let (yc, xc) = (padded(s.outputs), set.panel().min(padded(s.inputs)));
    let together = tiles_together(points, yc + xc).min(t.tiles());
    let (v_stride, m_stride) = (point_stride(together, xc), point_stride(together, yc));
    let groups = TASKS.div_ceil(s.images).min(panels);
    let x_len = s.x_len() / s.images;
    let dx = Shared(dx.as_mut_ptr());
    threads.each(s.images * groups, |task| {
        let (n, group) = (task / groups, task % groups);
        let panels = group * panels / groups..(group + 1) * panels / groups;
        let columns = panels.start * set.panel()..(panels.end * set.panel()).min(s.inputs);
        for cell in 0..x_len / s.inputs {
            let at = dx.at(n * x_len + cell * s.inputs + columns.start);
            // SAFETY: this task alone writes these inputs of this image.
            unsafe { std::slice::from_raw_parts_mut(at, columns.len()) }.fill(0.0);
        }
        with_scratch(points * (v_stride + m_stride), |scratch| {
            let (v, m) = scratch.split_at_mut(points * v_stride);
            for first_tile in (0..t.tiles()).step_by(together) {
                let tiles = together.min(t.tiles() - first_tile);
                for tile in 0..tiles {
                    let (start, extent) = t.results(s, n * t.tiles() + first_tile + tile);
                    let transform = TileTransform {
                        matrix: Matrix::ResultsAdjoint,
                        size: t.size,
                        from: extent.from(dy[start..].as_ptr()),
                        to: t.points_at(m_stride).to(m[tile * yc..].as_mut_ptr()),
                        channels: s.outputs,
                        add: false,
                    };
                    // SAFETY: the extent keeps within the image, and m holds all points.
                    unsafe { dispatch(set, transform) }
                }
                for panel in panels.clone() {
                    let first = panel * set.panel();
                    let (width, stride) = panel_width(set, s.inputs, first);
                    for point in 0..points {
                        let product = Product {
                            rows: tiles,
                            width,
                            segments: 1,
                            len: s.outputs,
                            x: m[point * m_stride..].as_ptr(),
                            x_row: yc,
                            x_segment: 0,
                            x_step: 1,
                            w: u[(first * points + point * stride) * s.outputs..].as_ptr(),
                            w_segment: 0,
                            w_step: stride,
                            y: v[point * v_stride..].as_mut_ptr(),
                            y_row: xc,
                            add: false,
                        };
                        // SAFETY: m, u and v hold this point's rows.
                        unsafe { dispatch(set, product) }
                    }
                    for tile in 0..tiles {
                        let (start, extent) = t.data(s, n * t.tiles() + first_tile + tile);
                        let transform = TileTransform {
                            matrix: Matrix::DataAdjoint,
                            size: t.size,
                            from: t.points_at(v_stride).from(v[tile * xc..].as_ptr()),
                            to: extent.to(dx.at(start + first)),
                            channels: width,
                            add: true,
                        };
                        // SAFETY: the extent keeps within the image, whose inputs of this panel are this task's own.
                        unsafe { dispatch(set, transform) }
                    }
                }
            }
        });
    });
}

/// `dw += transpose of conv(x, .) applied to dy`: transforms many tiles on all threads, then sums over them at each
/// point, and goes back to the kernel at the end.
pub(in super::super) fn weight_gradient(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    (x, dy): (&[f32], &[f32]),
    dw: &mut [f32],
    workspace: &mut Arena<f32>,
) {
    /// Numbers of the transforms of one round: a few MiB of the last cache.
    const ROUND: usize = 4 << 20;
    /// Tiles of one task.
    const BLOCK: usize = 8;
    /// Inputs of one task.
    const ROWS: usize = 48;
    let (points, tiles) = (t.points(), s.images * t.tiles());
    let (xc, yc) = (padded(s.inputs), padded(s.outputs));
    let round = (ROUND / (points * (xc + yc))).next_multiple_of(BLOCK).min(tiles);
    let (v_stride, m_stride) = (point_stride(round, xc), point_stride(round, yc));
    let u_stride = s.inputs * yc;
    let needed = points * (v_stride + m_stride + u_stride);
    if workspace.whole().len() < needed {
        *workspace = Arena::default();
        *workspace = Arena::working(needed);
    }
    let (v, rest) = workspace.whole()[..needed].split_at_mut(points * v_stride);
    let (m, du) = rest.split_at_mut(points * m_stride);
    let (v, m) = (Shared(v.as_mut_ptr()), Shared(m.as_mut_ptr()));
    let du = Shared(du.as_mut_ptr());
    let (panels, blocks) = (s.outputs.div_ceil(set.panel()), s.inputs.div_ceil(ROWS));
    for first_tile in (0..tiles).step_by(round) {
        let round = round.min(tiles - first_tile);
        threads.each(round.div_ceil(BLOCK), |task| {
            for tile in task * BLOCK..((task + 1) * BLOCK).min(round) {
                let (x_start, x_extent) = t.data(s, first_tile + tile);
                let (y_start, y_extent) = t.results(s, first_tile + tile);
                let data = TileTransform {
                    matrix: Matrix::Data,
                    size: t.size,
                    from: x_extent.from(x[x_start..].as_ptr()),
                    to: t.points_at(v_stride).to(v.at(tile * xc)),
                    channels: s.inputs,
                    add: false,
                };
                let results = TileTransform {
                    matrix: Matrix::ResultsAdjoint,
                    size: t.size,
                    from: y_extent.from(dy[y_start..].as_ptr()),
                    to: t.points_at(m_stride).to(m.at(tile * yc)),
                    channels: s.outputs,
                    add: false,
                };
                // SAFETY: the extents keep within their images; this task alone writes this tile of v and m.
                unsafe {
                    dispatch(set, data);
                    dispatch(set, results);
                }
            }
        });
        threads.each(points * panels * blocks, |task| {
            let (point, block, first) =
                (task / panels / blocks, task / panels % blocks * ROWS, task % panels * set.panel());
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
                y: du.at(point * u_stride + block * yc + first),
                y_row: yc,
                add: first_tile > 0,
            };
            // SAFETY: v and m hold all tiles of the round at this point, and this task alone writes its block of du.
            unsafe { dispatch(set, product) }
        });
    }
    let dw = Shared(dw.as_mut_ptr());
    threads.each(s.inputs, |c| {
        let transform = TileTransform {
            matrix: Matrix::TapsAdjoint,
            size: t.size,
            from: t.points_at(u_stride).from(du.at(c * yc)),
            to: taps(s).to(dw.at(c * s.outputs)),
            channels: s.outputs,
            add: true,
        };
        // SAFETY: du holds all points, and this task alone writes this input's weights.
        unsafe { dispatch(set, transform) }
    });
}
