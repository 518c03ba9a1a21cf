//! Where the numbers of a variable lie in its file: asked of the HDF5 library once, or computed from the header.

use std::fs::File;

use hdf5::filters::Filter;
use hdf5::{Dataset, H5Type};

use super::chunk_tree;
use super::decode::Arrangement;
use super::info::{Number, Role, VariableInfo};
use super::schema::Place;

/// An array in chunks that can be read without a library: plain numbers, shuffled and deflated or not.
#[derive(Debug)]
pub(super) struct ChunkIndex {
    pub shape: Vec<usize>,
    /// Shape of a chunk; those at the edges are stored whole.
    pub chunk: Vec<usize>,
    /// Of an unpacked chunk.
    pub arrangement: Arrangement,
    pub deflated: bool,
    /// The number in chunks that were never written, little-endian.
    pub fill: Vec<u8>,
    /// Size of an unpacked chunk [bytes].
    pub chunk_bytes: usize,
    places: Places,
}

#[derive(Debug)]
enum Places {
    /// Sorted by `place`.
    Listed(Vec<StoredChunk>),
    /// Without chunks in the file's sense: a field of `chunk_bytes` begins at `begin` plus its indices times these
    /// strides [bytes].
    Computed { begin: u64, strides: Vec<u64> },
}

/// A chunk as it lies in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredChunk {
    /// Its number in the grid of chunks, last dimension fastest.
    pub place: u64,
    /// First byte in the file.
    pub address: u64,
    /// [bytes]
    pub size: u64,
}

impl ChunkIndex {
    /// The index of a variable, `None` when its storage is of a kind that only the library reads, or is not
    /// what the header says. `file_size` is in bytes.
    pub fn new(dataset: &Dataset, variable: &VariableInfo, file: &File, file_size: u64) -> Option<Self> {
        let shape = dataset.shape();
        let chunk = dataset.chunk()?;
        let lengths: Vec<usize> = variable.dimensions.iter().map(|d| d.length).collect();
        // The library fills up a variable that is shorter than its unlimited dimension.
        if shape != lengths || chunk.len() != shape.len() || chunk.contains(&0) || shape.contains(&0) {
            return None;
        }
        let width = variable.packing.number.size();
        let chunk_bytes = chunk.iter().try_fold(width, |bytes, &n| bytes.checked_mul(n))?;
        let filters = dataset.dcpl().ok()?.get_filters().ok()?;
        let (shuffled, deflated) = match filters.as_slice() {
            [] => (false, false),
            [Filter::Shuffle] => (true, false),
            [Filter::Deflate(_)] => (false, true),
            [Filter::Shuffle, Filter::Deflate(_)] => (true, true),
            _ => return None,
        };
        let fill = fill_value(dataset, variable.packing.number)?;
        let arrangement =
            if shuffled && width > 1 { Arrangement::Shuffled } else { Arrangement::LittleEndian };
        let mut chunks = Vec::new();
        let places = Places::Listed(Vec::new());
        let mut index = Self { shape, chunk, arrangement, deflated, fill, chunk_bytes, places };
        let mut sound = true;
        let mut each = |offset: &[u64], mask: u32, address: u64, size: u64| {
            let end = address.checked_add(size);
            let place = index.place_of(offset);
            sound &= mask == 0 && size > 0 && end.is_some_and(|end| end <= file_size) && place.is_some();
            sound &= index.can_hold(size);
            if let (true, Some(place)) = (sound, place) {
                chunks.push(StoredChunk { place, address, size });
            }
            sound
        };
        let walked = header_address(dataset)
            .and_then(|header| chunk_tree::visit(file, file_size, header, index.shape.len(), &mut each));
        if walked.is_none() {
            visit(dataset, &mut each)?;
        }
        chunks.sort_unstable_by_key(|chunk| chunk.place);
        let unique = chunks.windows(2).all(|pair| pair[0].place < pair[1].place);
        index.places = Places::Listed(chunks);
        (sound && unique).then_some(index)
    }

    /// The index of a variable of a classic file, whose header was checked against the file's length. `None` when
    /// a field is not one run of bytes.
    pub fn classic(variable: &VariableInfo, place: Place) -> Option<Self> {
        let shape: Vec<usize> = variable.dimensions.iter().map(|d| d.length).collect();
        let width = variable.packing.number.size();
        let mut strides = vec![width as u64; shape.len()];
        for d in (0..shape.len().saturating_sub(1)).rev() {
            strides[d] = strides[d + 1].checked_mul(shape[d + 1] as u64)?;
        }
        if let (Some(stride), Some(first)) = (place.record_stride, strides.first_mut()) {
            *first = stride;
        }
        let horizontal = |role| matches!(role, Role::Latitude | Role::Longitude);
        let chunk: Vec<usize> =
            variable.dimensions.iter().map(|d| if horizontal(d.role) { d.length } else { 1 }).collect();
        let first = variable.dimensions.iter().position(|d| horizontal(d.role))?;
        let run = (first..shape.len()).all(|d| chunk[d] == shape[d]);
        let recorded = first == 0 && place.record_stride.is_some();
        if !run || recorded || shape.contains(&0) {
            return None;
        }
        let chunk_bytes = chunk.iter().try_fold(width, |bytes, &n| bytes.checked_mul(n))?;
        let places = Places::Computed { begin: place.begin, strides };
        let arrangement = Arrangement::BigEndian;
        Some(Self { shape, chunk, arrangement, deflated: false, fill: vec![0; width], chunk_bytes, places })
    }

