//! The part of a catalogue that a purpose may read.

use std::sync::Arc;

use super::catalogue::Catalogue;
use super::plan::Span;
use super::state_reader::RawField;
use crate::climatology::{Climatology, ClimatologyFit, ClimatologyKind};
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::time::ValidTime;

/// States that are read together where all of them are: up to this size [bytes], and this many.
const BLOCK_BYTES: usize = 64 << 20;
const MOST_BLOCK: usize = 100;

/// The training span and nothing else: what is learned from data is learned through this.
#[derive(Clone)]
pub struct TrainingView(View);

/// The validation span: what settings and the end of a training are chosen by. A training takes this and a
/// [`TrainingView`], so that the test span cannot reach it.
#[derive(Clone)]
pub struct ValidationView(pub(super) View);

/// A span of a catalogue. Its forecasts start and end inside; a view for evaluation may read input frames before it,
/// nothing may read past its end.
#[derive(Clone)]
pub struct View {
    catalogue: Arc<Catalogue>,
    /// `split.train`, ... : for errors.
    name: &'static str,
    span: Span,
    /// The first date that may be read.
    earliest: ValidTime,
}

impl View {
    /// For training: strictly inside.
    pub(super) fn strict(catalogue: Arc<Catalogue>, name: &'static str, span: Span) -> TrainingView {
        TrainingView(Self { catalogue, name, span, earliest: span.start })
    }

    /// For evaluation: input frames may lie before the span.
    pub(super) fn evaluation(catalogue: Arc<Catalogue>, name: &'static str, span: Span) -> Self {
        let earliest = ValidTime::new(i64::MIN, span.start.calendar);
        Self { catalogue, name, span, earliest }
    }

    pub fn span(&self) -> Span {
        self.span
    }

    pub fn layout(&self) -> &Arc<Layout> {
        self.catalogue.layout()
    }

    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// The dates of the span that the files hold whole, in order.
    pub fn times(&self) -> &[ValidTime] {
        self.between(self.span.start)
    }

    /// `split.train`, `split.validation`, ...
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether this view may see a date.
    pub fn may_read(&self, valid: ValidTime) -> bool {
        valid < self.span.end && valid >= self.earliest
    }

    /// The dates that this view may see and the files hold whole, in order.
    pub(super) fn visible_times(&self) -> &[ValidTime] {
        self.between(self.earliest)
    }

    /// This view with at most `steps` of what lies before it.
    pub(super) fn with_history(&self, steps: usize) -> Self {
        let before = self.catalogue.step().times(steps).seconds;
        let start = ValidTime::new(self.span.start.seconds - before, self.span.start.calendar);
        Self { earliest: self.earliest.max(start), ..self.clone() }
    }

    fn between(&self, start: ValidTime) -> &[ValidTime] {
        let times = self.catalogue.times();
        let from = times.partition_point(|t| *t < start);
        let until = times.partition_point(|t| *t < self.span.end);
        &times[from..until.max(from)]
    }

    /// Reads a state as the files hold it; an error for a date that this view may not see.
    pub fn read(&self, valid: ValidTime) -> Result<State> {
        self.check(&[valid])?;
        self.catalogue.read(valid)
    }

    /// [`read`](Self::read) for several dates; those that follow each other in a file are read together.
    pub fn read_many(&self, dates: &[ValidTime]) -> Result<Vec<State>> {
        self.check(dates)?;
        self.catalogue.read_many(dates)
    }

    /// The fields of several dates as the files store them, by date and channel.
    pub(super) fn read_raw(&self, dates: &[ValidTime]) -> Result<Vec<RawField<'_>>> {
        self.check(dates)?;
        self.catalogue.read_raw(dates)
    }

    fn check(&self, dates: &[ValidTime]) -> Result<()> {
        match dates.iter().find(|valid| !self.may_read(**valid)) {
            Some(valid) => Err(Error::run(format!("{valid} lies outside {} ({})", self.name, self.span))),
            None => Ok(()),
        }
    }

    /// How many states are read at a time where all of them are.
    pub fn block(&self) -> usize {
        let (rows, columns, channels) = self.layout().shape();
        let state = rows * columns * channels * size_of::<f32>();
        (BLOCK_BYTES / state.max(1)).clamp(rayon::current_num_threads().max(1), MOST_BLOCK)
    }

    /// Calls `each` with every state of the span, in order; a few are read at a time, in parallel.
    pub fn visit(&self, mut each: impl FnMut(&State) -> Result<()>) -> Result<()> {
        let mut blocks = self.times().chunks(self.block());
        blocks.try_for_each(|block| self.read_many(block)?.iter().try_for_each(&mut each))
    }

    /// Every state of the span, in order.
    pub fn states(&self) -> impl Iterator<Item = Result<State>> + '_ {
        self.times().iter().map(|&valid| self.read(valid))
    }
}

impl TrainingView {
    pub fn view(&self) -> &View {
        &self.0
    }
}

impl std::ops::Deref for TrainingView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0
    }
}

impl std::ops::Deref for ValidationView {
    type Target = View;

    fn deref(&self) -> &View {
        &self.0
    }
}

/// The climatology of the training span in physical units: what forecasts are compared with.
pub fn fit_climatology(training: &TrainingView, kind: ClimatologyKind) -> Result<Climatology> {
    let mut fit = ClimatologyFit::new(training.layout().clone(), kind);
    training.visit(|state| fit.add(state))?;
    fit.finish()
}
