//! `wxsim bench comm`: how fast ranks add up what they have.

use std::time::Duration;

use serde::Serialize;

use crate::comm::{self, Meeting, Place};
use crate::commands::devices::{Opened, PreciseDeviceArgs};
use crate::commands::output::print_line;
use crate::commands::ranks::RankArgs;
use crate::config::ParallelConfig;
use crate::device::{ArenaPlan, Device};
use crate::error::{Error, Result};

/// How fast several devices add up what they have
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    ranks: RankArgs,
    #[command(flatten)]
    device: PreciseDeviceArgs,
    /// Repetitions of each sum, after two that do not count
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    repeats: u16,
    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    ranks: usize,
    /// Of the first rank.
    device: &'a str,
    kibibytes: usize,
    /// Of one sum, mean over the repetitions, on the slowest rank.
    milliseconds: f64,
    /// What passes through each rank, one way: `2 (ranks - 1) / ranks` of the numbers, whatever the way.
    gigabytes_per_second: f64,
}

/// Numbers that are added up [KiB].
const SIZES: [usize; 5] = [4, 64, 1 << 10, 16 << 10, 64 << 10];

pub fn run(args: &Args) -> Result<()> {
    comm::heed_environment();
    let limit = ParallelConfig::default().limit()?;
    match comm::place()? {
        None => {
            let ranks = args.open(None)?;
            if ranks.len() < 2 {
                return Err(Error::input("one device has nobody to exchange with")
                    .hint("wxsim bench comm --gpus 8, or --ranks 4 on the processor"));
            }
            comm::run(ranks, limit, |opened, meeting| args.measure(opened, meeting, limit)).map(|_| ())
        }
        Some(place) => comm::run_one(comm::join(&place, limit)?, |meeting| {
            let ranks = args.open(Some(&place))?;
            ranks.into_iter().next().map_or(Ok(()), |opened| args.measure(opened, meeting, limit))
        }),
    }
}

impl Args {
    fn open(&self, place: Option<&Place>) -> Result<Vec<Opened<f32>>> {
        self.ranks.open(self.device, None, place)
    }

    /// What one rank does; the first one prints.
    fn measure(&self, mut opened: Opened<f32>, meeting: Box<dyn Meeting>, limit: Duration) -> Result<()> {
        let (mut communicator, placed) = self.ranks.communicator(&mut opened, meeting, [1, 1], limit)?;
        // Beside the figures, for people.
        placed.iter().for_each(|line| eprintln!("{line}"));
        let device: &mut dyn Device<f32> = &mut *opened.device;
        let mut plan = ArenaPlan::default();
        let most = SIZES.iter().max().map_or(0, |kibibytes| numbers(*kibibytes));
        let whole = plan.slot(most);
        device.allocate(&plan)?;
        let name = device.describe();
        for kibibytes in SIZES {
            let slot = whole.part(0, numbers(kibibytes));
            let pace = comm::all_reduce_pace(&mut *communicator, device, slot, usize::from(self.repeats))?;
            if communicator.rank() == 0 {
                self.print(&Row {
                    ranks: communicator.size(),
                    device: &name,
                    kibibytes,
                    milliseconds: 1e3 * pace.seconds,
                    gigabytes_per_second: pace.rate / 1e9,
                })?;
            }
        }
        communicator.close()
    }

    fn print(&self, row: &Row<'_>) -> Result<()> {
        if self.json {
            let json = serde_json::to_string(row);
            return print_line(&json.map_err(|e| Error::run("a figure cannot be printed").caused_by(e))?);
        }
        print_line(&format!(
            "{} x {}: {:6} KiB added up in {:9.3} ms, {:7.2} GB/s",
            row.ranks, row.device, row.kibibytes, row.milliseconds, row.gigabytes_per_second
        ))
    }
}

fn numbers(kibibytes: usize) -> usize {
    (kibibytes << 10) / size_of::<f32>()
}
