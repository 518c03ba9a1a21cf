//! What the network is told besides the weather: static fields and time forcings.

use std::f64::consts::TAU;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::solar;
use super::statics::StaticPlan;
use crate::constants::SOLAR_CONSTANT;
use crate::device::Moment;
use crate::error::{Error, Result};
use crate::field::Layout;
use crate::io::checkpoint::{Tensor, Tensors};
use crate::time::{LeadTime, ValidTime};

/// A time forcing of the step from `t` to `t + step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forcing {
    /// Radiation at the top of the atmosphere, mean over the step, in units of the solar constant.
    Solar,
    /// Sine and cosine of the time of the year at `t + step`.
    DayOfYear,
    /// Sine and cosine of the local mean solar time at `t + step`.
    LocalTime,
}

/// Which inputs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputsPlan {
    pub statics: Vec<StaticPlan>,
    pub forcings: Vec<Forcing>,
}

/// Static fields and time forcings of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    layout: Arc<Layout>,
    card: Card,
    /// `[lat, lon, static]`
    statics: Vec<f32>,
    forcing_names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    /// One name per static channel.
    statics: Vec<String>,
    forcings: Vec<Forcing>,
}

/// What solar radiation is counted in [W m⁻²].
pub(super) const SOLAR_UNIT: f32 = SOLAR_CONSTANT as f32;

const STATICS: &str = "inputs.statics";

impl Forcing {
    /// One name per channel.
    pub fn channels(self) -> &'static [&'static str] {
        match self {
            Self::Solar => &["solar"],
            Self::DayOfYear => &["sin_day_of_year", "cos_day_of_year"],
            Self::LocalTime => &["sin_local_time", "cos_local_time"],
        }
    }
}

impl Inputs {
    /// Reads and makes the static fields.
    pub fn new(layout: Arc<Layout>, plan: &InputsPlan) -> Result<Self> {
        let (mut names, mut fields) = (Vec::new(), Vec::new());
        for field in &plan.statics {
            names.extend(field.field.channels().iter().map(|name| name.to_string()));
            fields.extend(field.fields(&layout.grid)?);
        }
        let statics = (0..layout.grid.points()).flat_map(|i| fields.iter().map(move |f| f[i])).collect();
        Ok(Self::of(layout, Card { statics: names, forcings: plan.forcings.clone() }, statics))
    }

    fn of(layout: Arc<Layout>, card: Card, statics: Vec<f32>) -> Self {
        let forcing_names = card.forcings.iter().flat_map(|f| f.channels()).map(|n| n.to_string()).collect();
        Self { layout, card, statics, forcing_names }
    }

