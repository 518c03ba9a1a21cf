//! How a training starts, fresh or where its last checkpoint left it.

use std::sync::Arc;

use crate::comm::Communicator;
use crate::device::{ArenaPlan, Device};
use crate::error::{Error, Result};
use crate::io::checkpoint::{self, Card, FORMAT, Tensors};
use crate::io::run_dir::RunDir;
use crate::model::{Architecture, Geometry};
use crate::preprocess::{
    EvaluationWindows, Input, Inputs, Loader, LoaderPlan, Normalizer, Recipe, Share, TrainingView,
    ValidationView,
};
use crate::train::band::Band;
use crate::train::curve::{Curve, CurveLength};
use crate::train::feed::{Feed, Turning};
use crate::train::interrupt::Interrupt;
use crate::train::loss_scale::LossScale;
use crate::train::plan::TrainPlan;
use crate::train::progress::{Progress, StateFile};
use crate::train::ranks::{ParallelPlan, Part, Ranks};
use crate::train::record::Record;
use crate::train::room;
use crate::train::trainer::Trainer;
use crate::train::weights::{Weights, lead_weights};
use crate::train::workspace::Workspace;
use crate::train::{Outcome, Outlook, StageOutlook, Watcher};

/// What is trained, on what, and where it is kept.
pub struct Training<'a> {
    pub plan: &'a TrainPlan,
    pub architecture: &'a Architecture,
    pub training: &'a TrainingView,
    pub validation: &'a ValidationView,
    /// Fitted on the training span.
    pub normalizer: Arc<Normalizer>,
    pub inputs: Arc<Inputs>,
    /// Threads that read ahead.
    pub threads: usize,
    /// A normalised data set up to this size is kept in memory [bytes].
    pub cache_bytes: usize,
    pub run: &'a RunDir,
    pub parallel: ParallelPlan,
    /// Whether gradients would vanish in the precision of the device's activations.
    pub scales_loss: bool,
    /// A checkpoint's arrays, whose averaged weights are the first ones; random ones where there are none.
    pub initial: Option<&'a Tensors>,
    /// Whether to continue at the run's last checkpoint; a run without one starts at the beginning.
    pub resume: bool,
}

/// Trains until the plan is done, the patience at its end, or somebody interrupts. All ranks of the communicator call this
/// with the same training, each with a device of its own.
pub fn train(
    training: &Training<'_>,
    device: &mut dyn Device<f32>,
    communicator: &mut dyn Communicator<f32>,
    interrupt: &Interrupt,
    watcher: &mut dyn Watcher,
) -> Result<Outcome> {
    let Training { plan, normalizer, inputs, run, .. } = training;
    plan.check()?;
    let mut ranks = Ranks::new(communicator, device, training.parallel)?;
    let layout = training.training.layout().clone();
    let described = describe(training)?;
    let resumed = if training.resume { resume(run, &described, &ranks, watcher)? } else { None };
    let begin =
        || Progress { loss_scale: training.scales_loss.then(LossScale::default), ..Progress::default() };
    let progress = resumed.as_ref().map_or_else(begin, |(progress, _)| progress.clone());
    device.choose(progress.choices_of(ranks.communicator.rank()));
    ranks.check_same(progress.step)?;
    let record = if ranks.is_first() {
        let length = resumed.as_ref().map_or_else(CurveLength::default, |(progress, _)| progress.curve);
        let (curve, remarks) = Curve::open(run, length)?;
        remarks.iter().for_each(|remark| watcher.remark(remark));
        let mut fixed_tensors = normalizer.to_tensors();
        fixed_tensors.extend(inputs.to_tensors());
        Some(Record { run, curve, saving: plan.saving, described, fixed_tensors })
    } else {
        None
    };

    let Opened { workspace, feed, weights, stages, bytes } = Opened::new(training, ranks.part(), device)?;
    let windows = windows(training, ranks.share())?;
    if let Some((_, tensors)) = resumed {
        let remark = workspace.read_tensors(device, &mut ranks, &tensors)?;
        remark.iter().filter(|_| ranks.is_first()).for_each(|remark| watcher.remark(remark));
    } else if let Some(tensors) = training.initial {
        workspace.begin_with(device, tensors)?;
    }
    let outlook = Outlook {
        parameters: workspace.parameters(),
        ranks: ranks.communicator.size(),
        memory: bytes,
        updates: stages.iter().map(|s| s.stage.epochs as u64 * s.steps_per_epoch).sum(),
        stages,
        validation_windows: windows.windows(),
        done: progress.step,
    };
    watcher.begins(&outlook);
    let mut trainer = Trainer {
        plan,
        device,
        ranks,
        interrupt,
        watcher,
        run,
        step: training.training.catalogue().step(),
        layout,
        feed,
        windows,
        weights,
        workspace,
        lead_weights: lead_weights(&plan.loss, 1),
        outlook,
        progress,
        record,
        last_inits: Vec::new(),
    };
    let outcome = trainer.run()?;
    trainer.ranks.close(trainer.device)?;
    Ok(outcome)
}

