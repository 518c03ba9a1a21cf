//! What the network is told besides the weather: static fields and time forcings.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::field::Layout;
use crate::io::checkpoint::Tensors;
use crate::time::{LeadTime, ValidTime};

/// Which inputs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputsPlan {
    pub statics: Vec<StaticPlan>,
    /// `solar`, `day_of_year`, `local_time`.
    pub forcings: Vec<String>,
}

/// A static field.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticPlan {
    /// `orography`, `land_sea_mask`, `cos_latitude`, `longitude`.
    pub name: String,
    /// File and variable, for those that come from a file.
    pub file: Option<(PathBuf, Option<String>)>,
}

/// Static fields and time forcings of a grid.
pub struct Inputs {
    static_names: Vec<String>,
    forcing_names: Vec<String>,
    statics: Vec<f32>,
}

impl Inputs {
    /// `_plan` as the configuration says.
    pub fn new(_layout: Arc<Layout>, _plan: &InputsPlan) -> Result<Self> {
        Err(Error::run("inputs are not built yet"))
    }

    /// One per static channel.
    pub fn static_names(&self) -> &[String] {
        &self.static_names
    }

    /// One per forcing channel.
    pub fn forcing_names(&self) -> &[String] {
        &self.forcing_names
    }

    /// `[lat, lon, static]`
    pub fn statics(&self) -> &[f32] {
        &self.statics
    }

    /// Overwrites `out`, `[lat, lon, forcing]`, with the forcings of the step from `from` to `from + step`.
    pub fn forcings(&self, _from: ValidTime, _step: LeadTime, _out: &mut [f32]) {}

    /// What a checkpoint keeps besides the tensors.
    pub fn card(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Named `inputs.*`.
    pub fn to_tensors(&self) -> Tensors {
        Tensors::new()
    }

    /// The inverse of [`card`](Self::card) and [`to_tensors`](Self::to_tensors).
    pub fn from_tensors(_layout: Arc<Layout>, _card: &serde_json::Value, _tensors: &Tensors) -> Result<Self> {
        Err(Error::run("inputs are not built yet"))
    }
}
