//! What lies beyond the edge of the grid: halo cells are copies of interior cells, possibly with their sign changed.

use super::{Seam, Slot};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Where in its cell a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stagger {
    Centre,
    /// On the face towards the column before.
    West,
    /// On the face towards the row before: row 0 lies on the southern edge of the grid, the northern edge is the first
    /// row of the halo.
    South,
}

/// How one channel of an image behaves at an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Channel {
    /// Changes sign across a pole (components of a vector).
    pub odd: bool,
    pub stagger: Stagger,
}

impl Channel {
    pub fn centre(odd: bool) -> Self {
        Self { odd, stagger: Stagger::Centre }
    }
}

/// Which cell each halo cell copies, for one padded image shape.
#[derive(Debug, Clone, PartialEq)]
pub struct HaloMap {
    pub images: usize,
    /// Cells of one padded image, `rows * columns` with the halo counted.
    pub cells: usize,
    pub channels: usize,
    /// Every channel is in exactly one.
    pub parts: Arc<[HaloPart]>,
    /// Halo rows that others hold.
    pub seam: Option<Seam>,
}

/// Neighbouring channels with the same copies.
#[derive(Debug, Clone, PartialEq)]
pub struct HaloPart {
    pub channels: Range<usize>,
    /// For each of them: whether it changes sign across a pole.
    pub odd: Vec<bool>,
    /// `(halo cell, interior cell it copies, whether odd channels change sign)`, cells counted row by row within one
    /// padded image.
    pub copies: Vec<(u32, u32, bool)>,
    /// Halo cells that hold 0: faces on a pole, which have no length.
    pub zeros: Vec<u32>,
}

impl HaloMap {
    /// The same rule for another number of images.
    pub fn for_images(&self, images: usize) -> Self {
        Self { images, ..self.clone() }
    }

    /// Numbers of the room that rows of others need to travel.
    pub fn room(&self) -> usize {
        self.seam.as_ref().map_or(0, |seam| seam.room(self.images))
    }

    /// Without the rows that others hold.
    pub fn here(&self) -> Self {
        Self { seam: None, ..self.clone() }
    }

    /// With such a room, or a larger one: [`Seam::with_room`].
    pub fn with_room(self, room: Slot) -> Self {
        Self { seam: self.seam.map(|seam| seam.with_room(room)), ..self }
    }
}

/// Makes the halo map of a padded image of a given shape: the rule of a grid's edges.
pub trait Boundary: Send + Sync {
    /// For `rows x columns` interior cells and `width` halo cells on each side.
    fn map(
        &self,
        images: usize,
        rows: usize,
        columns: usize,
        width: usize,
        channels: &[Channel],
    ) -> Result<HaloMap>;
}

/// What lies beyond the first or the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// The outermost row again and again.
    Replicate,
    /// The row across the pole: `k` rows beyond it is `k` rows before it, half the columns further on. The pole lies
    /// half a row beyond the outermost row of centres, or on it.
    Pole { row_on_pole: bool },
    /// The rows of the band that begins there, which another device holds.
    Neighbour,
}

/// The edges of a whole grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edges {
    /// The column before the first is the last; otherwise the outermost columns are replicated.
    pub periodic: bool,
    /// Beyond the first and beyond the last row.
    pub rows: [Edge; 2],
}

/// What a row of the padded image holds.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Row { row: usize, across: bool },
    OnPole,
    Elsewhere,
}

impl Edges {
    /// What row `row` (below 0 or beyond the last) holds.
    fn row(&self, row: isize, rows: usize, stagger: Stagger) -> Source {
        let last = rows as isize - 1;
        let edge = match row {
            r if r < 0 => self.rows[0],
            r if r > last => self.rows[1],
            r => return Source::Row { row: r as usize, across: false },
        };
        let row_on_pole = match edge {
            Edge::Replicate => return Source::Row { row: row.clamp(0, last) as usize, across: false },
            Edge::Neighbour => return Source::Elsewhere,
            Edge::Pole { row_on_pole } => row_on_pole,
        };
        let mirrored = mirror(row, rows, row_on_pole, stagger);
        if mirrored == row {
            return Source::OnPole;
        }
        Source::Row { row: mirrored as usize, across: true }
    }

