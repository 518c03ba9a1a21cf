//! `wxsim bench precision`: what each precision of a trained network costs in skill, and saves in time and size.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::{Machine, Measure, export};
use crate::commands::candidates::Candidates;
use crate::commands::devices::{DeviceArgs, PreciseDeviceArgs, Precision as Computed};
use crate::commands::export::ranges_of;
use crate::commands::progress::Progress;
use crate::commands::scoring::{Entrant, Scoring};
use crate::commands::verify_data::Data;
use crate::commands::{output, run_folder};
use crate::config::{Config, Overrides};
use crate::device::cpu::Cpu;
use crate::error::{Error, Result};
use crate::export::onnx::{self, Extent, Form};
use crate::export::quantise::Method;
use crate::export::{Int8, OnnxForecaster, OnnxRuntime, Precision, Trained};
use crate::forecast::Analyses;
use crate::model::{Arithmetic, Ranges};
use crate::runner::{Native, NetworkStepper};
use crate::time::{InitTime, LeadTime};
use crate::verify::{Comparer, Headline, Role, ScorePlan, Scores, WHOLE_GRID, summarise};

/// Precision, skill, time and size of a trained network, in one table.
///
/// Each precision forecasts the whole test span of the run's configuration, from the same initial times; differences from fp32
/// have the paired intervals of wxsim verify. wxsim computes what its device has; the rest is computed by ONNX Runtime from the
/// exported graph, on the processor.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run folder that wxsim train made, or one of its checkpoints
    #[arg(value_name = "RUN")]
    model: PathBuf,
    /// A run that went on from this one with train.quantise: its int8 beside that of the run
    #[arg(long, value_name = "RUN")]
    tuned: Option<PathBuf>,
    /// Leads to show, as 1d,3d
    #[arg(long, value_delimiter = ',', default_value = "1d,3d")]
    lead: Vec<LeadTime>,
    /// Initial times to use: every so many-th
    #[arg(long, default_value_t = 1, value_name = "N")]
    every: usize,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    measure: Measure,
}

/// A precision of a network, and who computes it.
struct Way {
    name: &'static str,
    trained: Arc<Trained>,
    by: By,
    /// Of the exported graph.
    bytes: usize,
}

enum By {
    /// wxsim, whose convolutions are of whole numbers or not.
    Native(PreciseDeviceArgs, Option<Int8>),
    /// ONNX Runtime, and the graph that it runs.
    Graph(Vec<u8>),
}

/// One precision.
#[derive(Serialize)]
struct Row {
    precision: &'static str,
    by: String,
    /// Of one step of one forecast, whose fields come back to the host [ms]; none where another machine would be measured.
    p50: Option<f64>,
    bytes: usize,
    scores: Vec<Score>,
}

#[derive(Serialize)]
struct Score {
    variable: String,
    lead_hours: f64,
    rmse: Option<f64>,
    /// From fp32, and the bounds of its 95 % interval, in percent of the RMSE of fp32.
    change: Option<[f64; 3]>,
}

/// What all others are compared with.
const REFERENCE: &str = "fp32";

pub fn run(args: &Args) -> Result<()> {
    args.measure.check()?;
    if args.every == 0 || args.lead.is_empty() {
        return Err(
            Error::input("no initial time, or no lead, shows nothing").hint("use --every 1 --lead 1d")
        );
    }
    let trained = Arc::new(Trained::open(&args.model)?);
    let config = Config::load(&run_folder::folder(&args.model)?.join("config.toml"), &args.overrides)?;
    args.lead.iter().try_for_each(|lead| lead.steps_of(trained.info.step).map(|_| ()))?;
    let runtime = OnnxRuntime::open();
    if let Err(error) = &runtime {
        eprintln!("note: only what wxsim computes: {error}; {}", error.advice().unwrap_or_default());
    }
    let runtime = runtime.ok();
    let (_, machine) = args.measure.open::<f32>(args.plain(Computed::Fp32))?;
    let ways = args.ways(&trained, &config, &machine, runtime.is_some())?;
    let scores = args.scores(&ways, &config, runtime.as_ref())?;
    let rows = ways
        .iter()
        .map(|way| args.row(way, &scores, runtime.as_ref(), &machine))
        .collect::<Result<Vec<Row>>>()?;
    if args.measure.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "run": trained.info.origin,
            "test_span": scores.test_span,
            "initial_times": scores.initial_times,
            "machine": machine,
            "rows": rows,
        }));
        return output::print_line(&text.map_err(|error| Error::run("JSON").caused_by(error))?);
    }
    output::print_line(&format!(
        "RMSE weighted by area, test span {}, {} initial times; changes from fp32 in %, with 95 % intervals\n{}\n",
        scores.test_span, scores.initial_times, machine.device
    ))?;
    output::print(&table(&rows))
}

