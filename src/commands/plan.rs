//! `wxsim plan`: what a training would take on one GPU or many, without a GPU.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::commands::devices::Precision;
use crate::config::model::Channels;
use crate::config::{Config, Overrides};
use crate::device::Picking;
use crate::error::{Error, Result};
use crate::model::Geometry;
use crate::plan::{Card, Links, Meter, Prediction, Update, Wiretap, predict};
use crate::preprocess::{Catalogue, Inputs};
use crate::train::{ParallelPlan, Shared, TrainPlan, Wire, outline};

/// Predict memory, traffic and time of a training on NVIDIA H200 GPUs that share each batch.
///
/// Rates of the GPU were measured; those of links are data sheets' unless you say what `wxsim bench` or another
/// measurement gave on yours.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration of the training
    config: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// How many GPUs: a number, several, or a range that is doubled through, as in 1..64
    #[arg(long, default_value = "1..8", value_name = "N|N,N|A..B")]
    gpus: Counts,
    /// Keep the samples of each GPU, not those of a batch: train.batch is then that of one GPU
    #[arg(long)]
    weak: bool,
    /// How exactly the GPUs compute
    #[arg(long, value_enum, default_value = "bf16")]
    precision: Precision,
    /// GPUs of one node
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    gpus_per_node: u16,
    /// What an all-reduce moves through each GPU of a node [GB/s]
    #[arg(long, default_value_t = 360.0, value_name = "GB/S", value_parser = rate)]
    node_bandwidth: f64,
    /// The same between nodes, for each GPU [GB/s]
    #[arg(long, default_value_t = 45.0, value_name = "GB/S", value_parser = rate)]
    network_bandwidth: f64,
    /// Only the mesh, the sharing and the wire of the configuration, instead of all that there are
    #[arg(long)]
    as_configured: bool,
    /// Also wires on which gradients lose something
    #[arg(long, conflicts_with = "as_configured")]
    lossy: bool,
    /// List every way, not only the fastest of each number of GPUs
    #[arg(long)]
    all: bool,
    /// Print JSON: one object a line, every way
    #[arg(long)]
    json: bool,
}

/// Time of one exchange between neighbours [s].
const LATENCY: f64 = 5e-6;

/// Numbers of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts(Vec<usize>);

/// More than any machine has.
const MOST: usize = 1 << 16;

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.trim().parse() {
            Ok(n) if (1..=MOST).contains(&n) => Ok(n),
            _ => Err(format!("expected numbers from 1 to {MOST}, as in 4 or 1,2,4 or 1..64, found '{text}'")),
        };
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (number(from)?, number(to)?);
            let mut counts: Vec<usize> =
                std::iter::successors(Some(from), |n| Some(2 * n)).take_while(|&n| n < to).collect();
            counts.push(to);
            return if from <= to { Ok(Self(counts)) } else { Err(format!("{from} is more than {to}")) };
        }
        text.split(',').map(number).collect::<Result<_, _>>().map(Self)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("expected gigabytes a second, more than 0".into()),
    }
}

/// One way to train on some GPUs, and what it would take.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Way {
    data: usize,
    domain: usize,
    channel: usize,
    zero: u8,
    wire: &'static str,
    #[serde(flatten)]
    prediction: Prediction,
    fits: bool,
    /// The fastest that fits, and loses nothing that the configuration does not.
    best: bool,
}

/// Ways that are listed of each number of GPUs, unless all are asked for.
const LISTED: usize = 3;

const STAGES: [Shared; 4] = [Shared::Nothing, Shared::Moments, Shared::Gradients, Shared::Weights];

