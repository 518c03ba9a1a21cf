//! `--provider`: which programs may compute a network, in which order.

use crate::commands::devices::{Choice, Opened, PreciseDeviceArgs};
use crate::device::cuda::Library;
use crate::error::{Error, Result};
use crate::runner::{Candidate, Native};

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Choose {
    /// All that this machine has, the fastest first; when one breaks, the next goes on.
    #[default]
    Auto,
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
    pub fn candidates(&self) -> Result<Vec<Candidate>> {
        let cpu = || self.native("cpu".into(), Choice::Cpu);
        let cuda = |number: usize| self.native(format!("cuda:{number}"), Choice::Cuda(number));
        Ok(match (self.provider, self.device.device) {
            (Choose::Auto | Choose::Cpu, Choice::Cpu) | (Choose::Cpu, Choice::Auto) => vec![cpu()],
            (Choose::Auto | Choose::Cuda, Choice::Cuda(number)) => vec![cuda(number)],
            (Choose::Cuda, Choice::Auto) => vec![cuda(0)],
            // A machine without a driver has no GPU to wonder about.
            (Choose::Auto, Choice::Auto) if Library::Driver.find().is_err() => vec![cpu()],
            (Choose::Auto, Choice::Auto) => vec![cuda(0), cpu()],
            (Choose::Cuda, Choice::Cpu) | (Choose::Cpu, Choice::Cuda(_)) => {
                return Err(Error::input("--provider and --device contradict each other")
                    .hint("leave one of them out"));
            }
        })
    }

    fn native(&self, name: String, device: Choice) -> Candidate {
        let args = PreciseDeviceArgs { device, ..self.device };
        let open = move |trained| {
            let device = Opened::new(args, None)?.device;
            Ok(Box::new(Native::new(trained, device)?) as _)
        };
        Candidate { name, open: Box::new(open) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_named_stands_alone_and_must_fit_the_provider() {
        let names = |provider, device: Choice| {
            let args = ProviderArgs { provider, device: device.into() };
            args.candidates().map(|all| all.into_iter().map(|one| one.name).collect::<Vec<String>>())
        };
        assert_eq!(names(Choose::Auto, Choice::Cuda(1)).unwrap(), ["cuda:1"]);
        assert_eq!(names(Choose::Cuda, Choice::Auto).unwrap(), ["cuda:0"]);
        assert_eq!(names(Choose::Cpu, Choice::Auto).unwrap(), ["cpu"]);
        assert_eq!(names(Choose::Auto, Choice::Auto).unwrap().last().unwrap(), "cpu");
        assert!(names(Choose::Cuda, Choice::Cpu).is_err() && names(Choose::Cpu, Choice::Cuda(0)).is_err());
    }
}
