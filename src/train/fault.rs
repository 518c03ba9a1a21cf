//! Where a number stopped being finite.

use std::fmt;

use crate::error::Error;
use crate::field::Layout;
use crate::preprocess::Batch;
use crate::time::{InitTime, LeadTime, ValidTime, valid_time};

/// What was not finite first.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    /// A value of the data.
    Data { quantity: String, valid: ValidTime },
    /// A prediction, `lead` after the start of its sample.
    Prediction { quantity: String, init: InitTime, lead: LeadTime },
    /// All predictions are finite, but not their loss or its gradient.
    Gradient { inits: Vec<InitTime> },
    /// Another rank knows.
    Elsewhere,
}

/// Shapes and times of a batch that went wrong.
pub(super) struct Scene<'a> {
    pub layout: &'a Layout,
    /// Rows of batch and predictions, which may be a band's.
    pub rows: usize,
    pub step: LeadTime,
    pub input_frames: usize,
    pub batch: &'a Batch,
    /// `[lead, batch, lat, lon, channel]`
    pub predictions: &'a [f32],
}

impl Fault {
    /// Looks for the first value that is not finite: in the data, then in the predictions.
    pub fn find(scene: &Scene<'_>) -> Self {
        let (_, columns, channels) = scene.layout.shape();
        let sample = scene.rows * columns * channels;
        let samples = scene.batch.init.len();
        let place = |index: usize| {
            let quantity = scene.layout.quantities[index % channels].to_string();
            (index / (sample * samples), scene.batch.init[index / sample % samples], quantity)
        };
        let masked = |index: usize| scene.batch.mask.as_ref().is_some_and(|mask| mask[index % sample] == 0.0);
        let broken = |values: &[f32]| (0..values.len()).find(|&i| !values[i].is_finite() && !masked(i));
        if let Some((frame, init, quantity)) = broken(&scene.batch.frames).map(place) {
            let lead =
                LeadTime { seconds: scene.step.seconds * (frame as i64 + 1 - scene.input_frames as i64) };
            return Self::Data { quantity, valid: valid_time(init, lead) };
        }
        if let Some((lead, init, quantity)) = broken(scene.predictions).map(place) {
            return Self::Prediction { quantity, init, lead: scene.step.times(lead + 1) };
        }
        Self::Gradient { inits: scene.batch.init.clone() }
    }

    /// The error that stops the training at update `update`.
    pub fn stop(&self, update: u64) -> Error {
        let error = Error::run(format!("update {update}: {self}"));
        match self {
            Self::Data { .. } => error.hint("look at that date with `wxsim inspect`"),
            _ => error.hint(
                "lower train.learning_rate or train.clip_norm, or set train.non_finite = \"skip\" to leave such updates out",
            ),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { quantity, valid } => write!(f, "the value of {quantity} at {valid} is not finite"),
            Self::Prediction { quantity, init, lead } => {
                write!(f, "the prediction of {quantity} {lead} after {init} is not finite")
            }
            Self::Gradient { inits } => {
                let dates: Vec<String> = inits.iter().map(InitTime::to_string).collect();
                write!(f, "the gradient is not finite; the samples start at {}", dates.join(", "))
            }
            Self::Elsewhere => write!(f, "something in the batch of another rank is not finite"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::time::Calendar;
    use crate::variable::Quantity;

    #[test]
    fn a_fault_names_date_variable_and_lead() {
        let layout = Layout {
            grid: Grid::new(vec![0.0, 60.0], vec![0.0]).unwrap(),
            quantities: vec![Quantity::parse("msl"), Quantity::parse("z500")],
        };
        let init = |day| InitTime(ValidTime::parse(day, Calendar::Standard).unwrap());
        // Two samples of two input frames and two leads: frames [4, 2, 2, 1, 2], predictions [2, 2, 2, 1, 2].
        let mut batch = Batch {
            frames: vec![0.0; 32],
            forcings: vec![],
            mask: None,
            init: vec![init("2001-01-02"), init("2001-03-04")],
            turn: 0,
            samples: 2,
        };
        let step = LeadTime::from_hours(24);
        let find = |batch: &Batch, predictions: &[f32]| {
            let scene = Scene { layout: &layout, rows: 2, step, input_frames: 2, batch, predictions };
            Fault::find(&scene).to_string()
        };
        let mut predictions = vec![0.0; 16];
        assert!(find(&batch, &predictions).contains("2001-01-02T00:00Z, 2001-03-04T00:00Z"));
        predictions[8 + 4 + 1] = f32::INFINITY; // lead 2, sample 2, z500
        let found = find(&batch, &predictions);
        assert_eq!(found, "the prediction of z500 2d after 2001-03-04T00:00Z is not finite");
        batch.frames[0] = f32::NAN; // frame 1, sample 1, msl: one step before its start
        assert_eq!(find(&batch, &predictions), "the value of msl at 2001-01-01T00:00Z is not finite");
        batch.mask = Some(vec![0.0, 1.0, 1.0, 1.0].into());
        assert_eq!(find(&batch, &predictions), found, "a masked value is not looked at");
    }
}
