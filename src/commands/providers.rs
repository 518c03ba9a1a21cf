//! `--provider`: which programs may compute a network, in which order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::commands::devices::{Choice, PreciseDeviceArgs, Precision};
use crate::commands::run_folder;
use crate::device::cuda::Library;
use crate::error::{Error, Result};
use crate::export::{self, Trained};
use crate::runner::{Candidate, Provider};

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Choose {
    /// All that this machine has, the fastest first; when one breaks, the next goes on.
    #[default]
    Auto,
    /// An engine that wxsim export made, and nothing else.
    Tensorrt,
    /// wxsim's own network on a GPU, and nothing else.
    Cuda,
    /// wxsim's own network on the processor, and nothing else.
    Cpu,
}

#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ProviderArgs {
    /// What computes the network: auto goes on with the next when one breaks, unless --device names one
    #[arg(long, value_enum, default_value = "auto")]
    pub provider: Choose,
    #[command(flatten)]
    pub device: PreciseDeviceArgs,
}

impl ProviderArgs {
    /// For the network of a run folder, in whose folder `export` engines are looked for.
    pub fn candidates(&self, run: &Path) -> Result<Vec<Candidate>> {
        let cpu = || self.native(run, "cpu".into(), Choice::Cpu);
        let cuda = |number: usize| self.native(run, format!("cuda:{number}"), Choice::Cuda(number));
        Ok(match (self.provider, self.device.device) {
            (Choose::Auto | Choose::Cpu, Choice::Cpu) | (Choose::Cpu, Choice::Auto) => vec![cpu()],
            (Choose::Auto | Choose::Cuda, Choice::Cuda(number)) => vec![cuda(number)],
            (Choose::Cuda, Choice::Auto) => vec![cuda(0)],
            (Choose::Tensorrt, Choice::Auto) => vec![self.engine(run, 0)],
            (Choose::Tensorrt, Choice::Cuda(number)) => vec![self.engine(run, number)],
            // A machine without a driver has no GPU to wonder about.
            (Choose::Auto, Choice::Auto) if Library::Driver.find().is_err() => vec![cpu()],
            (Choose::Auto, Choice::Auto) if self.engine_file(run).is_file() => {
                vec![self.engine(run, 0), cuda(0), cpu()]
            }
            (Choose::Auto, Choice::Auto) => vec![cuda(0), cpu()],
            (Choose::Cuda | Choose::Tensorrt, Choice::Cpu) | (Choose::Cpu, Choice::Cuda(_)) => {
                return Err(Error::input("--provider and --device contradict each other")
                    .hint("leave one of them out"));
            }
        })
    }

    /// Where `wxsim export --tensorrt` puts the engine of this precision.
    fn engine_file(&self, run: &Path) -> PathBuf {
        run.join("export").join(format!("step-{}.engine", self.export_precision()))
    }

    fn export_precision(&self) -> export::Precision {
        match self.device.precision {
            Precision::Fp32 => export::Precision::Fp32,
            Precision::Tf32 => export::Precision::Tf32,
            Precision::Bf16 => export::Precision::Bf16,
            Precision::Fp16 => export::Precision::Fp16,
            Precision::Int8 => export::Precision::Int8,
        }
    }

    fn engine(&self, run: &Path, number: usize) -> Candidate {
        let (path, precision) = (self.engine_file(run), self.export_precision());
        let int8 = run_folder::int8_file(run);
        Candidate {
            name: format!("tensorrt on cuda:{number}"),
            open: Box::new(move |trained| open_engine(trained, &path, (precision, &int8), number)),
        }
    }

    fn native(&self, run: &Path, name: String, device: Choice) -> Candidate {
        let (args, run) = (PreciseDeviceArgs { device, ..self.device }, run.to_owned());
        let open = move |trained| Ok(Box::new(run_folder::native(trained, &run, args)?) as _);
        Candidate { name, open: Box::new(open) }
    }
}

#[cfg(any(feature = "tensorrt", feature = "tensorrt-rtx"))]
fn open_engine(
    trained: Arc<Trained>,
    path: &Path,
    (precision, int8): (export::Precision, &Path),
    number: usize,
) -> Result<Box<dyn Provider>> {
    let ranges = match precision.is_quantised() {
        true => Some(export::Int8::read(int8, &trained)?.ranges),
        false => None,
    };
    Ok(Box::new(crate::runner::TensorRt::open(trained, path, precision, ranges.as_ref(), number)?))
}

#[cfg(not(any(feature = "tensorrt", feature = "tensorrt-rtx")))]
fn open_engine(
    _trained: Arc<Trained>,
    path: &Path,
    _: (export::Precision, &Path),
    _number: usize,
) -> Result<Box<dyn Provider>> {
    Err(Error::input(format!("this wxsim was built without TensorRT, which {} needs", path.display()))
        .hint(export::tensorrt::REMEDY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_named_stands_alone_and_must_fit_the_provider() {
        let names = |provider, device: Choice| {
            let args = ProviderArgs { provider, device: device.into() };
            args.candidates(Path::new("nowhere"))
                .map(|all| all.into_iter().map(|one| one.name).collect::<Vec<String>>())
        };
        assert_eq!(names(Choose::Auto, Choice::Cuda(1)).unwrap(), ["cuda:1"]);
        assert_eq!(names(Choose::Cuda, Choice::Auto).unwrap(), ["cuda:0"]);
        assert_eq!(names(Choose::Tensorrt, Choice::Cuda(1)).unwrap(), ["tensorrt on cuda:1"]);
        assert_eq!(names(Choose::Cpu, Choice::Auto).unwrap(), ["cpu"]);
        assert_eq!(names(Choose::Auto, Choice::Auto).unwrap().last().unwrap(), "cpu");
        assert!(names(Choose::Cuda, Choice::Cpu).is_err() && names(Choose::Cpu, Choice::Cuda(0)).is_err());
    }
}
