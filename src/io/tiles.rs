//! Which chunks hold which part of which field, and where that part belongs.

use std::collections::HashMap;
use std::ops::Range;

use super::chunk_index::ChunkIndex;
use super::chunks::Chunk;
use super::decode::Decoder;
use super::info::{Role, VariableInfo};
use super::stored::Pattern;

/// Some fields of a variable, cut into the tiles that its chunks make of the grid.
pub(super) struct Tiling {
    /// Per field, its index along every dimension of the file (0 along rows and columns).
    starts: Vec<Vec<usize>>,
    shape: Vec<usize>,
    chunk: Vec<usize>,
    /// Numbers from one index to the next along each dimension, inside a chunk.
    strides: Vec<usize>,
    /// The dimensions of latitude and longitude.
    row: usize,
    column: usize,
    latitude_descending: bool,
    /// Columns of the grid.
    columns: usize,
    segments: Vec<Segment>,
}

/// Columns that lie side by side both in the file and in the grid.
struct Segment {
    file: usize,
    grid: usize,
    length: usize,
}

/// A rectangle of the file's rows and columns that lies in one chunk of each field.
#[derive(Debug, Clone)]
pub(super) struct Tile {
    rows: Range<usize>,
    columns: Range<usize>,
}

/// Fields that lie in the same chunks.
pub(super) struct Group {
    pub fields: Vec<usize>,
}

