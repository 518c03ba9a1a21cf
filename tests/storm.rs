//! The blizzard of January 1996 (`data/storm1996.nc`): the file against its sources.

use std::path::Path;

use wxsim::io::{FileInfo, Reader, inspect_file};

const ROWS: usize = 33;
const COLUMNS: usize = 36;
const TIMES: usize = 64;

fn storm() -> FileInfo {
    inspect_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/storm1996.nc")).unwrap()
}

/// `[time, lat, lon]`, missing values as NaN.
fn read(file: &FileInfo, name: &str) -> Vec<f32> {
    let variable = file.variables.iter().find(|v| v.name == name).unwrap();
    let mut values = vec![0.0; TIMES * ROWS * COLUMNS];
    Reader::open(file).unwrap().read_many(variable, 0, 0..TIMES, &mut values).unwrap();
    values
}

#[test]
fn the_file_is_small_and_understood() {
    let file = storm();
    assert!(file.size < 2 << 20, "{} bytes", file.size);
    let labels: Vec<String> = file.variables.iter().map(|v| v.quantity(0).to_string()).collect();
    assert_eq!(labels, ["t2m", "msl", "u10", "v10", "u500", "v500"]);
    let first = &file.variables[0];
    assert_eq!(first.grid.describe(), "33 x 36, 20N..60N, 140W..52.5W");
    assert_eq!(first.times[0].to_string(), "1996-01-05T00:00Z");
    assert_eq!(first.times[TIMES - 1].to_string(), "1996-01-20T18:00Z");
    assert_eq!(file.problems, []);
}

#[test]
fn values_are_those_of_the_source() {
    let file = storm();
    // Printed from the files of libncarg-data: (time, row, column), value.
    let expected = [
        ("t2m", [0, 16, 20], 268.651_67),
        ("msl", [12, 10, 30], 102_115.75),
        ("u10", [63, 32, 35], 12.466_945),
        ("v10", [20, 0, 12], 1.198_743_8),
        ("u", [36, 8, 17], 2.793_927_2),
        ("v", [37, 24, 4], -10.187_927),
    ];
    for (name, [time, row, column], value) in expected {
        let found = read(&file, name)[(time * ROWS + row) * COLUMNS + column];
        assert_eq!(found, value, "{name}");
    }
}

#[test]
fn corners_and_three_dates_are_missing_and_nothing_else() {
    let file = storm();
    let gaps: [(&str, &[usize]); 6] =
        [("t2m", &[17]), ("msl", &[]), ("u10", &[]), ("v10", &[17, 37]), ("u", &[]), ("v", &[36])];
    let corners: Vec<bool> = read(&file, "msl")[..ROWS * COLUMNS].iter().map(|x| x.is_nan()).collect();
    assert_eq!(corners.iter().filter(|&&missing| missing).count(), 224);
    for (name, dates) in gaps {
        for (time, field) in read(&file, name).chunks(ROWS * COLUMNS).enumerate() {
            let whole = dates.contains(&time);
            assert!(
                field.iter().zip(&corners).all(|(x, &corner)| x.is_nan() == (whole || corner)),
                "{name} at time {time}"
            );
        }
    }
}

#[test]
fn every_value_is_that_of_the_source_bit_for_bit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/storm1996");
    if !folder.is_dir() {
        eprintln!("SKIPPED: {} is absent", folder.display());
        return;
    }
    let file = storm();
    for (name, source, variable) in
        [("t2m", "Tstorm.cdf", "t"), ("u", "U500storm.cdf", "u"), ("v", "V500storm.cdf", "v")]
    {
        let source = netcdf::open(folder.join(source)).unwrap();
        let original: Vec<f32> = source.variable(variable).unwrap().get_values(..).unwrap();
        let same = |(x, y): (&f32, &f32)| x == y || (x.is_nan() && *y == -9999.0);
        assert!(read(&file, name).iter().zip(&original).all(same), "{name}");
    }
}
