//! Weighted sums of fields: what the operation is told.

use super::Slot;

/// The interior of `[rows + 2 halo, columns + 2 halo]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Image {
    pub slot: Slot,
    pub halo: usize,
}

impl Image {
    /// Without a halo.
    pub fn plain(slot: Slot) -> Self {
        Self { slot, halo: 0 }
    }

    /// With one cell of halo on each side.
    pub fn padded(slot: Slot) -> Self {
        Self { slot, halo: 1 }
    }

    /// From the first interior point on, for rows of `columns`.
    pub(super) fn interior(self, columns: usize) -> Slot {
        let start = self.halo * (columns + 2 * self.halo) + self.halo;
        self.slot.part(start, self.slot.len() - start)
    }
}

/// `weight * factors * x`
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    pub x: Image,
    pub weight: f64,
    /// `[rows]` or `[rows, columns]`; `None` is one.
    pub factors: Option<Slot>,
}

impl Term {
    pub fn new(x: Image, weight: f64) -> Self {
        Self { x, weight, factors: None }
    }

    pub fn times(self, factors: Slot) -> Self {
        Self { factors: Some(factors), ..self }
    }
}

/// `y = keep y + sum of terms`, point by point; where `keep` is 0, y is not looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sum<'a> {
    pub rows: usize,
    pub columns: usize,
    pub y: Image,
    pub keep: f64,
    /// At most [`Sum::MOST`], none of them y.
    pub terms: &'a [Term],
}

impl Sum<'_> {
    pub const MOST: usize = 4;
}
