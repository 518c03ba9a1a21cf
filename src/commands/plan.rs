//! `wxsim plan`: what a training would take on one GPU or many, without a GPU.

use std::path::PathBuf;
use std::str::FromStr;

use crate::commands::devices::Precision;
use crate::config::model::Channels;
use crate::config::{Config, Overrides};
use crate::error::{Error, Result};
use crate::plan::{Card, Links, Meter, Prediction, Update, Wiretap, predict};
use crate::preprocess::{Catalogue, Inputs};
use crate::train::{TrainPlan, outline};

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
    /// Print JSON: one object a line
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
    let parallel = config.parallel.plan()?;
    let update = |ranks: usize, samples: usize| -> Result<Update> {
        let plan = TrainPlan { batch: samples, ..plan.clone() };
        let mut meter = Meter::new(card);
        let clock = meter.clock();
        let mut wiretap = Wiretap::new(ranks, clock.clone());
        let overheard = wiretap.overheard();
        let bytes = outline(&plan, parallel, &architecture, layout, &mut wiretap, &mut meter)?;
        let memory = bytes as f64 + card.overhead;
        Ok(Update { seconds: clock.seconds(), events: overheard.events(), memory })
    };
    let alone = update(1, plan.batch)?.seconds / plan.batch as f64;
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
            "{:>5} {:>8} {:>10} {:>12} {:>10} {:>12} {:>12} {:>11}",
            "GPUs",
            "samples",
            "GiB each",
            "MB on wire",
            "step [ms]",
            "waiting [ms]",
            "samples/s",
            "efficiency"
        );
    }
    let mut fastest: Option<Prediction> = None;
    for &ranks in &args.gpus.0 {
        let samples = if args.weak { plan.batch * ranks } else { plan.batch };
        if samples % ranks != 0 {
            eprintln!("{ranks:>5} GPUs cannot share batches of {samples} samples evenly");
            continue;
        }
        let prediction = predict(&update(ranks, samples)?, ranks, samples, &links, alone);
        let fits = prediction.memory <= card.memory;
        if args.json {
            println!("{}", line(&prediction, fits)?);
        } else {
            println!("{}{}", row(&prediction), if fits { "" } else { "  does not fit" });
        }
        let rate = |p: &Prediction| p.samples as f64 / p.seconds;
        if fits && fastest.is_none_or(|best| rate(&prediction) > rate(&best)) {
            fastest = Some(prediction);
        }
    }
    match fastest {
        Some(best) if !args.json && args.gpus.0.len() > 1 => {
            println!("fastest: {} GPUs, at an efficiency of {:.0} %", best.ranks, 100.0 * best.efficiency);
        }
        Some(_) => {}
        None => return Err(Error::input("none of these numbers of GPUs can train this").hint(
            "choose numbers that divide train.batch; where it does not fit, a smaller batch or train.recompute = true",
        )),
    }
    Ok(())
}

fn row(p: &Prediction) -> String {
    format!(
        "{:>5} {:>8} {:>10.2} {:>12.1} {:>10.2} {:>12.2} {:>12.0} {:>9.0} %",
        p.ranks,
        p.samples,
        p.memory / f64::from(1 << 30),
        p.wire / 1e6,
        1e3 * p.seconds,
        1e3 * p.waiting,
        p.samples as f64 / p.seconds,
        100.0 * p.efficiency
    )
}

fn line(prediction: &Prediction, fits: bool) -> Result<String> {
    let broken = |error| Error::run("cannot write the prediction").caused_by(error);
    let mut value = serde_json::to_value(prediction).map_err(broken)?;
    value["fits"] = fits.into();
    Ok(value.to_string())
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
