//! `--device`: what a command computes on.

use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::device::cpu::Cpu;
use crate::device::cuda::{Compute, Cuda, Library, Monitor};
use crate::device::{Device, Real};
use crate::error::{Error, Result, chain};

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The first GPU where there is one that works, otherwise the processor.
    #[default]
    Auto,
    Cpu,
    Cuda(usize),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| "expected auto, cpu, cuda:0, cuda:1, ..".into()),
        }
    }
}

/// How exactly a GPU computes; a processor computes in single precision, or in whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    Fp32,
    /// Single precision, of whose significands convolutions read 11 bits.
    Tf32,
    /// Activations in bfloat16; parameters, cell states and sums in single precision.
    Bf16,
    /// Activations in half precision; parameters, cell states and sums in single precision.
    Fp16,
    /// Forecasts only: convolutions of whole numbers of 8 bits, as wxsim export --precision int8 calibrated them, on a GPU or a
    /// processor; all else in single precision.
    Int8,
}

impl Precision {
    /// As the command line has it.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl From<Precision> for Compute {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Fp32 | Precision::Int8 => Self::Single,
            Precision::Tf32 => Self::Tf32,
            Precision::Bf16 => Self::Bf16,
            Precision::Fp16 => Self::Fp16,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct DeviceArgs {
    /// What to compute on: auto (a GPU where there is one), cpu, cuda:0, cuda:1, ..
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Choice,
}

/// For networks, which a GPU may compute less exactly and faster.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct PreciseDeviceArgs {
    /// What to compute on: auto (a GPU where there is one), cpu, cuda:0, cuda:1, ..
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: Choice,
    /// How exactly a GPU computes
    #[arg(long, value_enum, default_value = "fp32")]
    pub precision: Precision,
}

impl PreciseDeviceArgs {
    /// The flags that ask for the same, as far as they are not the default.
    pub fn flags(&self) -> String {
        let device = match self.device {
            Choice::Auto => String::new(),
            Choice::Cpu => " --device cpu".into(),
            Choice::Cuda(number) => format!(" --device cuda:{number}"),
        };
        match self.precision {
            Precision::Fp32 => device,
            precision => format!("{device} --precision {}", precision.name()),
        }
    }
}

impl PreciseDeviceArgs {
    /// The device that a network runs on, and whether its convolutions are those of whole numbers.
    pub fn for_network(self) -> (Self, bool) {
        match self.precision {
            Precision::Int8 => (Self { precision: Precision::Fp32, ..self }, true),
            _ => (self, false),
        }
    }
}

impl From<Choice> for PreciseDeviceArgs {
    /// Single precision.
    fn from(device: Choice) -> Self {
        Self { device, precision: Precision::Fp32 }
    }
}

/// A device, and what a run has to remember of it.
pub struct Opened<T: Real> {
    pub device: Box<dyn Device<T>>,
    /// Of the processor, for what stays there.
    pub threads: usize,
    /// Results are equal bit for bit only with the same ones.
    pub instructions: String,
    /// Whether it is a GPU, and which.
    pub gpu: bool,
    pub ordinal: Option<usize>,
    /// How busy the GPU is.
    pub monitor: Option<Monitor>,
}

impl<T: Real> Opened<T> {
    /// `threads` are those of the processor; one a core when left out.
    pub fn new(args: impl Into<PreciseDeviceArgs>, threads: Option<usize>) -> Result<Self> {
        let args = args.into();
        if args.precision == Precision::Int8 {
            return Err(Error::input("int8 is a precision of forecasts, and this is none")
                .hint("it is one of wxsim forecast, verify and bench export"));
        }
        match args.device {
            Choice::Cpu => Self::cpu(threads),
            Choice::Cuda(ordinal) => Self::cuda(ordinal, args.precision, threads),
            Choice::Auto => Self::cuda(0, args.precision, threads).or_else(|error| {
                // A machine without a driver has no GPU to wonder about.
                if Library::Driver.find().is_ok() {
                    let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
                    eprintln!("note: computing on the processor: {}{advice}", chain(&error));
                }
                Self::cpu(threads)
            }),
        }
    }

    fn cpu(threads: Option<usize>) -> Result<Self> {
        let cpu = Cpu::new(threads)?;
        let (threads, instructions) = (cpu.threads(), cpu.instructions().to_string());
        Ok(Self { device: Box::new(cpu), threads, instructions, gpu: false, ordinal: None, monitor: None })
    }

    fn cuda(ordinal: usize, precision: Precision, threads: Option<usize>) -> Result<Self> {
        let compute = Compute::from(precision);
        let cuda = Cuda::new(ordinal, compute)?;
        let instructions = format!("{}, {compute:?}", cuda.architecture());
        let threads = match threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism()
                .map_err(|error| Error::run("the number of cores cannot be told").caused_by(error))?
                .get(),
        };
        let monitor = Some(Monitor::new(ordinal));
        let ordinal = Some(ordinal);
        Ok(Self { device: Box::new(cuda), threads, instructions, gpu: true, ordinal, monitor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_nvidia_smi_numbers_them() {
        let of = |text: &str| text.parse::<Choice>();
        assert_eq!(of("auto"), Ok(Choice::Auto));
        assert_eq!(of("cpu"), Ok(Choice::Cpu));
        assert_eq!(of("cuda"), Ok(Choice::Cuda(0)));
        assert_eq!(of("cuda:3"), Ok(Choice::Cuda(3)));
        assert!(of("gpu").is_err() && of("cuda:").is_err() && of("cuda:-1").is_err());
    }
}
