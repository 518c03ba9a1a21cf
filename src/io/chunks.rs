//! Fields read around the NetCDF library: bytes fetched, inflated and decoded by all cores at once.
//!
//! The NetCDF and HDF5 libraries know one caller at a time. Where the numbers of a variable are stored in a way that we
//! can read ourselves, the library is asked once where they lie; everything after that is ours and runs in parallel.
//! Other variables are left to the library.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libdeflater::Decompressor;
use rayon::prelude::*;

use super::chunk_cache::ChunkCache;
use super::chunk_index::{ChunkIndex, StoredChunk};
use super::decode::{Arrangement, Decoder};
use super::info::{FileInfo, Format, VariableInfo};
use super::stored::StoredField;
use super::tiles::{Tile, Tiling};
use super::{header, schema::Schema};
use crate::error::{Context, Error, Result};

/// A file whose fields are read without the library where they can be.
pub(super) struct DirectFile {
    path: PathBuf,
    file: File,
    size: u64,
    /// The header of a classic file; an HDF5 file's is asked of the library.
    classic: Option<Schema>,
    /// Per variable, once asked for: its number, and its index or `None` when it is left to the library.
    indices: HashMap<String, (usize, Option<Arc<ChunkIndex>>)>,
    cache: Mutex<ChunkCache>,
    bytes_read: AtomicU64,
}

impl DirectFile {
    /// Opens a file that was inspected; `None` when nothing in it can be read directly.
    pub fn open(info: &FileInfo) -> Result<Option<Self>> {
        let path = info.path.clone();
        let name = path.display().to_string();
        let file = File::open(&path).context(|| format!("{name}: cannot open"))?;
        let size = file.metadata().context(|| format!("{name}: cannot stat"))?.len();
        let classic = if info.format == Format::Hdf5 {
            // Addresses count from the superblock; where it does not come first, versions of HDF5 disagree on them.
            let mut signature = [0; 8];
            if file.read_exact_at(&mut signature, 0).is_err() || signature != *b"\x89HDF\r\n\x1a\n" {
                return Ok(None);
            }
            None
        } else {
            Some(header::parse(&file, size, &name)?)
        };
        let (indices, cache) = (HashMap::new(), Mutex::new(ChunkCache::default()));
        Ok(Some(Self { path, file, size, classic, indices, cache, bytes_read: AtomicU64::new(0) }))
    }

    /// Reads the fields of one level at consecutive times (indices into `variable.times`) into `out`,
    /// `[time, lat * lon]`: south to north, eastward, SI units, NaN for missing.
    /// `false` when this variable is left to the library; then `out` is as it was.
    pub fn read_many(
        &mut self,
        variable: &VariableInfo,
        level: usize,
        times: Range<usize>,
        out: &mut [f32],
    ) -> Result<bool> {
        let (number, Some(index)) = self.index(variable) else { return Ok(false) };
        let Some(tiling) = Tiling::new(variable, &index, level, times) else { return Ok(false) };
        let points = variable.grid.points();
        if Some(out.len()) != tiling.fields().checked_mul(points) {
            return Err(Error::run(format!(
                "{}: {} fields of '{}' do not fit into {} numbers",
                self.path.display(),
                tiling.fields(),
                variable.name,
                out.len()
            )));
        }
        let decoder = Decoder::new(variable);
        let source = Source { file: self, name: &variable.name, number, index: &index, decoder };
        if tiling.chunks_are_shared() {
            source.by_chunk(&tiling, points, out)?;
        } else {
            source.by_field(&tiling, points, out)?;
        }
        Ok(true)
    }