impl Args {
    fn plain(&self, precision: Computed) -> PreciseDeviceArgs {
        PreciseDeviceArgs { device: self.device.device, precision }
    }

    /// All precisions; those of graphs only where ONNX Runtime is.
    fn ways(
        &self,
        trained: &Arc<Trained>,
        config: &Config,
        machine: &Machine,
        has_runtime: bool,
    ) -> Result<Vec<Way>> {
        let ranges = ranges_of(trained, config, Method::Percentile)?;
        let graph = |trained: &Trained, precision, form, ranges: &Ranges| {
            onnx::encode(trained, precision, Extent::Step, form, Some(ranges))
        };
        let mut ways = Vec::new();
        let native = |name,
                      trained: &Arc<Trained>,
                      precision: Precision,
                      computed,
                      int8: Option<Int8>|
         -> Result<Way> {
            let of = int8.as_ref().map_or(&ranges, |int8| &int8.ranges);
            let bytes = graph(trained, precision, Form::Native, of)?.len();
            Ok(Way { name, trained: trained.clone(), by: By::Native(self.plain(computed), int8), bytes })
        };
        ways.push(native(REFERENCE, trained, Precision::Fp32, Computed::Fp32, None)?);
        if machine.gpu {
            ways.push(native("tf32", trained, Precision::Tf32, Computed::Tf32, None)?);
            ways.push(native("fp16", trained, Precision::Fp16, Computed::Fp16, None)?);
            ways.push(native("bf16", trained, Precision::Bf16, Computed::Bf16, None)?);
        }
        let by_graph = |name, precision, form| -> Result<Way> {
            let bytes = graph(trained, precision, Form::Native, &ranges)?.len();
            let graph = graph(trained, precision, form, &ranges)?;
            Ok(Way { name, trained: trained.clone(), by: By::Graph(graph), bytes })
        };
        if has_runtime && !machine.gpu {
            ways.push(by_graph("fp16", Precision::Fp16, Form::Native)?);
            ways.push(by_graph("bf16", Precision::Bf16, Form::Emulated)?);
        }
        let int8 = Int8::of(trained, ranges.clone())?;
        ways.push(native("int8", trained, Precision::Int8, Computed::Fp32, Some(int8))?);
        if let Some(tuned) = &self.tuned {
            let tuned = Arc::new(Trained::open(tuned)?);
            let ranges = tuned.ranges.clone().ok_or_else(|| {
                Error::input(format!("{} was not trained to be rounded", tuned.info.origin))
                    .hint("train it with: --from RUN --set train.quantise=int8")
            })?;
            let int8 = Int8::of(&tuned, ranges)?;
            ways.push(native("int8 tuned", &tuned, Precision::Int8, Computed::Fp32, Some(int8))?);
        }
        if has_runtime {
            ways.push(by_graph("fp8", Precision::Fp8, Form::Native)?);
        }
        Ok(ways)
    }

    /// All ways over the test span.
    fn scores(&self, ways: &[Way], config: &Config, runtime: Option<&OnnxRuntime>) -> Result<Scores> {
        let info = ways[0].trained.info.clone();
        let lead = self.lead.iter().copied().max().unwrap_or(info.step);
        let candidates = Candidates {
            network: None,
            sets: Vec::new(),
            layout: info.layout.clone(),
            step: info.step,
            lead,
            input_frames: info.input_frames,
        };
        let data = Data::open(&[], Some(config), &candidates)?;
        let truth = Analyses::new(data.truth.clone(), &info)?;
        let plan = config.verify.plan()?;
        let comparer = Comparer::new(ScorePlan {
            layout: info.layout.clone(),
            regions: Vec::new(),
            missing: plan.missing,
            nyquist: plan.nyquist,
        });
        let usable = truth.usable();
        let mut scoring = Scoring::new(comparer, truth, None, data.span, [info.step, lead]);
        let leads = || (1..).map(|n| info.step.times(n)).take_while(|&one| one <= lead);
        let inits: Vec<InitTime> = usable
            .into_iter()
            .filter(|&init| data.span.contains(init.0) && scoring.has_truth(init, leads()))
            .step_by(self.every)
            .collect();
        let Some(&shown) = inits.first() else {
            return Err(Error::input(format!("no forecast starts in the test span, {}", data.span)));
        };
        scoring.choose_starts(&inits)?;
        let entrants = ways.iter().map(|way| self.entrant(way, runtime)).collect::<Result<Vec<_>>>()?;
        let mut progress = Progress::new(inits.len(), "initial times");
        let (competitors, _) = scoring.run(entrants, &inits, shown, || progress.advance())?;
        progress.finish();
        let headline = Headline { climatology: None, test_span: data.span.to_string(), notes: Vec::new() };
        summarise(&scoring.comparer, &competitors, &plan.bootstrap, &headline)
    }

