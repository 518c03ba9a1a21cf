//! `wxsim export`: a trained network for other programs, held against wxsim's own forecasts.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::commands::{output, run_folder};
use crate::config::{Config, Overrides};
use crate::device::cpu::Cpu;
use crate::error::{Context, Error, Kind, Result};
use crate::export::onnx::{self, Extent, Form};
use crate::export::parity::{self, Row};
use crate::export::quantise::{Calibration, Method, Ranges, across_seasons};
use crate::export::tensorrt::{self, Batch, BuildPlan, Built, Capability};
use crate::export::{Int8, OnnxForecaster, OnnxRuntime, Precision, Trained};
use crate::field::State;
use crate::forecast::{Analyses, InitTimes};
use crate::io::atomic::write_whole;
use crate::preprocess::Catalogue;
use crate::runner::{Native, NetworkStepper, Provider};
use crate::stepper::StepperInfo;
use crate::time::{InitTime, ValidTime};

/// Write a trained network for other programs, and hold it against wxsim's own forecasts.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run folder that wxsim train made, or one of its checkpoints
    #[arg(value_name = "RUN")]
    model: PathBuf,
    /// As an ONNX graph of one step
    #[arg(long, required_unless_present = "tensorrt")]
    onnx: bool,
    /// As an engine of TensorRT, beside the graph that it is built from
    #[arg(long, conflicts_with = "unrolled")]
    tensorrt: bool,
    /// As one graph of a whole forecast of so many steps, from the analyses on
    #[arg(long, value_name = "STEPS")]
    unrolled: Option<usize>,
    /// What convolutions compute with: fp32, fp16, bf16, int8, fp8; an engine also tf32
    #[arg(long, default_value = "fp32")]
    precision: Precision,
    /// Where int8 and fp8 cut activations off [default: percentile, or where the network learned to be rounded]
    #[arg(long, value_enum)]
    calibration: Option<Calibrate>,
    /// Compute capabilities of the cards that an engine is for, as 8.9,12.0 [default: the GPU of this machine]
    #[arg(long, value_delimiter = ',', requires = "tensorrt")]
    target: Vec<Capability>,
    /// Forecasts at once that an engine takes: one number, or the least, the usual and the most
    #[arg(long, default_value = "1:1:8", requires = "tensorrt")]
    batch: Batch,
    /// The graph to write; an engine goes beside it [default: in the folder export of the run]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Files with the analyses to compare from [default: those that the run was trained on]
    #[arg(long, num_args = 1.., value_name = "FILE")]
    init: Vec<PathBuf>,
    /// Initial times to compare from [default: the newest that the files allow]
    #[arg(long, num_args = 1.., value_name = "TIME")]
    init_time: Vec<String>,
    #[command(flatten)]
    overrides: Overrides,
}

/// How the ranges of activations are chosen.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Calibrate {
    /// All but the largest in ten thousand are kept
    Percentile,
    /// Where the least information is lost
    Entropy,
}

/// Steps of a forecast in one graph. Each adds nodes to it, none adds weights.
const MOST_STEPS: usize = 1000;

/// Initial times of each season that ranges are taken from, and steps from each.
const STARTS: usize = 4;
const STEPS: usize = 8;

/// What stands beside the exported file.
#[derive(Serialize)]
struct Report<'a> {
    graph: &'a Path,
    precision: &'a str,
    run: &'a str,
    compared_with: String,
    initial_times: Vec<String>,
    bound: f64,
    judged_to_hours: f64,
    passed: bool,
    rows: &'a [Row],
}

