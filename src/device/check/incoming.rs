//! What comes from files and from the calendar.

use super::super::{
    Bases, ByteOrder, Code, Daylight, Decode, Light, Moment, Plane, Real, Scaling, Sparse, StoredNumber,
};
use super::{Bench, Case, case};
use crate::error::Result;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(stage),
        case!(hand_over: stage),
        case!(decode: decode_little),
        case!(decode: decode_big),
        case!(decode: decode_shuffled),
        case!(daylight),
    ]
}

/// Two batches after each other, each larger than what came before.
fn stage<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x, y, z] = bench.slots([70_001, 70_001, 700_001])?;
    let mut values = vec![T::default(); x.len()];
    bench.device.download(x, &mut values);
    values.reverse();
    bench.device.stage(y, &values);
    bench.device.hand_over(&[(y, x)]);
    let values: Vec<T> = (0..z.len()).map(|i| values[i * 7 % values.len()]).collect();
    bench.device.stage(z, &values);
    bench.device.stage(y, &values[..y.len()]);
    bench.device.hand_over(&[]);
    bench.compare_all(&[x, y, z], 0.5);
    Ok(())
}

const ROWS: usize = 7;
const COLUMNS: usize = 13;
const NUMBERS: [StoredNumber; 10] = [
    StoredNumber::I8,
    StoredNumber::U8,
    StoredNumber::I16,
    StoredNumber::U16,
    StoredNumber::I32,
    StoredNumber::U32,
    StoredNumber::I64,
    StoredNumber::U64,
    StoredNumber::F32,
    StoredNumber::F64,
];

fn decode_little<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    decode(bench, ByteOrder::LittleEndian)
}

fn decode_big<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    decode(bench, ByteOrder::BigEndian)
}

fn decode_shuffled<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    decode(bench, ByteOrder::Shuffled)
}

/// Every type of number, in tiles of 3 x 4, from north to south; every other plane on a grid of its own.
fn decode<T: Real>(bench: &mut Bench<'_, T>, order: ByteOrder) -> Result<()> {
    const CHANNELS: usize = 5;
    const IMAGES: usize = 2;
    let field = ROWS * COLUMNS * CHANNELS;
    let [fields, made, bases, mask] = bench.slots([IMAGES * field, IMAGES * field, 6 * field, field])?;
    let holes: Vec<f64> = (0..field).map(|i| f64::from(u8::from(i % 11 != 3))).collect();
    bench.upload(mask, &holes);
    let (mut chunks, mut planes) = (Vec::new(), Vec::new());
    for number in NUMBERS {
        let coarse = planes.len() % 2 == 1;
        let (rows, columns) = if coarse { (5, 11) } else { (ROWS, COLUMNS) };
        let first = chunks.len();
        let tiles = rows_of_tiles(rows, 3) * rows_of_tiles(columns, 4);
        chunks.extend((0..tiles).map(|tile| chunk(number, order, 20, tile)));
        planes.push(Plane {
            code: Code {
                number,
                order,
                scale: [0.37, -1.5],
                conversion: [1.8, 0.25],
                bounds: [-100.0, 100.0],
                missing: [17.0, -3.0],
            },
            file_columns: columns,
            flipped: true,
            first_column: 6,
            tile: [3, 4],
            start: 2,
            strides: [5, 1],
            chunks: first..chunks.len(),
            product: if coarse { product() } else { None },
            ..Plane::plain(rows, columns, 0)
        });
    }
    let scaling = |channel: usize| Scaling {
        epsilon: if channel == 2 { 0.5 } else { 0.0 },
        mean: channel as f32 * 0.3,
        deviation: 12.5,
    };
    let scalings: Vec<Scaling> = (0..CHANNELS).map(scaling).collect();
    // The second image adds two planes in its first channel.
    let terms = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 10];
    bench.device.decode(&Decode {
        images: IMAGES,
        rows: ROWS,
        columns: COLUMNS,
        scalings: &scalings,
        chunks: &chunks,
        planes: &planes,
        terms: &terms,
        bases: Some(Bases {
            fields: bases,
            terms: 3,
            sets: &[1, 0],
            weights: &[1.0, 0.3, -0.7, 1.0, -0.2, 0.9],
        }),
        mask: Some(mask),
        turns: &[0, 5],
        fields: made,
    });
    bench.device.hand_over(&[(made, fields)]);
    // The logarithm may be off by some; everything else is the same to the bit.
    // Files hold float32 at best, and that is what is normalised, whatever the device's own numbers are.
    let float32 = if size_of::<T>() == 8 { 2.0_f64.powi(29) } else { 1.0 };
    bench.compare(fields, 8.0 * float32);
    Ok(())
}

fn rows_of_tiles(points: usize, tile: usize) -> usize {
    points.div_ceil(tile)
}

/// Small whole numbers, some of them missing.
fn chunk(number: StoredNumber, order: ByteOrder, numbers: usize, seed: usize) -> Vec<u8> {
    let size = number.size();
    let mut bytes = vec![0; size * numbers];
    for index in 0..numbers {
        let x = ((index * 37 + seed * 11) % 41) as i64 - 20;
        let little = match number {
            StoredNumber::F32 => (x as f32 * 1.25).to_le_bytes().to_vec(),
            StoredNumber::F64 => (x as f64 * 1.25).to_le_bytes().to_vec(),
            _ => x.to_le_bytes()[..size].to_vec(),
        };
        for (k, &byte) in little.iter().enumerate() {
            let place = match order {
                ByteOrder::LittleEndian => index * size + k,
                ByteOrder::BigEndian => index * size + size - 1 - k,
                ByteOrder::Shuffled => k * numbers + index,
            };
            bytes[place] = byte;
        }
    }
    bytes
}

/// From 5 x 11 points.
fn product() -> Option<Sparse> {
    Sparse::new(
        (0..ROWS * COLUMNS)
            .map(|i| (0..4).map(|k| (((i * 3 + k * 7) % 55) as u32, 0.1 + 0.3 * k as f64)).collect()),
    )
}

fn daylight<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    const CHANNELS: usize = 3;
    let [fields, made] = bench.slots([2 * ROWS * COLUMNS * CHANNELS, 2 * ROWS * COLUMNS * CHANNELS])?;
    let latitudes: Vec<f64> = (0..ROWS).map(|j| (j as f64 - 3.0) * 0.52).collect();
    let longitudes: Vec<f64> = (0..COLUMNS).map(|i| i as f64 * 0.48).collect();
    let light = |k: usize| {
        let (sin_declination, cos_declination) = (0.4 - 0.001 * k as f64).sin_cos();
        Light { strength: 230.0, sin_declination, cos_declination, start: -3.0 + 0.26 * k as f64, turn: 0.26 }
    };
    let moment = |turn: u32| Moment {
        by_column: (0..COLUMNS * CHANNELS).map(|k| k as f32 * 0.125).collect(),
        lights: (0..6).map(|k| light(k + 9 * turn as usize)).collect(),
        turn,
    };
    bench.device.daylight(&Daylight {
        latitudes: &latitudes,
        longitudes: &longitudes,
        channels: CHANNELS,
        light: Some(1),
        unit: 1361.0,
        moments: &[moment(0), moment(4)],
        fields: made,
    });
    bench.device.hand_over(&[(made, fields)]);
    // Computed in float64 and rounded to float32, twice.
    bench.compare(fields, 4.0);
    Ok(())
}
