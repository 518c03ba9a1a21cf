//! Normalised batches, prepared ahead of the training step.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::effort::Effort;
use super::frames::Frames;
use super::inputs::Inputs;
use super::normalizer::Normalizer;
use super::prefetch::{Make, Prefetch};
use super::raw::RawBatch;
use super::view::{TrainingView, View};
use super::windows;
use crate::error::{Error, Result};
use crate::time::{InitTime, ValidTime};

/// How to cut windows and batches.
#[derive(Debug, Clone, PartialEq)]
pub struct LoaderPlan {
    /// Analyses that a forecast starts from.
    pub input_frames: usize,
    pub lead_steps: usize,
    /// Windows in a batch.
    pub batch: usize,
    /// Which of these windows are prepared.
    pub share: Share,
    pub seed: u64,
    /// Background threads; 0: each batch is prepared when it is asked for.
    pub threads: usize,
    /// A normalised data set up to this size is kept in memory [bytes].
    pub memory: usize,
    /// Whether the globe is turned by another angle for each batch: fields, forcings and mask, and whoever uses the
    /// batch turns the static fields with them. The planet is then the same, only counted from another meridian.
    pub rotate: bool,
}

/// Part `number` of `of` equal parts: what one of several that work on the same batches looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub number: usize,
    pub of: usize,
}

impl Share {
    pub const ALL: Self = Self { number: 0, of: 1 };
}

impl LoaderPlan {
    /// Windows of a batch that are prepared.
    fn own(&self) -> usize {
        self.batch / self.share.of
    }
}

/// Windows of `input_frames + lead_steps` normalised frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// `[frame, batch, lat, lon, channel]`
    pub frames: Vec<f32>,
    /// `[frame - 1, batch, lat, lon, forcing]`: entry `i` belongs to the step from frame `i` to frame `i + 1`.
    pub forcings: Vec<f32>,
    /// `[lat, lon, channel]`: 0 where a quantity is always missing; `None` when nothing is.
    pub mask: Option<Arc<[f32]>>,
    /// Valid time of the last input frame of each window.
    pub init: Vec<InitTime>,
    /// By how many columns all of it is turned: column i is column `i + turn` of the grid.
    pub turn: u32,
    /// How many windows count; the rest repeat the last one to fill the batch (only in evaluation).
    pub samples: usize,
}

/// A batch for a training on any device.
pub enum Input {
    Ready(Batch),
    Raw(RawBatch),
}

impl Input {
    /// Valid time of the last input frame of each window.
    pub fn init(&self) -> &[InitTime] {
        match self {
            Self::Ready(batch) => &batch.init,
            Self::Raw(raw) => &raw.init,
        }
    }

    /// By how many columns the globe is turned.
    pub fn turn(&self) -> u32 {
        match self {
            Self::Ready(batch) => batch.turn,
            Self::Raw(raw) => raw.turn,
        }
    }
}

/// Where a loader stands: the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position {
    pub epoch: u64,
    pub batch: u64,
}

/// Endless shuffled batches of the training span. Windows never leave it and never cross a gap. The last windows of an
/// epoch that do not fill a batch are left out; each epoch leaves out others.
pub struct Loader<B = Batch> {
    plan: LoaderPlan,
    frames: Arc<Frames>,
    starts: Vec<ValidTime>,
    /// The batch that is given next.
    position: Position,
    /// The batch that is asked for next.
    ahead: Position,
    /// The order of the epoch `ahead`.
    order: Option<(u64, Vec<u32>)>,
    prefetch: Prefetch<B>,
    is_raw: bool,
}

impl Loader<Batch> {
    pub fn new(
        training: &TrainingView,
        normalizer: Arc<Normalizer>,
        inputs: Arc<Inputs>,
        plan: &LoaderPlan,
    ) -> Result<Self> {
        let frames = Arc::new(Frames::new(training.view(), normalizer, inputs, plan.memory)?);
        let maker = frames.clone();
        Self::of(frames, plan, Arc::new(move |request| maker.batch(request)))
    }
}

