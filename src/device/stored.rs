//! Normalised fields from numbers as files store them: what the operation is told.
//!
//! ```text
//! x = (stored * scale + offset) * scale' + offset'      float64, rounded once to float32; NaN where missing
//! x = product of x where the file has another grid      float64, rounded to float32
//! y = sum of x over the terms of a channel
//! z = ((ln(1 + max(y, 0) / epsilon) or y) - base - mean) / deviation          0 where the mask is 0
//! ```
//!
//! Both devices take the same steps in the same order, so that without a logarithm they give the same bits.

use std::ops::Range;

use super::{Slot, Sparse};

/// The type of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredNumber {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

/// How the bytes of the numbers of a chunk are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    LittleEndian,
    BigEndian,
    /// The first bytes of all numbers, then all second bytes, ...; little-endian.
    Shuffled,
}

/// What stored numbers mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Code {
    pub number: StoredNumber,
    pub order: ByteOrder,
    /// `[factor, offset]`
    pub scale: [f64; 2],
    /// `[factor, offset]` of what comes after the scale.
    pub conversion: [f64; 2],
    /// Stored numbers outside of these bounds are missing.
    pub bounds: [f64; 2],
    /// Stored numbers that mean "missing"; NaN, which equals nothing, where there are fewer.
    pub missing: [f64; 2],
}

/// A field as its file stores it: rows and columns, cut into tiles, each of which lies in one chunk.
#[derive(Debug, Clone)]
pub struct Plane {
    pub code: Code,
    /// Of the file.
    pub rows: usize,
    pub file_columns: usize,
    /// Of the field.
    pub columns: usize,
    /// The file's last row is the field's first.
    pub flipped: bool,
    /// The file's column of the field's first; the others follow, around the end of the row.
    pub first_column: usize,
    /// Rows and columns of a tile; those at the ends may be narrower.
    pub tile: [usize; 2],
    /// The number, inside each chunk, that the tile begins with; and how many numbers further on the next row and the
    /// next column are.
    pub start: usize,
    pub strides: [usize; 2],
    /// The chunks of the tiles, row by row, all of one length.
    pub chunks: Range<usize>,
    /// To the grid of the fields, where this is another one.
    pub product: Option<Sparse>,
}

/// How one channel is normalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// 0: no logarithm.
    pub epsilon: f32,
    pub mean: f32,
    pub deviation: f32,
}

/// What is subtracted before the mean: a linear combination of fields, another one for each image.
#[derive(Debug, Clone, Copy)]
pub struct Bases<'a> {
    /// `[sets, terms, rows, columns, channels]`
    pub fields: Slot,
    pub terms: usize,
    /// Of each image.
    pub sets: &'a [u32],
    /// `[images, terms]`
    pub weights: &'a [f32],
}

/// Makes normalised fields.
#[derive(Debug, Clone, Copy)]
pub struct Decode<'a> {
    pub images: usize,
    pub rows: usize,
    pub columns: usize,
    /// One per channel.
    pub scalings: &'a [Scaling],
    pub chunks: &'a [Vec<u8>],
    pub planes: &'a [Plane],
    /// `[images * channels + 1]`: which planes are added up, from each number to the next.
    pub terms: &'a [u32],
    pub bases: Option<Bases<'a>>,
    /// `[rows, columns, channels]`
    pub mask: Option<Slot>,
    /// Of each image, how many columns it is turned: column i of the result is column `i + turn` of what was stored.
    pub turns: &'a [u32],
    /// `[images, rows, columns, channels]`, overwritten.
    pub fields: Slot,
}

impl StoredNumber {
    /// [bytes]
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

impl Code {
    /// Float32 values that mean themselves.
    pub const PLAIN: Self = Self {
        number: StoredNumber::F32,
        order: if cfg!(target_endian = "big") { ByteOrder::BigEndian } else { ByteOrder::LittleEndian },
        scale: [1.0, 0.0],
        conversion: [1.0, 0.0],
        bounds: [f64::NEG_INFINITY, f64::INFINITY],
        missing: [f64::NAN; 2],
    };

    /// The value of the number with this index in a chunk.
    pub(super) fn value(&self, chunk: &[u8], index: usize) -> f32 {
        let stored = self.stored(chunk, index);
        let [low, high] = self.bounds;
        let good = stored >= low && stored <= high && !self.missing.contains(&stored);
        let apply = |x: f64, [factor, offset]: [f64; 2]| x * factor + offset;
        if good { apply(apply(stored, self.scale), self.conversion) as f32 } else { f32::NAN }
    }

