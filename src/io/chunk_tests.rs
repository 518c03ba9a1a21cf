//! Chunks read directly against the same numbers read by the NetCDF library.

use std::path::Path;

use netcdf::{Endianness, Extents, NcTypeDescriptor};

use super::chunks::DirectFile;
use super::info::{Dimension, FileInfo, Format, GridKind, Linear, Number, Packing, Role, VariableInfo};
use crate::error::{Error, chain};
use crate::grid::{Grid, Orientation};
use crate::time::{Calendar, ValidTime};

const TIMES: usize = 7;
const LEVELS: usize = 3;
const ROWS: usize = 5;
const COLUMNS: usize = 11;

/// How a test file is stored.
#[derive(Clone, Debug)]
struct Storage {
    order: [Role; 4],
    /// Along time, level, latitude, longitude.
    chunk: [usize; 4],
    deflate: Option<(i32, bool)>,
    endianness: Endianness,
    /// Times that are written; the rest is left to the fill value.
    written: usize,
}

impl Storage {
    fn plain() -> Self {
        Self {
            order: [Role::Time, Role::Level, Role::Latitude, Role::Longitude],
            chunk: [1, 1, ROWS, COLUMNS],
            deflate: Some((4, true)),
            endianness: Endianness::Little,
            written: TIMES,
        }
    }

    fn along(&self, values: [usize; 4]) -> Vec<usize> {
        let place = |role| match role {
            Role::Time => 0,
            Role::Level => 1,
            Role::Latitude => 2,
            _ => 3,
        };
        self.order.iter().map(|&role| values[place(role)]).collect()
    }
}

fn dimension_name(role: Role) -> &'static str {
    match role {
        Role::Time => "time",
        Role::Level => "level",
        Role::Latitude => "latitude",
        _ => "longitude",
    }
}

/// Writes a variable `x` and says what a reader would know of it.
fn write<T: NcTypeDescriptor + Copy>(
    path: &Path,
    storage: &Storage,
    number: Number,
    fill: T,
    value: impl Fn(usize) -> T,
) -> (FileInfo, VariableInfo) {
    let lengths = storage.along([TIMES, LEVELS, ROWS, COLUMNS]);
    let mut file = netcdf::create(path).unwrap();
    for (&role, &length) in storage.order.iter().zip(&lengths) {
        if role == Role::Time {
            file.add_unlimited_dimension("time").unwrap();
        } else {
            file.add_dimension(dimension_name(role), length).unwrap();
        }
    }
    // Gives the unlimited dimension its length, however much of `x` is written.
    let mut time = file.add_variable::<f64>("time", &["time"]).unwrap();
    time.put_values(&[0.0; TIMES], 0..TIMES).unwrap();
    let names: Vec<&str> = storage.order.iter().map(|&role| dimension_name(role)).collect();
    let mut variable = file.add_variable::<T>("x", &names).unwrap();
    variable.set_chunking(&storage.along(storage.chunk)).unwrap();
    if let Some((level, shuffle)) = storage.deflate {
        variable.set_compression(level, shuffle).unwrap();
    }
    variable.set_fill_value(fill).unwrap();
    variable.set_endianness(storage.endianness).unwrap();
    let count = storage.along([storage.written, LEVELS, ROWS, COLUMNS]);
    let values: Vec<T> = (0..count.iter().product()).map(value).collect();
    let extents: Vec<netcdf::Extent> =
        count.iter().map(|&count| netcdf::Extent::SliceCount { start: 0, count, stride: 1 }).collect();
    if !values.is_empty() {
        variable.put_values(&values, Extents::from(extents)).unwrap();
    }
    file.close().unwrap();
    (file_info(path), variable_info(storage, number))
}

fn file_info(path: &Path) -> FileInfo {
    FileInfo {
        path: path.to_owned(),
        format: Format::Hdf5,
        size: 0,
        fingerprint: String::new(),
        variables: Vec::new(),
        problems: Vec::new(),
        forecast_reference_time: None,
        messages: None,
    }
}

