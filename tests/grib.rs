//! GRIB2 files: what is read from them is what was written, and what is not read is refused with a sentence.
//!
//! Messages are written octet by octet (`messages`), so that every value is known; those of packings that are hard to
//! write were made with ecCodes (`reference/make_grib.py`), whose values stand beside them.

mod messages;
mod program;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use messages::{Layout, Message, Product, SMALL, bit_row, grid, section, together, wrap};
use program::{is_refused, succeeds, text};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use wxsim::error::{Kind, chain};
use wxsim::io::{FileInfo, GridKind, Reader, Severity, VariableInfo, inspect_file};

thread_local! {
    /// The folders of a test's files, which go when its thread ends.
    static FOLDERS: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// `x.grib2` in a folder of its own.
struct File {
    path: PathBuf,
}

impl File {
    fn new(messages: &[Message]) -> Self {
        Self::of(&messages.iter().flat_map(Message::bytes).collect::<Vec<u8>>())
    }

    fn of(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.grib2");
        std::fs::write(&path, bytes).unwrap();
        FOLDERS.with_borrow_mut(|folders| folders.push(folder));
        Self { path }
    }

    fn info(&self) -> FileInfo {
        inspect_file(&self.path).unwrap()
    }

    /// The sentence and the hint of the error that the file is.
    fn error(&self) -> (String, String) {
        let error = inspect_file(&self.path).unwrap_err();
        assert_eq!(error.kind(), Kind::Input);
        (chain(&error), error.advice().unwrap_or("").to_string())
    }
}

#[track_caller]
fn variable<'a>(info: &'a FileInfo, name: &str) -> &'a VariableInfo {
    let names: Vec<&str> = info.variables.iter().map(|v| v.name.as_str()).collect();
    info.variable(name).unwrap_or_else(|| panic!("no '{name}' among {names:?}; {:?}", info.problems))
}

fn read(info: &FileInfo, name: &str, time: usize, level: usize) -> Vec<f32> {
    let variable = variable(info, name);
    let mut out = vec![0.0; variable.grid.points()];
    Reader::open(info).unwrap().read(variable, time, level, &mut out).unwrap();
    out
}

fn sentences(info: &FileInfo, severity: Severity) -> String {
    let of = info.problems.iter().filter(|p| p.severity == severity);
    of.map(|p| format!("{} [{}]\n", p.sentence, p.remedy)).collect()
}

/// Rows of `stored`, one for each row of the grid from south to north, as values.
fn field(message: &Message, rows: &[Vec<u32>]) -> Vec<f32> {
    rows.iter().flatten().map(|x| message.value(*x)).collect()
}

fn equal(read: &[f32], expected: &[f32]) -> bool {
    read.len() == expected.len()
        && read.iter().zip(expected).all(|(x, y)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()))
}

/// The numbers of [`SMALL`] from south to north: it is stored from north to south.
fn northward(stored: &[u32]) -> Vec<Vec<u32>> {
    stored.chunks(5).rev().map(<[u32]>::to_vec).collect()
}

#[test]
fn every_scanning_mode_gives_the_same_field() {
    // The number at a point says where it is: 100 times the row from the south plus the column from the west.
    let (rows, columns) = (4_u32, 5_u32);
    let expected: Vec<Vec<u32>> = (0..rows).map(|j| (0..columns).map(|i| 100 * j + i).collect()).collect();
    for scanning in (0..16_u8).map(|bits| bits << 4) {
        let [westward, north, by_column, alternating] =
            [0x80, 0x40, 0x20, 0x10].map(|bit| scanning & bit != 0);
        let (south_edge, north_edge) = (30_000_000, 60_000_000);
        let (west, east) = (350_000_000, 30_000_000); // across Greenwich
        let (first_row, last_row) = if north { (south_edge, north_edge) } else { (north_edge, south_edge) };
        let (first_column, last_column) = if westward { (east, west) } else { (west, east) };
        let along = if by_column { rows } else { columns };
        let stored = (0..rows * columns)
            .map(|n| {
                let (line, mut at) = (n / along, n % along);
                if alternating && line % 2 == 1 {
                    at = along - 1 - at;
                }
                let (j, i) = if by_column { (at, line) } else { (line, at) };
                let j = if north { j } else { rows - 1 - j };
                100 * j + if westward { columns - 1 - i } else { i }
            })
            .collect();
        let layout =
            Layout { first: [first_row, first_column], last: [last_row, last_column], scanning, ..SMALL };
        let message = Message { layout, stored, ..Message::temperature(0) };
        let file = File::new(std::slice::from_ref(&message));
        let info = file.info();
        let t = variable(&info, "t");
        assert_eq!(t.grid.latitude, [30.0, 40.0, 50.0, 60.0], "{scanning:#b}");
        assert_eq!(t.grid.longitude, [-10.0, 0.0, 10.0, 20.0, 30.0], "{scanning:#b}");
        assert_eq!(t.orientation.latitude_descending, !north);
        assert!(equal(&read(&info, "t", 0, 0), &field(&message, &expected)), "{scanning:#b}");
        assert_eq!(sentences(&info, Severity::Warning), "");
    }
}

