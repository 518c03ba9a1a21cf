//! The part of a catalogue that a purpose may read.

use std::sync::Arc;

use super::catalogue::Catalogue;
use super::plan::Span;
use crate::climatology::{Climatology, ClimatologyFit, ClimatologyKind};
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::time::ValidTime;

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
    reaches_back: bool,
}

impl View {
    /// For training: strictly inside.
    pub(super) fn strict(catalogue: Arc<Catalogue>, name: &'static str, span: Span) -> TrainingView {
        TrainingView(Self { catalogue, name, span, reaches_back: false })
    }

    /// For evaluation: input frames may lie before the span.
    pub(super) fn evaluation(catalogue: Arc<Catalogue>, name: &'static str, span: Span) -> Self {
        Self { catalogue, name, span, reaches_back: true }
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
        let times = self.catalogue.times();
        let from = times.partition_point(|t| *t < self.span.start);
        let until = times.partition_point(|t| *t < self.span.end);
        &times[from..until.max(from)]
    }

    /// Reads a state as the files hold it; an error for a date that this view may not see.
    pub fn read(&self, valid: ValidTime) -> Result<State> {
        if valid >= self.span.end || (valid < self.span.start && !self.reaches_back) {
            return Err(Error::run(format!("{valid} lies outside {} ({})", self.name, self.span)));
        }
        self.catalogue.read(valid)
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
    for state in training.states() {
        fit.add(&state?)?;
    }
    fit.finish()
}
