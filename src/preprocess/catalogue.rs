//! Which file holds which quantity at which time, found without reading data.

use std::sync::Arc;

use super::plan::{DataPlan, MissingPolicy};
use super::view::{TrainingView, ValidationView, View};
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Orientation;
use crate::time::{LeadTime, ValidTime};

/// Dates in a row that the files do not hold whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    pub first: ValidTime,
    pub last: ValidTime,
    /// How many dates.
    pub dates: usize,
    /// Labels of the quantities that are missing.
    pub quantities: Vec<String>,
}

/// (quantity, time) -> (file, index).
pub struct Catalogue {
    plan: DataPlan,
    layout: Arc<Layout>,
    orientation: Orientation,
    times: Vec<ValidTime>,
    gaps: Vec<Gap>,
    notes: Vec<String>,
    fingerprint: String,
}

impl Catalogue {
    /// Indexes the files in parallel and checks that they form one data set.
    pub fn build(_plan: &DataPlan) -> Result<Arc<Self>> {
        Err(Error::run("the catalogue is not built yet"))
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// How the first source stores its grid.
    pub fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// Time between states.
    pub fn step(&self) -> LeadTime {
        self.plan.step
    }

    /// The dates that the files hold whole, in order, all of them a whole number of steps apart.
    pub fn times(&self) -> &[ValidTime] {
        &self.times
    }

    /// Dates missing between the first and the last.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// What a user should know about the files: sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn missing(&self) -> MissingPolicy {
        self.plan.missing
    }

    /// Changes when a file, the choice of quantities or the grid changes.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The training span.
    pub fn training(self: &Arc<Self>) -> Result<TrainingView> {
        let split = self.plan.split.as_ref().ok_or_else(|| no_span("train"))?;
        Ok(View::strict(self.clone(), "split.train", split.train))
    }

    /// The validation span.
    pub fn validation(self: &Arc<Self>) -> Result<ValidationView> {
        let span =
            self.plan.split.as_ref().and_then(|s| s.validation).ok_or_else(|| no_span("validation"))?;
        Ok(ValidationView(View::evaluation(self.clone(), "split.validation", span)))
    }

    /// The test span.
    pub fn test(self: &Arc<Self>) -> Result<View> {
        let span = self.plan.split.as_ref().and_then(|s| s.test);
        Ok(View::evaluation(self.clone(), "split.test", span.ok_or_else(|| no_span("test"))?))
    }

    /// Reads the state of a date: missing values are NaN.
    pub fn read(&self, valid: ValidTime) -> Result<State> {
        Err(Error::run(format!("{valid}: the catalogue is not built yet")))
    }
}

fn no_span(name: &str) -> Error {
    Error::input(format!("the configuration has no split.{name}")).hint(format!(
        "add to [data]: split.{name} = [\"2000-01-01\", \"2010-01-01\"] (the end does not belong)"
    ))
}
