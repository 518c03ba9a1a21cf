//! `wxsim doctor`: what this machine has, what would be used, and whether it computes rightly.

use serde::Serialize;

use crate::commands::devices::{Choice, Opened, PreciseDeviceArgs, Precision as Computed};
use crate::commands::output::print_line;
use crate::device::Device;
use crate::device::check::{Checked, Outcome, Precision, check};
use crate::device::cpu::Cpu;
use crate::device::cuda::{self, Library};
use crate::error::{Error, Result, chain};
use crate::export::OnnxRuntime;

/// Tell what this machine has to compute with: devices, libraries, what would be used, what to install.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do every operation on the processor in double precision and on the device, and print the worst error of each
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    device: PreciseDeviceArgs,
    /// Print JSON: one object a line
    #[arg(long)]
    json: bool,
}

/// A line of the report.
#[derive(Serialize)]
struct Finding {
    what: String,
    found: bool,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

/// A line of the check.
#[derive(Serialize)]
struct Checkup<'a> {
    device: &'a str,
    operation: &'a str,
    error: f64,
    tolerance: f64,
    passed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<&'a str>,
}

pub fn run(args: &Args) -> Result<()> {
    for finding in findings(args.device)? {
        args.print(&finding, || finding.sentence())?;
    }
    if args.check { args.check() } else { Ok(()) }
}

fn findings(args: PreciseDeviceArgs) -> Result<Vec<Finding>> {
    let mut findings = vec![Finding::good("processor", Cpu::<f32>::new(None)?.describe())];
    for library in Library::ALL {
        findings.push(match cuda::installed(library) {
            Ok(found) => {
                Finding::good(library.name(), format!("{}, {}", found.version, found.path.display()))
            }
            Err(error) => Finding::bad(library.name(), &error),
        });
    }
    match cuda::cards() {
        Err(error) => findings.push(Finding::bad("GPU", &error)),
        Ok(cards) if cards.is_empty() => findings.push(Finding::bad("GPU", &Error::run("there is none"))),
        Ok(cards) => findings.extend(cards.into_iter().map(|card| match card {
            Err(error) => Finding::bad("GPU", &error),
            Ok(card) => Finding::good(
                "GPU",
                format!(
                    "cuda:{} {}, {} MiB of which {} are free, kernels for {}",
                    card.ordinal, card.name, card.memory, card.free, card.architecture
                ),
            ),
        })),
    }
    findings.push(match OnnxRuntime::open() {
        Ok(runtime) => Finding::good("ONNX Runtime", runtime.path.display().to_string()),
        Err(error) => Finding::bad("ONNX Runtime", &error),
    });
    if let Some(folder) = cuda::cache_folder() {
        findings.push(Finding::good("compiled kernels", folder.display().to_string()));
    }
    findings.push(match Opened::<f32>::new(args, None) {
        Ok(opened) => Finding::good("would be used", opened.device.describe()),
        Err(error) => Finding::bad("would be used", &error),
    });
    Ok(findings)
}

impl Finding {
    fn good(what: &str, text: String) -> Self {
        Self { what: what.into(), found: true, text, remedy: None }
    }

    fn bad(what: &str, error: &Error) -> Self {
        let remedy = error.advice().map(str::to_owned);
        Self { what: what.into(), found: false, text: chain(error), remedy }
    }

    fn sentence(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!("\n{:18}-> {remedy}", "")).unwrap_or_default();
        format!("{:18}{}{remedy}", self.what, self.text)
    }
}

impl Args {
    fn print(&self, row: &impl Serialize, sentence: impl FnOnce() -> String) -> Result<()> {
        if !self.json {
            return print_line(&sentence());
        }
        let json = serde_json::to_string(row)
            .map_err(|error| Error::run("a finding cannot be printed").caused_by(error))?;
        print_line(&json)
    }

    fn check(&self) -> Result<()> {
        let oracle = &mut Cpu::<f64>::new(None)?;
        let open = |precision| Opened::<f32>::new(PreciseDeviceArgs { precision, ..self.device }, None);
        let mut failed = self.check_one(oracle, &mut open(Computed::Fp32)?, Precision::SINGLE)?;
        if self.device.device != Choice::Cpu {
            failed +=
                self.check_one(oracle, &mut Opened::<f64>::new(self.device, None)?, Precision::DOUBLE)?;
            failed += self.check_one(oracle, &mut open(Computed::Tf32)?, Precision::TF32)?;
            failed += self.check_one(oracle, &mut open(Computed::Bf16)?, Precision::BF16)?;
            failed += self.check_one(oracle, &mut open(Computed::Fp16)?, Precision::FP16)?;
        }
        if failed > 0 {
            return Err(Error::run(format!("{failed} operations are wrong by more than rounding explains"))
                .hint("use --device cpu, and report this output"));
        }
        Ok(())
    }

    /// The number of operations that failed.
    fn check_one<T: Checked>(
        &self,
        oracle: &mut Cpu<f64>,
        opened: &mut Opened<T>,
        precision: Precision,
    ) -> Result<usize> {
        let device = opened.device.describe();
        if !self.json {
            print_line(&format!("\n{device}"))?;
        }
        let outcomes = check(oracle, &mut *opened.device, precision);
        for outcome in &outcomes {
            let row = Checkup {
                device: &device,
                operation: outcome.operation,
                error: outcome.error,
                tolerance: outcome.tolerance,
                passed: outcome.passed(),
                failure: outcome.failure.as_deref(),
            };
            self.print(&row, || line(outcome))?;
        }
        Ok(outcomes.iter().filter(|outcome| !outcome.passed()).count())
    }
}

fn line(outcome: &Outcome) -> String {
    let Outcome { operation, error, tolerance, failure } = outcome;
    match failure {
        Some(failure) => format!("{operation:26} FAILED: {failure}"),
        None => {
            let verdict = if outcome.passed() { "ok" } else { "WRONG" };
            format!("{operation:26} error {error:8.1e} of {tolerance:8.1e} allowed   {verdict}")
        }
    }
}