    fn check(&self, rows: usize, columns: usize, width: usize, stagger: Stagger) -> Result<()> {
        for (edge, outermost) in self.rows.into_iter().zip([-(width as isize), (rows + width) as isize - 1]) {
            let Edge::Pole { row_on_pole } = edge else { continue };
            if !self.periodic {
                return Err(Error::input("a grid that reaches a pole must close around the axis")
                    .hint("use all longitudes, or the regional rule"));
            }
            if columns % 2 == 1 {
                return Err(Error::input(format!(
                    "the pole rule needs an even number of columns, found {columns}: the column across the pole lies \
                     half the columns further on"
                ))
                .hint("regrid to an even number of longitudes"));
            }
            let mirrored = mirror(outermost, rows, row_on_pole, stagger);
            if width > 0 && !(0..rows as isize).contains(&mirrored) && mirrored != outermost {
                return Err(Error::input(format!(
                    "a halo of {width} rows reaches across the pole and beyond the other side of {rows} rows"
                ))
                .hint("use a smaller kernel, a smaller patch or a finer grid"));
            }
        }
        Ok(())
    }

    fn part(
        &self,
        [rows, columns, width]: [usize; 3],
        channels: Range<usize>,
        odd: Vec<bool>,
        stagger: Stagger,
    ) -> Result<HaloPart> {
        self.check(rows, columns, width, stagger)?;
        let (padded_rows, padded_columns) = (rows + 2 * width, columns + 2 * width);
        let mut copies = Vec::with_capacity(padded_rows * padded_columns - rows * columns);
        let mut zeros = Vec::new();
        for j in 0..padded_rows {
            let source = self.row(j as isize - width as isize, rows, stagger);
            for i in 0..padded_columns {
                if (width..width + rows).contains(&j) && (width..width + columns).contains(&i) {
                    continue;
                }
                let to = (j * padded_columns + i) as u32;
                let (row, across) = match source {
                    Source::Row { row, across } => (row, across),
                    Source::OnPole => {
                        zeros.push(to);
                        continue;
                    }
                    Source::Elsewhere => continue,
                };
                let shift = if across { columns as isize / 2 } else { 0 };
                let wanted = i as isize - width as isize + shift;
                let column = if self.periodic {
                    wanted.rem_euclid(columns as isize)
                } else {
                    wanted.clamp(0, columns as isize - 1)
                } as usize;
                let from = (row + width) * padded_columns + column + width;
                copies.push((to, from as u32, across));
            }
        }
        Ok(HaloPart { channels, odd, copies, zeros })
    }
}

/// The row at the same distance on the other side of the pole next to `row`: `j + j' = 2 (pole - offset)`, where row `j`
/// of a stagger stands at `j + offset` and the rows of centres are 0, 1, ...
fn mirror(row: isize, rows: usize, row_on_pole: bool, stagger: Stagger) -> isize {
    let twice_offset = if stagger == Stagger::South { -1 } else { 0 };
    let beyond = isize::from(!row_on_pole);
    let twice_pole = if row < 0 { -beyond } else { 2 * (rows as isize - 1) + beyond };
    twice_pole - twice_offset - row
}

impl Boundary for Edges {
    fn map(
        &self,
        images: usize,
        rows: usize,
        columns: usize,
        width: usize,
        channels: &[Channel],
    ) -> Result<HaloMap> {
        if rows == 0 || columns == 0 {
            return Err(Error::input(format!("a grid of {rows} rows and {columns} columns has no cells")));
        }
        let cells = (rows + 2 * width) * (columns + 2 * width);
        if u32::try_from(cells).is_err() {
            return Err(Error::input(format!(
                "an image of {} x {} cells is too large",
                rows + 2 * width,
                columns + 2 * width
            )));
        }
        let beyond = self.rows.map(|edge| edge == Edge::Neighbour);
        if rows < width && beyond.contains(&true) {
            return Err(Error::input(format!(
                "a halo of {width} rows reaches across a band of {rows} rows that others go on from"
            ))
            .hint("cut the grid into fewer bands"));
        }
        let seam = Seam::new([rows, columns, width], channels.len(), beyond);
        let mut parts = Vec::new();
        let mut first = 0;
        for group in channels.chunk_by(|a, b| a.stagger == b.stagger) {
            let range = first..first + group.len();
            first = range.end;
            let odd = group.iter().map(|channel| channel.odd).collect();
            parts.push(self.part([rows, columns, width], range, odd, group[0].stagger)?);
        }
        Ok(HaloMap { images, cells, channels: channels.len(), parts: parts.into(), seam })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ArenaPlan, Device, cpu::Cpu};

