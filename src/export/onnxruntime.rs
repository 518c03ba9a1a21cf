//! ONNX Runtime, opened when the program runs: where it is looked for, and one session with a graph of ours.

use std::borrow::Cow;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::TensorRef;

use crate::device::cuda::site_packages;
use crate::error::{Error, Result};

/// Names its file or folder.
pub const VARIABLE: &str = "WXSIM_ONNXRUNTIME";

pub const REMEDY: &str = "pip install onnxruntime, in the active Python or any whose folder onnxruntime/capi WXSIM_ONNXRUNTIME names";

/// The library.
#[derive(Clone)]
pub struct OnnxRuntime {
    environment: Environment,
    pub path: PathBuf,
}

/// A graph that is ready to run.
pub struct Loaded(Session);

/// The name of an input, its shape and its numbers.
pub type Fed<'a> = (&'a str, Vec<usize>, &'a [f32]);

impl OnnxRuntime {
    /// The library that `WXSIM_ONNXRUNTIME` names, or that of the active Python. A process starts it once.
    pub fn open() -> Result<Self> {
        static STARTED: Mutex<Option<OnnxRuntime>> = Mutex::new(None);
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = match started.take() {
            Some(runtime) => runtime,
            None => Self::start()?,
        };
        *started = Some(runtime.clone());
        Ok(runtime)
    }

    fn start() -> Result<Self> {
        let path = find(env::var_os(VARIABLE).map(PathBuf::from).as_deref())?;
        let environment = ort::init_from(&path)
            .map_err(|error| {
                Error::run(format!("{} does not open", path.display())).caused_by(error).hint(REMEDY)
            })?
            .with_telemetry(false)
            .build()
            .map_err(|error| failed("ONNX Runtime does not start", &error))?;
        Ok(Self { environment, path })
    }

    /// Loads the bytes of an ONNX file, to run on the processor.
    pub fn load(&self, graph: &[u8], threads: usize) -> Result<Loaded> {
        let cannot = "ONNX Runtime does not take the graph";
        let builder = Session::builder(&self.environment).map_err(|error| failed(cannot, &error))?;
        let builder = builder.with_intra_threads(threads).map_err(|error| failed(cannot, &error))?;
        let mut builder = builder
            .with_optimization_level(GraphOptimizationLevel::Level3)
            .map_err(|error| failed(cannot, &error))?;
        builder.commit_from_memory(graph).map(Loaded).map_err(|error| failed(cannot, &error))
    }
}

impl Loaded {
    /// Runs the graph once; the outputs come in the order of `wanted`.
    pub fn run(&mut self, inputs: &[Fed<'_>], wanted: &[String]) -> Result<Vec<Vec<f32>>> {
        let cannot = "ONNX Runtime cannot run the graph";
        let mut fed: Vec<(Cow<'_, str>, SessionInputValue<'_>)> = Vec::with_capacity(inputs.len());
        for (name, shape, values) in inputs {
            let tensor = TensorRef::from_array_view((shape.clone(), *values))
                .map_err(|error| failed(&format!("{cannot}: {name}"), &error))?;
            fed.push((Cow::Borrowed(name), tensor.into()));
        }
        let outputs = self.0.run(fed).map_err(|error| failed(cannot, &error))?;
        let of = |name: &String| {
            let output = outputs.get(name).ok_or_else(|| Error::run(format!("the graph gives no {name}")))?;
            let (_, values) = output.try_extract_tensor::<f32>().map_err(|error| failed(cannot, &error))?;
            Ok(values.to_vec())
        };
        wanted.iter().map(of).collect()
    }
}

/// The file that would be opened.
fn find(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return if named.is_file() { Some(named.to_owned()) } else { inside(named) }.ok_or_else(|| {
            Error::input(format!("{VARIABLE} names {}, where there is no ONNX Runtime", named.display()))
                .hint("name a folder that holds libonnxruntime.so.1.*, or unset the variable")
        });
    }
    site_packages()
        .iter()
        .find_map(|packages| inside(&packages.join("onnxruntime/capi")))
        .ok_or_else(|| Error::run("ONNX Runtime is not installed").hint(REMEDY))
}

fn inside(folder: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("libonnxruntime.so"))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    // A link without a version comes first, and is as good as the others.
    found.into_iter().next()
}

/// Its errors hold pointers and cannot be kept.
fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::run(what).caused_by(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_file_or_a_folder_and_says_when_it_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(Some(folder.path())).unwrap_err();
        assert!(error.to_string().starts_with("WXSIM_ONNXRUNTIME names "), "{error}");
        let file = folder.path().join("libonnxruntime.so.1.30.0");
        fs::write(&file, "").unwrap();
        assert_eq!(find(Some(folder.path())).unwrap(), file);
        assert_eq!(find(Some(&file)).unwrap(), file);
    }
}