/// Rows run north to south in the file; the grid begins at the file's column 4 and leaves out its column 2.
fn variable_info(storage: &Storage, number: Number) -> VariableInfo {
    let columns: Vec<usize> = (4..COLUMNS).chain(0..2).chain(3..4).collect();
    let longitude = (0..columns.len()).map(|c| c as f64).collect();
    let latitude = (0..ROWS).map(|r| r as f64).collect();
    let lengths = storage.along([TIMES, LEVELS, ROWS, COLUMNS]);
    VariableInfo {
        name: "x".into(),
        quantity_name: "x".into(),
        standard_name: None,
        long_name: None,
        file_units: String::new(),
        units: String::new(),
        conversion: Linear { factor: 100.0, offset: -0.5 },
        refused: None,
        packing: Packing {
            number,
            scale: Linear { factor: 0.01, offset: 3.0 },
            missing: vec![13.0],
            valid_min: None,
            valid_max: Some(120.0),
        },
        levels: (0..LEVELS).map(|n| 900.0 - n as f64).collect(),
        level_index: (0..LEVELS).rev().collect(),
        height: None,
        times: (0..TIMES).map(|n| ValidTime::new(n as i64, Calendar::Standard)).collect(),
        time_index: vec![0, 3, 1, 2, 4, 6, 5],
        grid: Grid::new(latitude, longitude).unwrap(),
        grid_kind: GridKind::Regular,
        orientation: Orientation { latitude_descending: true, longitude_shift: 0, longitude_signed: false },
        columns,
        dimensions: storage
            .order
            .iter()
            .zip(lengths)
            .map(|(&role, length)| Dimension { name: dimension_name(role).into(), length, role })
            .collect(),
        chunks: Some(storage.along(storage.chunk)),
        period: None,
        statistic: None,
    }
}

