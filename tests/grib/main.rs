//! GRIB2 files: what is read from them is what was written, and what is not read is refused with a sentence.
//!
//! Messages are written octet by octet (`messages`), so that every value is known; those of packings that are hard to
//! write were made with ecCodes (`reference/make_grib.py`), whose values stand beside them.

mod damage;
mod fields;
mod messages;
mod packings;
#[path = "../program/mod.rs"]
mod program;
mod trained;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use messages::Message;
use tempfile::TempDir;
use wxsim::error::{Kind, chain};
use wxsim::io::{FileInfo, Reader, Severity, VariableInfo, inspect_file};

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

fn reference() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/grib")
}
