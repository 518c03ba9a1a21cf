//! Transport of a scalar along the contours of another: what the operation is told.

use super::{Image, Slot};

/// `k = J(q + r, p) + diffusion lap q`, Arakawa's nine-point Jacobian, which conserves the sums of q, of its square and
/// of the energy `p q` (Arakawa 1966, doi:10.1016/0021-9991(66)90015-5), with
///
/// ```text
/// J(q, p) = dq/dx dp/dy - dq/dy dp/dx
/// lap q = (west (q_{i-1} - 2 q_i + q_{i+1}) + south_j (q_{j-1} - q_j) + south_{j+1} (q_{j+1} - q_j)) / area
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jacobian {
    pub rows: usize,
    pub columns: usize,
    /// `[rows + 2, columns + 2]`, the halo filled.
    pub p: Slot,
    /// As p.
    pub q: Slot,
    /// `[rows + 2, Jacobian::MEASURES]`: r, 1 / area, west, south. The first and the last row stand for the halo: there
    /// only r is read, and the last row's south.
    pub table: Slot,
    pub diffusion: f64,
    /// `[rows, columns]`, overwritten.
    pub k: Slot,
}

impl Jacobian {
    /// Numbers of one row in the table.
    pub const MEASURES: usize = 4;
}

/// Smoothing of cyclic rows by a [`Filter`](super::Filter) each: symmetric, and it keeps the sum of a row. Halos stay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowSmoothing {
    pub rows: usize,
    pub columns: usize,
    /// Overwritten.
    pub x: Image,
    /// `[rows, 2]`: z of each.
    pub filters: Slot,
}
