//! Damaged files: truncated at any byte, or with bytes flipped. Each is an error or what its header still honestly says;
//! never a panic, a hang or an allocation beyond the file's means.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wxsim::error::{Kind, chain};
use wxsim::io::{FileInfo, Indexer, Reader, inspect_file};

/// Big-endian words of a header, written as the format's specification says (NUG, appendix B).
struct Header {
    bytes: Vec<u8>,
    /// CDF-5: counts of 64 bits.
    wide: bool,
}

impl Header {
    fn word(&mut self, value: u32) {
        self.bytes.extend(value.to_be_bytes());
    }

    fn count(&mut self, value: u64) {
        if self.wide { self.bytes.extend(value.to_be_bytes()) } else { self.word(value as u32) }
    }

    fn text(&mut self, text: &str) {
        self.count(text.len() as u64);
        self.bytes.extend(text.as_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn units(&mut self, units: &str) {
        self.word(12);
        self.count(1);
        self.text("units");
        self.word(2); // characters
        self.text(units);
    }
}

/// A small file of version 1, 2 or 5: msl(time, lat, lon), float32, with a record dimension.
fn classic(version: u8) -> Vec<u8> {
    let (times, rows, columns) = (3_u32, 4_u32, 5_u32);
    let mut header = Header { bytes: vec![b'C', b'D', b'F', version], wide: version == 5 };
    header.count(times.into());
    header.word(10);
    header.count(3);
    for (name, length) in [("time", 0), ("lat", rows), ("lon", columns)] {
        header.text(name);
        header.count(length.into());
    }
    header.word(0);
    header.count(0);
    header.word(11);
    header.count(4);
    let variables: [(&str, &[u64], &str, u32, u32); 4] = [
        ("lat", &[1], "degrees_north", 6, 8 * rows),
        ("lon", &[2], "degrees_east", 6, 8 * columns),
        ("time", &[0], "hours since 2000-01-01", 6, 8),
        ("msl", &[0, 1, 2], "Pa", 5, 4 * rows * columns),
    ];
    let mut begins = Vec::new();
    for (name, dimensions, units, number, size) in variables {
        header.text(name);
        header.count(dimensions.len() as u64);
        dimensions.iter().for_each(|d| header.count(*d));
        header.units(units);
        header.word(number);
        header.count(size.into());
        begins.push((header.bytes.len(), size));
        if version == 1 { header.word(0) } else { header.bytes.extend([0; 8]) }
    }
    let mut bytes = header.bytes;
    let mut at = bytes.len() as u64;
    for (place, size) in begins {
        let width = if version == 1 { 4 } else { 8 };
        bytes[place..place + width].copy_from_slice(&at.to_be_bytes()[8 - width..]);
        at += u64::from(size);
    }
    (0..rows).for_each(|i| bytes.extend((10.0 * f64::from(i)).to_be_bytes()));
    (0..columns).for_each(|i| bytes.extend((20.0 * f64::from(i)).to_be_bytes()));
    for time in 0..times {
        bytes.extend((6.0 * f64::from(time)).to_be_bytes());
        (0..rows * columns).for_each(|i| bytes.extend((1e5 + (time * 100 + i) as f32).to_be_bytes()));
    }
    bytes
}

/// A small NetCDF-4 file with chunks and deflate.
fn hdf5(folder: &Path) -> Vec<u8> {
    let path = folder.join("whole.nc");
    let mut file = netcdf::create(&path).unwrap();
    for (name, length) in [("time", 3), ("lat", 4), ("lon", 5)] {
        file.add_dimension(name, length).unwrap();
    }
    for (name, units, values) in [
        ("time", "hours since 2000-01-01", vec![0.0, 6.0, 12.0]),
        ("lat", "degrees_north", vec![0.0, 10.0, 20.0, 30.0]),
        ("lon", "degrees_east", vec![0.0, 20.0, 40.0, 60.0, 80.0]),
    ] {
        let mut variable = file.add_variable::<f64>(name, &[name]).unwrap();
        variable.put_attribute("units", units).unwrap();
        variable.put_values(&values, ..).unwrap();
    }
    let mut variable = file.add_variable::<f32>("msl", &["time", "lat", "lon"]).unwrap();
    variable.put_attribute("units", "Pa").unwrap();
    variable.set_chunking(&[1, 4, 5]).unwrap();
    variable.set_compression(4, true).unwrap();
    variable.put_values(&[1e5_f32; 60], ..).unwrap();
    drop(file);
    std::fs::read(path).unwrap()
}

/// What is done to a file.
#[derive(Debug, Clone)]
enum Damage {
    /// Only this share of it is left.
    Cut(f64),
    /// Bytes at these places (shares of the length) become others.
    Flip(Vec<(f64, u8)>),
}

/// Half of the flips hit the first 600 bytes, where the header is.
fn damage() -> impl Strategy<Value = Damage> {
    let flips = proptest::collection::vec((0.0..1.0, any::<u8>()), 1..4);
    prop_oneof![1 => (0.0..1.0).prop_map(Damage::Cut), 2 => flips.prop_map(Damage::Flip)]
}

fn damaged(whole: &[u8], damage: &Damage) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    match damage {
        Damage::Cut(share) => bytes.truncate((share * whole.len() as f64) as usize),
        Damage::Flip(places) => {
            for (share, value) in places {
                let reach = if *value % 2 == 0 { whole.len().min(600) } else { whole.len() };
                bytes[(share * reach as f64) as usize] = *value;
            }
        }
    }
    bytes
}

fn write(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("damaged.nc");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).unwrap();
    path
}

