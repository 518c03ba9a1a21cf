//! `--ranks`, `--gpus`, and what started this process: who works together.

use crate::comm::{self, Communicator, Host, Meeting, Nccl, Place, Spot, Topology};
use crate::commands::devices::{Choice, Opened, PreciseDeviceArgs};
use crate::device::{Real, cuda};
use crate::error::{Error, Result};
use std::time::Duration;

/// Who works together.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct RankArgs {
    /// Share the work among so many GPUs, cuda:0 and on: of a training each batch, of a layer its rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub gpus: Option<u16>,
    /// Share the work on the processor as so many devices would
    #[arg(long, value_name = "N", conflicts_with = "gpus", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub ranks: Option<u16>,
}

impl RankArgs {
    /// The flags that ask for the same.
    pub fn flags(self) -> String {
        match (self.gpus, self.ranks) {
            (Some(gpus), _) => format!(" --gpus {gpus}"),
            (None, Some(ranks)) => format!(" --ranks {ranks}"),
            (None, None) => String::new(),
        }
    }

    /// A device for each rank of this process.
    pub fn open<T: Real>(
        self,
        device: PreciseDeviceArgs,
        threads: Option<usize>,
        place: Option<&Place>,
    ) -> Result<Vec<Opened<T>>> {
        let all = |devices: Vec<Choice>| {
            let each = share(threads, devices.len());
            devices
                .into_iter()
                .map(|choice| Opened::new(PreciseDeviceArgs { device: choice, ..device }, each))
                .collect()
        };
        if let Some(place) = place {
            if self.gpus.or(self.ranks).is_some() {
                return Err(Error::input(format!(
                    "{} has started {} processes, each of them a rank",
                    place.by, place.size
                ))
                .hint("leave --gpus and --ranks out, or start one process"));
            }
            let gpus = if device.device == Choice::Auto { cuda::count().unwrap_or(0) } else { 0 };
            let own = if gpus > 0 { Choice::Cuda(place.local % gpus) } else { device.device };
            return Ok(vec![Opened::new(PreciseDeviceArgs { device: own, ..device }, threads)?]);
        }
        let named = matches!(device.device, Choice::Cuda(_));
        match (self.gpus, self.ranks) {
            (Some(_), _) if device.device != Choice::Auto => {
                Err(Error::input("--gpus takes cuda:0 and on, and --device says otherwise")
                    .hint("leave --device out; CUDA_VISIBLE_DEVICES chooses among the GPUs"))
            }
            (Some(gpus), _) => all((0..usize::from(gpus)).map(Choice::Cuda).collect()),
            (None, Some(_)) if named => {
                Err(Error::input("--ranks shares the processor, and --device names a GPU")
                    .hint("leave --device out, or say --device cpu"))
            }
            (None, Some(ranks)) => all(vec![Choice::Cpu; usize::from(ranks)]),
            (None, None) => Ok(vec![Opened::new(device, threads)?]),
        }
    }

    /// What the rank of this device exchanges through: its place in a mesh of `[domain, channel]` and as many samples as there
    /// are ranks for, on the fastest links. The first rank also gets some lines about that, where there are several GPUs.
    pub fn communicator(
        self,
        opened: &mut Opened<f32>,
        mut meeting: Box<dyn Meeting>,
        [domain, channel]: [usize; 2],
        limit: Duration,
    ) -> Result<(Box<dyn Communicator<f32>>, Vec<String>)> {
        let size = meeting.size();
        // One GPU needs no library for several, unless somebody asks to try it.
        if !opened.gpu || (size == 1 && self.gpus.is_none()) {
            return Ok((Box::new(Host::new(meeting)), Vec::new()));
        }
        let mut lines = Vec::new();
        // What cannot be placed is refused later, by who divides the work.
        if size > 1 && size.is_multiple_of(domain * channel) {
            let topology = Topology::gather(&mut *meeting, &Spot::here(opened.ordinal))?;
            let placement = topology.placement([size / domain / channel, domain, channel]);
            if meeting.rank() == 0 {
                lines = topology.describe();
                lines.push(placement.describe());
            }
            meeting = comm::in_order(meeting, &placement.order);
        }
        Ok((Box::new(Nccl::new(meeting, &mut *opened.device, limit)?), lines))
    }
}

/// The threads of each of so many devices.
fn share(threads: Option<usize>, devices: usize) -> Option<usize> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Some((threads.unwrap_or_else(cores) / devices).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_the_processor_and_never_a_gpu() {
        let device = PreciseDeviceArgs::default();
        let two = RankArgs { gpus: None, ranks: Some(2) };
        let opened = two.open::<f32>(device, Some(5), None).unwrap();
        assert_eq!((opened.len(), opened[0].threads), (2, 2));
        assert!(two.open::<f32>(Choice::Cuda(0).into(), None, None).is_err());
        let gpus = RankArgs { gpus: Some(2), ranks: None };
        assert!(gpus.open::<f32>(Choice::Cpu.into(), None, None).is_err());
        let place = Place {
            rank: 1,
            size: 2,
            local: 1,
            address: "127.0.0.1:1".into(),
            token: String::new(),
            by: "Slurm",
        };
        let error = two.open::<f32>(device, None, Some(&place)).err().unwrap();
        assert!(error.to_string().starts_with("Slurm has started 2 processes"), "{error}");
        let own = RankArgs::default().open::<f32>(Choice::Cpu.into(), Some(3), Some(&place)).unwrap();
        assert_eq!((own.len(), own[0].threads), (1, 3));
        assert_eq!([gpus.flags(), two.flags()], [" --gpus 2", " --ranks 2"]);
    }
}
