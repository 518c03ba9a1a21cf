//! How much each row, variable and lead counts in the loss and in the score.

use crate::error::{Error, Result};
use crate::field::Layout;
use crate::train::band::Band;
use crate::train::plan::{LossKind, LossPlan};

/// The weights of a plan on a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// `[rows]`, mean 1.
    pub rows: Vec<f32>,
    /// `[channels]`
    pub channels: Vec<f32>,
    /// `[rows, columns, channels]`: 0 where a quantity is always missing.
    pub mask: Option<Vec<f32>>,
    /// Turns the weighted sum over a field into a mean.
    pub scale: f64,
}

impl Weights {
    pub fn new(plan: &LossPlan, layout: &Layout, mask: Option<&[f32]>) -> Result<Self> {
        let rows: Vec<f32> = if plan.latitude_weights {
            layout.grid.latitude_weights().iter().map(|w| *w as f32).collect()
        } else {
            vec![1.0; layout.grid.rows()]
        };
        let mut channels = vec![1.0; layout.channels()];
        for (label, weight) in &plan.variables {
            let channel = layout.channel(label).map_err(|error| error.context("loss.variables"))?;
            channels[channel] = *weight as f32;
        }
        let mask = mask.map(<[f32]>::to_vec);
        let mut weights = Self { rows, channels, mask, scale: 1.0 };
        let sum: f64 = (0..layout.channels())
            .map(|channel| weights.channel_sum(layout, channel) * f64::from(weights.channels[channel]))
            .sum();
        if sum <= 0.0 {
            return Err(Error::input("loss.variables leaves no variable with a weight above 0"));
        }
        weights.scale = 1.0 / sum;
        Ok(weights)
    }

    /// Those of a band's points, of the whole field's mean.
    pub fn band(&self, band: &Band) -> Self {
        Self {
            rows: self.rows[band.rows.clone()].to_vec(),
            channels: self.channels.clone(),
            mask: self.mask.as_ref().map(|mask| band.mask(mask).into_owned()),
            scale: self.scale,
        }
    }

    /// Weight of one point without its variable's.
    pub fn point(&self, layout: &Layout, row: usize, column: usize, channel: usize) -> f64 {
        let index = (row * layout.grid.columns() + column) * layout.channels() + channel;
        let mask = self.mask.as_ref().map_or(1.0, |mask| mask[index]);
        f64::from(self.rows[row]) * f64::from(mask)
    }

    /// Sum of the weights of all points of a channel, without its own weight.
    pub fn channel_sum(&self, layout: &Layout, channel: usize) -> f64 {
        let columns = 0..layout.grid.columns();
        let points = (0..layout.grid.rows()).flat_map(|row| columns.clone().map(move |column| (row, column)));
        points.map(|(row, column)| self.point(layout, row, column, channel)).sum()
    }
}

/// Weights of `leads` leads, sum 1.
pub fn lead_weights(plan: &LossPlan, leads: usize) -> Vec<f64> {
    let weights: Vec<f64> = (0..leads).map(|lead| plan.lead_weight(lead)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

impl LossKind {
    /// The error of a difference in standard deviations.
    pub fn of(self, difference: f64) -> f64 {
        match self {
            Self::Huber { delta } if difference.abs() > delta => delta * (2.0 * difference.abs() - delta),
            _ => difference * difference,
        }
    }

    /// Where the error turns linear.
    pub fn huber(self) -> Option<f64> {
        match self {
            Self::Squared => None,
            Self::Huber { delta } => Some(delta),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::variable::Quantity;

    fn layout() -> Layout {
        Layout {
            grid: Grid::new(vec![-60.0, 0.0, 60.0], vec![0.0, 180.0]).unwrap(),
            quantities: vec![Quantity::parse("msl"), Quantity::parse("z500")],
        }
    }

    fn plan() -> LossPlan {
        LossPlan {
            kind: LossKind::Squared,
            latitude_weights: true,
            variables: [("z500".to_owned(), 3.0)].into(),
            leads: vec![1.0, 3.0],
        }
    }

    #[test]
    fn an_error_of_one_everywhere_has_a_mean_of_one() {
        let weights = Weights::new(&plan(), &layout(), None).unwrap();
        assert_eq!(weights.channels, [1.0, 3.0]);
        // Rows weigh 0.75, 1.5, 0.75 (band areas): 6 points a channel.
        assert!((weights.channel_sum(&layout(), 0) - 6.0).abs() < 1e-6);
        assert!((weights.scale - 1.0 / 24.0).abs() < 1e-9);
        let mut mask = vec![1.0; 12];
        mask[0] = 0.0;
        let masked = Weights::new(&plan(), &layout(), Some(&mask)).unwrap();
        assert!((masked.channel_sum(&layout(), 0) - 5.25).abs() < 1e-6);
    }

    #[test]
    fn leads_sum_to_one_and_the_last_weight_goes_on() {
        assert_eq!(lead_weights(&plan(), 1), [1.0]);
        assert_eq!(lead_weights(&plan(), 2), [0.25, 0.75]);
        assert_eq!(lead_weights(&LossPlan { leads: vec![], ..plan() }, 4), [0.25; 4]);
    }

    #[test]
    fn an_unknown_variable_is_refused_with_the_known_ones() {
        let unknown = LossPlan { variables: [("t850".to_owned(), 1.0)].into(), ..plan() };
        let error = Weights::new(&unknown, &layout(), None).unwrap_err();
        assert_eq!(error.advice(), Some("the variables are msl, z500"));
    }

    #[test]
    fn the_huber_error_is_smooth_where_it_turns_linear() {
        let huber = LossKind::Huber { delta: 0.5 };
        assert_eq!(huber.of(0.5), 0.25);
        assert_eq!(huber.of(-1.0), 0.75);
        assert_eq!(LossKind::Squared.of(-1.0), 1.0);
    }
}
