//! Convolutions of 3, 5 and 7 taps by Winograd's minimal filtering: 3 to 6 times fewer products than a sum over the
//! kernel, at rounding errors of a few 1e-6 of a typical result (the direct sum: some 1e-7).
//!
//! The image is cut into tiles of M x M results. At each of (M + K - 1)^2 points the transformed tiles times the
//! transformed weights are one matrix product over the channels.

mod gradients;
mod line;
mod tile;

pub(super) use gradients::{input_gradient, transform_weights_transposed, weight_gradient};

use super::super::{Convolution, Write};
use super::direct::panel_width;
use super::instructions::Instructions;
use super::product::Product;
use super::simd::dispatch;
use super::storage::Workspace;
use super::threads::{Shared, Threads, with_scratch};
use std::ops::Range;
use tile::{Matrix, Place, Size, TileTransform};

/// How one convolution is cut into tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiling {
    size: Size,
    /// Results of a tile's side.
    results: usize,
    /// Points of a tile's side.
    side: usize,
    /// Tiles of one image.
    rows: usize,
    columns: usize,
}

impl Tiling {
    /// The best tiling where there is one that is worth its transforms.
    pub fn of(s: &Convolution) -> Option<Self> {
        let sizes: &[(Size, usize)] = match s.kernel {
            3 => &[(Size::FourOfThree, 4)],
            5 => &[(Size::FourOfFive, 4), (Size::TwoOfFive, 2)],
            7 => &[(Size::TwoOfSeven, 2)],
            _ => &[],
        };
        let tiling = |&(size, results): &(Size, usize)| Self {
            size,
            results,
            side: results + s.kernel - 1,
            rows: s.rows.div_ceil(results),
            columns: s.columns.div_ceil(results),
        };
        let best = sizes.iter().map(tiling).min_by_key(Self::products)?;
        // Reading, transforming and writing costs about as much as half of the products that are left.
        let direct = s.kernel * s.kernel * s.rows * s.columns;
        (best.products() * 3 / 2 < direct && s.outputs >= 16).then_some(best)
    }

    /// Products for one pair of channels in one image.
    fn products(&self) -> usize {
        self.points() * self.tiles()
    }

    /// Tiles of one image.
    fn tiles(&self) -> usize {
        self.rows * self.columns
    }

    /// Points of a tile.
    pub fn points(&self) -> usize {
        self.side * self.side
    }

    pub fn side(&self) -> usize {
        self.side
    }

    /// First row and column of the results of tile `tile` of an image.
    fn origin(&self, tile: usize) -> (usize, usize) {
        (tile / self.columns * self.results, tile % self.columns * self.results)
    }

    /// The data of a tile in x.
    fn data(&self, s: &Convolution, tile: usize) -> (usize, Extent) {
        let (x_rows, x_columns) = (s.rows + s.kernel - 1, s.columns + s.kernel - 1);
        let (n, (j, i)) = (tile / self.tiles(), self.origin(tile % self.tiles()));
        let start = ((n * x_rows + j) * x_columns + i) * s.inputs;
        (
            start,
            Extent { row: x_columns * s.inputs, column: s.inputs, rows: x_rows - j, columns: x_columns - i },
        )
    }

    /// The results of a tile in y.
    fn results(&self, s: &Convolution, tile: usize) -> (usize, Extent) {
        let (n, (j, i)) = (tile / self.tiles(), self.origin(tile % self.tiles()));
        let start = ((n * s.rows + j) * s.columns + i) * s.outputs;
        (
            start,
            Extent {
                row: s.columns * s.outputs,
                column: s.outputs,
                rows: s.rows - j,
                columns: s.columns - i,
            },
        )
    }

    /// Point by point, `stride` numbers apart.
    fn points_at(&self, stride: usize) -> Extent {
        Extent { row: self.side * stride, column: stride, rows: self.side, columns: self.side }
    }
}

/// Strides and limits of a tile in some array.
#[derive(Clone, Copy)]
struct Extent {
    row: usize,
    column: usize,
    rows: usize,
    columns: usize,
}

impl Extent {
    fn from(self, start: *const f32) -> Place<*const f32> {
        Place { start, row: self.row, column: self.column, rows: self.rows, columns: self.columns }
    }

    fn to(self, start: *mut f32) -> Place<*mut f32> {
        Place { start, row: self.row, column: self.column, rows: self.rows, columns: self.columns }
    }
}