impl Loader<Input> {
    /// Batches that the processor has prepared; with `raw` that the device decodes, where the data allow it.
    pub fn for_device(
        training: &TrainingView,
        normalizer: Arc<Normalizer>,
        inputs: Arc<Inputs>,
        plan: &LoaderPlan,
        raw: bool,
    ) -> Result<Self> {
        let frames = Arc::new(Frames::new(training.view(), normalizer, inputs, plan.memory)?);
        let (maker, raw) = (frames.clone(), raw && frames.can_be_raw());
        let make = move |request: &Request| match raw {
            true => maker.raw(request).map(Input::Raw),
            false => maker.batch(request).map(Input::Ready),
        };
        Ok(Self { is_raw: raw, ..Self::of(frames, plan, Arc::new(make))? })
    }

    /// Whether the device decodes its batches.
    pub fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// The same batch, prepared by the processor: to find what is wrong with it.
    pub fn prepared(&self, input: &Input) -> Result<Batch> {
        match input {
            Input::Ready(batch) => Ok(batch.clone()),
            Input::Raw(raw) => self.frames.batch(&raw.request),
        }
    }
}

impl<B: Send + 'static> Loader<B> {
    fn of(frames: Arc<Frames>, plan: &LoaderPlan, make: Make<B>) -> Result<Self> {
        if plan.rotate && !frames.grid().is_periodic() {
            return Err(Error::input("train.augment.rotate: the grid does not go around the globe")
                .hint("leave it out, or train on a global grid"));
        }
        let mut loader = Self {
            plan: plan.clone(),
            prefetch: Prefetch::new(make, plan.threads)?,
            frames,
            starts: Vec::new(),
            position: Position::default(),
            ahead: Position::default(),
            order: None,
            is_raw: false,
        };
        loader.cut()?;
        Ok(loader)
    }

    /// What preparing batches has cost so far.
    pub fn effort(&self) -> Effort {
        self.frames.effort()
    }

    /// Windows in all.
    pub fn windows(&self) -> usize {
        self.starts.len()
    }

    pub fn batches_per_epoch(&self) -> u64 {
        (self.starts.len() / self.plan.batch) as u64
    }

    /// The batch that [`next`](Iterator::next) gives.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Continues there.
    pub fn seek(&mut self, position: Position) {
        self.prefetch.clear();
        self.position = self.wrapped(position);
        self.ahead = self.position;
    }

    pub fn lead_steps(&self) -> usize {
        self.plan.lead_steps
    }

    /// Changes the length of the rollout (a curriculum). The position stays, unless the epoch has fewer batches now:
    /// then the next one starts.
    pub fn set_lead_steps(&mut self, lead_steps: usize) -> Result<()> {
        if lead_steps != self.plan.lead_steps {
            self.plan.lead_steps = lead_steps;
            self.cut()?;
        }
        Ok(())
    }

    fn cut(&mut self) -> Result<()> {
        let length = check(&self.plan)?;
        self.starts = windows::starts(self.frames.times(), length, self.frames.step());
        if self.starts.len() < self.plan.batch {
            return Err(Error::input(format!(
                "split.train holds {} windows of {length} dates without gaps, a batch needs {}",
                self.starts.len(),
                self.plan.batch
            ))
            .hint("use a smaller batch, fewer lead steps, or a longer training span"));
        }
        self.order = None;
        self.seek(self.position);
        Ok(())
    }

    fn wrapped(&self, position: Position) -> Position {
        if position.batch < self.batches_per_epoch() {
            position
        } else {
            Position { epoch: position.epoch + 1, batch: 0 }
        }
    }

    fn after(&self, position: Position) -> Position {
        self.wrapped(Position { batch: position.batch + 1, ..position })
    }

    /// The batch `ahead`.
    fn ask(&mut self) -> Request {
        let Position { epoch, batch } = self.ahead;
        let order = match self.order.take() {
            Some((known, order)) if known == epoch => order,
            _ => windows::shuffled(self.starts.len(), self.plan.seed, epoch),
        };
        let from = batch as usize * self.plan.batch + self.plan.share.number * self.plan.own();
        let chosen = order[from..from + self.plan.own()].iter().map(|&i| self.starts[i as usize]).collect();
        self.order = Some((epoch, order));
        let columns = self.frames.grid().columns();
        let turn = if self.plan.rotate { windows::turn(columns, self.plan.seed, epoch, batch) } else { 0 };
        Request { turn, ..Request::new(&self.plan, chosen) }
    }
}