    /// One per static channel.
    pub fn static_names(&self) -> &[String] {
        &self.card.statics
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
    pub fn forcings(&self, from: ValidTime, step: LeadTime, out: &mut [f32]) {
        let channels = self.forcing_names.len();
        if channels == 0 {
            return;
        }
        let by_column = self.by_column(from, step);
        out.chunks_mut(by_column.len()).for_each(|row| row.copy_from_slice(&by_column));
        if let Some(channel) = self.solar_channel() {
            let mut radiation = vec![0.0; self.layout.grid.points()];
            solar::mean_radiation(&self.layout.grid, from, step, &mut radiation);
            for (out, r) in out.chunks_mut(channels).zip(radiation) {
                out[channel] = r / SOLAR_UNIT;
            }
        }
    }

    /// What each channel of [`forcings`](Self::forcings) is counted in, in its SI unit.
    pub fn forcing_units(&self) -> Vec<f32> {
        let mut units = vec![1.0; self.forcing_names.len()];
        if let Some(channel) = self.solar_channel() {
            units[channel] = SOLAR_UNIT;
        }
        units
    }

    /// Forcings for a device to make: the same in all rows but for the sun.
    pub(super) fn moment(&self, from: ValidTime, step: LeadTime, turn: u32) -> Moment {
        let lights = if self.solar_channel().is_some() { solar::lights(from, step) } else { Vec::new() };
        Moment { by_column: self.by_column(from, step), lights, turn }
    }

    /// Which channel holds the sun.
    pub(super) fn solar_channel(&self) -> Option<usize> {
        self.card
            .forcings
            .iter()
            .position(|&forcing| forcing == Forcing::Solar)
            .map(|at| self.card.forcings[..at].iter().map(|forcing| forcing.channels().len()).sum())
    }

    /// `[lon, forcing]`, with 0 for the sun.
    fn by_column(&self, from: ValidTime, step: LeadTime) -> Vec<f32> {
        let until = from.after(step);
        let mut values = Vec::new();
        for x in &self.layout.grid.longitude {
            for forcing in &self.card.forcings {
                let phase = match forcing {
                    Forcing::Solar => {
                        values.push(0.0);
                        continue;
                    }
                    Forcing::DayOfYear => until.year_fraction(),
                    Forcing::LocalTime => until.hour() / 24.0 + x / 360.0,
                };
                let (sin, cos) = (TAU * phase).sin_cos();
                values.extend([sin as f32, cos as f32]);
            }
        }
        values
    }

    /// What a checkpoint keeps besides the tensors.
    pub fn card(&self) -> serde_json::Value {
        serde_json::json!({ "statics": self.card.statics, "forcings": self.card.forcings })
    }

    /// Named `inputs.*`.
    pub fn to_tensors(&self) -> Tensors {
        let (rows, columns, _) = self.layout.shape();
        let shape = vec![rows, columns, self.card.statics.len()];
        Tensors::from([(STATICS.to_string(), Tensor::f32(shape, self.statics.clone()))])
    }

    /// The inverse of [`card`](Self::card) and [`to_tensors`](Self::to_tensors).
    pub fn from_tensors(layout: Arc<Layout>, card: &serde_json::Value, tensors: &Tensors) -> Result<Self> {
        let card = Card::deserialize(card).map_err(|error| {
            Error::input("the inputs stored with a model cannot be read").caused_by(error)
        })?;
        let values = layout.grid.points() * card.statics.len();
        let statics = tensors.get(STATICS).and_then(Tensor::as_f32).filter(|s| s.len() == values);
        let statics = statics.ok_or_else(|| {
            Error::input(format!(
                "the tensor '{STATICS}' of a model is missing or is not of {values} float32 values"
            ))
        })?;
        let statics = statics.to_vec();
        Ok(Self::of(layout, card, statics))
    }
}

#[cfg(test)]
mod tests {
    use super::super::statics::StaticField;
    use super::*;
    use crate::grid::Grid;
    use crate::time::Calendar;

    fn inputs() -> Inputs {
        let grid = Grid::new(vec![45.0, 48.0, 51.0], vec![-10.0, 0.0, 90.0]).unwrap();
        let layout = Arc::new(Layout { grid, quantities: Vec::new() });
        let plan = |field| StaticPlan { field, file: None };
        let statics = vec![
            plan(StaticField::CosLatitude),
            plan(StaticField::LandSeaMask),
            plan(StaticField::Longitude),
        ];
        let forcings = vec![Forcing::LocalTime, Forcing::Solar, Forcing::DayOfYear];
        Inputs::new(layout, &InputsPlan { statics, forcings }).unwrap()
    }

    #[test]
    fn channels_stand_in_the_order_of_the_plan() {
        let inputs = inputs();
        assert_eq!(
            inputs.static_names(),
            ["cos_latitude", "land_sea_mask", "sin_longitude", "cos_longitude"]
        );
        assert_eq!(inputs.statics().len(), 9 * 4);
        assert!((inputs.statics()[0] - 45_f32.to_radians().cos()).abs() < 1e-7);
        assert!((inputs.statics()[8 * 4 + 2] - 1.0).abs() < 1e-7); // 90 E
        let from = ValidTime::parse("2001-06-30T06", Calendar::Standard).unwrap();
        let mut out = vec![f32::NAN; 9 * 5];
        inputs.forcings(from, "6h".parse().unwrap(), &mut out);
        assert!(out.iter().all(|x| x.is_finite()));
        // at t + step it is noon in Greenwich and 18 h at 90 E
        assert!((out[5 + 1] + 1.0).abs() < 1e-6 && (out[2 * 5] + 1.0).abs() < 1e-6, "{out:?}");
        assert!(out[5 + 2] > 0.5 && out[5 + 2] < 1.0); // the sun over Europe on a summer morning
        assert!((out[4] + 1.0).abs() < 1e-3); // the middle of the year
    }

    #[test]
    fn a_checkpoint_gives_them_back() {
        let inputs = inputs();
        let back = Inputs::from_tensors(inputs.layout.clone(), &inputs.card(), &inputs.to_tensors()).unwrap();
        assert_eq!(back, inputs);
        assert!(Inputs::from_tensors(inputs.layout.clone(), &inputs.card(), &Tensors::new()).is_err());
        assert!(
            Inputs::from_tensors(inputs.layout.clone(), &serde_json::Value::Null, &inputs.to_tensors())
                .is_err()
        );
    }
}