#[test]
fn times_and_levels_in_any_order_form_one_variable() {
    let mut messages = Vec::new();
    // Forecasts of two hours on two levels, the levels and the hours against the order of the file.
    for (n, (hours, level)) in [(12, 85_000), (6, 50_000), (12, 50_000), (6, 85_000)].into_iter().enumerate()
    {
        let product = Product::Moment { hours };
        let surface = (100, 0, level);
        messages.push(Message { product, surface, ..Message::temperature(100 * n as u32) });
    }
    // The pressure of 500 hPa, written with another scale.
    messages[1].surface = (100, 0x82, 500); // 500 * 10^2
    let file = File::new(&messages);
    let info = file.info();
    let t = variable(&info, "t");
    assert_eq!((t.quantity_name.as_str(), t.units.as_str()), ("t", "K"));
    assert_eq!(t.levels, [850.0, 500.0]);
    let times: Vec<String> = t.times.iter().map(|time| time.to_string()).collect();
    assert_eq!(times, ["2020-01-01T06:00Z", "2020-01-01T12:00Z"]);
    for (time, level, n) in [(0, 0, 3), (0, 1, 1), (1, 0, 0), (1, 1, 2)] {
        let expected = field(&messages[n], &northward(&messages[n].stored));
        assert!(equal(&read(&info, "t", time, level), &expected), "{time} {level}");
    }
    assert_eq!(info.forecast_reference_time.unwrap().to_string(), "2020-01-01T00:00Z");
    assert!(info.problems.is_empty(), "{:?}", info.problems);
    // Several times at once, in parallel, are the same.
    let mut both = vec![0.0; 40];
    Reader::open(&info).unwrap().read_many(t, 1, 0..2, &mut both).unwrap();
    assert!(equal(&both, &[read(&info, "t", 0, 1), read(&info, "t", 1, 1)].concat()));
}

#[test]
fn a_field_that_is_not_there_is_missing_and_one_that_comes_twice_is_named() {
    let at = |day, level, first| Message {
        reference: [2020, 1, day, 0],
        surface: (100, 0, level),
        ..Message::temperature(first)
    };
    let file = File::new(&[at(1, 85_000, 0), at(1, 50_000, 20), at(2, 85_000, 40)]);
    let info = file.info();
    assert!(read(&info, "t", 1, 1).iter().all(|x| x.is_nan()));
    assert!(!read(&info, "t", 1, 0)[0].is_nan());
    let warning = sentences(&info, Severity::Warning);
    assert!(
        warning.contains("'t' lacks 1 of 4 fields, the first on 500 hPa at 2020-01-02T00:00Z"),
        "{warning}"
    );

    let file = File::new(&[at(1, 50_000, 0), at(2, 50_000, 20), at(1, 50_000, 40)]);
    let info = file.info();
    let warning = sentences(&info, Severity::Warning);
    assert!(warning.contains("repeats 1 date, the first is 2020-01-01T00:00Z"), "{warning}");
    assert_eq!(variable(&info, "t").times.len(), 3);
    assert_eq!(read(&info, "t", 0, 0)[15], at(1, 0, 0).value(0), "the first of the file comes first");
    assert_eq!(read(&info, "t", 1, 0)[15], at(1, 0, 0).value(40));
}