impl<B: Send + 'static> Iterator for Loader<B> {
    type Item = Result<B>;

    fn next(&mut self) -> Option<Result<B>> {
        while self.prefetch.has_room() {
            let request = self.ask();
            self.prefetch.ask(request);
            self.ahead = self.after(self.ahead);
        }
        self.position = self.after(self.position);
        self.prefetch.take()
    }
}

/// Every window of a view once, in order; with a share, each of its batches is that of another one in turn. Forecasts start
/// and end inside the view; input frames may lie before it.
pub struct EvaluationWindows {
    plan: LoaderPlan,
    /// Of the share's windows.
    starts: Vec<ValidTime>,
    /// Windows of all shares.
    all: usize,
    /// The window that is asked for next.
    ahead: usize,
    prefetch: Prefetch<Batch>,
}

impl EvaluationWindows {
    pub fn new(
        view: &View,
        normalizer: Arc<Normalizer>,
        inputs: Arc<Inputs>,
        plan: &LoaderPlan,
    ) -> Result<Self> {
        let length = check(plan)?;
        let step = view.catalogue().step();
        let frames = Arc::new(Frames::new(
            &view.with_history(plan.input_frames - 1),
            normalizer,
            inputs,
            plan.memory,
        )?);
        let mut starts = windows::starts(frames.times(), length, step);
        starts.retain(|start| view.span().contains(start.after(step.times(plan.input_frames - 1))));
        if starts.is_empty() {
            return Err(Error::input(format!(
                "{} ({}) holds no window of {length} dates without gaps",
                view.name(),
                view.span()
            ))
            .hint("use fewer lead steps or a longer span"));
        }
        let all = starts.len();
        let own = starts.chunks(plan.own()).skip(plan.share.number).step_by(plan.share.of);
        let starts = own.flatten().copied().collect();
        let prefetch = Prefetch::new(Arc::new(move |request| frames.batch(request)), plan.threads)?;
        Ok(Self { plan: plan.clone(), starts, all, ahead: 0, prefetch })
    }

    /// Windows in all, those of other shares too.
    pub fn windows(&self) -> usize {
        self.all
    }

    /// Batches of the share that has most of them.
    pub fn most_batches(&self) -> usize {
        self.all.div_ceil(self.plan.own()).div_ceil(self.plan.share.of)
    }

    /// Starts again at the first window.
    pub fn rewind(&mut self) {
        self.prefetch.clear();
        self.ahead = 0;
    }
}

impl Iterator for EvaluationWindows {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        while self.ahead < self.starts.len() && self.prefetch.has_room() {
            let until = (self.ahead + self.plan.own()).min(self.starts.len());
            let starts = self.starts[self.ahead..until].to_vec();
            self.prefetch.ask(Request::new(&self.plan, starts));
            self.ahead = until;
        }
        self.prefetch.take()
    }
}

/// A batch to prepare.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// First dates of its windows; fewer than `batch` are filled up with the last.
    pub starts: Vec<ValidTime>,
    pub batch: usize,
    pub input_frames: usize,
    pub length: usize,
    /// By how many columns the globe is turned.
    pub turn: u32,
}

impl Request {
    fn new(plan: &LoaderPlan, starts: Vec<ValidTime>) -> Self {
        let length = plan.input_frames + plan.lead_steps;
        Self { starts, batch: plan.own(), input_frames: plan.input_frames, length, turn: 0 }
    }
}

/// The dates of a window.
fn check(plan: &LoaderPlan) -> Result<usize> {
    if plan.input_frames == 0 || plan.lead_steps == 0 || plan.batch == 0 {
        return Err(Error::input(format!(
            "a batch of {} windows of {} input frames and {} steps is empty",
            plan.batch, plan.input_frames, plan.lead_steps
        )));
    }
    if plan.share.of == 0 || !plan.batch.is_multiple_of(plan.share.of) {
        return Err(Error::input(format!(
            "{} ranks cannot share a batch of {} windows equally",
            plan.share.of, plan.batch
        ))
        .hint("train.batch counts the windows of all ranks: choose a multiple of their number"));
    }
    Ok(plan.input_frames + plan.lead_steps)
}