/// Tiles that are worked on together: their transforms stay in the second cache.
fn tiles_together(points: usize, channels: usize) -> usize {
    const NUMBERS: usize = 1 << 18;
    (NUMBERS / (points * channels) / 6 * 6).clamp(12, 96)
}

/// Transformed weights beyond this many numbers do not stay in the second cache: they are read once for many tiles.
const WIDE: usize = 3 << 18;

/// Numbers between the same tile at neighbouring points: not a power of two, lest all points share a few cache sets.
fn point_stride(tiles: usize, channels: usize) -> usize {
    tiles * channels + 16
}

/// Channels rounded up so that each tile begins on a cache line.
fn padded(channels: usize) -> usize {
    channels.next_multiple_of(16)
}

/// Numbers of the transformed weights.
pub(super) fn transformed_len(set: Instructions, t: &Tiling, steps: usize, columns: usize) -> usize {
    t.points() * steps * columns.next_multiple_of(set.lanes())
}

/// `[panel of outputs][point][input][output]`
pub(super) fn transform_weights(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    w: &[f32],
    u: &mut [f32],
) {
    let panels = s.outputs.div_ceil(set.panel());
    let u = Shared(u.as_mut_ptr());
    threads.each(s.inputs * panels, |task| {
        let (c, first) = (task / panels, task % panels * set.panel());
        let (width, stride) = panel_width(set, s.outputs, first);
        let transform = TileTransform {
            matrix: Matrix::Taps,
            size: t.size,
            from: taps(s).from(w[c * s.outputs + first..].as_ptr()),
            to: t.points_at(s.inputs * stride).to(u.at(first * t.points() * s.inputs + c * stride)),
            channels: width,
            add: false,
        };
        // SAFETY: w and u have the lengths of the shape; this task alone writes this input's rows of this panel.
        unsafe { dispatch(set, transform) }
    });
}

/// The kernel of one input and some outputs within w.
fn taps(s: &Convolution) -> Extent {
    let column = s.inputs * s.outputs;
    Extent { row: s.kernel * column, column, rows: s.kernel, columns: s.kernel }
}

/// `y (+)= conv(x, w)`, w transformed by [`transform_weights`].
///
/// Few channels: a task takes some tiles all the way from x to y. Many: all tiles are transformed first, then a task
/// takes some of them through one panel of outputs.
#[allow(clippy::too_many_arguments)]
pub(super) fn forward(
    threads: &Threads,
    set: Instructions,
    s: &Convolution,
    t: &Tiling,
    (x, u): (&[f32], &[f32]),
    y: &mut [f32],
    write: Write,
    workspace: &mut Workspace<f32>,
) {
    /// Tasks that keep any usual number of threads busy.
    const TASKS: usize = 8;
    let (points, tiles, panels) = (t.points(), s.images * t.tiles(), s.outputs.div_ceil(set.panel()));
    let xc = padded(s.inputs);
    let y = Shared(y.as_mut_ptr());
    let pass = Pass { set, s, t };
    let together = |channels, shares| {
        let fair = tiles.div_ceil(shares).next_multiple_of(6);
        tiles_together(points, channels).min(fair).min(tiles)
    };
    let yc = pass.panel_channels(s.outputs);
    if u.len() <= WIDE {
        let together = together(xc + yc, TASKS);
        threads.each(tiles.div_ceil(together), |task| {
            let first_tile = task * together;
            let tiles = together.min(tiles - first_tile);
            let v_stride = point_stride(tiles, xc);
            with_scratch(points * (v_stride + point_stride(tiles, yc)), |scratch| {
                let (v, m) = scratch.split_at_mut(points * v_stride);
                for tile in 0..tiles {
                    pass.data(first_tile + tile, x, v[tile * xc..].as_mut_ptr(), v_stride);
                }
                for panel in 0..panels {
                    pass.results(
                        panel,
                        first_tile..first_tile + tiles,
                        (v.as_ptr(), v_stride),
                        u,
                        m,
                        y,
                        write,
                    );
                }
            });
        });
        return;
    }
    // A panel of weights goes by once for all tiles that fit beside it.
    let together = (2 * tiles_together(points, yc)).min(tiles);
    let round = (MOST / (points * xc)).clamp(together, tiles.max(together));
    let v_stride = point_stride(round, xc);
    let v = Shared(workspace.numbers(points * v_stride).as_mut_ptr());
    for round_first in (0..tiles).step_by(round) {
        let round = round.min(tiles - round_first);
        threads.each(round, |tile| pass.data(round_first + tile, x, v.at(tile * xc), v_stride));
        let chunks = round.div_ceil(together);
        threads.each(panels * chunks, |task| {
            let (panel, chunk) = (task / chunks, task % chunks * together);
            let tiles = round_first + chunk..round_first + (chunk + together).min(round);
            with_scratch(points * point_stride(tiles.len(), yc), |m| {
                let from = (v.at(chunk * xc).cast_const(), v_stride);
                pass.results(panel, tiles, from, u, m, y, write);
            });
        });
    }
}