#[test]
fn the_quantities_of_the_surface_are_known_by_height_and_kind() {
    let named = |parameter, surface, first| Message { parameter, surface, ..Message::temperature(first) };
    let file = File::new(&[
        named([0, 0], (103, 0, 2), 0),
        named([2, 2], (103, 0, 10), 20),
        named([2, 3], (103, 0, 10), 40),
        named([2, 2], (103, 0, 80), 60),
        named([3, 1], (101, 0, 0), 80),
        named([3, 0], (1, 0, 0), 100),
        named([3, 5], (100, 0, 50_000), 120),
        named([0, 0], (1, 0, 0), 140),
        named([19, 77], (1, 0, 0), 160),
        Message { discipline: 192, ..named([128, 34], (1, 0, 0), 180) },
    ]);
    let info = file.info();
    let known: Vec<(&str, &str)> =
        info.variables.iter().map(|v| (v.name.as_str(), v.quantity_name.as_str())).collect();
    let expected = [
        ("2t", "t2m"),
        ("10u", "u10"),
        ("10v", "v10"),
        ("u_80m", "u_80m"), // hub height is no 10 metre wind
        ("prmsl", "msl"),
        ("sp", "sp"),
        ("gh", "z"),
        ("t_surface", "t_surface"), // nor is the ground's temperature one on a level
        ("param_0_19_77_surface", "param_0_19_77_surface"),
        ("sst", "sst"),
    ];
    assert_eq!(known, expected);
    assert_eq!(variable(&info, "10u").height, Some(10.0));
    // Geopotential height in metres becomes geopotential.
    let height = f64::from(named([3, 5], (100, 0, 50_000), 0).value(120));
    let z = f64::from(read(&info, "gh", 0, 0)[15]);
    assert!((z / (height * 9.80665) - 1.0).abs() < 1e-6, "{z}"); // the rounding of float32
    assert_eq!(variable(&info, "gh").units, "m2 s-2");
}

#[test]
fn sums_and_means_state_their_period() {
    let rain = |code, from, to| Message {
        parameter: [1, 8],
        surface: (1, 0, 0),
        product: Product::Period { code, from, to },
        ..Message::temperature(0)
    };
    let info = File::new(&[rain(1, 0, 6), rain(1, 6, 12), rain(1, 12, 18)]).info();
    let tp = variable(&info, "tp");
    assert_eq!((tp.quantity_name.as_str(), tp.statistic.as_deref()), ("tp", Some("sum")));
    assert_eq!(tp.period.unwrap().to_string(), "6h");
    assert_eq!(tp.times[0].to_string(), "2020-01-01T06:00Z", "the end of the period");
    assert_eq!(tp.units, "m", "a kilogram of water on a square metre is a millimetre");

    // Both over six hours and since the start, as NCEP writes them.
    let info = File::new(&[rain(1, 6, 12), rain(1, 0, 12)]).info();
    let names: Vec<&str> = info.variables.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["tp_6h", "tp_12h"]);
    assert_eq!(variable(&info, "tp_12h").period.unwrap().to_string(), "12h");

    // Since the start of the forecast, as ECMWF writes it, with the zeros of the start itself.
    let info =
        File::new(&[rain(1, 0, 0), rain(1, 0, 3), rain(1, 0, 6), rain(1, 0, 9), rain(1, 0, 12)]).info();
    assert!(info.variables.is_empty());
    let refused = sentences(&info, Severity::Refused);
    assert!(refused.contains("over 4 different periods, from 3h to 12h: since the start"), "{refused}");
    assert!(refused.contains("cdo deltat"), "{refused}");

    let mean = Message { parameter: [0, 0], surface: (103, 0, 2), ..rain(0, 0, 24) };
    let warmest = Message { parameter: [0, 0], surface: (103, 0, 2), ..rain(2, 0, 24) };
    let info = File::new(&[mean, warmest]).info();
    assert_eq!(variable(&info, "2t").statistic.as_deref(), Some("mean"));
    assert_eq!(variable(&info, "2t").period.unwrap().to_string(), "1d");
    assert_eq!(variable(&info, "2t_max").quantity_name, "2t_max", "an extreme is another quantity");
}