    fn entrant(&self, way: &Way, runtime: Option<&OnnxRuntime>) -> Result<Entrant<'static>> {
        let role = if way.name == REFERENCE { Role::Baseline } else { Role::Model };
        let trained = way.trained.clone();
        match (&way.by, runtime) {
            (By::Native(device, int8), _) => {
                let (device, _) = self.measure.open::<f32>(*device)?;
                let native = match int8 {
                    Some(int8) => Native::in_int8(trained.clone(), device, int8)?,
                    None => Native::new(trained.clone(), device)?,
                };
                Ok(Entrant::stepper(way.name.into(), role, NetworkStepper::alone(trained, native)))
            }
            (By::Graph(graph), Some(runtime)) => {
                let threads = Cpu::<f32>::new(self.measure.threads)?.threads();
                let forecaster = OnnxForecaster::new(trained, runtime, graph, Extent::Step, threads)?;
                Ok(Entrant::stepper(way.name.into(), role, forecaster))
            }
            (By::Graph(_), None) => Err(Error::run("ONNX Runtime is gone")),
        }
    }

    fn row(
        &self,
        way: &Way,
        scores: &Scores,
        runtime: Option<&OnnxRuntime>,
        machine: &Machine,
    ) -> Result<Row> {
        let (by, times) = match (&way.by, runtime) {
            (By::Native(device, int8), _) => {
                let (mut device, _) = self.measure.open::<f32>(*device)?;
                let arithmetic = match int8 {
                    Some(int8) => Arithmetic::Int8(int8.weights(&way.trained.architecture)?),
                    None => Arithmetic::Plain,
                };
                let work = export::own(&way.trained, &mut *device, 1, arithmetic)?;
                ("wxsim".to_owned(), Some(export::sorted(&self.measure, work)?))
            }
            (By::Graph(graph), Some(runtime)) if !machine.gpu => {
                let work = export::foreign(&way.trained, runtime, graph, machine.threads, 1)?;
                ("ONNX Runtime".to_owned(), Some(export::sorted(&self.measure, work)?))
            }
            (By::Graph(_), _) => ("ONNX Runtime, cpu".to_owned(), None),
        };
        let layout = &way.trained.info.layout;
        let wanted = self
            .lead
            .iter()
            .flat_map(|lead| layout.quantities.iter().map(move |q| (q.to_string(), lead.hours())));
        let score = |(variable, lead_hours): (String, f64)| {
            let of = |name: &str| {
                scores.find(name, &variable, "rmse", lead_hours, true).and_then(|entry| entry.value)
            };
            let reference = of(REFERENCE);
            let difference = scores.differences.iter().find(|d| {
                d.competitor == way.name
                    && d.quantity == variable
                    && d.metric == "rmse"
                    && d.lead_hours == lead_hours
                    && d.weighted
                    && d.region == WHOLE_GRID
            });
            let change = difference.and_then(|d| Some([d.value?, d.low?, d.high?])).zip(reference);
            let change = change.map(|(parts, reference)| parts.map(|part| 100.0 * part / reference));
            Score { rmse: of(way.name), change, variable, lead_hours }
        };
        let p50 = times.map(|times| times[times.len().div_ceil(2) - 1]);
        Ok(Row { precision: way.name, by, p50, bytes: way.bytes, scores: wanted.map(score).collect() })
    }
}

/// One line per precision; a column for each variable and lead.
fn table(rows: &[Row]) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut head: Vec<String> = ["precision", "by", "p50 [ms]", "size [MB]"].map(String::from).to_vec();
    let of_first = rows.first().map_or(&[][..], |row| &row.scores);
    head.extend(of_first.iter().map(|s| format!("{} {}h", s.variable, s.lead_hours)));
    lines.push(head);
    for row in rows {
        let mut line = vec![row.precision.to_owned(), row.by.clone()];
        line.push(row.p50.map_or("-".into(), |p50| format!("{p50:.2}")));
        line.push(format!("{:.2}", row.bytes as f64 / 1e6));
        line.extend(row.scores.iter().map(|score| match (score.change, score.rmse) {
            (Some([value, low, high]), _) => format!("{value:+.2} [{low:+.2}, {high:+.2}]"),
            (None, Some(rmse)) => format!("{rmse:.4}"),
            (None, None) => "-".into(),
        }));
        lines.push(line);
    }
    let columns = lines[0].len();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        let joined = cells.collect::<Vec<String>>().join("  ");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", joined.trim_end());
    }
    text
}