/// Most numbers of transforms that are kept between two steps of one operation.
const MOST: usize = 6 << 20;

/// What all steps of one convolution share.
#[derive(Clone, Copy)]
struct Pass<'a> {
    set: Instructions,
    s: &'a Convolution,
    t: &'a Tiling,
}

impl Pass<'_> {
    /// Numbers of one tile at one point in a panel of up to `channels` channels.
    fn panel_channels(&self, channels: usize) -> usize {
        self.set.panel().min(padded(channels))
    }

    /// Transforms a tile of x; `v` is its place at the first point.
    fn data(&self, tile: usize, x: &[f32], v: *mut f32, v_stride: usize) {
        let (start, extent) = self.t.data(self.s, tile);
        let transform = TileTransform {
            matrix: Matrix::Data,
            size: self.t.size,
            from: extent.from(x[start..].as_ptr()),
            to: self.t.points_at(v_stride).to(v),
            channels: self.s.inputs,
            add: false,
        };
        // SAFETY: the extent keeps within the image; callers own this tile of v, which holds all points.
        unsafe { dispatch(self.set, transform) }
    }

    /// Transforms a tile of dy from output `first` on; `m` is its place at the first point.
    fn result_gradient(
        &self,
        tile: usize,
        first: usize,
        channels: usize,
        dy: &[f32],
        m: *mut f32,
        m_stride: usize,
    ) {
        let (start, extent) = self.t.results(self.s, tile);
        let transform = TileTransform {
            matrix: Matrix::ResultsAdjoint,
            size: self.t.size,
            from: extent.from(dy[start + first..].as_ptr()),
            to: self.t.points_at(m_stride).to(m),
            channels,
            add: false,
        };
        // SAFETY: the extent keeps within the image; callers own this tile of m, which holds all points.
        unsafe { dispatch(self.set, transform) }
    }

    /// Takes transformed tiles through one panel of outputs.
    #[allow(clippy::too_many_arguments)]
    fn results(
        &self,
        panel: usize,
        tiles: Range<usize>,
        (v, v_stride): (*const f32, usize),
        u: &[f32],
        m: &mut [f32],
        y: Shared,
        write: Write,
    ) {
        let Pass { set, s, t } = *self;
        let first = panel * set.panel();
        let (width, stride) = panel_width(set, s.outputs, first);
        let yc = self.panel_channels(s.outputs);
        let m_stride = point_stride(tiles.len(), yc);
        for point in 0..t.points() {
            let product = Product {
                rows: tiles.len(),
                width,
                segments: 1,
                len: s.inputs,
                x: v.wrapping_add(point * v_stride),
                x_row: padded(s.inputs),
                x_segment: 0,
                x_step: 1,
                w: u[(first * t.points() + point * stride) * s.inputs..].as_ptr(),
                w_segment: 0,
                w_step: stride,
                y: m[point * m_stride..].as_mut_ptr(),
                y_row: yc,
                add: false,
            };
            // SAFETY: v, u and m hold this point's rows.
            unsafe { dispatch(set, product) }
        }
        for (row, tile) in tiles.enumerate() {
            let (start, extent) = t.results(s, tile);
            let transform = TileTransform {
                matrix: Matrix::Results,
                size: t.size,
                from: t.points_at(m_stride).from(m[row * yc..].as_ptr()),
                to: extent.to(y.at(start + first)),
                channels: width,
                add: write == Write::Add,
            };
            // SAFETY: the extent keeps within the image; only the caller's task writes these tiles of this panel.
            unsafe { dispatch(set, transform) }
        }
    }
}
