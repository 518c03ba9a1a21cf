//! How good past forecasts turned out to be, once their truth has arrived.

use std::collections::BTreeMap;

use ndarray::ArrayView3;

use super::cycle::{Served, read_analysis};
use super::folders::Folders;
use super::ledger::Field;
use crate::error::Result;
use crate::io::forecast_file;
use crate::time::InitTime;
use crate::verify::BootstrapPlan;

/// A forecast, at a lead whose analysis has come.
#[derive(Clone)]
pub struct Check {
    pub model: Served,
    pub init: InitTime,
    /// In steps.
    pub lead: usize,
    /// Below the folder of all forecasts.
    pub file: String,
    /// The fields of the analysis, and the model by whose name they are kept.
    pub truth: Vec<Field>,
    pub truth_of: String,
}

/// The mean squared error of a quantity at a lead, in variances of the training data: as a validation counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    pub model: String,
    pub init: InitTime,
    /// In steps.
    pub lead: usize,
    pub quantity: String,
    pub square: f64,
}

impl Check {
    pub fn run(&self, folders: &Folders) -> Result<Vec<Score>> {
        let trained = &self.model.trained;
        let layout = &trained.info.layout;
        let valid = self.init.0.after(trained.info.step.times(self.lead));
        let truth = read_analysis(&folders.analyses(&self.truth_of), &self.truth, trained, valid)?;
        let mut reader = forecast_file::open(&folders.out.join(&self.file))?;
        let forecast = reader.read(self.lead)?.arranged(layout)?;
        let normal = |state| {
            let mut values = vec![0.0; layout.grid.points() * layout.channels()];
            trained.normalizer.normalize(state, &mut values).map(|()| values)
        };
        let (forecast, truth) = (normal(&forecast)?, normal(&truth)?);
        let squares: Vec<f32> = forecast.iter().zip(&truth).map(|(f, t)| (f - t) * (f - t)).collect();
        let weights = match self.model.latitude_weights {
            true => layout.grid.latitude_weights(),
            false => vec![1.0; layout.grid.rows()],
        };
        let means = means(&squares, layout.shape(), &weights, trained.normalizer.mask());
        let labels = layout.quantities.iter().map(ToString::to_string);
        let score = |(quantity, square)| Score {
            model: self.model.plan.name.clone(),
            init: self.init,
            lead: self.lead,
            quantity,
            square,
        };
        Ok(labels.zip(means).filter(|(_, square)| square.is_finite()).map(score).collect())
    }
}

/// Weighted means over the points that exist, by channel.
fn means(values: &[f32], shape: (usize, usize, usize), weights: &[f64], mask: Option<&[f32]>) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); shape.2];
    if let Ok(values) = ArrayView3::from_shape(shape, values) {
        for ((row, column, channel), value) in values.indexed_iter() {
            let exists = mask.is_none_or(|mask| mask[(row * shape.1 + column) * shape.2 + channel] != 0.0);
            let weight = if exists { weights[row] } else { 0.0 };
            sums[channel].0 += weight * f64::from(*value);
            sums[channel].1 += weight;
        }
    }
    sums.into_iter().map(|(sum, weight)| sum / weight).collect()
}

/// By quantity and lead: the root of the mean of the squares, and over how many forecasts.
pub fn errors(scores: &[Score]) -> BTreeMap<(String, usize), (f64, usize)> {
    let mut sums: BTreeMap<(String, usize), (f64, usize)> = BTreeMap::new();
    for score in scores {
        let sum = sums.entry((score.quantity.clone(), score.lead)).or_default();
        *sum = (sum.0 + score.square, sum.1 + 1);
    }
    sums.into_iter().map(|(key, (sum, count))| (key, ((sum / count as f64).sqrt(), count))).collect()
}

/// What comparing a canary with the model that is served has shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Comparison {
    /// Too few forecasts of both have been checked.
    Open { pairs: usize },
    /// The mean difference of the squared errors, canary less served, and the 95 % interval of it (moving blocks).
    Known { pairs: usize, difference: f64, low: f64, high: f64 },
}

/// Compares forecasts from the same initial times, quantity by quantity and lead by lead.
pub fn compare(served: &[Score], canary: &[Score], bootstrap: &BootstrapPlan) -> Comparison {
    let key = |score: &Score| (score.init, score.lead, score.quantity.clone());
    let of_served: BTreeMap<_, f64> = served.iter().map(|score| (key(score), score.square)).collect();
    let mut by_init: BTreeMap<InitTime, (f64, usize)> = BTreeMap::new();
    for score in canary {
        if let Some(square) = of_served.get(&key(score)) {
            let sum = by_init.entry(score.init).or_default();
            *sum = (sum.0 + score.square - square, sum.1 + 1);
        }
    }
    let seconds: Vec<i64> = by_init.keys().map(|init| init.0.seconds).collect();
    let differences: Vec<f64> = by_init.values().map(|(sum, count)| sum / *count as f64).collect();
    let pairs = differences.len();
    let interval = bootstrap.draw(&seconds).and_then(|resampler| {
        crate::verify::interval(
            resampler.sums(&differences).into_iter().map(|sum| sum / pairs as f64).collect(),
        )
    });
    match interval {
        None => Comparison::Open { pairs },
        Some((low, high)) => {
            let difference = differences.iter().sum::<f64>() / pairs as f64;
            Comparison::Known { pairs, difference, low, high }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::schedule::init;
    use crate::time::LeadTime;

    fn scores(model: &str, square: impl Fn(usize) -> f64, count: usize) -> Vec<Score> {
        let score = |day: usize| Score {
            model: model.into(),
            init: init(day as i64 * 86_400),
            lead: 1,
            quantity: "z500".into(),
            square: square(day),
        };
        (0..count).map(score).collect()
    }

    #[test]
    fn errors_are_roots_of_means_of_squares() {
        let found = errors(&scores("a", |day| if day == 0 { 9.0 } else { 1.0 }, 2));
        assert_eq!(found[&("z500".into(), 1)], (5.0_f64.sqrt(), 2));
    }

    #[test]
    fn masked_points_do_not_count_and_rows_have_their_weight() {
        let values = [1.0, 3.0, 5.0, 7.0];
        assert_eq!(means(&values, (2, 2, 1), &[1.0, 1.0], None), [4.0]);
        assert_eq!(means(&values, (2, 2, 1), &[1.0, 0.0], None), [2.0]);
        assert_eq!(means(&values, (2, 2, 1), &[1.0, 1.0], Some(&[0.0, 1.0, 1.0, 0.0])), [4.0]);
    }

    #[test]
    fn a_canary_is_known_once_enough_forecasts_are_checked() {
        let bootstrap = BootstrapPlan { block: LeadTime::from_hours(48), resamples: 200, seed: 1 };
        let noise = |day: usize| (day * 37 % 11) as f64 / 11.0;
        let served = scores("a", |day| 2.0 + noise(day), 60);
        let better = scores("b", |day| 1.5 + noise(day) + 0.1 * noise(day + 3), 60);
        match compare(&served, &better, &bootstrap) {
            Comparison::Known { pairs: 60, difference, low, high } => {
                assert!(low < difference && difference < high && high < 0.0, "{low} {difference} {high}");
            }
            other => panic!("{other:?}"),
        }
        let same = compare(&served, &served, &bootstrap);
        assert_eq!(same, Comparison::Known { pairs: 60, difference: 0.0, low: 0.0, high: 0.0 });
        assert_eq!(compare(&served[..5], &better, &bootstrap), Comparison::Open { pairs: 5 });
        assert_eq!(compare(&served, &[], &bootstrap), Comparison::Open { pairs: 0 });
    }
}
