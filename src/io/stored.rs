//! Fields as their file stores them: chunks read and inflated, but not decoded. Whoever decodes them elsewhere gets the
//! values that [`Reader`](super::Reader) gives.

pub use super::decode::Arrangement;

/// A field, `[lat, lon]`, cut into the tiles that the chunks of its file make of it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredField {
    /// Of the tiles, row by row in the file's order; all of one length.
    pub chunks: Vec<Vec<u8>>,
    pub arrangement: Arrangement,
    /// Rows and columns of the file; its last row is the field's first where the latitudes descend.
    pub file: [usize; 2],
    pub latitude_descending: bool,
    /// The file's column of the field's first; the others follow, around the end of the row.
    pub first_column: usize,
    /// Rows and columns of a tile; those at the ends may be narrower.
    pub tile: [usize; 2],
    /// The number, inside each chunk, that the tile begins with.
    pub start: usize,
    /// How many numbers further on the next row and the next column are.
    pub strides: [usize; 2],
}

/// Where the parts of a field lie in its chunks: the same for all chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pattern {
    pub file: [usize; 2],
    pub latitude_descending: bool,
    pub first_column: usize,
    pub tile: [usize; 2],
    pub strides: [usize; 2],
}
