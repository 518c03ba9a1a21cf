//! NVIDIA's libraries, opened when the program runs: where they are looked for, what was found, how to get what is missing.
//!
//! A library is opened by its absolute path and never by its bare name. A machine may have several versions, and the
//! loader prefers the one with the unversioned name, which only development packages have.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_NOW};

use super::nvrtc::Nvrtc;
use crate::error::{Error, Result};

/// What cuDNN may need besides its own files.
const CUBLASLT: &str = "libcublasLt.so.13";

/// What is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// Comes with the driver.
    Driver,
    /// The compiler of kernels.
    Nvrtc,
    /// Convolutions.
    Cudnn,
    /// Comes with the driver: how busy its GPUs are, and how they are connected.
    Nvml,
    /// Names for a profiler.
    Nvtx,
    /// What several GPUs exchange.
    Nccl,
}

impl Library {
    pub const ALL: [Self; 6] = [Self::Driver, Self::Nvrtc, Self::Cudnn, Self::Nvml, Self::Nvtx, Self::Nccl];

    /// As NVIDIA calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "CUDA driver",
            Self::Nvrtc => "NVRTC",
            Self::Cudnn => "cuDNN",
            Self::Nvml => "NVML",
            Self::Nvtx => "NVTX",
            Self::Nccl => "NCCL",
        }
    }

    /// The environment variable that names its file or folder.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Driver => "WXSIM_LIBCUDA",
            Self::Nvrtc => "WXSIM_NVRTC",
            Self::Cudnn => "WXSIM_CUDNN",
            Self::Nvml => "WXSIM_NVML",
            Self::Nvtx => "WXSIM_NVTX",
            Self::Nccl => "WXSIM_NCCL",
        }
    }

    /// How to get it.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Driver => "install NVIDIA's driver 580 or newer; nvidia-smi then lists the GPUs",
            Self::Nvrtc => {
                "pip install 'nvidia-cuda-nvrtc==13.*', in the active Python or any whose folder WXSIM_NVRTC names"
            }
            Self::Cudnn => {
                "pip install 'nvidia-cudnn-cu13>=9.10', in the active Python or any whose folder WXSIM_CUDNN names"
            }
            Self::Nvml => {
                "it comes with NVIDIA's driver; without it nobody tells how busy a GPU is, and what it takes"
            }
            Self::Nvtx => "pip install nvidia-nvtx, where a profiler is to show what wxsim does by name",
            Self::Nccl => {
                "only several GPUs need it: pip install nvidia-nccl-cu13, in the active Python or any whose folder WXSIM_NCCL names"
            }
        }
    }

    /// Best first.
    fn files(self) -> &'static [&'static str] {
        match self {
            Self::Driver => &["libcuda.so.1"],
            Self::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            Self::Cudnn => &["libcudnn.so.9", "libcudnn.so"],
            Self::Nvml => &["libnvidia-ml.so.1"],
            Self::Nvtx => &["libnvtx3interop.so.1", "libnvToolsExt.so.1"],
            Self::Nccl => &["libnccl.so.2", "libnccl.so"],
        }
    }

    /// The file that would be opened.
    pub fn find(self) -> Result<PathBuf> {
        if let Some(named) = env::var_os(self.variable()) {
            return self.named(&named);
        }
        folders()
            .iter()
            .find_map(|folder| self.inside(folder))
            .ok_or_else(|| Error::run(format!("{} is not installed", self.name())).hint(self.remedy()))
    }

    fn named(self, named: &OsString) -> Result<PathBuf> {
        let path = Path::new(named);
        if path.is_file() {
            return Ok(path.to_owned());
        }
        self.inside(path).ok_or_else(|| {
            Error::input(format!(
                "{} names {}, where there is no {}",
                self.variable(),
                path.display(),
                self.name()
            ))
            .hint(format!("name a folder that holds {}, or unset the variable", self.files()[0]))
        })
    }

    fn inside(self, folder: &Path) -> Option<PathBuf> {
        self.files().iter().map(|file| folder.join(file)).find(|path| path.is_file())
    }

    /// Opens it, with those of its companions that it would look for by their bare names.
    pub fn open(self) -> Result<(PathBuf, Handle)> {
        let path = self.find()?;
        match self {
            Self::Nvrtc => open_companions(&path, "libnvrtc-builtins.so."),
            // Plans that are compiled when they are made look for the compiler by its name, some for cuBLAS.
            Self::Cudnn => {
                Nvrtc::get()?;
                if let Some(path) =
                    folders().iter().map(|folder| folder.join(CUBLASLT)).find(|path| path.is_file())
                {
                    open_for_good(&path);
                }
            }
            Self::Driver | Self::Nvml | Self::Nvtx | Self::Nccl => {}
        }
        // SAFETY: the constructors of NVIDIA's libraries have no preconditions; the path is absolute or the user's own.
        let handle = unsafe { Handle::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| {
            Error::run(format!("{} does not open", path.display())).caused_by(error).hint(self.remedy())
        })?;
        Ok((path, handle))
    }
}