pub fn run(args: &Args) -> Result<()> {
    let config = Config::load(&args.config, &args.overrides)?;
    let plan = config.train.plan(&config.loss)?;
    let catalogue = Catalogue::build(&config.data.plan()?)?;
    let layout = catalogue.layout();
    let inputs = Inputs::new(layout.clone(), &config.input.inputs(&config.data)?)?;
    let architecture = config.model.architecture(Channels {
        prognostic: layout.channels(),
        statics: inputs.static_names().len(),
        forcings: inputs.forcing_names().len(),
    })?;
    let card = Card::h200(args.precision.into());
    let links = Links {
        within: args.node_bandwidth * 1e9,
        across: args.network_bandwidth * 1e9,
        cards_per_node: usize::from(args.gpus_per_node),
        latency: LATENCY,
    };
    let configured = config.parallel.plan()?;
    let update = |mesh: [usize; 3], samples: usize, parallel: ParallelPlan| -> Result<Update> {
        let plan = TrainPlan { batch: samples, ..plan.clone() };
        let mut meter = Meter::new(card);
        let clock = meter.clock();
        let mut wiretap = Wiretap::new(mesh, clock.clone(), card.activation);
        let bytes = outline(&plan, parallel, &architecture, layout, &mut wiretap, &mut meter)?;
        let memory = bytes as f64 + card.working + card.context;
        Ok(Update { seconds: clock.seconds(), events: clock.events(), memory })
    };
    let one = ParallelPlan { domain: 1, channel: 1, ..configured };
    let alone = update([1; 3], plan.batch, one)?.seconds / plan.batch as f64;
    if !args.json {
        eprintln!(
            "{} in {}, longest rollout of {} steps, {} of {} samples",
            card.name,
            args.precision.name(),
            plan.longest_rollout(),
            if args.weak { "a batch on each GPU" } else { "batches" },
            plan.batch
        );
        println!(
            "{:>5} {:>23} {:>4} {:>8} {:>8} {:>10} {:>12} {:>10} {:>12} {:>12} {:>11}",
            "GPUs",
            "data x domain x channel",
            "zero",
            "wire",
            "samples",
            "GiB each",
            "MB on wire",
            "step [ms]",
            "waiting [ms]",
            "samples/s",
            "efficiency"
        );
    }
    let mut fastest: Option<Way> = None;
    for &ranks in &args.gpus.0 {
        let samples = if args.weak { plan.batch * ranks } else { plan.batch };
        let mut ways = Vec::new();
        for parallel in args.candidates(configured, ranks) {
            let ParallelPlan { domain, channel, .. } = parallel;
            let mesh = [ranks / (domain * channel), domain, channel];
            // What cannot be divided so is no way.
            let cuts = architecture.bands(&Geometry::of(layout), domain).is_ok()
                && architecture.check_units(channel).is_ok();
            if samples % mesh[0] != 0 || !cuts {
                continue;
            }
            let prediction = predict(&update(mesh, samples, parallel)?, ranks, samples, &links, alone);
            let fits = prediction.memory <= card.memory;
            let zero = STAGES.iter().position(|stage| *stage == parallel.shared).unwrap_or(0) as u8;
            let wire = wire_name(parallel.wire);
            ways.push(Way { data: mesh[0], domain, channel, zero, wire, prediction, fits, best: false });
        }
        if ways.is_empty() {
            eprintln!("{ranks:>5} GPUs cannot share batches of {samples} samples evenly");
            continue;
        }
        // Of equally fast ones the one that shares least comes first.
        ways.sort_by(|a, b| a.prediction.seconds.total_cmp(&b.prediction.seconds));
        let allowed =
            |way: &Way| way.fits && (way.wire == "float32" || way.wire == wire_name(configured.wire));
        if let Some(best) = ways.iter_mut().find(|way| allowed(way)) {
            best.best = true;
            let rate = |way: &Way| way.prediction.samples as f64 / way.prediction.seconds;
            if fastest.as_ref().is_none_or(|known| rate(best) > rate(known)) {
                fastest = Some(best.clone());
            }
        }
        for (place, way) in ways.iter().enumerate() {
            if args.json {
                println!("{}", line(way)?);
            } else if args.all || place < LISTED || way.best {
                println!("{}", row(way));
            }
        }
    }
    match fastest {
        Some(best) if !args.json && args.gpus.0.len() > 1 => println!(
            "fastest: {} GPUs as {} x {} x {}, parallel.zero = {}, at an efficiency of {:.0} %",
            best.prediction.ranks,
            best.data,
            best.domain,
            best.channel,
            best.zero,
            100.0 * best.prediction.efficiency
        ),
        Some(_) => {}
        None => return Err(Error::input("none of these numbers of GPUs can train this").hint(
            "choose numbers that divide train.batch; where it does not fit, a smaller batch or train.recompute = true",
        )),
    }
    Ok(())
}

