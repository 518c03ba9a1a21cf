//! `wxsim train`: from a configuration to a run folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::comm::{self, Communicator, Meeting, Pace, Place};
use crate::commands::devices::{Opened, PreciseDeviceArgs, Precision};
use crate::commands::fine_tuning::{self, Origin};
use crate::commands::ranks::RankArgs;
use crate::commands::training_log::{OtherRank, TrainingLog};
use crate::config::model::Channels;
use crate::config::{Config, ForecastConfig, Overrides};
use crate::device::ArenaPlan;
use crate::error::{Error, Result};
use crate::io::atomic::write_whole;
use crate::io::checkpoint::{Card, Checkpoint, latest_complete};
use crate::io::run_dir::RunDir;
use crate::preprocess::{Catalogue, Distribution, Inputs, Normalizer, TrainingView};
use crate::train::{Ending, Interrupt, Outcome, Training, Watcher, train};

/// Train a network as a configuration says.
///
/// The run folder holds the resolved configuration, the curve (metrics.jsonl and TensorBoard events) and checkpoints.
/// Ctrl-C and SIGTERM finish the update, save, and say how to continue.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration, a TOML file
    config: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// Continue the run at its last checkpoint, bit for bit
    #[arg(long)]
    resume: bool,
    /// Start from the weights of this run or checkpoint, with its normaliser, instead of random ones
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
    /// Folder of the run [default: runs/ and the name of the configuration]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    #[command(flatten)]
    device: PreciseDeviceArgs,
    #[command(flatten)]
    ranks: RankArgs,
    /// Threads of the processor, for all ranks together [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// `run.json`: what it takes to run this again.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    wxsim: String,
    /// `None` when it was not built from a clone.
    commit: Option<String>,
    /// Of the first rank.
    device: String,
    #[serde(default = "one")]
    ranks: usize,
    /// Results are equal bit for bit only with the same ones.
    instructions: String,
    hdf5: String,
    data_fingerprint: String,
    command: Vec<String>,
}

/// Runs of old trained on one device.
fn one() -> usize {
    1
}

pub fn run(args: &Args) -> Result<()> {
    comm::heed_environment();
    let config = Config::load(&args.config, &args.overrides)?;
    let limit = config.parallel.limit()?;
    match comm::place()? {
        None => run_among(args, &config, limit, None),
        Some(place) => {
            eprintln!(
                "rank {} of {}, says {}; meeting at {}",
                place.rank, place.size, place.by, place.address
            );
            comm::run_one(comm::join(&place, limit)?, |meeting| {
                run_among(args, &config, limit, Some((&place, meeting)))
            })
        }
    }
}