/// One field by the NetCDF library and the plain formula.
fn reference(path: &Path, info: &VariableInfo, time: usize, level: usize) -> Vec<f32> {
    let file = netcdf::open(path).unwrap();
    let (start, count) = info.slab(time, level).unwrap();
    let extents: Vec<netcdf::Extent> = start
        .iter()
        .zip(&count)
        .map(|(&start, &count)| netcdf::Extent::SliceCount { start, count, stride: 1 })
        .collect();
    // Every number of these tests is exact in float64.
    let stored = file.variable("x").unwrap().get_values::<f64, _>(Extents::from(extents)).unwrap();
    let rows_first = info.dimension(Role::Latitude).unwrap().0 < info.dimension(Role::Longitude).unwrap().0;
    let mut field = Vec::new();
    for row in (0..ROWS).rev() {
        for &column in &info.columns {
            let raw = stored[if rows_first { row * COLUMNS + column } else { column * ROWS + row }];
            let missing = raw == 13.0 || raw > 120.0 || raw.is_nan();
            let value = info.conversion.apply(info.packing.scale.apply(raw)) as f32;
            field.push(if missing { f32::NAN } else { value });
        }
    }
    field
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Reads all fields at once and one by one, both directly, and compares with the library.
fn compare(file: &FileInfo, info: &VariableInfo, what: &str) {
    let points = info.grid.points();
    let mut direct = DirectFile::open(file).unwrap().unwrap();
    let mut one = vec![0.0; points];
    for level in 0..LEVELS {
        let mut all = vec![0.0; TIMES * points];
        assert!(direct.read_many(info, level, 0..TIMES, &mut all).unwrap(), "{what} is read directly");
        for (time, field) in all.chunks_exact(points).enumerate() {
            let expected = reference(&file.path, info, time, level);
            assert_eq!(bits(field), bits(&expected), "{what}, time {time}, level {level}");
            assert!(direct.read_many(info, level, time..time + 1, &mut one).unwrap());
            assert_eq!(bits(&one), bits(&expected), "{what}, time {time} alone, level {level}");
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn odd_chunk_shapes_filters_and_orders_give_the_bits_of_the_library() {
    use Role::{Latitude, Level, Longitude, Time};
    let folder = folder();
    let orders = [[Time, Level, Latitude, Longitude], [Level, Longitude, Time, Latitude]];
    let chunks =
        [[1, 1, ROWS, COLUMNS], [1, 1, 2, 4], [3, 1, 2, 3], [2, 2, 3, COLUMNS], [7, 3, 5, 1], [1; 4]];
    let filters = [None, Some((0, true)), Some((1, false)), Some((4, true))];
    for order in orders {
        for (n, chunk) in chunks.into_iter().enumerate() {
            let deflate = filters[n % filters.len()];
            let storage = Storage { order, chunk, deflate, ..Storage::plain() };
            let path = folder.path().join(format!("{n}-{}.nc", order[0] == Time));
            let (file, info) = write(&path, &storage, Number::I16, -1_i16, |n| (n % 131) as i16 - 5);
            compare(&file, &info, &format!("{storage:?}"));
        }
    }
}

#[test]
fn every_number_type_gives_the_bits_of_the_library() {
    let folder = folder();
    let storage = Storage { chunk: [2, 1, 3, 4], ..Storage::plain() };
    macro_rules! check {
        ($($type:ident $number:ident),*) => {$(
            let path = folder.path().join(concat!(stringify!($type), ".nc"));
            let (file, info) =
                write(&path, &storage, Number::$number, 1 as $type, |n| (n % 127) as $type);
            compare(&file, &info, stringify!($type));
        )*};
    }
    check!(i8 I8, u8 U8, i16 I16, u16 U16, i32 I32, u32 U32, i64 I64, u64 U64, f32 F32, f64 F64);
}

#[test]
fn chunks_that_were_never_written_hold_the_fill_value() {
    let folder = folder();
    for (n, chunk) in [[1, 1, ROWS, COLUMNS], [2, 3, 2, 5]].into_iter().enumerate() {
        for written in [0, 3] {
            let storage = Storage { chunk, written, ..Storage::plain() };
            let path = folder.path().join(format!("{n}-{written}.nc"));
            let (file, info) = write(&path, &storage, Number::F32, 77.0_f32, |n| n as f32 / 16.0);
            // The variable must be as long as its dimension, or the library's rules apply.
            let all = netcdf::append(&path)
                .unwrap()
                .variable_mut("x")
                .unwrap()
                .put_values(&[1.0_f32; COLUMNS], (TIMES - 1, 0, 0, 0..COLUMNS));
            all.unwrap();
            compare(&file, &info, &format!("{storage:?}"));
        }
    }
}

#[test]
fn what_cannot_be_read_directly_is_left_to_the_library() {
    let folder = folder();
    let mut out = vec![0.0; ROWS * (COLUMNS - 1)];
    let mut left = |file: &FileInfo, info: &VariableInfo| {
        !DirectFile::open(file).unwrap().unwrap().read_many(info, 0, 0..1, &mut out).unwrap()
    };
    let big = Storage { endianness: Endianness::Big, ..Storage::plain() };
    let (file, info) = write(&folder.path().join("big.nc"), &big, Number::I32, 0_i32, |n| n as i32);
    assert!(left(&file, &info), "big-endian numbers");
    let short = Storage { written: 3, ..Storage::plain() };
    let (file, info) = write(&folder.path().join("short.nc"), &short, Number::I32, 0_i32, |n| n as i32);
    assert!(left(&file, &info), "a variable shorter than its dimension");
    let (file, info) =
        write(&folder.path().join("kind.nc"), &Storage::plain(), Number::F32, 0_i32, |n| n as i32);
    assert!(left(&file, &info), "a type other than the header's");

    let path = folder.path().join("checksum.nc");
    let h5 = hdf5::File::create(&path).unwrap();
    let shape = [TIMES, LEVELS, ROWS, COLUMNS];
    h5.new_dataset::<f32>().shape(shape).chunk([1, 1, ROWS, COLUMNS]).fletcher32().create("x").unwrap();
    drop(h5);
    assert!(left(&file_info(&path), &variable_info(&Storage::plain(), Number::F32)), "a checksum filter");
}

#[test]
fn a_damaged_chunk_is_an_error_that_names_file_variable_and_chunk() {
    let folder = folder();
    let path = folder.path().join("damaged.nc");
    let (file, info) = write(&path, &Storage::plain(), Number::F32, 0.0_f32, |n| (n * n) as f32);
    let chunk = hdf5::File::open(&path).unwrap().dataset("x").unwrap().chunk_info(4).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(chunk.addr + chunk.size / 2) as usize] ^= 0x10;
    std::fs::write(&path, bytes).unwrap();
    let mut direct = DirectFile::open(&file).unwrap().unwrap();
    let mut out = vec![0.0; TIMES * info.grid.points()];
    let failures: Vec<String> = (0..LEVELS)
        .filter_map(|level| direct.read_many(&info, level, 0..TIMES, &mut out).err())
        .map(|error| error.to_string())
        .collect();
    let offset: Vec<u64> = chunk.offset.to_vec();
    assert_eq!(
        failures,
        [format!("{}: variable 'x', chunk at {offset:?} cannot be inflated", path.display())]
    );
}

#[test]
fn damaged_chunks_are_errors_or_the_same_other_numbers_on_both_ways_to_read_them() {
    // Both ways run in this process: a crash would end it. The fields keep the header that was indexed whole.
    let folder = folder();
    let path = folder.path().join("damaged.nc");
    let (file, info) = write(&path, &Storage::plain(), Number::F32, 0.0_f32, |n| (n * n) as f32);
    let places: Vec<(u64, u64)> = {
        let dataset = hdf5::File::open(&path).unwrap().dataset("x").unwrap();
        let chunk = |n| dataset.chunk_info(n).unwrap();
        (0..dataset.num_chunks().unwrap()).map(chunk).map(|chunk| (chunk.addr, chunk.size)).collect()
    };
    let whole = std::fs::read(&path).unwrap();
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let points = info.grid.points();
    let (mut one, mut other) = (vec![0.0; points], vec![0.0; points]);
    let (mut good, mut bad) = (0, 0);
    for round in 0..300 {
        let mut bytes = whole.clone();
        for &(address, size) in &places {
            for _ in 0..next(3) {
                // The first bytes are those of the stream's head and of the tables of its code.
                let reach = if round % 2 == 0 { size.min(40) } else { size };
                bytes[address as usize + next(reach as usize)] ^= 1 << next(8);
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let mut direct = DirectFile::open(&file).unwrap().unwrap();
        let library = Box::new(super::slabs::LibrarySlabs::open(&path).unwrap());
        let mut library = super::Reader::with_source(&file, library);
        for (time, level) in [(0, 0), (1, LEVELS - 1), (TIMES - 1, 0)] {
            let ours = direct.read_many(&info, level, time..time + 1, &mut one);
            let theirs = library.read(&info, time, level, &mut other);
            if ours.is_ok() && theirs.is_ok() {
                assert_eq!(bits(&one), bits(&other));
            }
            let errors: Vec<Error> = [ours.map(drop), theirs].into_iter().filter_map(Result::err).collect();
            if errors.is_empty() {
                good += 1
            } else {
                bad += 1
            }
            for error in errors {
                assert!(
                    chain(&error).contains("damaged.nc") && error.advice().is_some(),
                    "{}",
                    chain(&error)
                );
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} fields were read, {bad} were refused");
}

type Found = Vec<(Vec<u64>, u32, u64, u64)>;

/// What the walk through the file finds from the object header of `x`.
fn walk(path: &Path, header: u64, rank: usize) -> Option<Found> {
    let file = std::fs::File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let mut found = Vec::new();
    let mut each = |offset: &[u64], mask, address, size| {
        found.push((offset.to_vec(), mask, address, size));
        true
    };
    super::chunk_tree::visit(&file, size, header, rank, &mut each).map(|()| found)
}

fn header_of_x(path: &Path) -> (u64, hdf5::Dataset) {
    let dataset = hdf5::File::open(path).unwrap().dataset("x").unwrap();
    (super::chunk_index::header_address(&dataset).unwrap(), dataset)
}

#[test]
fn the_walk_finds_the_chunks_that_the_library_counts() {
    let folder = folder();
    let by_netcdf = folder.path().join("netcdf.nc");
    write(&by_netcdf, &Storage { chunk: [1; 4], ..Storage::plain() }, Number::I16, 0_i16, |n| n as i16);
    let by_hdf5 = folder.path().join("hdf5.h5");
    let file = hdf5::File::create(&by_hdf5).unwrap();
    let data = ndarray::Array4::<f32>::zeros([TIMES, LEVELS, ROWS, COLUMNS]);
    file.new_dataset_builder().with_data(&data).chunk([1, 1, 2, 2]).create("x").unwrap();
    drop(file);
    for path in [by_netcdf, by_hdf5] {
        let (header, dataset) = header_of_x(&path);
        let mut counted: Found = (0..dataset.num_chunks().unwrap())
            .map(|n| dataset.chunk_info(n).unwrap())
            .map(|chunk| (chunk.offset, chunk.filter_mask, chunk.addr, chunk.size))
            .collect();
        let mut walked = walk(&path, header, 4).unwrap();
        walked.sort();
        counted.sort();
        assert!(walked == counted && walked.len() > 300, "{}", path.display());
    }
}

#[test]
fn a_walk_through_a_damaged_file_ends() {
    let folder = folder();
    let path = folder.path().join("x.nc");
    write(&path, &Storage { chunk: [1, 1, 2, 4], ..Storage::plain() }, Number::I16, 0_i16, |n| n as i16);
    let (header, dataset) = header_of_x(&path);
    drop(dataset);
    let whole = std::fs::read(&path).unwrap();
    let most = whole.len() / 40;
    // A simple linear congruence is random enough to reach every field of every structure.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            bytes[next(whole.len())] = [0, 1, 0xff, next(256) as u8][next(4)];
        }
        if round % 4 == 0 {
            bytes.truncate(next(whole.len()));
        }
        std::fs::write(&path, bytes).unwrap();
        if let Some(found) = walk(&path, header, 4) {
            assert!(found.len() <= most, "more chunks than the file has room for");
        }
    }
}

/// Compares a reader's own choice with the plain slabs, over all of a file.
fn compare_with_slabs(info: &FileInfo, slabs: impl Fn() -> Box<dyn super::Slabs>) {
    let mut chosen = super::Reader::open(info).unwrap();
    let mut plain = super::Reader::with_source(info, slabs());
    for variable in info.variables.iter().filter(|v| v.refused.is_none()) {
        let points = variable.grid.points();
        let steps = variable.time_count().min(40);
        let (mut all, mut one) = (vec![0.0; steps * points], vec![0.0; points]);
        for level in 0..variable.level_count() {
            chosen.read_many(variable, level, 0..steps, &mut all).unwrap();
            for (time, field) in all.chunks_exact(points).enumerate() {
                plain.read(variable, time, level, &mut one).unwrap();
                assert_eq!(bits(field), bits(&one), "{}, {} at {time}", info.path.display(), variable.name);
            }
        }
    }
}

#[test]
fn real_files_are_read_directly_to_the_same_bits() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    if !data.is_dir() {
        eprintln!("SKIPPED: there is no folder {}", data.display());
        return;
    }
    let classic = data.join("era-interim-europe/z500_ei.nc");
    let info = super::inspect_file(&classic).unwrap();
    let variable = &info.variables[0];
    let mut out = vec![0.0; variable.grid.points()];
    let mut direct = DirectFile::open(&info).unwrap().unwrap();
    assert!(direct.read_many(variable, 0, 0..1, &mut out).unwrap(), "a classic file is read directly");
    compare_with_slabs(&info, || Box::new(super::slabs::ClassicSlabs::open(&classic).unwrap()));
    let mut compared = 0;
    for folder in ["odd", "era5-global-1deg", "era5-tl31", "ncep-air-6h"] {
        for entry in std::fs::read_dir(data.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(info) = super::inspect_file(&path) else { continue };
            if info.format == Format::Grib2 {
                continue; // read by nobody else
            }
            compared += usize::from(!info.variables.is_empty());
            compare_with_slabs(&info, || match info.format {
                Format::Hdf5 => Box::new(super::slabs::LibrarySlabs::open(&path).unwrap()),
                _ => Box::new(super::slabs::ClassicSlabs::open(&path).unwrap()),
            });
        }
    }
    assert!(compared > 10, "{compared} files were compared");
}
