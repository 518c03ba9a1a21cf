//! What lies beyond the edge of the grid: halo cells are copies of interior cells, possibly with their sign changed.

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

/// Makes the halo map of a padded image of a given shape: the rule of a grid's edges.
pub trait Boundary: Send + Sync {
    /// For `rows x columns` interior cells and `width` halo cells on each side.
    fn map(&self, images: usize, rows: usize, columns: usize, width: usize, odd: &[bool]) -> HaloMap;
}