/// The functions of a library, which is opened once and never closed; tried again as long as it does not open.
pub struct Once<T: 'static>(Mutex<Option<&'static T>>);

impl<T> Once<T> {
    pub const fn unopened() -> Self {
        Self(Mutex::new(None))
    }

    pub fn get(&self, open: impl FnOnce() -> Result<T>) -> Result<&'static T> {
        // What a panicking thread left is either nothing or a whole table.
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = *opened {
            return Ok(table);
        }
        let table: &'static T = Box::leak(Box::new(open()?));
        *opened = Some(table);
        Ok(table)
    }
}

/// Opens the files beside `path` whose names begin with `prefix`, for good. One that does not open is missed by the
/// library itself, which then says so.
fn open_companions(path: &Path, prefix: &str) {
    let Some(entries) = path.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            open_for_good(&entry.path());
        }
    }
}

fn open_for_good(path: &Path) {
    // SAFETY: as in `open`.
    if let Ok(handle) = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
        std::mem::forget(handle);
    }
}

/// Where libraries are looked for: the active Python first, since its packages are somebody's choice for this work, then
/// CUDA's own folder, then the system's.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = pythons().iter().flat_map(|prefix| packages(prefix)).collect();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(root) = env::var_os(variable).map(PathBuf::from) {
            folders.extend(["lib64", "lib", "targets/x86_64-linux/lib"].map(|lib| root.join(lib)));
        }
    }
    if let Some(paths) = env::var_os("LD_LIBRARY_PATH") {
        folders.extend(env::split_paths(&paths).filter(|path| path.is_absolute()));
    }
    folders.extend(loader_folders());
    let usual = [
        "/usr/local/cuda/lib64",
        "/usr/local/nvidia/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib/wsl/lib",
        "/usr/lib",
    ];
    folders.extend(usual.map(PathBuf::from));
    folders
}

/// Folders that hold an active Python: of an environment, or of the `python3` on the path.
fn pythons() -> Vec<PathBuf> {
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let paths = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&paths)
        .filter(|folder| folder.join("python3").exists())
        .filter_map(|folder| folder.parent().map(Path::to_owned));
    let user = env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    environments.chain(on_path).chain(user).collect()
}

/// The folders in which the active Pythons keep their packages, best first.
pub fn site_packages() -> Vec<PathBuf> {
    pythons().iter().flat_map(|prefix| packages_of(prefix)).collect()
}

/// Those of a Python.
fn packages_of(prefix: &Path) -> Vec<PathBuf> {
    let is_python =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"));
    entries(&prefix.join("lib"))
        .into_iter()
        .filter(is_python)
        .flat_map(|python| ["site-packages", "dist-packages"].map(|kind| python.join(kind)))
        .collect()
}

/// The `nvidia/*/lib` of the packages of a Python.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    packages_of(prefix)
        .iter()
        .flat_map(|packages| entries(&packages.join("nvidia")))
        .map(|package| package.join("lib"))
        .collect()
}

/// What is in a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// The folders that the system's loader is configured with.
fn loader_folders() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    if let Ok(entries) = fs::read_dir("/etc/ld.so.conf.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let text: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_among_the_packages_of_a_python() {
        let prefix = tempfile::tempdir().unwrap();
        let lib = prefix.path().join("lib/python3.12/site-packages/nvidia/cu13/lib");
        fs::create_dir_all(&lib).unwrap();
        fs::write(lib.join("libnvrtc.so.13"), "").unwrap();
        let found = packages(prefix.path()).iter().find_map(|folder| Library::Nvrtc.inside(folder));
        assert_eq!(found, Some(lib.join("libnvrtc.so.13")));
        assert_eq!(packages(prefix.path()).iter().find_map(|folder| Library::Cudnn.inside(folder)), None);
    }

    #[test]
    fn a_variable_names_a_file_or_a_folder_and_says_when_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let error = Library::Cudnn.named(&folder.path().into()).unwrap_err();
        assert!(error.to_string().starts_with("WXSIM_CUDNN names "), "{error}");
        let file = folder.path().join("libcudnn.so.9");
        fs::write(&file, "").unwrap();
        assert_eq!(Library::Cudnn.named(&folder.path().into()).unwrap(), file);
        assert_eq!(Library::Cudnn.named(&file.clone().into()).unwrap(), file);
    }
}