/// Reads all that the header promises; what it promises must lie in the file's means.
fn read_all(info: &FileInfo, size: usize) -> Result<(), TestCaseError> {
    let mut reader = Reader::open(info).map_err(|e| TestCaseError::fail(chain(&e)))?;
    for variable in info.variables.iter().filter(|v| v.refused.is_none()) {
        prop_assert!(variable.slab_bytes() <= size, "a field larger than the file");
        prop_assert!(variable.times.len() <= size);
        let mut field = vec![0.0; variable.grid.points()];
        for time in 0..variable.time_count() {
            for level in 0..variable.level_count() {
                let read = reader.read(variable, time, level, &mut field);
                prop_assert!(read.is_ok(), "{}", chain(&read.unwrap_err()));
            }
        }
    }
    Ok(())
}

fn run(cases: u32, check: impl Fn(Damage) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&damage(), check).unwrap();
}

#[test]
fn damaged_classic_files_are_errors_or_what_their_header_still_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut files: Vec<Vec<u8>> = [1, 2, 5].map(classic).into();
    let odd = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/odd");
    for name in ["not_bad_control_test6.nc", "sub.nc", "tiny.nc", "ubyte.nc", "netcdf_dummy_file.nc"] {
        match std::fs::read(odd.join(name)) {
            Ok(bytes) => files.push(bytes),
            Err(_) => eprintln!("SKIPPED: {name} is absent"),
        }
    }
    for whole in &files {
        run(350, |damage| {
            let bytes = damaged(whole, &damage);
            let path = write(folder.path(), &bytes);
            match inspect_file(&path) {
                Ok(info) => read_all(&info, bytes.len()),
                Err(error) => {
                    prop_assert!(error.kind() == Kind::Input, "{}", chain(&error));
                    prop_assert!(error.advice().is_some(), "{}", chain(&error));
                    Ok(())
                }
            }
        });
    }
}

#[test]
fn a_classic_file_cut_at_any_byte_says_which_variable_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    for version in [1, 2, 5] {
        let whole = classic(version);
        assert_eq!(inspect_file(&write(folder.path(), &whole)).unwrap().variables[0].times.len(), 3);
        for length in 4..whole.len() {
            let error = inspect_file(&write(folder.path(), &whole[..length])).unwrap_err();
            let sentence = chain(&error);
            assert!(
                sentence.contains("ends inside its header") || sentence.contains("is cut off"),
                "{sentence}"
            );
            assert!(sentence.contains("expected") && sentence.contains("found"), "{sentence}");
        }
        let sentence = chain(&inspect_file(&write(folder.path(), &whole[..whole.len() - 1])).unwrap_err());
        assert!(
            sentence.contains("'msl'") && sentence.contains("2 of its 3 records are whole"),
            "{sentence}"
        );
    }
}

#[test]
fn headers_that_ask_for_more_than_the_file_holds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for version in [1, 2, 5] {
        let whole = classic(version);
        // Every word of the header in turn becomes huge.
        for at in (4..400).step_by(4) {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xf0]);
            if let Ok(info) = inspect_file(&write(folder.path(), &bytes)) {
                read_all(&info, bytes.len()).unwrap();
            }
        }
    }
}

#[test]
fn damaged_hdf5_files_never_harm_the_process_that_asks() {
    let folder = tempfile::tempdir().unwrap();
    let whole = hdf5(folder.path());
    let mut indexer = Indexer::new(env!("CARGO_BIN_EXE_wxsim"));
    let path = write(folder.path(), &whole);
    assert_eq!(indexer.index(&path).unwrap().variables[0].times.len(), 3);
    indexer.time_limit = Duration::from_secs(20); // a loaded machine is slow to start a process
    run(200, |damage| {
        let path = write(folder.path(), &damaged(&whole, &damage));
        if let Err(error) = indexer.index(&path) {
            prop_assert!(chain(&error).contains("damaged.nc"), "{}", chain(&error));
            prop_assert!(error.advice().is_some(), "{}", chain(&error));
        }
        Ok(())
    });
}

#[test]
fn a_child_that_dies_stalls_or_babbles_is_an_error_and_the_next_file_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let whole = hdf5(folder.path());
    let path = write(folder.path(), &whole);
    for (script, word) in [
        ("kill -SEGV $$", "crashed"),
        ("echo trouble >&2; exit 3", "trouble"),
        ("exec sleep 60", "did not finish"),
        ("echo '{\"Index\":'", "broke off"),
    ] {
        let program = folder.path().join("child");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        Command::new("chmod").arg("+x").arg(&program).status().unwrap();
        let indexer = Indexer { program, time_limit: Duration::from_millis(500) };
        let sentence = chain(&indexer.index(&path).unwrap_err());
        assert!(sentence.contains(word), "{script}: {sentence}");
    }
    let broken = folder.path().join("broken.nc");
    std::fs::write(&broken, &whole[..whole.len() / 2]).unwrap();
    let results = Indexer::new(env!("CARGO_BIN_EXE_wxsim")).index_many(&[&path, &broken, &path]);
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
}