/// One process, whose ranks are all there are, or that is one of those that meet.
fn run_among(
    args: &Args,
    config: &Config,
    limit: Duration,
    among: Option<(&Place, Box<dyn Meeting>)>,
) -> Result<()> {
    let place = among.as_ref().map(|(place, _)| *place);
    let is_first = place.is_none_or(|place| place.rank == 0);
    // The first rank speaks for all.
    let say = |sentence: String| {
        if is_first {
            eprintln!("{sentence}");
        }
    };
    let mut plan = config.train.plan(&config.loss)?;
    let data = config.data.plan()?;
    // What forecasting and scoring would refuse is refused before hours of training, not after.
    let parallel = config.parallel.plan()?;
    config.verify.plan()?;
    config.forecast.check()?;
    if config.forecast != ForecastConfig::default() {
        config.forecast.lead.steps_of(data.step).map_err(|error| error.context("forecast.lead"))?;
    }
    let folder = args.run_folder();
    let run = match (is_first, args.resume) {
        (false, _) => RunDir::follow(&folder),
        (true, true) => RunDir::resume(&folder)?,
        (true, false) => RunDir::create(&folder)?,
    };
    let resolved = config.to_toml()?;
    say(resolved.clone());

    let mut ranks = args.ranks.open(args.device, args.threads.map(usize::from), place)?;
    let size = place.map_or(ranks.len(), |place| place.size);
    let catalogue = Catalogue::build(&data)?;
    catalogue.notes().iter().for_each(|note| say(format!("note: {note}")));
    if let Some(sentence) = catalogue.awkward() {
        say(format!("note: {sentence}"));
        say(format!("note: rewrite these files once, and train from the copy: {}", args.prepare_command()));
    }
    let (training, validation) = (catalogue.training()?, catalogue.validation()?);
    say(format!("run: {}", folder.display()));
    let together = if size == 1 { String::new() } else { format!("{size} x ") };
    say(format!("device: {together}{}", ranks[0].device.describe()));
    let labels: Vec<String> = catalogue.layout().quantities.iter().map(ToString::to_string).collect();
    say(format!("data: {} on {}", labels.join(", "), catalogue.layout().grid.describe()));
    say(format!("train: {}; validation: {}", training.span(), validation.span()));

    let inputs = Arc::new(Inputs::new(catalogue.layout().clone(), &config.input.inputs(&config.data)?)?);
    let architecture = config.model.architecture(Channels {
        prognostic: catalogue.layout().channels(),
        statics: inputs.static_names().len(),
        forcings: inputs.forcing_names().len(),
    })?;
    let description = Description::new(&ranks[0], size, catalogue.fingerprint());
    let stored = if args.resume { run.config_toml()? } else { None };
    if let Some(stored) = &stored {
        check_resumes(stored, config, &run, &description)?;
    }
    let continued = if args.resume { latest_complete(&run.checkpoints())?.checkpoint } else { None };
    let origin = match &args.from {
        Some(from) if continued.is_none() => Some(Origin::open(from)?),
        _ => None,
    };
    let normalizer = match &origin {
        Some(origin) => {
            origin.check(&inputs, data.step)?;
            origin.normalizer(training.layout())?
        }
        None => normalizer(config, continued.as_ref(), &training)?,
    };
    let normalizer = Arc::new(normalizer);
    plan.quantise = fine_tuning::ranges(config, args.from.as_deref(), continued.as_ref(), &architecture)?;
    // Only what could be trained is called a run.
    if is_first && stored.is_none() {
        let json = serde_json::to_string_pretty(&description)
            .map_err(|error| Error::run("cannot describe the run").caused_by(error))?;
        run.describe(&resolved, &json)?;
        // What later analyses are held against: see `wxsim serve`.
        keep_distribution(&run, &training, &normalizer)?;
    }
    let job = Training {
        plan: &plan,
        architecture: &architecture,
        training: &training,
        validation: &validation,
        normalizer,
        inputs,
        threads: ranks[0].threads.div_ceil(2),
        cache_bytes: (config.train.cache_mebibytes << 20) / ranks.len(),
        run: &run,
        parallel,
        scales_loss: args.device.precision == Precision::Fp16,
        initial: origin.as_ref().map(|origin| &origin.checkpoint.tensors),
        resume: args.resume,
    };
    // From here on there is something to save.
    let interrupt = Interrupt::on_signals()?;
    let work = |mut opened: Opened<f32>, meeting: Box<dyn Meeting>| {
        let rank = meeting.rank();
        let mesh = [parallel.domain, parallel.channel];
        let (mut communicator, placed) = args.ranks.communicator(&mut opened, meeting, mesh, limit)?;
        if communicator.size() > 1 && opened.gpu {
            let pace = pace(&mut opened, &mut *communicator)?;
            placed.iter().for_each(|line| eprintln!("{line}"));
            if rank == 0 {
                eprintln!("gradients are added up at {:.1} GB/s", pace.rate / 1e9);
            }
        }
        let resume = args.resume_command(&folder);
        let mut watcher: Box<dyn Watcher> = if rank == 0 {
            Box::new(TrainingLog::new(resume, opened.monitor.take()))
        } else {
            Box::new(OtherRank::new(rank, resume))
        };
        let outcome = train(&job, &mut *opened.device, &mut *communicator, &interrupt, &mut *watcher)?;
        communicator.close()?;
        Ok(outcome)
    };
    let outcome = match among {
        None => comm::run(ranks, limit, work)?.into_iter().next(),
        Some((_, meeting)) => ranks.pop().map(|opened| work(opened, meeting)).transpose()?,
    };
    if let Some(outcome) = outcome.filter(|_| is_first) {
        tell(&outcome, &folder);
    }
    Ok(())
}

/// How fast the GPUs of all ranks add up 64 MiB.
fn pace(opened: &mut Opened<f32>, communicator: &mut dyn Communicator<f32>) -> Result<Pace> {
    let mut plan = ArenaPlan::default();
    let slot = plan.slot(16 << 20);
    opened.device.allocate(&plan)?;
    comm::all_reduce_pace(communicator, &mut *opened.device, slot, 5)
}

impl Args {
    fn run_folder(&self) -> PathBuf {
        let name = || Path::new("runs").join(self.config.file_stem().unwrap_or("run".as_ref()));
        self.run.clone().unwrap_or_else(name)
    }

    /// What rewrites files that are slow to read, and a configuration for the copy.
    fn prepare_command(&self) -> String {
        let mut command = format!("wxsim prepare {}", quoted(&self.config.to_string_lossy()));
        for setting in &self.overrides.set {
            command.push_str(&format!(" --set {}", quoted(setting)));
        }
        let folder = Path::new("prepared").join(self.config.file_stem().unwrap_or("data".as_ref()));
        command.push_str(&format!(" --out {}", quoted(&folder.to_string_lossy())));
        command
    }

    /// What continues this training.
    fn resume_command(&self, folder: &Path) -> String {
        let mut command = format!("wxsim train {} --resume", quoted(&self.config.to_string_lossy()));
        for setting in &self.overrides.set {
            command.push_str(&format!(" --set {}", quoted(setting)));
        }
        if let Some(from) = &self.from {
            command.push_str(&format!(" --from {}", quoted(&from.to_string_lossy())));
        }
        if self.run.is_some() {
            command.push_str(&format!(" --run {}", quoted(&folder.to_string_lossy())));
        }
        command.push_str(&self.device.flags());
        command.push_str(&self.ranks.flags());
        command
    }
}

