//! TensorRT's libraries, opened when the program runs, and what they say.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;
use trtx::{LogHandler, Logger, Severity};

use crate::device::cuda::site_packages;
use crate::error::{Error, Result};

/// Names the folder of the libraries.
pub const VARIABLE: &str = "WXSIM_TENSORRT";

#[cfg(feature = "tensorrt")]
mod flavour {
    pub const NAME: &str = "TensorRT";
    /// In the packages of a Python.
    pub const FOLDER: &str = "tensorrt_libs";
    pub const LIBRARY: &str = "libnvinfer.so";
    pub const PARSER: &str = "libnvonnxparser.so";
    pub const REMEDY: &str = "install TensorRT 11 (the package tensorrt-cu13 of NVIDIA's own index), and name the folder of \
                              libnvinfer.so.11 in WXSIM_TENSORRT where it is not found";
}

#[cfg(not(feature = "tensorrt"))]
mod flavour {
    pub const NAME: &str = "TensorRT for RTX";
    pub const FOLDER: &str = "tensorrt_rtx_libs";
    pub const LIBRARY: &str = "libtensorrt_rtx.so";
    pub const PARSER: &str = "libtensorrt_onnxparser_rtx.so";
    pub const REMEDY: &str = "pip install tensorrt-rtx-cu13-libs, in the active Python or any whose folder tensorrt_rtx_libs \
                              WXSIM_TENSORRT names";
}

pub use flavour::REMEDY;

/// What TensorRT said since it was last asked: its sentences about what failed.
#[derive(Default)]
struct Complaints;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl LogHandler for Complaints {
    fn log(&self, severity: Severity, message: &str) {
        if severity <= Severity::Error {
            SAID.lock().unwrap_or_else(PoisonError::into_inner).push(message.trim().to_owned());
        }
    }
}

/// The logger lives as long as the program, as TensorRT wants it to outlive everything.
pub fn logger() -> Result<&'static Logger> {
    static LOGGER: OnceLock<Option<Logger>> = OnceLock::new();
    let logger = LOGGER.get_or_init(|| Logger::new(Complaints).ok());
    logger.as_ref().ok_or_else(|| Error::run("TensorRT's log cannot be opened"))
}

/// An error of TensorRT with what it said about it.
pub fn failed(what: &str, error: trtx::Error) -> Error {
    let mut said = std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner));
    said.dedup();
    let sentence = if said.is_empty() { error.to_string() } else { said.join("; ") };
    Error::run(what).caused_by(sentence)
}

/// The libraries that were opened.
#[derive(Debug, Clone)]
pub struct Opened {
    /// `TensorRT for RTX 1.7.1`
    pub name: String,
    /// Whether the parser of ONNX, which only building needs, is there too.
    pub parses: bool,
}

/// Opens the libraries; a process does it once.
pub fn open() -> Result<Opened> {
    static OPENED: Mutex<Option<Opened>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(opened) = &*opened {
        return Ok(opened.clone());
    }
    let library = find(flavour::LIBRARY)?;
    let cannot = |path: &Path, error: trtx::Error| {
        Error::run(format!("{} does not open", path.display())).caused_by(error.to_string()).hint(REMEDY)
    };
    trtx::dynamically_load_tensorrt(Some(library.as_os_str())).map_err(|error| cannot(&library, error))?;
    let parser = find(flavour::PARSER).ok();
    if let Some(parser) = &parser {
        trtx::dynamically_load_tensorrt_onnxparser(Some(parser.as_os_str()))
            .map_err(|error| cannot(parser, error))?;
    }
    let found =
        Opened { name: format!("{} {}", flavour::NAME, version(&library)?), parses: parser.is_some() };
    *opened = Some(found.clone());
    Ok(found)
}

fn version(path: &Path) -> Result<String> {
    let not = |error: libloading::Error| {
        Error::run(format!("{} is not {}", path.display(), flavour::NAME)).caused_by(error).hint(REMEDY)
    };
    // SAFETY: the library is open already; its constructors have run.
    let library = unsafe { Library::new(path) }.map_err(not)?;
    let part = |name: &[u8]| -> Result<i32> {
        // SAFETY: NvInferRuntimeBase.h declares these functions so; they take and change nothing.
        unsafe {
            let function: libloading::Symbol<'_, unsafe extern "C" fn() -> i32> =
                library.get(name).map_err(not)?;
            Ok(function())
        }
    };
    let parts = [
        part(b"getInferLibMajorVersion\0")?,
        part(b"getInferLibMinorVersion\0")?,
        part(b"getInferLibPatchVersion\0")?,
    ];
    Ok(parts.map(|part| part.to_string()).join("."))
}

/// The file whose name begins with `name`.
fn find(name: &str) -> Result<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE).map(PathBuf::from) {
        return inside(&named, name).ok_or_else(|| {
            Error::input(format!("{VARIABLE} names {}, where there is no {name}", named.display()))
                .hint("name the folder that holds it, or unset the variable")
        });
    }
    let packages = site_packages().into_iter().map(|packages| packages.join(flavour::FOLDER));
    let paths = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let usual = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/tensorrt/lib"].map(PathBuf::from);
    packages
        .chain(env::split_paths(&paths))
        .chain(usual)
        .find_map(|folder| inside(&folder, name))
        .ok_or_else(|| Error::run(format!("{} is not installed", flavour::NAME)).hint(REMEDY))
}

fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let fits = |file: &OsStr| {
        file.to_string_lossy().strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| fits(&entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    // With a version: the name without one may be a script of the linker.
    found.pop()
}
