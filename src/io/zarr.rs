//! A forecast as a Zarr store (version 3): one folder per initial time.
//!
//! ```text
//! 20081019T1200.zarr/
//!   zarr.json                      what the whole says of itself, and of all its arrays (consolidated)
//!   time/, lead_time/, ...         coordinates, each one chunk
//!   z/c/3/0/0/0                    a variable at a lead: all its levels
//! ```
//!
//! Names, attributes, rows, columns and units are those of the NetCDF file of the same forecast. Chunks are shuffled and
//! compressed by Blosc (Zstandard), and end with a CRC-32C, which every reader checks. The format: Zarr core specification
//! version 3, ZEP 1, https://zarr-specs.readthedocs.io/en/latest/v3/core/.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use zarrs::array::codec::{
    BloscCodec, BloscCompressionLevel, BloscCompressor, BloscShuffleMode, Crc32cCodec,
};
use zarrs::array::{Array, ArrayBuilder, ArrayMetadataOptions, BytesToBytesCodecTraits, DataType, data_type};
use zarrs::filesystem::FilesystemStore;
use zarrs::group::GroupBuilder;
use zarrs::metadata::NodeMetadata;
use zarrs::metadata_ext::group::consolidated_metadata::ConsolidatedMetadata;

use super::atomic::PendingFolder;
use super::forecast_contents::{self as contents, Coordinate, to_file_order};
use super::forecast_file::ForecastHead;
use super::forecast_variables::{FileVariable, plan_variables};
use crate::error::{Context, Error, Result};
use crate::field::State;

/// Of Zstandard, among Blosc's from 0 to 9: most of a float's mantissa is noise.
const LEVEL: u8 = 1;
/// What every Zarr store holds at its root.
pub const ROOT: &str = "zarr.json";

type Kept = Array<FilesystemStore>;

/// A store being written; dropped before [`finish`](ForecastStore::finish), it leaves nothing behind.
pub struct ForecastStore {
    pending: PendingFolder,
    storage: Arc<FilesystemStore>,
    head: ForecastHead,
    variables: Vec<(FileVariable, Kept)>,
    /// Of all arrays.
    metadata: ConsolidatedMetadata,
    attributes: Map<String, Value>,
    written: usize,
    /// A variable at a lead, level by level, in the order of the files.
    buffer: Vec<f32>,
}

impl ForecastStore {
    /// Begins the store of one initial time in `folder`, which is made when it is not there.
    pub fn create(folder: &Path, head: &ForecastHead) -> Result<Self> {
        head.check()?;
        std::fs::create_dir_all(folder).context(|| format!("cannot make the folder {}", folder.display()))?;
        let pending = PendingFolder::new(&folder.join(head.store_name()), ROOT)?;
        let cannot = || format!("cannot write {}", folder.join(head.store_name()).display());
        let storage = Arc::new(FilesystemStore::new(pending.path()).map_err(wrong).context(cannot)?);
        let mut store = Self {
            storage,
            head: head.clone(),
            variables: Vec::new(),
            metadata: ConsolidatedMetadata::default(),
            attributes: text_map(contents::attributes(head)),
            written: 0,
            buffer: Vec::new(),
            pending,
        };
        let variables = plan_variables(&head.layout, &head.units);
        let lengths = contents::dimensions(head, &variables);
        for coordinate in contents::coordinates(head, &variables) {
            store.put(&coordinate, &lengths).context(cannot)?;
        }
        for variable in variables {
            let array = store.define(&variable).context(cannot)?;
            store.variables.push((variable, array));
        }
        Ok(store)
    }

    /// A coordinate, whole.
    fn put(&mut self, coordinate: &Coordinate, lengths: &[(String, usize)]) -> Result<()> {
        let length =
            |name: &String| lengths.iter().find(|(known, _)| known == name).map_or(0, |(_, n)| *n as u64);
        let shape: Vec<u64> = coordinate.dimensions.iter().map(length).collect();
        let names: Vec<&str> = coordinate.dimensions.iter().map(String::as_str).collect();
        let attributes = text_map(coordinate.attributes.clone());
        let kind = (data_type::float64(), f64::NAN);
        let array = self.array(&coordinate.name, &shape, &shape, &names, kind, attributes)?;
        let first = vec![0; shape.len()];
        array.store_chunk(&first, coordinate.values.as_slice()).map_err(wrong)
    }