/// What every checkpoint of this training says about it.
fn describe(training: &Training<'_>) -> Result<StateFile> {
    let catalogue = training.training.catalogue();
    let architecture = serde_json::to_value(training.architecture)
        .map_err(|error| Error::run("cannot describe the network").caused_by(error))?;
    Ok(StateFile {
        model: Card {
            format: FORMAT,
            wxsim: env!("CARGO_PKG_VERSION").into(),
            layout: (**training.training.layout()).clone(),
            orientation: catalogue.orientation(),
            step: catalogue.step(),
            architecture,
            inputs: training.inputs.card(),
            normalizer: training.normalizer.card(),
        },
        train: training.plan.clone(),
        data_fingerprint: catalogue.fingerprint().to_owned(),
        progress: Progress::default(),
    })
}

/// Progress and learned numbers of the run's last good checkpoint. All ranks read it; the first one tells, and puts the
/// pointer to the best one right.
fn resume(
    run: &RunDir,
    now: &StateFile,
    ranks: &Ranks<'_, f32>,
    watcher: &mut dyn Watcher,
) -> Result<Option<(Progress, Tensors)>> {
    let latest = checkpoint::latest_complete(&run.checkpoints())?;
    let mut remarks = latest.remarks;
    let mut best = None;
    let mut found = None;
    match latest.checkpoint {
        None => remarks.push("there is no finished checkpoint yet: starting at the beginning".into()),
        Some(checkpoint) => {
            let state = StateFile::read(&checkpoint)?;
            state.check_continues(now)?;
            let mut progress = state.progress;
            best = progress.stopping.best.filter(|best| checkpoint::is_complete(&run.checkpoint(best.step)));
            if let (Some(gone), None) = (progress.stopping.best, best) {
                remarks.push(format!(
                    "the best checkpoint so far, of step {}, is gone: the next validation becomes the best",
                    gone.step
                ));
            }
            progress.stopping.best = best;
            remarks.push(format!("continuing after update {}", progress.step));
            found = Some((progress, checkpoint.tensors));
        }
    }
    if ranks.is_first() {
        remarks.iter().for_each(|remark| watcher.remark(remark));
        match best {
            Some(best) => run.set_best(best.step)?,
            None => run.clear_best()?,
        }
    }
    Ok(found)
}

/// A training's parts on a device, with fresh weights.
pub(super) struct Opened {
    pub workspace: Workspace<f32>,
    pub feed: Feed,
    pub weights: Weights,
    pub stages: Vec<StageOutlook>,
    /// Size of the arena.
    pub bytes: usize,
}