    /// The fields of one level at consecutive times as they are stored; `None` where they are not all there, or a chunk
    /// holds parts of several.
    pub fn stored(
        &mut self,
        variable: &VariableInfo,
        level: usize,
        times: Range<usize>,
    ) -> Result<Option<Vec<StoredField>>> {
        let (number, Some(index)) = self.index(variable) else { return Ok(None) };
        let Some(tiling) = Tiling::new(variable, &index, level, times) else { return Ok(None) };
        let Some(pattern) = tiling.pattern().filter(|_| !tiling.chunks_are_shared()) else { return Ok(None) };
        let tiles = tiling.tiles();
        let field = |inflater: &mut Inflater, n: usize| -> Result<Option<StoredField>> {
            let decoder = Decoder::new(variable);
            let source = Source { file: self, name: &variable.name, number, index: &index, decoder };
            let mut chunks = Vec::with_capacity(tiles.len());
            for tile in &tiles {
                let Some(stored) = index.get(&tiling.position(n, tile)) else { return Ok(None) };
                chunks.push(inflater.read(&source, &tiling, n, tile, stored)?.to_vec());
            }
            Ok(Some(StoredField {
                chunks,
                arrangement: index.arrangement,
                file: pattern.file,
                latitude_descending: pattern.latitude_descending,
                first_column: pattern.first_column,
                tile: pattern.tile,
                start: tiling.first_number(n),
                strides: pattern.strides,
            }))
        };
        let fields: Vec<Option<StoredField>> =
            (0..tiling.fields()).into_par_iter().map_init(Inflater::default, field).collect::<Result<_>>()?;
        Ok(fields.into_iter().collect())
    }

    /// Bytes fetched from the file so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    fn index(&mut self, variable: &VariableInfo) -> (usize, Option<Arc<ChunkIndex>>) {
        let (path, file, size, number) = (&self.path, &self.file, self.size, self.indices.len());
        let classic = self.classic.as_ref();
        let found = self.indices.entry(variable.name.clone()).or_insert_with(|| {
            let index = match classic {
                Some(schema) => {
                    schema.variable(&variable.name).and_then(|v| ChunkIndex::classic(variable, v.place?))
                }
                None => hdf5::File::open(path)
                    .and_then(|opened| opened.dataset(&variable.name))
                    .ok()
                    .and_then(|dataset| ChunkIndex::new(&dataset, variable, file, size)),
            };
            (number, index.map(Arc::new))
        });
        found.clone()
    }
}

/// One variable of a file, while it is read.
struct Source<'a> {
    file: &'a DirectFile,
    name: &'a str,
    number: usize,
    index: &'a ChunkIndex,
    decoder: Decoder,
}

impl Source<'_> {
    /// Every chunk belongs to one field: fields are read in parallel, each straight into its place.
    fn by_field(&self, tiling: &Tiling, points: usize, out: &mut [f32]) -> Result<()> {
        let tiles = tiling.tiles();
        out.par_chunks_exact_mut(points).enumerate().try_for_each_init(
            Inflater::default,
            |inflater, (n, field)| {
                tiles.iter().try_for_each(|tile| {
                    let chunk = match self.index.get(&tiling.position(n, tile)) {
                        None => self.unwritten(),
                        Some(stored) => self.chunk(inflater.read(self, tiling, n, tile, stored)?),
                    };
                    tiling.decode_into_field(&self.decoder, &chunk, n, tile, field);
                    Ok(())
                })
            },
        )
    }

    /// Chunks hold parts of several fields: each chunk is inflated once and gives its part of all of them, then the
    /// parts are put together field by field.
    fn by_chunk(&self, tiling: &Tiling, points: usize, out: &mut [f32]) -> Result<()> {
        let tiles = tiling.tiles();
        let (groups, homes) = tiling.groups();
        let parts: Vec<Vec<f32>> = (0..groups.len() * tiles.len())
            .into_par_iter()
            .map_init(Inflater::default, |inflater, job| {
                let (group, tile) = (&groups[job / tiles.len()], &tiles[job % tiles.len()]);
                let inflated = self.cached(inflater, tiling, group.fields[0], tile)?;
                let chunk = inflated.as_ref().map_or_else(|| self.unwritten(), |bytes| self.chunk(bytes));
                let mut part = vec![0.0; group.fields.len() * tile.points()];
                for (&field, values) in group.fields.iter().zip(part.chunks_exact_mut(tile.points())) {
                    tiling.decode_into_tile(&self.decoder, &chunk, field, tile, values);
                }
                Ok(part)
            })
            .collect::<Result<_>>()?;
        out.par_chunks_exact_mut(points).zip(&homes).for_each(|(field, &(group, place))| {
            for (tile, part) in tiles.iter().zip(&parts[group * tiles.len()..]) {
                let values = &part[place * tile.points()..][..tile.points()];
                tiling.place_tile(tile, values, field);
            }
        });
        Ok(())
    }

    /// The inflated chunk of a tile, `None` when it was never written.
    fn cached(
        &self,
        inflater: &mut Inflater,
        tiling: &Tiling,
        field: usize,
        tile: &Tile,
    ) -> Result<Option<Arc<Vec<u8>>>> {
        let Some(stored) = self.index.get(&tiling.position(field, tile)) else { return Ok(None) };
        let key = (self.number, stored.place);
        // A thread that panicked leaves a whole cache: entries are put in and taken out in one step each.
        let lock = || self.file.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = lock().get(key) {
            return Ok(Some(chunk));
        }
        let chunk = Arc::new(inflater.read(self, tiling, field, tile, stored)?.to_vec());
        lock().insert(key, &chunk);
        Ok(Some(chunk))
    }

    fn chunk<'b>(&self, bytes: &'b [u8]) -> Chunk<'b> {
        Chunk { bytes, how: self.index.arrangement, constant: false }
    }

    fn unwritten(&self) -> Chunk<'_> {
        Chunk { bytes: &self.index.fill, how: Arrangement::LittleEndian, constant: true }
    }
}