    const EVEN: Channel = Channel { odd: false, stagger: Stagger::Centre };
    const ODD: Channel = Channel { odd: true, stagger: Stagger::Centre };

    /// Fills the halo of one image with a rule, on the device.
    fn filled(
        edges: &Edges,
        rows: usize,
        columns: usize,
        width: usize,
        channels: &[Channel],
        interior: &[f64],
    ) -> Vec<f64> {
        let map = edges.map(1, rows, columns, width, channels).unwrap();
        let n = channels.len();
        let mut plan = ArenaPlan::default();
        let slot = plan.slot(map.cells * n);
        let mut device = Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        let mut x = vec![f64::NAN; slot.len()];
        for j in 0..rows {
            for i in 0..columns * n {
                x[((j + width) * (columns + 2 * width) + width) * n + i] = interior[j * columns * n + i];
            }
        }
        device.upload(slot, &x);
        device.halo_fill(&map, slot);
        device.download(slot, &mut x);
        x
    }

    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| i as f64).collect()
    }

    #[test]
    fn a_regional_grid_repeats_its_outermost_cells() {
        let edges = Edges { periodic: false, rows: [Edge::Replicate; 2] };
        let x = filled(&edges, 1, 3, 2, &[EVEN], &[1.0, 2.0, 3.0]);
        for row in x.chunks(7) {
            assert_eq!(row, [1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 3.0]);
        }
    }

    #[test]
    fn a_band_around_the_earth_wraps_in_its_columns_only() {
        let edges = Edges { periodic: true, rows: [Edge::Replicate; 2] };
        // Wider than the grid: the wrap goes around more than once.
        let x = filled(&edges, 2, 3, 4, &[EVEN], &numbers(6));
        for (j, row) in x.chunks(11).enumerate() {
            let first = if j < 5 { 0 } else { 3 };
            let expected: Vec<f64> = (0..11).map(|i: usize| (first + (i + 2) % 3) as f64).collect();
            assert_eq!(row, expected);
        }
    }

    #[test]
    fn beyond_a_pole_lies_the_row_across_it_half_the_columns_further_on() {
        // South: a row on the pole. North: the pole is half a row further on.
        let rows = [Edge::Pole { row_on_pole: true }, Edge::Pole { row_on_pole: false }];
        let x = filled(&Edges { periodic: true, rows }, 3, 4, 2, &[EVEN, ODD], &numbers(24));
        let cell = |j: usize, i: usize| (x[(j * 8 + i) * 2], x[(j * 8 + i) * 2 + 1]);
        let interior = |j: usize, i: usize| ((j * 4 + i) * 2) as f64;
        for i in 0..8 {
            let across = (i + 4) % 4; // i - 2 + 4 / 2
            for (beyond, source) in [(0, 2), (1, 1), (5, 2), (6, 1)] {
                let value = interior(source, across);
                assert_eq!(cell(beyond, i), (value, -value - 1.0), "row {beyond}, column {i}");
            }
        }
    }

    #[test]
    fn faces_on_a_pole_hold_zero_and_those_beyond_it_are_those_before_it_turned_around() {
        let rows = [Edge::Pole { row_on_pole: false }; 2];
        let channels = [
            Channel { odd: true, stagger: Stagger::West },
            Channel { odd: true, stagger: Stagger::South },
            Channel { odd: false, stagger: Stagger::South },
        ];
        let x = filled(&Edges { periodic: true, rows }, 4, 6, 2, &channels, &numbers(72));
        let cell = |j: usize, i: usize, c: usize| x[(j * 10 + i) * 3 + c];
        let interior = |j: usize, i: usize, c: usize| ((j * 6 + i) * 3 + c) as f64;
        for i in 0..10 {
            let across = (i + 7) % 6; // i - 2 + 6 / 2, and once around
            // West faces have the rows of the centres.
            for (beyond, source) in [(0, 1), (1, 0), (6, 3), (7, 2)] {
                assert_eq!(cell(beyond, i, 0), -interior(source, across, 0), "row {beyond}, column {i}");
            }
            // South: rows -2, -1 mirror 2, 1 about row 0. North: row 4 lies on the pole, row 5 mirrors 3.
            for (beyond, source) in [(0, 2), (1, 1), (7, 3)] {
                assert_eq!(cell(beyond, i, 1), -interior(source, across, 1), "row {beyond}, column {i}");
                assert_eq!(cell(beyond, i, 2), interior(source, across, 2), "row {beyond}, column {i}");
            }
            assert_eq!((cell(6, i, 1), cell(6, i, 2)), (0.0, 0.0));
            // The row on the southern pole is the interior's own.
            assert_eq!(cell(2, i, 1), interior(0, (i + 4) % 6, 1));
        }
    }

    #[test]
    fn the_adjoint_is_the_transpose_of_the_fill_on_every_kind_of_edge() {
        let pole = |row_on_pole| Edge::Pole { row_on_pole };
        let rules = [
            (false, [Edge::Replicate; 2]),
            (true, [Edge::Replicate; 2]),
            (true, [pole(true), pole(true)]),
            (true, [pole(false), Edge::Replicate]),
        ];
        for ((periodic, rows), staggered) in rules.into_iter().flat_map(|rule| [(rule, false), (rule, true)])
        {
            let (west, south) = (
                Channel { odd: true, stagger: Stagger::West },
                Channel { odd: true, stagger: Stagger::South },
            );
            let channels = if staggered { [EVEN, west, south] } else { [EVEN, ODD, EVEN] };
            let map = Edges { periodic, rows }.map(2, 5, 6, 3, &channels).unwrap();
            let mut plan = ArenaPlan::default();
            let (a, b) = (plan.slot(2 * map.cells * 3), plan.slot(2 * map.cells * 3));
            let mut device = Cpu::<f64>::new(Some(1)).unwrap();
            device.allocate(&plan).unwrap();
            let mut x: Vec<f64> = (0..a.len()).map(|i| (i * i % 17) as f64).collect();
            let y: Vec<f64> = (0..a.len()).map(|i| (i * 5 % 13) as f64).collect();
            // The fill does not read halo cells; neither may the dot product of x.
            let halo: std::collections::HashSet<usize> =
                map.parts[0].copies.iter().map(|c| c.0 as usize).collect();
            for (i, value) in x.iter_mut().enumerate() {
                if halo.contains(&(i / 3 % map.cells)) {
                    *value = 0.0;
                }
            }
            device.upload(a, &x);
            device.upload(b, &y);
            device.halo_fill(&map, a);
            device.halo_adjoint(&map, b);
            let (mut filled, mut back) = (x.clone(), y.clone());
            device.download(a, &mut filled);
            device.download(b, &mut back);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            // Whole numbers: exact.
            assert_eq!(dot(&filled, &y), dot(&x, &back), "{periodic} {rows:?} {staggered}");
        }
    }

    #[test]
    fn shapes_that_the_pole_rule_cannot_serve_are_refused_by_name() {
        let rows = [Edge::Pole { row_on_pole: true }; 2];
        let message =
            |periodic, r, c, w| Edges { periodic, rows }.map(1, r, c, w, &[EVEN]).unwrap_err().to_string();
        assert!(message(true, 5, 7, 1).contains("even number of columns, found 7"));
        assert!(message(true, 3, 8, 3).contains("halo of 3 rows"));
        assert!(message(false, 5, 8, 1).contains("close around"));
        // Faces: the row on the pole is their own, so that one row less lies before it.
        let rows = [Edge::Pole { row_on_pole: false }; 2];
        let faces = [Channel { odd: true, stagger: Stagger::South }];
        assert!(Edges { periodic: true, rows }.map(1, 3, 8, 3, &[EVEN]).is_ok());
        assert!(Edges { periodic: true, rows }.map(1, 3, 8, 3, &faces).is_err());
        assert!(Edges { periodic: true, rows }.map(1, 3, 8, 2, &faces).is_ok());
    }
}
