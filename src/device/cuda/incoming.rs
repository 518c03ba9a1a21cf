//! What comes from files and from the calendar, beside other work.

use super::super::{ByteOrder, Daylight, Decode, Moment, Plane, Real, Slot, StoredNumber};
use super::Cuda;
use super::elementary;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// `struct plane` of `kernels/incoming.cu` [bytes].
const PLANE: usize = 168;
/// `struct light` [bytes].
const LIGHT: usize = 40;

pub(super) fn stage<T: Real>(cuda: &Cuda<T>, to: Slot, values: &[T]) -> Result<()> {
    assert_eq!(to.len(), values.len(), "what is staged fits its slot");
    let mut side = cuda.side.borrow_mut();
    // SAFETY: numbers of any kind may be read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) };
    let mut parcel = side.parcel(&cuda.gpu, [bytes.len()].into_iter())?;
    let from = parcel.put(bytes);
    parcel.send(&cuda.gpu)?;
    elementary::copy_bytes(cuda.arena.address(to), from, bytes.len(), &side.stream)?;
    side.lap(&cuda.gpu)
}

pub(super) fn decode<T: Real>(cuda: &Cuda<T>, d: &Decode<'_>) -> Result<()> {
    d.check();
    let bases = d.bases.map_or(Slot::EMPTY, |bases| bases.fields);
    let mask = d.mask.unwrap_or(Slot::EMPTY);
    check_disjoint(&[bases, mask], &[d.fields]);
    let channels = d.channels();
    let n = d.rows * d.columns * channels;
    assert!(u32::try_from(n).is_ok() && d.images < 1 << 16, "{} images of {n} numbers", d.images);
    let mut side = cuda.side.borrow_mut();
    let products = d
        .planes
        .iter()
        .map(|plane| plane.product.as_ref().map_or(Ok([0; 3]), |product| side.product(&cuda.gpu, product)))
        .collect::<Result<Vec<_>>>()?;

    let (sets, weights, base_terms) = d.bases.map_or((&[][..], &[][..], 0), |b| (b.sets, b.weights, b.terms));
    let words = [d.terms.len(), 3 * channels, d.images, sets.len(), weights.len()];
    let tables = [8 * d.chunks.len(), PLANE * d.planes.len()].into_iter().chain(words.map(|n| 4 * n));
    let mut parcel = side.parcel(&cuda.gpu, d.chunks.iter().map(Vec::len).chain(tables))?;
    let chunks: Vec<u64> = d.chunks.iter().map(|chunk| parcel.put(chunk)).collect();
    let table = parcel.put_numbers(&chunks, u64::to_le_bytes);
    let planes: Vec<u8> = d
        .planes
        .iter()
        .zip(products)
        .flat_map(|(plane, product)| {
            let bytes = d.chunks[plane.chunks.start].len();
            plane_bytes(plane, table + 8 * plane.chunks.start as u64, bytes, product)
        })
        .collect();
    let planes = parcel.put(&planes);
    let terms = parcel.put_numbers(d.terms, u32::to_le_bytes);
    let scalings: Vec<f32> = d.scalings.iter().flat_map(|s| [s.epsilon, s.mean, s.deviation]).collect();
    let scalings = parcel.put_numbers(&scalings, f32::to_le_bytes);
    let turns = parcel.put_numbers(d.turns, u32::to_le_bytes);
    let sets = parcel.put_numbers(sets, u32::to_le_bytes);
    let weights = parcel.put_numbers(weights, f32::to_le_bytes);
    parcel.send(&cuda.gpu)?;

    let launch = cuda.kernel("decode").on(&side.stream).slot(d.fields).address(planes).address(terms);
    let launch = launch.address(scalings).address(turns).slot(bases).address(sets).address(weights);
    let launch = launch.int(base_terms).slot(mask).int(d.columns).int(channels).int(n);
    launch.run(Grid::over(n).times(d.images))?;
    side.lap(&cuda.gpu)
}

