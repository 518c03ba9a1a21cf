//! The rows of the grid that a rank learns from: what it takes of fields of the whole grid.

use std::borrow::Cow;
use std::ops::Range;

use crate::field::Layout;
use crate::preprocess::Batch;

/// A band of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Band {
    pub rows: Range<usize>,
    /// Rows and columns of the whole grid.
    grid: [usize; 2],
    /// Of frames and of forcings.
    channels: [usize; 2],
}

impl Band {
    /// Of a grid whose forcings have so many channels.
    pub fn new(rows: Range<usize>, layout: &Layout, forcings: usize) -> Self {
        let (all, columns, channels) = layout.shape();
        Self { rows, grid: [all, columns], channels: [channels, forcings] }
    }

    pub fn is_whole(&self) -> bool {
        self.rows == (0..self.grid[0])
    }

    /// How many of so many numbers on the whole grid lie in the band.
    pub fn len(&self, whole: usize) -> usize {
        whole / self.grid[0] * self.rows.len()
    }

    /// The inverse of [`len`](Self::len).
    pub fn whole(&self, len: usize) -> usize {
        len / self.rows.len() * self.grid[0]
    }

    /// Where the band lies in each of the fields `[.., lat, lon, channel]` that are `len` numbers together.
    fn parts(&self, len: usize, channels: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let row = self.grid[1] * channels;
        let each = self.grid[0] * row;
        let (start, end) = (self.rows.start * row, self.rows.end * row);
        (0..len).step_by(each.max(1)).map(move |first| first + start..first + end)
    }

    /// Where the band lies in frames, and in forcings, of `len` numbers.
    pub fn parts_of_frames(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        self.parts(len, self.channels[0])
    }

    pub fn parts_of_forcings(&self, len: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        self.parts(len, self.channels[1])
    }

    /// Its part of fields `[.., lat, lon, channel]`.
    pub fn cut<'a>(&self, fields: &'a [f32], channels: usize) -> Cow<'a, [f32]> {
        if self.is_whole() {
            return Cow::Borrowed(fields);
        }
        self.parts(fields.len(), channels).flat_map(|part| fields[part].iter().copied()).collect()
    }

    pub fn frames<'a>(&self, batch: &'a Batch) -> Cow<'a, [f32]> {
        self.cut(&batch.frames, self.channels[0])
    }

    pub fn forcings<'a>(&self, batch: &'a Batch) -> Cow<'a, [f32]> {
        self.cut(&batch.forcings, self.channels[1])
    }

    /// Its part of a batch.
    pub fn batch(&self, batch: Batch) -> Batch {
        if self.is_whole() {
            return batch;
        }
        Batch {
            frames: self.frames(&batch).into_owned(),
            forcings: self.forcings(&batch).into_owned(),
            mask: batch.mask.as_ref().map(|mask| self.mask(mask).as_ref().into()),
            ..batch
        }
    }

    /// Of a mask `[lat, lon, channel]`.
    pub fn mask<'a>(&self, mask: &'a [f32]) -> Cow<'a, [f32]> {
        self.cut(mask, self.channels[0])
    }

    /// Of fields that stay the same, `[lat, lon, static]`.
    pub fn statics<'a>(&self, statics: &'a [f32]) -> Cow<'a, [f32]> {
        self.cut(statics, statics.len() / (self.grid[0] * self.grid[1]))
    }
}
