//! What comes from files and from the calendar.

use super::super::stored::Decode;
use super::super::{Daylight, Real, daylight};
use super::threads::Threads;

/// `[bases, mask]`, perhaps empty.
pub(super) fn decode<T: Real>(threads: &Threads, d: &Decode<'_>, [bases, mask]: [&[T]; 2], fields: &mut [T]) {
    d.check();
    let channels = d.channels();
    let row = d.columns * channels;
    // A row at a time, so that few images keep many threads busy.
    threads.chunks(fields, row.max(1), |line, out| {
        let (image, row_index) = (line / d.rows, line % d.rows);
        let turn = d.turns[image] as usize;
        let base = |value: usize| {
            d.bases.as_ref().map_or(0.0, |b| {
                let first = b.sets[image] as usize * b.terms;
                let weights = &b.weights[image * b.terms..][..b.terms];
                let field = d.rows * row;
                (0..b.terms)
                    .fold(0.0, |sum, k| sum + weights[k] * bases[(first + k) * field + value].wide() as f32)
            })
        };
        for (column, out) in out.chunks_exact_mut(channels).enumerate() {
            let point = row_index * d.columns + (column + turn) % d.columns;
            for (channel, out) in out.iter_mut().enumerate() {
                let value = point * channels + channel;
                if !mask.is_empty() && mask[value] == T::default() {
                    *out = T::default();
                    continue;
                }
                let terms = &d.terms[image * channels + channel..];
                let planes = &d.planes[terms[0] as usize..terms[1] as usize];
                // The first is taken as it is: 0 plus it might lose its sign.
                let x = planes.iter().map(|plane| plane.value(d.chunks, point)).reduce(|sum, x| sum + x);
                let scaling = d.scalings[channel];
                let y = scaling.transform(x.unwrap_or(f32::NAN)) - base(value);
                *out = T::of(f64::from((y - scaling.mean) / scaling.deviation));
            }
        }
    });
}

