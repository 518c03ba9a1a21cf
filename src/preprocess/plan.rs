//! What a data set is made of: checked settings, made from the configuration.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::time::{LeadTime, ValidTime};
use crate::variable::Quantity;

/// A data set: where its fields are, which of them are wanted, and how it is split.
#[derive(Debug, Clone, PartialEq)]
pub struct DataPlan {
    pub sources: Vec<SourcePlan>,
    /// The channels, in this order; empty: everything that the sources give, in their order.
    pub quantities: Vec<Quantity>,
    /// Time between states.
    pub step: LeadTime,
    /// `None` for files that are only read, never trained on.
    pub split: Option<Split>,
    pub missing: MissingPolicy,
    pub duplicates: DuplicatePolicy,
    /// Regrid on reading.
    pub grid: Option<GridPlan>,
}

/// A variable of some files.
#[derive(Debug, Clone, PartialEq)]
pub struct SourcePlan {
    /// File names with `*`, `?` and `**`.
    pub glob: String,
    /// The file's name for the variable, or the canonical one.
    pub variable: String,
    /// The levels wanted [hPa]; one level names that of a file that does not say it. Empty: all that the file has.
    pub levels: Vec<f64>,
    /// The quantity that this really is.
    pub rename: Option<String>,
    /// The unit that the numbers really have.
    pub unit: Option<String>,
    /// What an accumulated value covers, where the file does not say it.
    pub period: Option<LeadTime>,
}

/// Half-open: `start <= valid < end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub start: ValidTime,
    pub end: ValidTime,
}

/// Spans that do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    pub train: Span,
    pub validation: Option<Span>,
    pub test: Option<Span>,
}

/// What to do about missing dates and missing values (points that are always missing are masked instead).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MissingPolicy {
    /// Refuse.
    #[default]
    Error,
    /// Linear in time between the neighbours, at most [`LONGEST_BRIDGE`] steps away.
    Interpolate,
    /// Leave out every window that contains them.
    Skip,
}

/// What to do about a date that comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DuplicatePolicy {
    #[default]
    Error,
    /// Take the first, files in the order of their names.
    First,
    Last,
}

/// The steps to the nearest state that [`MissingPolicy::Interpolate`] may use, on either side.
pub const LONGEST_BRIDGE: usize = 4;

/// The grid that fields are brought to.
#[derive(Debug, Clone, PartialEq)]
pub struct GridPlan {
    pub target: GridTarget,
    pub method: RegridMethod,
}

#[derive(Debug, Clone, PartialEq)]
pub enum GridTarget {
    /// Points every `step` degrees from `south` to `north` and from `west` to `east`, ends included.
    Region { step: f64, south: f64, north: f64, west: f64, east: f64 },
    /// The points of the files' own grid from `south` to `north` and from `west` to `east`, ends included.
    Part { south: f64, north: f64, west: f64, east: f64 },
    /// The globe in cells of `step` degrees; rows at the centres of their bands, columns from Greenwich.
    Globe { step: f64 },
    /// The grid of the first field of a file.
    Like(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegridMethod {
    /// First order: the mean over the target cell, weighted by area.
    #[default]
    Conservative,
    /// Between the four points around.
    Bilinear,
}

impl Span {
    /// An error when it is empty.
    pub fn new(start: ValidTime, end: ValidTime) -> Result<Self> {
        if start.calendar != end.calendar || end.seconds <= start.seconds {
            return Err(Error::input(format!("the span from {start} to {end} is empty"))
                .hint("spans are half-open: the second date is the first one that no longer belongs"));
        }
        Ok(Self { start, end })
    }

    pub fn contains(&self, valid: ValidTime) -> bool {
        valid.calendar == self.start.calendar && self.start <= valid && valid < self.end
    }

    pub fn overlaps(&self, other: &Span) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} up to {}", self.start, self.end)
    }
}

impl Split {
    /// An error when two spans overlap.
    pub fn new(train: Span, validation: Option<Span>, test: Option<Span>) -> Result<Self> {
        let spans = [("train", Some(train)), ("validation", validation), ("test", test)];
        for (i, (a, first)) in spans.iter().enumerate() {
            for (b, second) in &spans[i + 1..] {
                if let (Some(first), Some(second)) = (first, second)
                    && first.overlaps(second)
                {
                    return Err(Error::input(format!(
                        "split.{a} ({first}) and split.{b} ({second}) overlap: scores on days that were trained on mean nothing"
                    ))
                    .hint("the end of a span does not belong to it, so one may end where the next starts"));
                }
            }
        }
        Ok(Self { train, validation, test })
    }
}
