//! Every packing gives the values that were packed.

use wxsim::io::inspect_file;

use crate::messages::{Message, bit_row, section, wrap};
use crate::{File, equal, field, northward, read, reference, variable};

#[test]
fn scales_and_widths_are_exact() {
    for (bits, scale) in [
        (1, (0.0, 0, 0)),
        (7, (-3.5, 3, -2)),
        (16, (1.0e5, -3, 0)),
        (24, (-2.5e5, -5, 2)),
        (32, (0.0, -32, 0)),
    ] {
        let most = ((1_u64 << bits) - 1) as u32;
        let stored: Vec<u32> = (0..20_u32).map(|i| i.wrapping_mul(0x9e37_79b9) & most).collect();
        let message = Message { bits, scale, stored, ..Message::temperature(0) };
        let info = File::new(std::slice::from_ref(&message)).info();
        let expected = field(&message, &northward(&message.stored));
        assert!(equal(&read(&info, "t", 0, 0), &expected), "{bits} bits");
    }
    // Without bits every value is the reference.
    let constant = Message { bits: 0, ..Message::temperature(0) };
    assert_eq!(read(&File::new(&[constant]).info(), "t", 0, 0), [200.0; 20]);
}

#[test]
fn missing_values_of_complex_packing_are_recognised() {
    // Three groups: of five numbers of 3 bits, of five without bits, of ten of 4 bits. All ones is missing; with the
    // second kind, the number below as well.
    for (kinds, second) in [(1_u8, false), (2, true)] {
        let mut packing = 20_u32.to_be_bytes().to_vec();
        packing.extend([0, 2]);
        packing.extend(10.0_f32.to_be_bytes());
        packing.extend([0, 0, 0, 0, 8, 0, 1, kinds]);
        packing.extend([255; 8]);
        packing.extend(3_u32.to_be_bytes()); // groups
        packing.extend([0, 3]); // widths from 0, in 3 bits
        packing.extend(5_u32.to_be_bytes()); // lengths from 5 in steps of 1
        packing.push(1);
        packing.extend(10_u32.to_be_bytes()); // of the last group
        packing.push(2);
        let references = bit_row(&[(40, 8), (255, 8), (100, 8)]);
        let widths = bit_row(&[(3, 3), (0, 3), (4, 3)]);
        let lengths = bit_row(&[(0, 2), (0, 2), (0, 2)]);
        let narrow = [0, 1, 7, 6, 2].map(|x| (x, 3));
        let wide = [0, 1, 2, 15, 14, 5, 6, 7, 8, 9].map(|x| (x, 4));
        let data = [references, widths, lengths, bit_row(&[&narrow[..], &wide[..]].concat())].concat();
        let file = File::of(&with_sections(&packing, &data));
        let gap = if second { f32::NAN } else { 0.0 };
        let expected: Vec<f32> = [
            [50.0, 51.0, f32::NAN, 56.0 + gap, 52.0],
            [f32::NAN; 5],
            [110.0, 111.0, 112.0, f32::NAN, 124.0 + gap],
            [115.0, 116.0, 117.0, 118.0, 119.0],
        ]
        .into_iter()
        .rev()
        .flatten()
        .collect();
        let values = read(&file.info(), "t", 0, 0);
        assert!(equal(&values, &expected), "{kinds}: {values:?}");
    }
}

/// Temperature on [`SMALL`] with these contents of sections 5 and 7.
fn with_sections(packing: &[u8], data: &[u8]) -> Vec<u8> {
    let plain = Message::temperature(0).bytes();
    // Sections 1, 3 and 4 are 21, 72 and 34 octets long.
    let head = &plain[16..16 + 21 + 72 + 34];
    wrap(0, &[head, &section(5, packing), &section(6, &[255]), &section(7, data)].concat())
}

pub const PACKINGS: [&str; 15] = [
    "simple",
    "simple-constant",
    "ieee32",
    "ieee64",
    "complex",
    "spatial-1",
    "spatial-2",
    "png-8",
    "png-16",
    "png-24",
    "jpeg-12",
    "jpeg-20",
    "ccsds-12",
    "ccsds-24",
    "ccsds-30",
];

#[test]
fn every_packing_gives_the_values_of_eccodes() {
    let (rows, columns) = (19, 25);
    let bytes = std::fs::read(reference().join("values.f32")).unwrap();
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let mut fields = values.chunks_exact(rows * columns);
    for name in PACKINGS {
        let info = inspect_file(&reference().join(format!("{name}.grib2"))).unwrap();
        let t = variable(&info, "t");
        assert_eq!(
            (t.levels.as_slice(), t.times[0].to_string()),
            (&[850.0, 500.0][..], "2020-02-29T12:00Z".into())
        );
        for level in 0..2 {
            let theirs = fields.next().unwrap();
            for (n, ours) in read(&info, "t", 0, level).iter().enumerate() {
                let expected = theirs[(rows - 1 - n / columns) * columns + n % columns];
                // Both compute in float64; rounded to float32 they may differ by its last bit.
                let same = (ours - expected).abs() <= expected.abs() * f32::EPSILON;
                assert!(
                    same || (ours.is_nan() && expected.is_nan()),
                    "{name}, {level}, {n}: {ours} {expected}"
                );
            }
        }
    }
    assert!(fields.next().is_none());
}