#[test]
fn one_member_of_an_ensemble_is_read_and_several_are_refused() {
    let member =
        |number| Message { product: Product::Member { hours: 6, number }, ..Message::temperature(0) };
    let info = File::new(&[member(3)]).info();
    assert_eq!(variable(&info, "t").times[0].to_string(), "2020-01-01T06:00Z");
    let info = File::new(&[member(1), member(2), member(3)]).info();
    assert!(info.variables.is_empty());
    let refused = sentences(&info, Severity::Refused);
    assert!(refused.contains("'t' holds an ensemble of 3 members"), "{refused}");
}

#[test]
fn bitmaps_become_missing_values_also_where_a_field_repeats_one() {
    let bitmap: Vec<bool> = (0..20).map(|i| i % 3 != 1).collect();
    let there: Vec<u32> = (0..20).filter(|i| i % 3 != 1).collect();
    let first = Message { bitmap: Some(bitmap.clone()), stored: there.clone(), ..Message::temperature(0) };
    let warmer = there.iter().map(|x| x + 500).collect();
    let second = Message { surface: (100, 0, 85_000), stored: warmer, ..first.clone() };
    let whole = Message { surface: (100, 0, 70_000), ..Message::temperature(1000) };
    let file = File::of(&together(&[&first, &second, &whole]));
    let info = file.info();
    assert_eq!(variable(&info, "t").levels, [850.0, 700.0, 500.0]);
    for (level, more, holes) in [(2, 0, true), (0, 500, true), (1, 1000, false)] {
        let point = |i: usize| match holes && i % 3 == 1 {
            true => f32::NAN,
            false => first.value(i as u32 + more),
        };
        let expected: Vec<f32> =
            (0..4).rev().flat_map(|row| (0..5).map(move |c| 5 * row + c)).map(point).collect();
        assert!(equal(&read(&info, "t", 0, level), &expected), "{level}");
    }
    let nothing = Message { bitmap: Some(vec![false; 20]), stored: vec![], ..Message::temperature(0) };
    assert!(read(&File::new(&[nothing]).info(), "t", 0, 0).iter().all(|x| x.is_nan()));
}

#[test]
fn gaussian_rows_are_those_of_their_number_of_parallels() {
    // Half of the rows of N32: its northernmost are 87.864, 85.097, ... degrees (ECMWF's list).
    let layout = Layout {
        template: 40,
        columns: 2,
        rows: 3,
        first: [85_096_527, 0],
        last: [79_525_607, 5_625_000],
        steps: [5_625_000, 32],
        scanning: 0,
    };
    let message = Message { layout, stored: (0..6).collect(), ..Message::temperature(0) };
    let info = File::new(std::slice::from_ref(&message)).info();
    let latitude = &variable(&info, "t").grid.latitude;
    for (read, published) in latitude.iter().zip([79.5256, 82.3129, 85.0965]) {
        assert!((read - published).abs() < 1e-4, "{latitude:?}"); // the published digits
    }
    assert_eq!(read(&info, "t", 0, 0)[4], message.value(0));
    let whole = Layout { rows: 64, first: [87_863_799, 0], last: [-87_863_799, 5_625_000], ..layout };
    let info =
        File::new(&[Message { layout: whole, stored: vec![7; 128], ..Message::temperature(0) }]).info();
    assert_eq!(variable(&info, "t").grid_kind, GridKind::Gaussian);
}

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

const PACKINGS: [&str; 15] = [
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

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/grib")
}

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