/// `struct plane`
fn plane_bytes(plane: &Plane, chunks: u64, chunk_bytes: usize, product: [u64; 3]) -> Vec<u8> {
    let code = &plane.code;
    let mut bytes = Vec::with_capacity(PLANE);
    for pair in [code.scale, code.conversion, code.bounds, code.missing] {
        bytes.extend(pair.iter().flat_map(|x| x.to_le_bytes()));
    }
    let [row_stride, column_stride] = plane.strides;
    let numbers = chunk_bytes / code.number.size();
    let long = [plane.start, row_stride, column_stride, numbers].map(|n| n as u64);
    let addresses = [chunks].into_iter().chain(product).chain(long);
    bytes.extend(addresses.flat_map(u64::to_le_bytes));
    let [tile_rows, tile_columns] = plane.tile;
    // The order of the constants in the kernel.
    let number = match code.number {
        StoredNumber::I8 => 0,
        StoredNumber::U8 => 1,
        StoredNumber::I16 => 2,
        StoredNumber::U16 => 3,
        StoredNumber::I32 => 4,
        StoredNumber::U32 => 5,
        StoredNumber::I64 => 6,
        StoredNumber::U64 => 7,
        StoredNumber::F32 => 8,
        StoredNumber::F64 => 9,
    };
    let order = match code.order {
        ByteOrder::LittleEndian => 0,
        ByteOrder::BigEndian => 1,
        ByteOrder::Shuffled => 2,
    };
    let words = [
        plane.rows,
        plane.file_columns,
        plane.columns,
        plane.first_column,
        tile_rows,
        tile_columns,
        plane.tiles_across(),
        usize::from(plane.flipped),
        number,
        order,
    ];
    bytes.extend(words.iter().flat_map(|&word| (word as u32).to_le_bytes()));
    bytes
}

pub(super) fn daylight<T: Real>(cuda: &Cuda<T>, d: &Daylight<'_>) -> Result<()> {
    d.check();
    let (rows, columns, channels) = (d.latitudes.len(), d.longitudes.len(), d.channels);
    let (images, points) = (d.moments.len(), rows * columns);
    assert!(u32::try_from(points).is_ok() && images < 1 << 16, "{images} images of {points} points");
    let count = d.moments.first().map_or(0, |moment: &Moment| moment.lights.len());
    let latitudes: Vec<f64> = d.latitudes.iter().flat_map(|y| [y.sin(), y.cos()]).collect();
    let lights = d.moments.iter().flat_map(|moment| &moment.lights);
    let lights: Vec<f64> =
        lights.flat_map(|l| [l.strength, l.sin_declination, l.cos_declination, l.start, l.turn]).collect();
    let by_column: Vec<f32> = d.moments.iter().flat_map(|moment| moment.by_column.iter().copied()).collect();
    let turns: Vec<u32> = d.moments.iter().map(|moment| moment.turn).collect();

    let mut side = cuda.side.borrow_mut();
    let sizes = [images * count * LIGHT, 16 * rows, 8 * columns, 4 * by_column.len(), 4 * images];
    let mut parcel = side.parcel(&cuda.gpu, sizes.into_iter())?;
    let lights = parcel.put_numbers(&lights, f64::to_le_bytes);
    let latitudes = parcel.put_numbers(&latitudes, f64::to_le_bytes);
    let longitudes = parcel.put_numbers(d.longitudes, f64::to_le_bytes);
    let by_column = parcel.put_numbers(&by_column, f32::to_le_bytes);
    let turns = parcel.put_numbers(&turns, u32::to_le_bytes);
    parcel.send(&cuda.gpu)?;

    let launch = cuda.kernel("daylight").on(&side.stream).slot(d.fields).address(lights).int(count);
    let launch = launch.address(latitudes).address(longitudes).address(by_column).address(turns);
    let launch = launch.int(d.light.unwrap_or(channels)).real(f64::from(d.unit));
    launch.int(columns).int(channels).int(points).run(Grid::over(points).times(images))?;
    side.lap(&cuda.gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_as_long_as_the_kernel_takes_it_to_be() {
        assert_eq!(plane_bytes(&Plane::plain(3, 5, 0), 0, 60, [0; 3]).len(), PLANE);
        // 8 doubles, 4 pointers, 4 long numbers, 10 words: no padding, because the last count is even.
        assert_eq!(PLANE, 8 * (8 + 4 + 4) + 4 * 10);
    }
}