impl Tile {
    /// How many points it has.
    pub fn points(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

impl Tiling {
    /// The fields of one level at consecutive times; `None` when there are none such, or they are not made of rows
    /// and columns alone.
    pub fn new(
        variable: &VariableInfo,
        index: &ChunkIndex,
        level: usize,
        times: Range<usize>,
    ) -> Option<Self> {
        if variable.dimension(Role::Version).is_some() {
            return None;
        }
        let (row, rows) = variable.dimension(Role::Latitude)?;
        let (column, file_columns) = variable.dimension(Role::Longitude)?;
        let starts = times.map(|time| Some(variable.slab(time, level)?.0)).collect::<Option<Vec<_>>>()?;
        let inside = starts.iter().all(|start| start.iter().zip(&index.shape).all(|(at, n)| at < n));
        let known = rows == variable.grid.rows() && variable.columns.len() == variable.grid.columns();
        if !inside || !known || variable.columns.iter().any(|&column| column >= file_columns) {
            return None;
        }
        let mut strides = vec![1; index.chunk.len()];
        for d in (0..strides.len().saturating_sub(1)).rev() {
            strides[d] = strides[d + 1] * index.chunk[d + 1];
        }
        Some(Self {
            starts,
            shape: index.shape.clone(),
            chunk: index.chunk.clone(),
            strides,
            row,
            column,
            latitude_descending: variable.orientation.latitude_descending,
            columns: variable.grid.columns(),
            segments: segments(&variable.columns),
        })
    }

    /// How many fields.
    pub fn fields(&self) -> usize {
        self.starts.len()
    }

    /// Whether a chunk holds parts of several fields.
    pub fn chunks_are_shared(&self) -> bool {
        (0..self.chunk.len())
            .any(|d| d != self.row && d != self.column && self.chunk[d].min(self.shape[d]) > 1)
    }

    /// How every field lies in its chunks; `None` where its columns do not follow each other around the row.
    pub fn pattern(&self) -> Option<Pattern> {
        let file = [self.shape[self.row], self.shape[self.column]];
        let first_column = self.segments.first()?.file;
        let follows = |s: &Segment| s.file == (first_column + s.grid) % file[1];
        // A segment ends where the row does, or begins at its beginning.
        self.segments.iter().all(follows).then_some(Pattern {
            file,
            latitude_descending: self.latitude_descending,
            first_column,
            tile: [self.chunk[self.row], self.chunk[self.column]],
            strides: [self.strides[self.row], self.strides[self.column]],
        })
    }

    /// The number of a field's first point inside each of its chunks.
    pub fn first_number(&self, field: usize) -> usize {
        let start = &self.starts[field];
        (0..start.len()).map(|d| start[d] % self.chunk[d] * self.strides[d]).sum()
    }

    /// The tiles of every field.
    pub fn tiles(&self) -> Vec<Tile> {
        let cut = |d: usize| {
            let (n, step) = (self.shape[d], self.chunk[d]);
            (0..n).step_by(step).map(move |first| first..n.min(first.saturating_add(step)))
        };
        cut(self.row)
            .flat_map(|rows| cut(self.column).map(move |columns| Tile { rows: rows.clone(), columns }))
            .collect()
    }

    /// The fields by the chunks that they lie in, and for each field its group and its place in the group.
    pub fn groups(&self) -> (Vec<Group>, Vec<(usize, usize)>) {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut homes = Vec::with_capacity(self.fields());
        for (field, start) in self.starts.iter().enumerate() {
            let position: Vec<usize> = start.iter().zip(&self.chunk).map(|(at, n)| at / n).collect();
            let group = *known.entry(position).or_insert_with(|| {
                groups.push(Group { fields: Vec::new() });
                groups.len() - 1
            });
            homes.push((group, groups[group].fields.len()));
            groups[group].fields.push(field);
        }
        (groups, homes)
    }

    /// Where the chunk of a tile of a group's fields lies in the grid of chunks.
    pub fn position(&self, field: usize, tile: &Tile) -> Vec<usize> {
        let mut position: Vec<usize> =
            self.starts[field].iter().zip(&self.chunk).map(|(at, n)| at / n).collect();
        position[self.row] = tile.rows.start / self.chunk[self.row];
        position[self.column] = tile.columns.start / self.chunk[self.column];
        position
    }

    /// Decodes a field's part of a chunk straight into the field, `[lat * lon]`.
    pub fn decode_into_field(
        &self,
        decoder: &Decoder,
        bytes: &Chunk<'_>,
        field: usize,
        tile: &Tile,
        out: &mut [f32],
    ) {
        for row in tile.rows.clone() {
            let line = self.grid_row(row, out);
            for segment in self.segments_of(tile) {
                let first = self.number(field, tile, row, segment.file);
                let part = &mut line[segment.grid..segment.grid + segment.length];
                bytes.decode(decoder, first, self.strides[self.column], part);
            }
        }
    }

    /// Decodes a field's part of a chunk into a tile of its own, `[row, column]` in the file's order.
    pub fn decode_into_tile(
        &self,
        decoder: &Decoder,
        bytes: &Chunk<'_>,
        field: usize,
        tile: &Tile,
        out: &mut [f32],
    ) {
        for (row, line) in tile.rows.clone().zip(out.chunks_exact_mut(tile.columns.len())) {
            let first = self.number(field, tile, row, tile.columns.start);
            bytes.decode(decoder, first, self.strides[self.column], line);
        }
    }

    /// Copies a decoded tile into its field, `[lat * lon]`.
    pub fn place_tile(&self, tile: &Tile, values: &[f32], out: &mut [f32]) {
        for (row, line) in tile.rows.clone().zip(values.chunks_exact(tile.columns.len())) {
            let target = self.grid_row(row, out);
            for segment in self.segments_of(tile) {
                let from = segment.file - tile.columns.start;
                target[segment.grid..segment.grid + segment.length]
                    .copy_from_slice(&line[from..from + segment.length]);
            }
        }
    }

    /// The number of a point inside its chunk.
    fn number(&self, field: usize, tile: &Tile, row: usize, column: usize) -> usize {
        self.first_number(field)
            + (row - tile.rows.start) * self.strides[self.row]
            + (column - tile.columns.start) * self.strides[self.column]
    }

    /// The grid's row for a row of the file.
    fn grid_row<'a>(&self, row: usize, out: &'a mut [f32]) -> &'a mut [f32] {
        let row = if self.latitude_descending { self.shape[self.row] - 1 - row } else { row };
        &mut out[row * self.columns..(row + 1) * self.columns]
    }

    /// The parts of the segments that lie in a tile.
    fn segments_of<'a>(&'a self, tile: &'a Tile) -> impl Iterator<Item = Segment> + 'a {
        self.segments.iter().filter_map(|segment| {
            let first = segment.file.max(tile.columns.start);
            let end = (segment.file + segment.length).min(tile.columns.end);
            (first < end).then(|| Segment {
                file: first,
                grid: segment.grid + first - segment.file,
                length: end - first,
            })
        })
    }
}

/// `columns` is the file's column for each column of the grid.
fn segments(columns: &[usize]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (grid, &file) in columns.iter().enumerate() {
        match segments.last_mut() {
            Some(last) if last.file + last.length == file => last.length += 1,
            _ => segments.push(Segment { file, grid, length: 1 }),
        }
    }
    segments
}