#[test]
fn what_is_not_read_is_refused_by_the_name_of_its_template() {
    let plain = Message::temperature(0).bytes();
    // Where sections 3, 4 and 5 begin.
    let (third, fourth, fifth) = (16 + 21, 16 + 21 + 72, 16 + 21 + 72 + 34);
    for (at, bytes, says) in [
        (third + 12, vec![0, 30], "lies on a Lambert conformal grid (grid template 3.30)"),
        (third + 12, vec![0, 1], "a rotated latitude-longitude grid"),
        (third + 12, vec![0, 101], "an unstructured grid"),
        (third + 12, vec![0, 50], "spherical harmonics"),
        (third + 30, vec![255; 4], "lies on a reduced grid (template 3.0"),
        (third + 71, vec![0x08], "rows that are shifted"),
        (third + 71, vec![0x40], "against its scanning mode"),
        (third + 63, vec![0, 1, 0, 0], "which are not 0.065536 degrees apart"),
        (third + 6, vec![0, 0, 0, 21], "4 x 5 points and 21 values"),
        (fourth + 7, vec![0, 5], "is a probability (product template 4.5)"),
        (fourth + 17, vec![3, 0, 0, 0, 1], "units of no fixed length (code 3"),
        (fourth + 22, vec![105], "lies on model levels (surface type 105)"),
        (fifth + 9, vec![0, 200], "run lengths (data template 5.200)"),
        (16 + 14, vec![13], "a reference time that is no date"),
    ] {
        let mut bytes_of = plain.clone();
        bytes_of[at..at + bytes.len()].copy_from_slice(&bytes);
        let info = File::of(&bytes_of).info();
        let refused = sentences(&info, Severity::Refused);
        assert!(info.variables.is_empty() && refused.contains(says), "{says}: {refused}");
    }
    // What stands beside it is read.
    let mut both = plain.clone();
    both[fifth + 10] = 200;
    both.extend(Message { surface: (103, 0, 2), ..Message::temperature(0) }.bytes());
    let info = File::of(&both).info();
    assert_eq!(info.variables.len(), 1);
    assert!(sentences(&info, Severity::Refused).contains("'t': is packed by run lengths"));
}

#[test]
fn edition_1_says_how_to_convert_it() {
    let file = File::of(b"GRIB\x00\x00\x40\x01\x00\x00\x1c\x02 and so on");
    let (sentence, hint) = file.error();
    assert!(sentence.contains("message 1 is GRIB edition 1, and only edition 2 is read"), "{sentence}");
    assert!(hint.contains("grib_set -s edition=2") && hint.contains("cdo -f grb2"), "{hint}");
}

#[test]
fn headings_and_padding_between_messages_are_passed_over() {
    let message = Message::temperature(0);
    let next = Message { reference: [2020, 1, 2, 0], ..Message::temperature(20) };
    let heading = b"\x01\r\r\n123\r\r\nHTXA50 ECMF 010000\r\r\n";
    let bytes =
        [&heading[..], &message.bytes(), b"\r\r\n\x03", &vec![0; 20_000], &next.bytes(), b"\0\0"].concat();
    let info = File::of(&bytes).info();
    assert_eq!(variable(&info, "t").times.len(), 2);
    assert_eq!(read(&info, "t", 1, 0)[15], next.value(20));
    let notes = sentences(&info, Severity::Note);
    assert!(
        notes.contains(&format!("{} bytes of the file belong to no message", heading.len() + 20_006)),
        "{notes}"
    );
}

#[test]
fn a_file_that_is_cut_off_names_message_variable_and_date() {
    let first = Message::temperature(0).bytes();
    let second = Message { reference: [2020, 1, 2, 0], ..Message::temperature(20) }.bytes();
    let whole = [first.clone(), second.clone()].concat();
    for length in 1..whole.len() {
        let file = File::of(&whole[..length]);
        if length == first.len() {
            assert_eq!(variable(&file.info(), "t").times.len(), 1);
            continue;
        }
        // What is left of a header that does not even say GRIB is none.
        if length < 8 {
            assert!(inspect_file(&file.path).is_err());
            continue;
        }
        if (1..4).contains(&(length as i64 - first.len() as i64)) {
            assert!(sentences(&file.info(), Severity::Note).contains("belong to no message"));
            continue;
        }
        let (sentence, hint) = file.error();
        let number = if length < first.len() { 1 } else { 2 };
        assert!(sentence.contains(&format!("x.grib2: message {number}")), "{length}: {sentence}");
        assert!(hint.contains("download it again"), "{hint}");
    }
    let (sentence, _) = File::of(&whole[..whole.len() - 10]).error();
    let expected = format!("expected {} bytes, found {}", second.len(), second.len() - 10);
    assert!(sentence.contains(&expected), "{sentence}");
    assert!(sentence.contains("message 2 ('t' on 500 hPa at 2020-01-02T00:00Z) is cut off"), "{sentence}");
}

