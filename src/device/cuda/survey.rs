//! What there is on this machine, for people.

use std::ffi::c_int;
use std::path::PathBuf;

use cudarc::driver::result;

use super::driver::{self, Call, Gpu};
use super::libraries::Library;
use super::monitor::management;
use super::nvrtc::Nvrtc;
use crate::error::{Error, Result};

/// A library that opens.
#[derive(Debug, Clone)]
pub struct Installed {
    pub path: PathBuf,
    /// `13.0`
    pub version: String,
}

/// Opens a library and asks for its version.
pub fn installed(library: Library) -> Result<Installed> {
    match library {
        Library::Driver => {
            let path = driver::open()?;
            let (major, minor) = driver::version()?;
            Ok(Installed { path, version: format!("{major}.{minor}") })
        }
        Library::Nvrtc => {
            let nvrtc = Nvrtc::get()?;
            let (major, minor) = nvrtc.version;
            Ok(Installed { path: nvrtc.path.clone(), version: format!("{major}.{minor}") })
        }
        Library::Nvml => {
            let path = library.find()?;
            let version = management()?.sys_nvml_version();
            let version =
                version.map_err(|error| Error::run("NVML does not tell its version").caused_by(error))?;
            Ok(Installed { path, version })
        }
        Library::Nvtx => {
            let (path, _) = library.open()?;
            let third = path.to_string_lossy().contains("nvtx3");
            Ok(Installed { path, version: if third { "3" } else { "2" }.into() })
        }
        Library::Cudnn => {
            let (path, handle) = library.open()?;
            // SAFETY: the type is that of the function in cudnn_version.h.
            let version: unsafe extern "C" fn() -> usize = *unsafe { handle.get(b"cudnnGetVersion\0") }
                .map_err(|error| Error::run(format!("{} is not cuDNN", path.display())).caused_by(error))?;
            // SAFETY: takes and changes nothing.
            let number = unsafe { version() };
            std::mem::forget(handle);
            let version = format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100);
            Ok(Installed { path, version })
        }
        Library::Nccl => {
            let (path, handle) = library.open()?;
            // SAFETY: the type is that of the function in nccl.h.
            let version: unsafe extern "C" fn(*mut c_int) -> c_int = *unsafe {
                handle.get(b"ncclGetVersion\0")
            }
            .map_err(|error| Error::run(format!("{} is not NCCL", path.display())).caused_by(error))?;
            let mut number = 0;
            // SAFETY: a number to write to.
            unsafe { version(&mut number) };
            std::mem::forget(handle);
            let version = format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100);
            Ok(Installed { path, version })
        }
    }
}

/// A GPU that can be used.
#[derive(Debug, Clone)]
pub struct Card {
    pub ordinal: usize,
    pub name: String,
    pub capability: (u32, u32),
    /// [MiB]
    pub memory: usize,
    pub free: usize,
    /// What kernels are compiled for.
    pub architecture: String,
}

/// All GPUs; those that are too old are told as errors.
pub fn cards() -> Result<Vec<Result<Card>>> {
    Ok((0..driver::count()?).map(card).collect())
}

fn card(ordinal: usize) -> Result<Card> {
    let gpu = Gpu::new(ordinal)?;
    gpu.bind()?;
    let (free, memory) = result::mem_get_info().call("cuMemGetInfo")?;
    Ok(Card {
        ordinal,
        architecture: gpu.architecture(),
        name: gpu.name,
        capability: gpu.capability,
        memory: memory >> 20,
        free: free >> 20,
    })
}