impl Opened {
    /// Of a rank that does a part of the work.
    pub fn new(training: &Training<'_>, part: Part, device: &mut dyn Device<f32>) -> Result<Self> {
        let Training { plan, architecture, normalizer, inputs, .. } = training;
        check_augmentation(plan, architecture)?;
        let layout = training.training.layout();
        let geometry = Geometry::of(layout);
        let Share { number, of } = part.rows;
        let rows = architecture.bands(&geometry, of).map_err(|error| error.context("parallel.domain"))?;
        let units = architecture.check_units(part.units.of);
        units.map_err(|error| error.context("parallel.channel"))?;
        let band = Band::new(rows[number].clone(), layout, inputs.forcing_names().len());
        let geometry = geometry.band(&band.rows);
        let weights = Weights::new(&plan.loss, layout, normalizer.mask())?;
        let beside = device.beside().is_some();
        let share = part.samples;
        let mut loader = loader(training, share, beside)?;
        let stages = stages(plan, &mut loader)?;
        let mut arena = ArenaPlan::default();
        let batch = plan.batch / share.of;
        let shard = training.parallel.shard(part);
        let own = weights.band(&band);
        let workspace = Workspace::plan(&mut arena, plan, architecture, &geometry, &own, batch, shard)?;
        let recipe = loader.is_raw().then(|| Recipe::plan(&mut arena, normalizer.clone(), inputs));
        let turning = plan.augment.rotate.then(|| Turning {
            rows: geometry.rows,
            columns: geometry.columns,
            statics: band.statics(inputs.statics()).into_owned(),
            mask: own.mask.clone(),
        });
        let statics = band.statics(inputs.statics()).into_owned();
        let feed = Feed::plan(&mut arena, loader, recipe, workspace.input(), turning, beside, band);
        let bytes = device.bytes(&arena);
        let of_batch = |batch| {
            let mut arena = ArenaPlan::default();
            Workspace::<f32>::plan(&mut arena, plan, architecture, &geometry, &own, batch, shard)?;
            Ok(device.bytes(&arena))
        };
        // What feeds a step needs little, and is counted as it is.
        let feeding = bytes - of_batch(batch)?;
        let needed = |batch| Ok(of_batch(batch)? + feeding);
        room::check(&device.describe(), device.room(), batch, share.of, needed)?;
        device.allocate(&arena)?;
        workspace.start(&own, plan.seed, device);
        workspace.upload_constants(device, &statics, &normalizer.tendency_scale());
        feed.start(device);
        Ok(Self { workspace, feed, weights, stages, bytes })
    }
}

/// An augmentation that teaches nothing is refused.
fn check_augmentation(plan: &TrainPlan, architecture: &Architecture) -> Result<()> {
    if plan.augment.rotate && architecture.patch == 1 {
        return Err(Error::input(
            "train.augment.rotate: without patches, the network is the same function on a turned globe",
        )
        .hint("leave it out, or set model.patch = 2 or 4"));
    }
    Ok(())
}

fn loader(training: &Training<'_>, share: Share, beside: bool) -> Result<Loader<Input>> {
    let plan = LoaderPlan {
        rotate: training.plan.augment.rotate,
        ..loader_plan(training, share, training.plan.longest_rollout())
    };
    let (normalizer, inputs) = (training.normalizer.clone(), training.inputs.clone());
    Loader::for_device(training.training, normalizer, inputs, &plan, beside)
}

fn loader_plan(training: &Training<'_>, share: Share, lead_steps: usize) -> LoaderPlan {
    LoaderPlan {
        input_frames: training.architecture.input_frames,
        lead_steps,
        batch: training.plan.batch,
        share,
        seed: training.plan.seed,
        threads: training.threads,
        memory: training.cache_bytes,
        rotate: false,
    }
}

fn windows(training: &Training<'_>, share: Share) -> Result<EvaluationWindows> {
    let plan = loader_plan(training, share, training.plan.validation.leads);
    let (normalizer, inputs) = (&training.normalizer, &training.inputs);
    let windows = EvaluationWindows::new(training.validation, normalizer.clone(), inputs.clone(), &plan)?;
    if windows.windows() == 0 {
        return Err(Error::input(format!(
            "the validation span holds no forecast of {} steps",
            training.plan.validation.leads
        ))
        .hint("lengthen split.validation, or shorten train.validation_leads"));
    }
    Ok(windows)
}

/// Updates in the epochs of each stage.
fn stages(plan: &TrainPlan, loader: &mut Loader<Input>) -> Result<Vec<StageOutlook>> {
    let mut stages = Vec::new();
    for stage in &plan.curriculum {
        loader.set_lead_steps(stage.leads)?;
        let batches = loader.batches_per_epoch();
        // What is left over at the end of an epoch is not enough for an update.
        let steps_per_epoch = batches / plan.accumulate as u64;
        if steps_per_epoch == 0 {
            return Err(Error::input(format!(
                "the training span gives {batches} batches of {} windows with {} leads; one update needs {}",
                plan.batch, stage.leads, plan.accumulate
            ))
            .hint("lengthen split.train, or lower train.batch or train.accumulate"));
        }
        stages.push(StageOutlook { stage: *stage, steps_per_epoch });
    }
    Ok(stages)
}