    /// The chunk at a position of the grid of chunks, `None` when it was never written.
    pub fn get(&self, position: &[usize]) -> Option<StoredChunk> {
        let place = self.place(position);
        match &self.places {
            Places::Listed(chunks) => {
                let found = chunks.binary_search_by_key(&place, |chunk| chunk.place).ok()?;
                Some(chunks[found])
            }
            Places::Computed { begin, strides } => {
                // The grid's positions along the rows and columns of a field are all 0.
                let offset: u64 = position.iter().zip(strides).map(|(&at, stride)| at as u64 * stride).sum();
                Some(StoredChunk { place, address: begin + offset, size: self.chunk_bytes as u64 })
            }
        }
    }

    /// The number of a position in the grid of chunks.
    pub fn place(&self, position: &[usize]) -> u64 {
        let grid = self.shape.iter().zip(&self.chunk).map(|(n, c)| n.div_ceil(*c) as u64);
        position.iter().zip(grid).fold(0, |place, (&at, n)| place * n + at as u64)
    }

    /// The number of the chunk whose first element this is, `None` when none begins there.
    fn place_of(&self, offset: &[u64]) -> Option<u64> {
        if offset.len() != self.chunk.len() {
            return None;
        }
        let mut position = Vec::with_capacity(offset.len());
        for ((&first, &length), &n) in offset.iter().zip(&self.chunk).zip(&self.shape) {
            let first = usize::try_from(first).ok()?;
            if first % length != 0 || first >= n {
                return None;
            }
            position.push(first / length);
        }
        Some(self.place(&position))
    }

    /// Whether that many stored bytes can be a whole chunk; deflate shrinks at most 1032 times.
    fn can_hold(&self, size: u64) -> bool {
        if self.deflated { self.chunk_bytes as u64 / 1032 <= size } else { self.chunk_bytes as u64 == size }
    }
}

/// The fill value, `None` when the type is not little-endian numbers of the kind that the header says.
fn fill_value(dataset: &Dataset, number: Number) -> Option<Vec<u8>> {
    fn of<T: H5Type, const N: usize>(dataset: &Dataset, bytes: impl Fn(T) -> [u8; N]) -> Option<Vec<u8>> {
        let native = dataset.dtype().ok()?.is::<T>();
        native
            .then(|| dataset.dcpl().ok()?.get_fill_value_as::<T>().ok()?)
            .flatten()
            .map(|v| bytes(v).to_vec())
    }
    if cfg!(target_endian = "big") {
        return None;
    }
    // `_Unsigned` makes the header's type unsigned where the file's is not.
    match number {
        Number::I8 | Number::U8 => of(dataset, i8::to_le_bytes).or_else(|| of(dataset, u8::to_le_bytes)),
        Number::I16 | Number::U16 => of(dataset, i16::to_le_bytes).or_else(|| of(dataset, u16::to_le_bytes)),
        Number::I32 | Number::U32 => of(dataset, i32::to_le_bytes).or_else(|| of(dataset, u32::to_le_bytes)),
        Number::I64 | Number::U64 => of(dataset, i64::to_le_bytes).or_else(|| of(dataset, u64::to_le_bytes)),
        Number::F32 => of(dataset, f32::to_le_bytes),
        Number::F64 => of(dataset, f64::to_le_bytes),
    }
}

/// Where the object header of a dataset lies. The library's binding keeps the address to itself, but prints it:
/// as a number, or since HDF5 1.12 as the bytes of a token.
pub(super) fn header_address(dataset: &Dataset) -> Option<u64> {
    let shown = format!("{:?}", dataset.loc_info().ok()?.token);
    let (_, inside) = shown.split_once('(')?;
    if let Some((_, list)) = inside.split_once('[') {
        let bytes: Vec<u8> =
            list.split([',', ']']).take(8).map(|byte| byte.trim().parse().ok()).collect::<Option<_>>()?;
        return Some(u64::from_le_bytes(bytes.try_into().ok()?));
    }
    inside.trim_end_matches(')').parse().ok()
}

/// Calls `each` with offset, filter mask, address and size of every stored chunk, until it returns false.
#[cfg(feature = "static")]
fn visit(dataset: &Dataset, each: &mut impl FnMut(&[u64], u32, u64, u64) -> bool) -> Option<()> {
    let more = |chunk: hdf5::dataset::ChunkInfoRef<'_>| {
        i32::from(!each(chunk.offset, chunk.filter_mask, chunk.addr, chunk.size))
    };
    dataset.chunks_visit(more).ok()
}

/// The HDF5 library of the system may be 1.10, which finds its n-th chunk by counting: the time grows with the square
/// of their number, and above this one the NetCDF library reads faster than the index is made (a third of a second).
#[cfg(not(feature = "static"))]
const MOST_COUNTED: usize = 5000;

#[cfg(not(feature = "static"))]
fn visit(dataset: &Dataset, each: &mut impl FnMut(&[u64], u32, u64, u64) -> bool) -> Option<()> {
    let count = dataset.num_chunks()?;
    if count > MOST_COUNTED {
        return None;
    }
    for n in 0..count {
        let chunk = dataset.chunk_info(n)?;
        if !each(&chunk.offset, chunk.filter_mask, chunk.addr, chunk.size) {
            break;
        }
    }
    Some(())
}