    fn stored(&self, chunk: &[u8], index: usize) -> f64 {
        let size = self.number.size();
        let byte = |k: usize| match self.order {
            ByteOrder::LittleEndian => chunk[index * size + k],
            ByteOrder::BigEndian => chunk[index * size + size - 1 - k],
            ByteOrder::Shuffled => chunk[k * (chunk.len() / size) + index],
        };
        let bits = (0..size).fold(0_u64, |bits, k| bits | u64::from(byte(k)) << (8 * k));
        match self.number {
            StoredNumber::I8 => (bits as i8).into(),
            StoredNumber::U8 | StoredNumber::U16 | StoredNumber::U32 | StoredNumber::U64 => bits as f64,
            StoredNumber::I16 => (bits as i16).into(),
            StoredNumber::I32 => (bits as i32).into(),
            StoredNumber::I64 => bits as i64 as f64,
            StoredNumber::F32 => f32::from_bits(bits as u32).into(),
            StoredNumber::F64 => f64::from_bits(bits),
        }
    }
}

impl Plane {
    /// Values that are there already, `[rows, columns]`, in the chunk with this number.
    pub fn plain(rows: usize, columns: usize, chunk: usize) -> Self {
        Self {
            code: Code::PLAIN,
            rows,
            file_columns: columns,
            columns,
            flipped: false,
            first_column: 0,
            tile: [rows, columns],
            start: 0,
            strides: [columns, 1],
            chunks: chunk..chunk + 1,
            product: None,
        }
    }

    /// Tiles from west to east.
    pub(super) fn tiles_across(&self) -> usize {
        self.file_columns.div_ceil(self.tile[1])
    }

    /// The value at a point of the plane's own grid.
    fn stored(&self, chunks: &[Vec<u8>], point: usize) -> f32 {
        let (row, column) = (point / self.columns, point % self.columns);
        let row = if self.flipped { self.rows - 1 - row } else { row };
        let column = (self.first_column + column) % self.file_columns;
        let ([tile_rows, tile_columns], [row_stride, column_stride]) = (self.tile, self.strides);
        let tile = row / tile_rows * self.tiles_across() + column / tile_columns;
        let index = self.start + row % tile_rows * row_stride + column % tile_columns * column_stride;
        self.code.value(&chunks[self.chunks.start + tile], index)
    }

    /// The value at a point of the fields' grid.
    pub(super) fn value(&self, chunks: &[Vec<u8>], point: usize) -> f32 {
        match &self.product {
            None => self.stored(chunks, point),
            Some(product) => product.value(point, |j| f64::from(self.stored(chunks, j))) as f32,
        }
    }
}

impl Scaling {
    /// Before mean and base are subtracted.
    pub fn transform(self, x: f32) -> f32 {
        if self.epsilon == 0.0 {
            return x;
        }
        // `max` would turn a missing value into 0.
        let positive = if x < 0.0 { 0.0 } else { x };
        (positive / self.epsilon).ln_1p()
    }
}

impl Decode<'_> {
    pub(super) fn channels(&self) -> usize {
        self.scalings.len()
    }

    /// Panics where shapes do not fit: that is a mistake of who asks, not of the data.
    pub(super) fn check(&self) {
        let (points, channels) = (self.rows * self.columns, self.channels());
        let field = points * channels;
        assert_eq!(self.fields.len(), self.images * field, "a field for each image");
        assert_eq!(self.terms.len(), self.images * channels + 1, "terms for each image and channel");
        assert_eq!(self.turns.len(), self.images, "a turn for each image");
        assert!(
            self.turns.iter().all(|&turn| (turn as usize) < self.columns.max(1)),
            "less than a whole turn"
        );
        assert!(self.terms.is_sorted(), "terms follow each other");
        assert!(
            self.terms.last().is_some_and(|&end| end as usize <= self.planes.len()),
            "planes for all terms"
        );
        assert!(self.mask.is_none_or(|mask| mask.len() == field), "a mask for each number");
        if let Some(bases) = &self.bases {
            assert_eq!(bases.sets.len(), self.images, "a base for each image");
            assert_eq!(bases.weights.len(), self.images * bases.terms, "weights for each image's base");
            let sets = bases.sets.iter().max().map_or(0, |&last| last as usize + 1);
            assert!(sets * bases.terms * field <= bases.fields.len(), "a base that there is");
        }
        self.planes.iter().for_each(|plane| self.check_plane(plane, points));
    }

    fn check_plane(&self, plane: &Plane, points: usize) {
        let target = plane.product.as_ref().map_or(plane.rows * plane.columns, Sparse::len);
        assert_eq!(target, points, "a plane gives one value for each point");
        if let Some(product) = &plane.product {
            let most = product.0.sources.iter().max().map_or(0, |&j| j as usize + 1);
            assert!(most <= plane.rows * plane.columns, "a product reads points of its plane");
        }
        let ([rows, columns], [row_stride, column_stride]) = (plane.tile, plane.strides);
        assert!(
            rows > 0 && columns > 0 && plane.first_column < plane.file_columns.max(1),
            "tiles have points"
        );
        assert!(plane.columns <= plane.file_columns, "columns that the file has");
        let tiles = plane.rows.div_ceil(rows) * plane.tiles_across();
        assert_eq!(plane.chunks.len(), tiles, "a chunk for each tile");
        let (rows, columns) = (rows.min(plane.rows), columns.min(plane.file_columns));
        let last = plane.start + (rows - 1) * row_stride + (columns - 1) * column_stride;
        let chunks = &self.chunks[plane.chunks.clone()];
        let bytes = chunks[0].len();
        assert!((last + 1) * plane.code.number.size() <= bytes, "a chunk holds its tile");
        assert!(chunks.iter().all(|chunk| chunk.len() == bytes), "chunks are of one length");
    }
}