/// The numbers of a chunk, inflated.
pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    how: Arrangement,
    /// Every number is the first one.
    constant: bool,
}

impl Chunk<'_> {
    /// Decodes the numbers `start, start + stride, ...` into all of `out`.
    pub fn decode(&self, decoder: &Decoder, start: usize, stride: usize, out: &mut [f32]) {
        if self.constant {
            decoder.decode(self.bytes, self.how, 0, 0, out);
        } else {
            decoder.decode(self.bytes, self.how, start, stride, out);
        }
    }
}

/// What a thread needs to read chunks.
struct Inflater {
    stored: Vec<u8>,
    inflated: Vec<u8>,
    decompressor: Decompressor,
}

impl Default for Inflater {
    fn default() -> Self {
        Self { stored: Vec::new(), inflated: Vec::new(), decompressor: Decompressor::new() }
    }
}

impl Inflater {
    /// Reads a chunk and inflates it. The index has checked that it lies in the file.
    fn read(
        &mut self,
        source: &Source<'_>,
        tiling: &Tiling,
        field: usize,
        tile: &Tile,
        chunk: StoredChunk,
    ) -> Result<&[u8]> {
        let place = || {
            let position = tiling.position(field, tile);
            let first: Vec<usize> = position.iter().zip(&source.index.chunk).map(|(at, n)| at * n).collect();
            format!("{}: variable '{}', chunk at {first:?}", source.file.path.display(), source.name)
        };
        let damaged = |what: String| {
            Error::input(format!("{} {what}", place())).hint("the file is damaged: copy or download it again")
        };
        self.stored.resize(chunk.size as usize, 0);
        source
            .file
            .file
            .read_exact_at(&mut self.stored, chunk.address)
            .map_err(|error| damaged("cannot be read".into()).caused_by(error))?;
        source.file.bytes_read.fetch_add(chunk.size, Ordering::Relaxed);
        if !source.index.deflated {
            return Ok(&self.stored);
        }
        self.inflated.resize(source.index.chunk_bytes, 0);
        match self.decompressor.zlib_decompress(&self.stored, &mut self.inflated) {
            Ok(length) if length == self.inflated.len() => Ok(&self.inflated),
            Ok(length) => Err(damaged(format!("inflates to {length} of {} bytes", self.inflated.len()))),
            Err(error) => Err(damaged("cannot be inflated".into()).caused_by(error)),
        }
    }
}
