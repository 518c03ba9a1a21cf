//! Pictures for people: maps of fields, and the page that says how good the forecasts are.
//!
//! Nothing here computes a score or reads a file; scores come from `verify`, fields and coastlines as plain data.

mod chart;
mod charts;
pub mod contour;
pub mod encode;
mod figures;
mod headline;
mod html;
pub mod image;
pub mod map;
pub mod names;
pub mod palette;
pub mod sample;
pub mod scale;
mod tables;
pub mod text;
pub mod view;
mod words;

use std::path::Path;

use crate::error::{Context, Result};
use crate::grid::Grid;
use crate::time::{InitTime, LeadTime};
use crate::variable::Quantity;
use crate::verify::Scores;

pub use headline::verdict;
pub use html::escape;

/// What a page is made of. Whatever is empty leaves out its section.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Name of the model or the run.
    pub title: String,
    pub scores: Scores,
    /// Shown in this order; sets of one quantity stand together in one colour scale.
    pub maps: Vec<MapSet>,
    pub curve: Vec<CurvePoint>,
    /// Facts about the run and its data, each with its name.
    pub provenance: Vec<(String, String)>,
    /// For the maps; see [`view::Line`].
    pub coastlines: Vec<view::Line>,
}

/// Forecast and truth of one quantity at one lead.
#[derive(Debug, Clone)]
pub struct MapSet {
    pub quantity: Quantity,
    /// Of the values: SI, or the file's own for an unknown quantity.
    pub units: String,
    pub grid: Grid,
    pub init: InitTime,
    pub lead: LeadTime,
    /// `[lat, lon]`, missing values are NaN.
    pub forecast: Vec<f32>,
    /// `[lat, lon]`, missing values are NaN.
    pub truth: Vec<f32>,
}

/// A line of a training's `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePoint {
    /// Updates so far.
    pub step: u64,
    pub validation: bool,
    /// `None` where it was not finite.
    pub loss: Option<f64>,
    pub learning_rate: Option<f64>,
}

/// Writes the page as one file. It needs nothing but itself to be read.
pub fn write_html(path: &Path, report: &Report) -> Result<()> {
    let page = html::page(report)?;
    std::fs::write(path, page).context(|| format!("cannot write {}", path.display()))
}