pub fn run(args: &Args) -> Result<()> {
    if args.precision == Precision::Tf32 && !args.tensorrt {
        return Err(Error::input("a graph of tf32 is that of fp32: only an engine is built to compute so")
            .hint("use --precision fp32"));
    }
    if args.calibration.is_some() && !args.precision.is_quantised() {
        return Err(Error::input(format!(
            "{} cuts no activations off: it needs no --calibration",
            args.precision
        ))
        .hint("--precision int8 and fp8 do"));
    }
    if args.tensorrt {
        tensorrt::ready(&args.plan())?;
    }
    let inits = InitTimes::parse(&args.init_time)?;
    let folder = run_folder::folder(&args.model)?;
    let config = Config::load(&folder.join("config.toml"), &args.overrides)?;
    config.export.check()?;
    let trained = Arc::new(Trained::open(&args.model)?);
    let extent = match args.unrolled {
        Some(0) => return Err(Error::input("a forecast of 0 steps looks nowhere")),
        Some(leads) if leads > MOST_STEPS => {
            return Err(Error::input(format!(
                "a graph holds each step by itself, and {leads} are more than {MOST_STEPS}"
            ))
            .hint("export one step, without --unrolled, and run it again and again"));
        }
        Some(leads) => Extent::Forecast(leads),
        None => Extent::Step,
    };
    // What cannot be compared is found out before anything is written.
    let catalogue = run_folder::catalogue(&config, &trained.info.layout, &args.init)?;
    let mut analyses = Analyses::new(catalogue, &trained.info)?;
    let chosen = inits.choose(&analyses.usable())?;
    let starts = chosen.iter().map(|&init| analyses.of(init)).collect::<Result<Vec<Vec<State>>>>()?;

    let path = args.out.clone().unwrap_or_else(|| folder.join("export").join(args.file_name(extent)));
    let ranges = match args.precision.is_quantised() {
        true => Some(args.ranges(&trained, &config)?),
        false => None,
    };
    let encode = |form| onnx::encode(&trained, args.precision, extent, form, ranges.as_ref());
    let graph = encode(Form::Native)?;
    save(&path, &graph)?;
    eprintln!("{} bytes in {}", graph.len(), path.display());
    if let (Precision::Int8, Extent::Step, Some(ranges)) = (args.precision, extent, &ranges) {
        let path = path.with_extension("safetensors");
        let numbers = Int8::of(&trained, ranges.clone())?.encode(&trained)?;
        save(&path, &numbers)?;
        eprintln!("{} bytes in {}, for wxsim forecast --precision int8", numbers.len(), path.display());
    }

    let runtime = OnnxRuntime::open().map_err(|error| {
        let hint = error.advice().unwrap_or_default().to_owned();
        Error::new(Kind::Gate, format!("{} is written, but nothing has checked it", path.display()))
            .caused_by(error)
            .hint(hint)
    })?;
    // The processor has no convolution of bfloat16, so there the same numbers go through float32.
    let checked = match args.precision {
        Precision::Bf16 => encode(Form::Emulated)?,
        _ => graph.clone(),
    };
    let cpu = Cpu::new(None)?;
    let mut exported = OnnxForecaster::new(trained.clone(), &runtime, &checked, extent, cpu.threads())?;
    let mut own = NetworkStepper::of(trained.clone(), Box::new(cpu))?;
    let steps = args.unrolled.map_or(config.export.steps, |leads| leads.min(config.export.steps));
    let rows = parity::measure(&mut own, &mut exported, &starts, steps)?;
    let bound = config.export.bounds.of(args.precision);
    let longest = config.forecast.lead.max(trained.info.step);
    let verdict = parity::judge(&rows, bound, longest);
    let report = Report {
        graph: &path,
        precision: args.precision.name(),
        run: &trained.info.origin,
        compared_with: format!("ONNX Runtime of {}", runtime.path.display()),
        initial_times: chosen.iter().map(ToString::to_string).collect(),
        bound,
        judged_to_hours: longest.hours(),
        passed: verdict.is_ok(),
        rows: &rows,
    };
    let text = serde_json::to_string_pretty(&report)
        .map_err(|error| Error::run("the comparison cannot be written").caused_by(error))?;
    save(&beside(&path), text.as_bytes())?;
    output::print(&parity::table(&rows))?;
    verdict?;
    if args.tensorrt { args.build(&path, &graph, &trained) } else { Ok(()) }
}

