//! Fields on the host, in physical units.

use std::sync::Arc;

use ndarray::{Array3, ArrayView2, Axis};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::time::ValidTime;
use crate::variable::Quantity;

/// What the channels of a state are, and where: shared by all states of one model or data set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    pub grid: Grid,
    /// One per channel.
    pub quantities: Vec<Quantity>,
}

/// All quantities of one model or data set at one valid time.
#[derive(Debug, Clone)]
pub struct State {
    pub layout: Arc<Layout>,
    pub valid: ValidTime,
    /// `[lat, lon, channel]`, south to north, eastward, SI units; missing values are NaN.
    pub values: Array3<f32>,
}

impl Layout {
    pub fn channels(&self) -> usize {
        self.quantities.len()
    }

    /// `[lat, lon, channel]`
    pub fn shape(&self) -> (usize, usize, usize) {
        (self.grid.rows(), self.grid.columns(), self.channels())
    }

    /// The channel of a quantity, by its label.
    pub fn channel(&self, label: &str) -> Result<usize> {
        let wanted = Quantity::parse(label);
        self.quantities.iter().position(|q| *q == wanted || q.to_string() == label).ok_or_else(|| {
            let names: Vec<String> = self.quantities.iter().map(Quantity::to_string).collect();
            Error::input(format!("there is no variable '{label}'"))
                .hint(format!("the variables are {}", names.join(", ")))
        })
    }
}

impl State {
    /// A state whose every value is missing.
    pub fn missing(layout: Arc<Layout>, valid: ValidTime) -> Self {
        let values = Array3::from_elem(layout.shape(), f32::NAN);
        Self { layout, valid, values }
    }

    /// The same fields in the order of another layout of the same grid; quantities that it does not have are dropped.
    pub fn arranged(&self, layout: &Arc<Layout>) -> Result<State> {
        if !self.layout.grid.matches(&layout.grid) {
            return Err(Error::input(format!(
                "the grids differ: {} and {}",
                self.layout.grid.describe(),
                layout.grid.describe()
            )));
        }
        let mut state = State::missing(layout.clone(), self.valid);
        for (channel, quantity) in layout.quantities.iter().enumerate() {
            let from = self.layout.channel(&quantity.to_string())?;
            state.values.index_axis_mut(Axis(2), channel).assign(&self.channel(from));
        }
        Ok(state)
    }

    /// `[lat, lon]` of one channel.
    pub fn channel(&self, channel: usize) -> ArrayView2<'_, f32> {
        self.values.index_axis(Axis(2), channel)
    }
}
