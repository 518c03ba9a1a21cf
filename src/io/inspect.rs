//! From a path to a [`FileInfo`].

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use super::cf;
use super::grib;
use super::info::{FileInfo, Problem, Severity};
use super::library;
use super::probe::Indexer;
use super::slabs::{ClassicSlabs, LibrarySlabs};
use super::sniff::{self, Family};
use crate::error::{Context, Result};

/// Bytes at the head of a file that stand for its header in the fingerprint.
const HEAD: u64 = 64 * 1024;

/// What is in a file; its data are not read. Safe on damaged and hostile files.
///
/// A NetCDF-4 file is opened in a child process first: the `wxsim` program of [`Indexer::find`].
pub fn inspect_file(path: &Path) -> Result<FileInfo> {
    match sniff::family(path)? {
        Family::Classic | Family::Grib => index_here(path),
        Family::Hdf5 => Indexer::find()?.index(path),
    }
}

/// [`inspect_file`] for many files, each with its own result: one child process serves many NetCDF-4 files.
pub fn inspect_files(paths: &[impl AsRef<Path>]) -> Vec<Result<FileInfo>> {
    let mut results: Vec<Option<Result<FileInfo>>> = Vec::new();
    let mut hdf5 = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let path = path.as_ref();
        results.push(match sniff::family(path) {
            Err(error) => Some(Err(error)),
            Ok(Family::Classic | Family::Grib) => Some(index_here(path)),
            Ok(Family::Hdf5) => {
                hdf5.push((at, path));
                None
            }
        });
    }
    if !hdf5.is_empty() {
        let paths: Vec<&Path> = hdf5.iter().map(|(_, path)| *path).collect();
        match Indexer::find() {
            Ok(indexer) => {
                for ((at, _), result) in hdf5.iter().zip(indexer.index_many(&paths)) {
                    results[*at] = Some(result);
                }
            }
            Err(first) => {
                let text = crate::error::chain(&first);
                hdf5.iter()
                    .for_each(|(at, _)| results[*at] = Some(Err(crate::error::Error::run(text.clone()))));
            }
        }
    }
    results.into_iter().flatten().collect()
}

/// Indexes a file in this process: for the classic formats and GRIB, whose headers our own code reads, and in the child.
pub fn index_here(path: &Path) -> Result<FileInfo> {
    let name = path.display().to_string();
    let fingerprint = fingerprint(path)?;
    let size = std::fs::metadata(path).context(|| format!("{name}: cannot stat"))?.len();
    let mut messages = None;
    let (schema, understood) = match sniff::family(path)? {
        Family::Classic => {
            let mut slabs = ClassicSlabs::open(path)?;
            let schema = slabs.schema().clone();
            let understood = cf::understand(&schema, &mut slabs);
            (schema, understood)
        }
        Family::Hdf5 => {
            let mut slabs = LibrarySlabs::open(path)?;
            let schema = library::schema(slabs.file(), &name)?;
            let understood = cf::understand(&schema, &mut slabs);
            (schema, understood)
        }
        Family::Grib => {
            let indexed = grib::index(path)?;
            messages = Some(Arc::new(indexed.messages));
            (indexed.schema, indexed.understood)
        }
    };
    let mut problems = understood.problems;
    if understood.variables.is_empty() && problems.iter().all(|p| p.severity != Severity::Refused) {
        let names: Vec<String> = schema.variables.iter().map(|v| schema.signature(v)).take(8).collect();
        problems.push(Problem {
            severity: Severity::Refused,
            variable: None,
            sentence: match names.is_empty() {
                true => "the file holds no variables".to_string(),
                false => format!(
                    "the file holds no field on a latitude-longitude grid; it holds {}",
                    names.join(", ")
                ),
            },
            remedy: "name a file with latitude and longitude coordinates, or regrid it first".into(),
        });
    }
    problems.sort_by_key(|p| std::cmp::Reverse(p.severity));
    Ok(FileInfo {
        path: path.to_path_buf(),
        format: schema.format,
        size,
        fingerprint,
        variables: understood.variables,
        problems,
        forecast_reference_time: understood.forecast_reference_time,
        messages,
    })
}

/// Size, time of modification and a hash of the first bytes.
pub fn fingerprint(path: &Path) -> Result<String> {
    let name = path.display();
    let file = File::open(path).context(|| format!("{name}: cannot open"))?;
    let metadata = file.metadata().context(|| format!("{name}: cannot stat"))?;
    let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let mut head = Vec::new();
    file.take(HEAD).read_to_end(&mut head).context(|| format!("{name}: cannot read"))?;
    let hash = Sha256::digest(&head);
    let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}-{}-{hash}", metadata.len(), modified.map_or(0, |m| m.as_nanos())))
}