    /// A variable without its values.
    fn define(&mut self, variable: &FileVariable) -> Result<Kept> {
        let (rows, columns) = (self.head.layout.grid.rows() as u64, self.head.layout.grid.columns() as u64);
        let mut names = vec!["time"];
        let mut shape = vec![self.head.steps as u64 + 1];
        if let Some(dimension) = &variable.level_dimension {
            names.push(dimension);
            shape.push(variable.levels.len() as u64);
        }
        names.extend(["latitude", "longitude"]);
        shape.extend([rows, columns]);
        let chunk: Vec<u64> = std::iter::once(1).chain(shape[1..].iter().copied()).collect();
        let mut attributes = text_map(contents::of_variable(variable));
        attributes.extend(text_map(contents::of_forecasts(&self.head, variable)));
        let kind = (data_type::float32(), f32::NAN);
        self.array(&variable.name, &shape, &chunk, &names, kind, attributes)
    }

    fn array<T: Copy + Into<zarrs::array::builder::ArrayBuilderFillValue>>(
        &mut self,
        name: &str,
        shape: &[u64],
        chunk: &[u64],
        dimensions: &[&str],
        (kind, fill): (DataType, T),
        attributes: Map<String, Value>,
    ) -> Result<Kept> {
        let level =
            BloscCompressionLevel::try_from(LEVEL).map_err(|_| Error::run("no such level of Blosc"))?;
        let size = Some(kind.fixed_size().unwrap_or(size_of::<f32>()));
        let blosc = BloscCodec::new(BloscCompressor::Zstd, level, None, BloscShuffleMode::Shuffle, size)
            .map_err(wrong)?;
        let codecs: Vec<Arc<dyn BytesToBytesCodecTraits>> =
            vec![Arc::new(blosc), Arc::new(Crc32cCodec::new())];
        let array = ArrayBuilder::new(shape.to_vec(), chunk.to_vec(), kind, fill)
            .bytes_to_bytes_codecs(codecs)
            .dimension_names(Some(dimensions.iter().copied()))
            .attributes(attributes)
            .build(self.storage.clone(), &format!("/{name}"))
            .map_err(wrong)?;
        let options = ArrayMetadataOptions::default().with_include_zarrs_metadata(false);
        array.store_metadata_opt(&options).map_err(wrong)?;
        let metadata = NodeMetadata::Array(array.metadata_opt(&options));
        self.metadata.metadata.insert(name.to_owned(), metadata);
        Ok(array)
    }

    /// Writes the next state, in order of lead time: first the analysis, then every step.
    pub fn write(&mut self, state: &State) -> Result<()> {
        let target = self.pending.target().display();
        let expected = self.head.expects(self.written, state).context(|| target.to_string())?;
        let points = self.head.layout.grid.points();
        for (variable, array) in &self.variables {
            self.buffer.resize(points * variable.channels.len(), 0.0);
            for (&channel, out) in variable.channels.iter().zip(self.buffer.chunks_exact_mut(points)) {
                to_file_order(state, channel, self.head.orientation, variable.conversion, out);
            }
            let mut chunk = vec![0; array.shape().len()];
            chunk[0] = self.written as u64;
            array
                .store_chunk(&chunk, self.buffer.as_slice())
                .map_err(wrong)
                .context(|| format!("cannot write {expected} into {target}"))?;
        }
        self.written += 1;
        Ok(())
    }

    /// Says something about how the forecast was made, in the attribute `comment`.
    pub fn comment(&mut self, text: &str) {
        self.attributes.insert("comment".into(), text.into());
    }

    /// Gives the whole store its name and returns it.
    pub fn finish(self) -> Result<PathBuf> {
        let target = self.pending.target().to_owned();
        self.head.check_whole(self.written, &target)?;
        let cannot = || format!("cannot write {}", target.display());
        let mut root = GroupBuilder::new()
            .attributes(self.attributes)
            .build(self.storage, "/")
            .map_err(wrong)
            .context(cannot)?;
        root.set_consolidated_metadata(Some(self.metadata));
        root.store_metadata().map_err(wrong).context(cannot)?;
        self.pending.commit()?;
        Ok(target)
    }
}

fn text_map<K: Into<String>, V: Into<Value>>(pairs: impl IntoIterator<Item = (K, V)>) -> Map<String, Value> {
    pairs.into_iter().map(|(name, text)| (name.into(), text.into())).collect()
}

fn wrong(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::run("the Zarr store")
        .caused_by(error)
        .hint("see whether the disk is full (df -h) and the folder writable")
}