impl Description {
    fn new(opened: &Opened<f32>, ranks: usize, data_fingerprint: &str) -> Self {
        let (major, minor, release) = hdf5::library_version();
        Self {
            wxsim: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("WXSIM_COMMIT").map(str::to_owned),
            device: opened.device.describe(),
            ranks,
            instructions: opened.instructions.clone(),
            hdf5: format!("{major}.{minor}.{release}"),
            data_fingerprint: data_fingerprint.to_owned(),
            command: std::env::args().collect(),
        }
    }

    /// Which parts that decide about bits have changed since `before`.
    fn changes(&self, before: &Description) -> Vec<String> {
        let commit = |description: &Description| description.commit.clone().unwrap_or_default();
        [
            ("version", before.wxsim.clone(), self.wxsim.clone()),
            ("commit", commit(before), commit(self)),
            ("instruction set", before.instructions.clone(), self.instructions.clone()),
            ("number of ranks", before.ranks.to_string(), self.ranks.to_string()),
        ]
        .into_iter()
        .filter(|(_, before, now)| before != now)
        .map(|(what, before, now)| format!("the {what} was {before} and is {now}"))
        .collect()
    }
}

/// Refuses to resume with other settings, and warns where the bits may differ for another reason.
fn check_resumes(stored: &str, config: &Config, run: &RunDir, now: &Description) -> Result<()> {
    let before = Config::from_text(stored, &Overrides::default())
        .map_err(|error| error.context(run.path("config.toml").display().to_string()))?;
    let differs = [
        ("data", before.data != config.data),
        ("input", before.input != config.input),
        ("model", before.model != config.model),
        ("train", before.train != config.train),
        ("loss", before.loss != config.loss),
    ];
    if let Some((table, _)) = differs.into_iter().find(|(_, differs)| *differs) {
        return Err(Error::input(format!(
            "the table [{table}] is not the one that the run {} was started with",
            run.root().display()
        ))
        .hint(format!(
            "resume with {}, or start another run with --run",
            run.path("config.toml").display()
        )));
    }
    // A run.json that does not read only costs the warning.
    let before = std::fs::read_to_string(run.path("run.json")).ok();
    let before = before.and_then(|text| serde_json::from_str::<Description>(&text).ok());
    for change in before.iter().flat_map(|before| now.changes(before)) {
        eprintln!("warning: {change}: the curve may not continue bit for bit");
    }
    Ok(())
}

/// The normaliser of the run's last checkpoint, or one learned from the training span.
fn normalizer(config: &Config, last: Option<&Checkpoint>, training: &TrainingView) -> Result<Normalizer> {
    match last {
        Some(checkpoint) => {
            let card = Card::read(checkpoint)?;
            Normalizer::from_tensors(training.layout().clone(), &card.normalizer, &checkpoint.tensors)
        }
        None => {
            eprintln!("learning means, deviations and climatology from {}", training.span());
            Normalizer::fit(training, &config.input.normalizer()?)
        }
    }
}

fn keep_distribution(run: &RunDir, training: &TrainingView, normalizer: &Normalizer) -> Result<()> {
    let distribution = Distribution::fit(training, normalizer)?;
    write_whole(&run.path(Distribution::FILE), |out| {
        serde_json::to_writer(out, &distribution)
            .map_err(|error| Error::run("the distribution of the training data").caused_by(error))
    })
}

fn tell(outcome: &Outcome, folder: &Path) {
    let how = match outcome.ending {
        Ending::Complete => "all epochs are done",
        Ending::Early => "ended early: the validation score stood still",
    };
    eprintln!("{how}, after {} updates", outcome.steps);
    if let Some(best) = outcome.best {
        eprintln!("best: score {:.4} after epoch {} (step {})", best.score, best.epoch, best.step);
    }
    eprintln!(
        "forecast with: wxsim forecast --model {} --init FILE... --lead 3d --out DIR",
        folder.display()
    );
}

/// As a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::devices::{Choice, Precision};

    #[test]
    fn the_command_that_resumes_repeats_settings_and_run() {
        let args = Args {
            config: "configs/my europe.toml".into(),
            overrides: Overrides { set: vec!["train.rollout=[[1, 2]]".into()] },
            resume: false,
            from: Some("runs/europe".into()),
            run: None,
            device: PreciseDeviceArgs { device: Choice::Cuda(1), precision: Precision::Bf16 },
            ranks: RankArgs { gpus: Some(2), ranks: None },
            threads: None,
        };
        assert_eq!(args.run_folder(), Path::new("runs/my europe"));
        assert_eq!(
            args.resume_command(&args.run_folder()),
            "wxsim train 'configs/my europe.toml' --resume --set 'train.rollout=[[1, 2]]' --from runs/europe \
             --device cuda:1 --precision bf16 --gpus 2"
        );
    }
}