#[test]
fn data_that_cannot_be_decoded_name_file_message_variable_and_date() {
    for name in PACKINGS.iter().filter(|name| !name.starts_with("simple-")) {
        let mut bytes = std::fs::read(reference().join(format!("{name}.grib2"))).unwrap();
        // Section 5 of the first message says that there are fewer values than points.
        bytes[16 + 21 + 72 + 34 + 8] ^= 1;
        let file = File::of(&bytes);
        let info = file.info();
        let mut out = vec![0.0; 475];
        let error = Reader::open(&info).unwrap().read(variable(&info, "t"), 0, 0, &mut out).unwrap_err();
        let sentence = chain(&error);
        assert!(
            sentence.contains("x.grib2: variable 't' on 850 hPa at 2020-02-29T12:00Z: message 1"),
            "{sentence}"
        );
        assert!(error.kind() == Kind::Input && error.advice().is_some());
    }
    // The image ends early, or is none at all.
    for (name, codec) in [("jpeg-12", "JPEG 2000"), ("png-16", "PNG"), ("ccsds-24", "CCSDS")] {
        let mut bytes = std::fs::read(reference().join(format!("{name}.grib2"))).unwrap();
        let seventh = bytes.windows(6).position(|w| w[..5] == [0, 0, 0, 6, 6] && w[5] == 255).unwrap() + 6;
        let length = u32::from_be_bytes(bytes[seventh..seventh + 4].try_into().unwrap()) as usize;
        bytes[seventh + 5..seventh + length].fill(0xa5);
        let info = File::of(&bytes).info();
        let mut out = vec![0.0; 475];
        match Reader::open(&info).unwrap().read(variable(&info, "t"), 0, 0, &mut out) {
            Ok(()) => assert_eq!(codec, "CCSDS", "noise is a stream of CCSDS too"),
            Err(error) => {
                let sentence = chain(&error);
                assert!(
                    sentence.contains(&format!("message 1 holds {codec} data that cannot be decoded")),
                    "{sentence}"
                );
            }
        }
    }
}

/// Reads all that the file promises; errors are as good as values, but panics are not.
fn read_all(path: &Path) -> Result<(), TestCaseError> {
    let info = match inspect_file(path) {
        Ok(info) => info,
        Err(error) => {
            prop_assert!(error.kind() == Kind::Input && error.advice().is_some(), "{}", chain(&error));
            return Ok(());
        }
    };
    let mut reader = Reader::open(&info).map_err(|e| TestCaseError::fail(chain(&e)))?;
    for variable in info.variables.iter().filter(|v| v.refused.is_none() && v.grid.points() < 1 << 20) {
        let mut field = vec![0.0; variable.grid.points()];
        for (time, level) in
            (0..variable.time_count()).flat_map(|t| (0..variable.level_count()).map(move |l| (t, l)))
        {
            if let Err(error) = reader.read(variable, time, level, &mut field) {
                prop_assert!(error.kind() == Kind::Input && error.advice().is_some(), "{}", chain(&error));
                prop_assert!(chain(&error).contains(&variable.name));
            }
        }
    }
    Ok(())
}

#[test]
fn damaged_files_are_errors_or_what_they_still_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.grib2");
    let flips = || proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 1..4);
    for name in PACKINGS {
        let whole = std::fs::read(reference().join(format!("{name}.grib2"))).unwrap();
        let config = Config { cases: 60, failure_persistence: None, ..Config::default() };
        TestRunner::new(config)
            .run(&(flips(), prop_oneof![3 => Just(1.0), 1 => 0.0..1.0_f64]), |(places, share)| {
                let mut bytes = whole.clone();
                for (place, value) in places {
                    bytes[(place * whole.len() as f64) as usize] = value;
                }
                bytes.truncate((share * whole.len() as f64) as usize);
                std::fs::write(&path, &bytes).unwrap();
                read_all(&path)
            })
            .unwrap();
        // Every word of the headers in turn becomes huge.
        for at in 0..(16 + 21 + 72 + 34 + 49 + 6 + 60).min(whole.len() - 4) {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xf0]);
            std::fs::write(&path, &bytes).unwrap();
            read_all(&path).unwrap();
        }
    }
}