pub(super) fn daylight<T: Real>(threads: &Threads, d: &Daylight<'_>, fields: &mut [T]) {
    d.check();
    let (columns, channels) = (d.longitudes.len(), d.channels);
    threads.chunks(fields, (d.latitudes.len() * columns * channels).max(1), |image, out| {
        let moment = &d.moments[image];
        let light =
            d.light.map(|channel| (channel, daylight::light(&moment.lights, d.latitudes, d.longitudes)));
        for (i, out) in out.chunks_exact_mut(channels).enumerate() {
            let column = (i % columns + moment.turn as usize) % columns;
            for (out, &x) in out.iter_mut().zip(&moment.by_column[column * channels..]) {
                *out = T::of(f64::from(x));
            }
            if let Some((channel, light)) = &light {
                let seen = light[i / columns * columns + column].max(0.0) as f32;
                out[*channel] = T::of(f64::from(seen / d.unit));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::stored::{Bases, ByteOrder, Code, Plane, Scaling, StoredNumber};
    use super::super::super::{ArenaPlan, Device, Light, Moment, Slot, Sparse};
    use super::super::Cpu;
    use super::*;

    /// The bytes of numbers in each order.
    fn arranged(little: &[Vec<u8>]) -> [(ByteOrder, Vec<u8>); 3] {
        let size = little[0].len();
        [
            (ByteOrder::LittleEndian, little.concat()),
            (ByteOrder::BigEndian, little.iter().flat_map(|b| b.iter().rev().copied()).collect()),
            (ByteOrder::Shuffled, (0..size).flat_map(|k| little.iter().map(move |b| b[k])).collect()),
        ]
    }

    #[test]
    fn every_number_in_every_order_means_the_same() {
        type Kind = (StoredNumber, fn(i32) -> Vec<u8>);
        let kinds: [Kind; 10] = [
            (StoredNumber::I8, |x| (x as i8).to_le_bytes().into()),
            (StoredNumber::U8, |x| (x as u8).to_le_bytes().into()),
            (StoredNumber::I16, |x| (x as i16).to_le_bytes().into()),
            (StoredNumber::U16, |x| (x as u16).to_le_bytes().into()),
            (StoredNumber::I32, |x| x.to_le_bytes().into()),
            (StoredNumber::U32, |x| (x as u32).to_le_bytes().into()),
            (StoredNumber::I64, |x| i64::from(x).to_le_bytes().into()),
            (StoredNumber::U64, |x| (x as u64).to_le_bytes().into()),
            (StoredNumber::F32, |x| (x as f32).to_le_bytes().into()),
            (StoredNumber::F64, |x| f64::from(x).to_le_bytes().into()),
        ];
        for (number, bytes) in kinds {
            let stored = [3, 99, 100, 7, 1, 120];
            let little: Vec<Vec<u8>> = stored.iter().map(|&x| bytes(x)).collect();
            for (order, chunk) in arranged(&little) {
                let code = Code {
                    number,
                    order,
                    scale: [0.5, 10.0],
                    conversion: [100.0, 1.0],
                    bounds: [2.0, 110.0],
                    missing: [7.0, f64::NAN],
                };
                let values: Vec<f32> = (0..6).map(|i| code.value(&chunk, i)).collect();
                assert_eq!(values[..3], [1151.0, 5951.0, 6001.0], "{number:?} {order:?}");
                assert!(values[3..].iter().all(|x| x.is_nan()), "missing, below, above");
            }
        }
        let negative = [-2_i16, -3].map(i16::to_be_bytes).concat();
        let code = Code { number: StoredNumber::I16, order: ByteOrder::BigEndian, ..Code::PLAIN };
        assert_eq!(code.value(&negative, 1), -3.0);
    }

    /// 3 x 4 points of a file with 5 columns in tiles of 2 x 2, from north to south, seen from its column 3 on.
    fn tiled() -> (Vec<Vec<u8>>, Plane) {
        let stored = |row: usize, column: usize| (100 * row + column) as f32;
        let chunks = (0..6)
            .map(|tile| {
                let (row, column) = (tile / 3 * 2, tile % 3 * 2);
                let inside = |k: usize| (row + k / 2, column + k % 2);
                (0..4).flat_map(|k| stored(inside(k).0, inside(k).1).to_le_bytes()).collect()
            })
            .collect();
        let plane = Plane {
            file_columns: 5,
            columns: 4,
            flipped: true,
            first_column: 3,
            tile: [2, 2],
            strides: [2, 1],
            chunks: 0..6,
            ..Plane::plain(3, 4, 0)
        };
        (chunks, plane)
    }

    #[test]
    fn tiles_become_a_field_in_its_own_order() {
        let (chunks, plane) = tiled();
        let field: Vec<f32> = (0..12).map(|point| plane.value(&chunks, point)).collect();
        assert_eq!(field[..4], [203.0, 204.0, 200.0, 201.0]);
        assert_eq!(field[8..], [3.0, 4.0, 0.0, 1.0]);
        let mean = Sparse::new([vec![(0, 1.0), (1, 3.0)], vec![(11, 2.0)]].into_iter()).unwrap();
        let plane = Plane { product: Some(mean), ..plane };
        assert_eq!([plane.value(&chunks, 0), plane.value(&chunks, 1)], [203.75, 1.0]);
    }

    #[test]
    fn fields_are_normalised_masked_and_turned() {
        let mut cpu = Cpu::<f32>::new(Some(2)).unwrap();
        let mut plan = ArenaPlan::default();
        // 1 x 4 points, 2 channels, 2 images.
        let [fields, bases, mask] = [16, 3 * 2 * 8, 8].map(|len| plan.slot(len));
        cpu.allocate(&plan).unwrap();
        let base = |set: usize, term: usize, i: usize| (set * 100 + term * 10 + i) as f32 * 0.125;
        let all: Vec<f32> = (0..48).map(|k| base(k / 16, k / 8 % 2, k % 8)).collect();
        cpu.upload(bases, &all);
        cpu.upload(mask, &[1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        let chunk = |first: f32| (0..4).flat_map(|i| (first + i as f32).to_le_bytes()).collect();
        let chunks = [chunk(1.0), chunk(-1.0), chunk(30.0)];
        let planes: Vec<Plane> = [0, 1, 2, 0].map(|k| Plane::plain(1, 4, k)).into();
        let scalings = [
            Scaling { epsilon: 0.0, mean: 1.5, deviation: 4.0 },
            Scaling { epsilon: 0.5, mean: 0.0, deviation: 2.0 },
        ];
        cpu.decode(&Decode {
            images: 2,
            rows: 1,
            columns: 4,
            scalings: &scalings,
            chunks: &chunks,
            planes: &planes,
            terms: &[0, 1, 2, 4, 4],
            bases: Some(Bases { fields: bases, terms: 2, sets: &[2, 0], weights: &[1.0, 0.5, 1.0, 2.0] }),
            mask: Some(mask),
            turns: &[0, 3],
            fields,
        });
        let mut found = [0.0_f32; 16];
        cpu.download(fields, &mut found);
        for column in 0..4 {
            let x = 1.0 + column as f32 - (base(2, 0, 2 * column) + 0.5 * base(2, 1, 2 * column));
            assert_eq!(found[2 * column], (x - 1.5) / 4.0);
            let log = (f32::max(column as f32 - 1.0, 0.0) / 0.5).ln_1p();
            let z = log - (base(2, 0, 2 * column + 1) + 0.5 * base(2, 1, 2 * column + 1));
            assert_eq!(found[2 * column + 1], if column == 1 { 0.0 } else { z / 2.0 });
            // The second image adds two planes, and is turned.
            let from = (column + 3) % 4;
            let x = 31.0 + 2.0 * from as f32 - (base(0, 0, 2 * from) + 2.0 * base(0, 1, 2 * from));
            assert_eq!(found[8 + 2 * column], (x - 1.5) / 4.0);
            // A channel without planes is missing, but for where it is masked.
            assert_eq!(found[8 + 2 * column + 1].is_nan(), from != 1);
        }
    }

    #[test]
    fn light_and_columns_are_turned_together() {
        let mut cpu = Cpu::<f64>::new(Some(1)).unwrap();
        let mut plan = ArenaPlan::default();
        let fields: Slot = plan.slot(2 * 2 * 4 * 2);
        cpu.allocate(&plan).unwrap();
        let noon =
            Light { strength: 1.0, sin_declination: 0.0, cos_declination: 1.0, start: -0.01, turn: 0.02 };
        let longitudes: Vec<f64> = (0..4).map(|i| i as f64 * std::f64::consts::FRAC_PI_2).collect();
        let by_column: Vec<f32> = (0..8).map(|k| k as f32).collect();
        let moment = |turn| Moment { by_column: by_column.clone(), lights: vec![noon], turn };
        cpu.daylight(&Daylight {
            latitudes: &[0.0, 1.0],
            longitudes: &longitudes,
            channels: 2,
            light: Some(1),
            unit: 2.0,
            moments: &[moment(0), moment(3)],
            fields,
        });
        let mut found = [0.0; 32];
        cpu.download(fields, &mut found);
        // Noon at longitude 0: the integral over 0.02 rad of cos φ cos h.
        let light = 2.0 * 0.01_f64.sin();
        assert!(
            (found[1] - light / 2.0).abs() < 1e-8 && (found[9] - light * 1.0_f64.cos() / 2.0).abs() < 1e-8
        );
        assert_eq!((found[0], found[2], found[5]), (0.0, 2.0, 0.0));
        assert_eq!(found[16 + 2..16 + 4], found[0..2]);
    }
}