impl Args {
    /// Ways to train on so many GPUs: as the configuration says, or all there are.
    fn candidates(&self, configured: ParallelPlan, ranks: usize) -> Vec<ParallelPlan> {
        if self.as_configured {
            let divides = ranks.is_multiple_of(configured.domain * configured.channel);
            return if divides { vec![configured] } else { Vec::new() };
        }
        let mut wires = vec![Wire::Exact];
        let lossy = [Wire::Bf16, Wire::Largest { keep: Picking::BLOCK.div_ceil(100) }];
        for wire in [configured.wire].into_iter().chain(lossy.into_iter().filter(|_| self.lossy)) {
            if !wires.contains(&wire) {
                wires.push(wire);
            }
        }
        let divisors = |n: usize| (1..=n).filter(move |part| n.is_multiple_of(*part));
        // Units of one layer are exchanged at every step: over links between nodes that takes longer than to compute them.
        let channels = divisors(ranks).filter(|&channel| channel <= usize::from(self.gpus_per_node));
        let meshes =
            channels.flat_map(|channel| divisors(ranks / channel).map(move |domain| (domain, channel)));
        let mut candidates = Vec::new();
        for (domain, channel) in meshes {
            for shared in STAGES {
                for &wire in &wires {
                    // Who is alone with its weights has nobody to share them with.
                    if ranks > channel || (shared == Shared::Nothing && wire == Wire::Exact) {
                        candidates.push(ParallelPlan { domain, channel, shared, wire, ..configured });
                    }
                }
            }
        }
        candidates
    }
}

fn wire_name(wire: Wire) -> &'static str {
    match wire {
        Wire::Exact => "float32",
        Wire::Bf16 => "bfloat16",
        Wire::Largest { .. } => "top_k",
    }
}

fn row(way: &Way) -> String {
    let p = &way.prediction;
    format!(
        "{:>5} {:>23} {:>4} {:>8} {:>8} {:>10.2} {:>12.1} {:>10.2} {:>12.2} {:>12.0} {:>9.0} %{}",
        p.ranks,
        format!("{} x {} x {}", way.data, way.domain, way.channel),
        way.zero,
        way.wire,
        p.samples,
        p.memory / f64::from(1 << 30),
        p.wire / 1e6,
        1e3 * p.seconds,
        1e3 * p.waiting,
        p.samples as f64 / p.seconds,
        100.0 * p.efficiency,
        match (way.fits, way.best) {
            (false, _) => "  does not fit",
            (true, true) => "  *",
            (true, false) => "",
        }
    )
}

fn line(way: &Way) -> Result<String> {
    serde_json::to_string(way).map_err(|error| Error::run("cannot write the prediction").caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_lists_and_doublings() {
        let of = |text: &str| text.parse::<Counts>().map(|counts| counts.0);
        assert_eq!(of("3"), Ok(vec![3]));
        assert_eq!(of("1,2,6"), Ok(vec![1, 2, 6]));
        assert_eq!(of("1..8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(of("3..20"), Ok(vec![3, 6, 12, 20]));
        assert_eq!(of("5..5"), Ok(vec![5]));
        for wrong in ["0", "", "8..1", "1..", "a", "1,,2", "99999"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
