//! The edge rule as nodes: what lies beyond the grid is a copy of what lies within.

use super::builder::{Builder, Wire};
use crate::device::{Edge, Edges};

/// Rows and columns of `[batch, channel, row, column]`.
const ROWS: i64 = 2;
const COLUMNS: i64 = 3;

/// Fills a halo of `width` cells around images of `rows x columns` cells.
pub struct Halo {
    pub edges: Edges,
    pub rows: usize,
    pub columns: usize,
    pub width: usize,
}

impl Halo {
    /// `signs`, `[1, channel, 1, 1]`, holds -1 for channels that change sign across a pole; `None` where none does.
    pub fn fill(&self, builder: &mut Builder, x: &Wire, signs: Option<&Wire>) -> Wire {
        if self.width == 0 {
            return x.clone();
        }
        let south = self.beyond(builder, x, signs, 0);
        let north = self.beyond(builder, x, signs, 1);
        let x = builder.concat(ROWS, &[south, vec![x.clone()], north].concat());
        let (west, east) =
            if self.edges.periodic { self.around(builder, &x) } else { self.repeated(builder, &x) };
        builder.concat(COLUMNS, &[west, vec![x], east].concat())
    }

    /// The rows beyond the first (`side` 0) or the last row.
    fn beyond(&self, builder: &mut Builder, x: &Wire, signs: Option<&Wire>, side: usize) -> Vec<Wire> {
        let (rows, width) = (self.rows, self.width);
        let row_on_pole = match self.edges.rows[side] {
            // An exported network is of a whole grid.
            Edge::Replicate | Edge::Neighbour => {
                let outermost = [0, rows - 1][side];
                return vec![builder.slice(x, ROWS, outermost, outermost + 1); width];
            }
            Edge::Pole { row_on_pole } => usize::from(row_on_pole),
        };
        // In the order in which they stand beyond the edge: the farthest of them is the northernmost there.
        let across = if side == 0 {
            builder.slice_back(x, ROWS, row_on_pole + width - 1, row_on_pole)
        } else {
            let last = rows - 1 - row_on_pole;
            builder.slice_back(x, ROWS, last, last + 1 - width)
        };
        let half = self.columns / 2;
        let [west, east] =
            [(0, half), (half, self.columns)].map(|(first, end)| builder.slice(&across, COLUMNS, first, end));
        let turned = builder.concat(COLUMNS, &[east, west]);
        vec![match signs {
            Some(signs) => builder.multiply(&turned, signs),
            None => turned,
        }]
    }

    /// The columns west and east of a grid that closes around the earth, as often around as they reach.
    fn around(&self, builder: &mut Builder, x: &Wire) -> (Vec<Wire>, Vec<Wire>) {
        let (columns, turns, rest) = (self.columns, self.width / self.columns, self.width % self.columns);
        let whole = vec![x.clone(); turns];
        let (mut west, mut east) = (whole.clone(), whole);
        if rest > 0 {
            west.insert(0, builder.slice(x, COLUMNS, columns - rest, columns));
            east.push(builder.slice(x, COLUMNS, 0, rest));
        }
        (west, east)
    }

    fn repeated(&self, builder: &mut Builder, x: &Wire) -> (Vec<Wire>, Vec<Wire>) {
        let [west, east] = [0, self.columns - 1].map(|i| builder.slice(x, COLUMNS, i, i + 1));
        (vec![west; self.width], vec![east; self.width])
    }
}
