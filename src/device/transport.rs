//! Semi-Lagrangian transport over a sphere: what the two operations are told. Each point takes over the value of the place
//! that its particle came from, however many cells away, so that no step is too long to be stable.
//!
//! (Staniforth and Côté 1991, doi:10.1175/1520-0493(1991)119<2206:SLISFA>2.0.CO;2; in Cartesian coordinates: Ritchie
//! 1987, doi:10.1175/1520-0493(1987)115<0608:SLAOAG>2.0.CO;2.)

use super::{Edge, Edges, Slot};

/// Points `[rows, columns]` on the unit sphere, evenly spaced in latitude and longitude.
#[derive(Debug, Clone, PartialEq)]
pub struct Lattice {
    pub rows: usize,
    pub columns: usize,
    /// Latitude of the first row [radians].
    pub first: f64,
    /// From one row to the next, northward [radians].
    pub dp: f64,
    /// From one column to the next, eastward [radians].
    pub dl: f64,
    /// A particle that came from beyond a replicated edge came from the edge.
    pub edges: Edges,
}

/// Where the particles that arrive at the points of a lattice came from: `iterations` of the midpoint rule
/// `x_m = x - V(x_m) / 2` on the unit sphere, V linear between points, then as far again along the great circle.
#[derive(Debug, Clone, PartialEq)]
pub struct Departures {
    pub lattice: Lattice,
    pub iterations: usize,
    /// `[rows, columns]`: eastward and northward velocity, in any unit.
    pub u: Slot,
    pub v: Slot,
    /// What a velocity of 1 moves in the step [radians].
    pub scale: f64,
    /// `[rows, columns, 2]`, overwritten: rows and columns from the point of arrival to that of departure. NaN where the
    /// velocity is not finite.
    pub places: Slot,
}

/// Values between the points of a lattice: cubic Lagrange polynomials through 4 x 4 points.
#[derive(Debug, Clone, PartialEq)]
pub struct Interpolation {
    pub lattice: Lattice,
    /// `[rows, columns, 2]` of [`Departures`].
    pub places: Slot,
    /// `[fields, rows, columns]`
    pub from: Slot,
    /// `[fields, rows, columns]`, overwritten: `from` at the places.
    pub to: Slot,
    /// Nowhere beyond the four points around the place: no new extremes.
    pub limited: bool,
}

impl Lattice {
    /// The row that row `row`, perhaps beyond an edge, copies, and how many columns further on.
    pub(super) fn source_row(&self, row: isize) -> (usize, isize) {
        let last = self.rows as isize - 1;
        let (edge, beyond) = match row {
            r if r < 0 => (self.edges.rows[0], -r),
            r if r > last => (self.edges.rows[1], r - last),
            r => return (r as usize, 0),
        };
        let (inward, across) = match edge {
            Edge::Replicate | Edge::Neighbour => (0, false),
            Edge::Pole { row_on_pole: true } => (beyond, true),
            Edge::Pole { row_on_pole: false } => (beyond - 1, true),
        };
        let inward = inward.min(last);
        let row = if row < 0 { inward } else { last - inward };
        (row as usize, if across { self.columns as isize / 2 } else { 0 })
    }

    pub(super) fn source_column(&self, column: isize) -> usize {
        let n = self.columns as isize;
        if self.edges.periodic { column.rem_euclid(n) as usize } else { column.clamp(0, n - 1) as usize }
    }
}