const CONFIG: &str = r#"
[data]
step = "6h"
sources = [{ glob = "data/t.*", variable = "t", level = 500 }]
split.train = ["2000-01-01", "2000-01-07"]
split.validation = ["2000-01-07", "2000-01-09"]
split.test = ["2000-01-09", "2000-01-13"]

[input]
anomalies = false

[model]
hidden = [4]
kernel = 3

[train]
batch = 4
rollout = [[1, 1]]

[forecast]
lead = "12h"
"#;

/// Twelve days of temperature, six-hourly.
fn analyses(year: u16) -> Vec<Message> {
    (0..48_u16)
        .map(|n| {
            let wave = |i: u32| 700 + 60 * (u32::from(n) * 3 % 7) + 5 * i;
            Message {
                reference: [year, 1, 1 + n / 4, n % 4 * 6],
                stored: (0..20).map(wave).collect(),
                ..Message::temperature(0)
            }
        })
        .collect()
}

#[test]
fn a_model_is_trained_on_grib_as_on_the_netcdf_made_of_it_and_forecasts_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::create_dir(here.join("data")).unwrap();
    let bytes = |year| analyses(year).iter().flat_map(Message::bytes).collect::<Vec<u8>>();
    std::fs::write(here.join("data/t.grib2"), bytes(2000)).unwrap();
    std::fs::write(here.join("now.grib2"), bytes(2001)).unwrap();
    std::fs::write(here.join("c.toml"), CONFIG).unwrap();
    succeeds(here, &["train", "c.toml"]);
    let output = succeeds(here, &["forecast", "--model", "runs/c", "--out", "f", "--init", "now.grib2"]);
    assert_eq!(text(&output.stdout).trim(), "f/20010112T1800.nc");
    let info = inspect_file(&here.join("f/20010112T1800.nc")).unwrap();
    let last = &analyses(2001)[47];
    let analysis = read(&info, "t", 0, 0);
    assert!(equal(&analysis, &field(last, &northward(&last.stored))), "the first state is the analysis");

    // Rewritten as NetCDF it holds the same, and the run learns the same.
    succeeds(here, &["prepare", "c.toml", "--all", "--out", "prepared"]);
    let pieces: Vec<PathBuf> =
        std::fs::read_dir(here.join("prepared/1-t")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(pieces.len(), 1, "{pieces:?}");
    let (grib, netcdf) =
        (inspect_file(&here.join("data/t.grib2")).unwrap(), inspect_file(&pieces[0]).unwrap());
    let (old, new) = (variable(&grib, "t"), variable(&netcdf, "t"));
    assert_eq!((&old.grid, &old.times, &old.levels), (&new.grid, &new.times, &new.levels));
    assert_eq!((&old.units, &old.quantity_name), (&new.units, &new.quantity_name));
    for time in [0, 17, 47] {
        assert!(equal(&read(&grib, "t", time, 0), &read(&netcdf, "t", time, 0)));
    }
    succeeds(here, &["train", "prepared/c.toml", "--run", "runs/again"]);
    let weights = |run: &str| {
        let best = std::fs::canonicalize(here.join(run).join("best")).unwrap();
        std::fs::read(best.join("tensors.safetensors")).unwrap()
    };
    assert!(weights("runs/c") == weights("runs/again"), "the same data give the same weights");
}

#[test]
fn inspect_describes_a_grib_file_and_refuses_what_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("t.grib2"), Message::temperature(0).bytes()).unwrap();
    let output = text(&succeeds(here, &["inspect", "t.grib2"]).stdout);
    assert!(output.contains("GRIB2,") && output.contains("t (air_temperature)"), "{output}");
    let json = text(&succeeds(here, &["inspect", "t.grib2", "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["format"], "GRIB2");
    assert_eq!(json[0]["variables"][0]["levels"][0], 500.0);
    let reduced = wrap(0, &[section(3, &grid(&SMALL))].concat());
    std::fs::write(here.join("bad.grib2"), reduced).unwrap();
    is_refused(here, &["inspect", "bad.grib2"], &["message 1 has a section 3", "behind its section 0"]);
}
