//! What lies beyond the edge of the grid: halo cells are copies of interior cells, possibly with their sign changed.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which cell each halo cell copies, for one padded image shape.
#[derive(Debug, Clone, PartialEq)]
pub struct HaloMap {
    pub images: usize,
    /// Cells of one padded image, `rows * columns` with the halo counted.
    pub cells: usize,
    pub channels: usize,
    /// `(halo cell, interior cell it copies, whether odd channels change sign)`, cells counted row by row within one
    /// padded image.
    pub copies: Vec<(u32, u32, bool)>,
    /// Per channel: whether it changes sign across a pole (wind components).
    pub odd: Vec<bool>,
}

impl HaloMap {
    /// The same rule for another number of images.
    pub fn for_images(&self, images: usize) -> Self {
        Self { images, ..self.clone() }
    }
}

/// Makes the halo map of a padded image of a given shape: the rule of a grid's edges.
pub trait Boundary: Send + Sync {
    /// For `rows x columns` interior cells and `width` halo cells on each side.
    fn map(&self, images: usize, rows: usize, columns: usize, width: usize, odd: &[bool]) -> Result<HaloMap>;
}

/// What lies beyond the first or the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// The outermost row again and again.
    Replicate,
    /// The row across the pole: `k` rows beyond it is `k` rows before it, half the columns further on. The pole lies
    /// half a row beyond the outermost row, or on it.
    Pole { row_on_pole: bool },
}

/// The edges of a whole grid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edges {
    /// The column before the first is the last; otherwise the outermost columns are replicated.
    pub periodic: bool,
    /// Beyond the first and beyond the last row.
    pub rows: [Edge; 2],
}

impl Edges {
    /// The interior row that row `row` (below 0 or beyond the last) copies, and whether a pole lies between.
    fn row(&self, row: isize, rows: usize) -> (usize, bool) {
        let last = rows as isize - 1;
        let (edge, beyond) = match row {
            r if r < 0 => (self.rows[0], -r),
            r if r > last => (self.rows[1], r - last),
            r => return (r as usize, false),
        };
        let (inward, across) = match edge {
            Edge::Replicate => (0, false),
            Edge::Pole { row_on_pole: true } => (beyond, true),
            Edge::Pole { row_on_pole: false } => (beyond - 1, true),
        };
        let source = if row < 0 { inward } else { last - inward };
        (source as usize, across)
    }

    fn check(&self, rows: usize, columns: usize, width: usize) -> Result<()> {
        for edge in self.rows {
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
            let most = rows - usize::from(row_on_pole);
            if width > most {
                return Err(Error::input(format!(
                    "a halo of {width} rows reaches across the pole and beyond the other side of {rows} rows"
                ))
                .hint("use a smaller kernel, a smaller patch or a finer grid"));
            }
        }
        Ok(())
    }
}

impl Boundary for Edges {
    fn map(&self, images: usize, rows: usize, columns: usize, width: usize, odd: &[bool]) -> Result<HaloMap> {
        if rows == 0 || columns == 0 {
            return Err(Error::input(format!("a grid of {rows} rows and {columns} columns has no cells")));
        }
        self.check(rows, columns, width)?;
        let (padded_rows, padded_columns) = (rows + 2 * width, columns + 2 * width);
        let cells = padded_rows * padded_columns;
        if u32::try_from(cells).is_err() {
            return Err(Error::input(format!(
                "an image of {padded_rows} x {padded_columns} cells is too large"
            )));
        }
        let mut copies = Vec::with_capacity(cells - rows * columns);
        for j in 0..padded_rows {
            let (row, across) = self.row(j as isize - width as isize, rows);
            for i in 0..padded_columns {
                if (width..width + rows).contains(&j) && (width..width + columns).contains(&i) {
                    continue;
                }
                let shift = if across { columns as isize / 2 } else { 0 };
                let wanted = i as isize - width as isize + shift;
                let column = if self.periodic {
                    wanted.rem_euclid(columns as isize)
                } else {
                    wanted.clamp(0, columns as isize - 1)
                } as usize;
                let (to, from) = (j * padded_columns + i, (row + width) * padded_columns + column + width);
                copies.push((to as u32, from as u32, across));
            }
        }
        Ok(HaloMap { images, cells, channels: odd.len(), copies, odd: odd.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{ArenaPlan, Device, cpu::Cpu};

    /// Fills the halo of one image with a rule, on the device.
    fn filled(
        edges: &Edges,
        rows: usize,
        columns: usize,
        width: usize,
        odd: &[bool],
        interior: &[f64],
    ) -> Vec<f64> {
        let map = edges.map(1, rows, columns, width, odd).unwrap();
        let mut plan = ArenaPlan::default();
        let slot = plan.slot(map.cells * odd.len());
        let mut device = Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        let mut x = vec![f64::NAN; slot.len()];
        for j in 0..rows {
            for i in 0..columns * odd.len() {
                x[((j + width) * (columns + 2 * width) + width) * odd.len() + i] =
                    interior[j * columns * odd.len() + i];
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
        let x = filled(&edges, 1, 3, 2, &[false], &[1.0, 2.0, 3.0]);
        for row in x.chunks(7) {
            assert_eq!(row, [1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 3.0]);
        }
    }

    #[test]
    fn a_band_around_the_earth_wraps_in_its_columns_only() {
        let edges = Edges { periodic: true, rows: [Edge::Replicate; 2] };
        // Wider than the grid: the wrap goes around more than once.
        let x = filled(&edges, 2, 3, 4, &[false], &numbers(6));
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
        let x = filled(&Edges { periodic: true, rows }, 3, 4, 2, &[false, true], &numbers(24));
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
    fn the_adjoint_is_the_transpose_of_the_fill_on_every_kind_of_edge() {
        let pole = |row_on_pole| Edge::Pole { row_on_pole };
        let rules = [
            (false, [Edge::Replicate; 2]),
            (true, [Edge::Replicate; 2]),
            (true, [pole(true), pole(true)]),
            (true, [pole(false), Edge::Replicate]),
        ];
        for (periodic, rows) in rules {
            let odd = [false, true, false];
            let map = Edges { periodic, rows }.map(2, 5, 6, 3, &odd).unwrap();
            let mut plan = ArenaPlan::default();
            let (a, b) = (plan.slot(2 * map.cells * 3), plan.slot(2 * map.cells * 3));
            let mut device = Cpu::<f64>::new(Some(1)).unwrap();
            device.allocate(&plan).unwrap();
            let mut x: Vec<f64> = (0..a.len()).map(|i| (i * i % 17) as f64).collect();
            let y: Vec<f64> = (0..a.len()).map(|i| (i * 5 % 13) as f64).collect();
            // The fill does not read halo cells; neither may the dot product of x.
            let halo: std::collections::HashSet<usize> = map.copies.iter().map(|c| c.0 as usize).collect();
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
            assert_eq!(dot(&filled, &y), dot(&x, &back), "{periodic} {rows:?}");
        }
    }

    #[test]
    fn shapes_that_the_pole_rule_cannot_serve_are_refused_by_name() {
        let rows = [Edge::Pole { row_on_pole: true }; 2];
        let message =
            |periodic, r, c, w| Edges { periodic, rows }.map(1, r, c, w, &[false]).unwrap_err().to_string();
        assert!(message(true, 5, 7, 1).contains("even number of columns, found 7"));
        assert!(message(true, 3, 8, 3).contains("halo of 3 rows"));
        assert!(message(false, 5, 8, 1).contains("close around"));
    }
}