impl Args {
    /// Builds the engine of a graph that was found right, and puts it beside.
    fn build(&self, path: &Path, graph: &[u8], trained: &Trained) -> Result<()> {
        let start = Instant::now();
        let Built { engine, card } = tensorrt::build(graph, &trained.info.origin, &self.plan())?;
        let path = path.with_extension("engine");
        save(&path, &engine)?;
        card.save(&path)?;
        let targets: Vec<String> = card.targets.iter().map(ToString::to_string).collect();
        eprintln!(
            "{} bytes in {}, by {} in {:.1} s, for compute capability {} and {} forecasts at once",
            engine.len(),
            path.display(),
            card.library,
            start.elapsed().as_secs_f64(),
            targets.join(" and "),
            card.batch
        );
        eprintln!("the engine itself was not run; its graph was compared above");
        Ok(())
    }

    fn plan(&self) -> BuildPlan {
        BuildPlan { precision: self.precision, targets: self.target.clone(), batch: self.batch }
    }

    fn ranges(&self, trained: &Arc<Trained>, config: &Config) -> Result<Ranges> {
        if self.calibration.is_some() && trained.ranges.is_some() {
            return Err(Error::input(format!(
                "{} keeps the ranges that it was trained with",
                trained.info.origin
            ))
            .hint("leave out --calibration"));
        }
        ranges_of(trained, config, self.calibration.unwrap_or(Calibrate::Percentile).into())
    }

    fn file_name(&self, extent: Extent) -> String {
        match extent {
            Extent::Step => format!("step-{}.onnx", self.precision),
            Extent::Forecast(leads) => format!("forecast-{leads}-{}.onnx", self.precision),
        }
    }
}

/// The ranges of activations: those that the network was trained with, or those in its forecasts.
pub fn ranges_of(trained: &Arc<Trained>, config: &Config, method: Method) -> Result<Ranges> {
    match &trained.ranges {
        Some(ranges) => {
            eprintln!("ranges of activations as they were in training");
            Ok(ranges.clone())
        }
        None => calibrate(trained, config, method),
    }
}

/// The ranges of activations in forecasts from the training span.
pub fn calibrate(trained: &Arc<Trained>, config: &Config, method: Method) -> Result<Ranges> {
    let mut plan = run_folder::data(config)?;
    plan.quantities = trained.info.layout.quantities.clone();
    let training = Catalogue::build(&plan)?.training()?;
    let mut analyses = Analyses::new(training.catalogue().clone(), &trained.info)?;
    let usable: Vec<ValidTime> = training
        .times()
        .iter()
        .copied()
        .filter(|&time| {
            analyses.starts(InitTime(time)) && training.may_read(first_frame(time, &trained.info))
        })
        .collect();
    let starts = across_seasons(&usable, STARTS);
    eprintln!("ranges of activations from {} forecasts over {} steps", starts.len(), STEPS);
    let mut network = Native::new(trained.clone(), Box::new(Cpu::new(None)?))?;
    let mut calibration = Calibration::new(trained);
    for start in starts {
        network.start(&analyses.of(InitTime(start))?)?;
        for step in 0..STEPS {
            let valid = start.after(trained.info.step.times(step));
            let kept = network.standing(valid)?;
            calibration.add(trained, valid, &kept.fields, &kept.memories);
            network.step(valid)?;
        }
    }
    calibration.ranges(method)
}

/// The first analysis that a forecast from `start` needs.
fn first_frame(start: ValidTime, info: &StepperInfo) -> ValidTime {
    start.after(info.step.times(info.input_frames - 1).negative())
}

impl From<Calibrate> for Method {
    fn from(choice: Calibrate) -> Self {
        match choice {
            Calibrate::Percentile => Self::Percentile,
            Calibrate::Entropy => Self::Entropy,
        }
    }
}

/// Where the comparison goes.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("parity.json")
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    write_whole(path, |file| file.write_all(bytes).context(|| format!("cannot write {}", path.display())))
}
