//! Means and deviations in one streaming pass, in float64, mergeable.
//!
//! Two sets are joined by (Chan, Golub and LeVeque 1983, doi:10.1080/00031305.1983.10483115)
//!
//! ```text
//! delta = mean_b - mean_a      n = n_a + n_b      mean = mean_a + delta n_b / n      M2 = M2_a + M2_b + delta^2 n_a n_b / n
//! ```

use crate::error::{Error, Result};
use crate::time::{LeadTime, ValidTime};

/// Count, mean and sum of squared distances from the mean.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    pub count: u64,
    pub mean: f64,
    pub squares: f64,
}

impl Moments {
    /// Of the finite numbers among `values`, in two passes over them.
    pub fn of(values: impl Iterator<Item = f32> + Clone) -> Self {
        let finite = || values.clone().filter(|x| x.is_finite()).map(f64::from);
        let (count, sum) = finite().fold((0_u64, 0.0), |(n, sum), x| (n + 1, sum + x));
        if count == 0 {
            return Self::default();
        }
        let mean = sum / count as f64;
        Self { count, mean, squares: finite().map(|x| (x - mean) * (x - mean)).sum() }
    }

    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.count += other.count;
        self.mean += delta * b / (a + b);
        self.squares += other.squares + delta * delta * a * b / (a + b);
    }

    /// Square root of the variance about the mean; 0 without values.
    pub fn deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }

    /// Square root of the mean square.
    pub fn root_mean_square(&self) -> f64 {
        self.deviation().hypot(self.mean)
    }
}

/// Statistics of a stretch of states, every point and date counted alike.
#[derive(Debug, Clone)]
pub struct Statistics {
    channels: usize,
    step: LeadTime,
    /// Per channel.
    pub values: Vec<Moments>,
    /// Of the change over a step, per channel.
    pub tendencies: Vec<Moments>,
    /// `[lat, lon, channel]`: whether a value was ever there.
    pub seen: Vec<bool>,
    /// The ends of the stretch, by which two stretches are joined.
    first: Option<(ValidTime, Vec<f32>)>,
    last: Option<(ValidTime, Vec<f32>)>,
}

impl Statistics {
    /// For states of `values` numbers, `[lat, lon, channel]`.
    pub fn new(values: usize, channels: usize, step: LeadTime) -> Self {
        Self {
            channels,
            step,
            values: vec![Moments::default(); channels],
            tendencies: vec![Moments::default(); channels],
            seen: vec![false; values],
            first: None,
            last: None,
        }
    }

    /// Adds the next state, `[lat, lon, channel]`.
    pub fn add(&mut self, valid: ValidTime, values: &[f32]) -> Result<()> {
        if values.len() != self.seen.len() {
            return Err(Error::run(format!(
                "{} values where {} are expected",
                values.len(),
                self.seen.len()
            )));
        }
        for channel in 0..self.channels {
            self.values[channel].merge(&Moments::of(plane(values, channel, self.channels)));
        }
        for (seen, value) in self.seen.iter_mut().zip(values) {
            *seen |= value.is_finite();
        }
        if let Some((before, earlier)) = self.last.take() {
            self.add_tendency(before, &earlier, valid, values);
        }
        if self.first.is_none() {
            self.first = Some((valid, values.to_vec()));
        }
        self.last = Some((valid, values.to_vec()));
        Ok(())
    }

    /// Joins the stretch that follows this one.
    pub fn merge(&mut self, later: Self) {
        for (mine, other) in self.values.iter_mut().zip(&later.values) {
            mine.merge(other);
        }
        for (mine, other) in self.tendencies.iter_mut().zip(&later.tendencies) {
            mine.merge(other);
        }
        for (mine, other) in self.seen.iter_mut().zip(&later.seen) {
            *mine |= other;
        }
        if let (Some((before, earlier)), Some((valid, values))) = (&self.last, &later.first) {
            let (before, earlier) = (*before, earlier.clone());
            self.add_tendency(before, &earlier, *valid, values);
        }
        self.first = self.first.take().or(later.first);
        self.last = later.last.or(self.last.take());
    }

    fn add_tendency(&mut self, before: ValidTime, earlier: &[f32], valid: ValidTime, values: &[f32]) {
        if valid.since(before) != self.step {
            return; // a gap
        }
        for channel in 0..self.channels {
            let pairs = plane(values, channel, self.channels).zip(plane(earlier, channel, self.channels));
            self.tendencies[channel].merge(&Moments::of(pairs.map(|(now, then)| now - then)));
        }
    }
}

fn plane(values: &[f32], channel: usize, channels: usize) -> impl Iterator<Item = f32> + Clone {
    values[channel..].iter().step_by(channels).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Calendar;

    /// States of 2 channels at 5 points: numbers around 1e5 with a deviation of 1, some missing.
    fn states(count: usize) -> Vec<(ValidTime, Vec<f32>)> {
        let value = |day: usize, i: usize| match (day * 31 + i * 17) % 23 {
            3 if i % 2 == 1 => f32::NAN,
            k => 1e5 + k as f32 / 7.0 - (day % 5) as f32,
        };
        (0..count)
            .map(|day| {
                // day 11 is missing: no tendency across it
                let seconds = (day + usize::from(day > 10)) as i64 * 86_400;
                (ValidTime::new(seconds, Calendar::Standard), (0..10).map(|i| value(day, i)).collect())
            })
            .collect()
    }

    fn one_pass(states: &[(ValidTime, Vec<f32>)]) -> Statistics {
        let mut statistics = Statistics::new(10, 2, LeadTime::from_hours(24));
        states.iter().for_each(|(valid, values)| statistics.add(*valid, values).unwrap());
        statistics
    }

    fn two_passes(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
    }

    fn close(a: &Moments, b: &Moments) -> bool {
        // float64 at values of 1e5
        a.count == b.count && (a.mean - b.mean).abs() < 1e-9 && (a.deviation() - b.deviation()).abs() < 1e-9
    }

    #[test]
    fn one_pass_equals_two() {
        let states = states(30);
        let statistics = one_pass(&states);
        for channel in 0..2 {
            let of =
                |(_, v): &(ValidTime, Vec<f32>)| plane(v, channel, 2).map(f64::from).collect::<Vec<f64>>();
            let all: Vec<f64> = states.iter().flat_map(of).filter(|x| x.is_finite()).collect();
            let (mean, deviation) = two_passes(&all);
            let got = statistics.values[channel];
            assert_eq!(got.count as usize, all.len());
            assert!((got.mean - mean).abs() < 1e-9 && (got.deviation() - deviation).abs() < 1e-9);
            let mut changes = Vec::new();
            for (i, pair) in states.windows(2).enumerate() {
                if i != 10 {
                    changes.extend(of(&pair[1]).iter().zip(of(&pair[0])).map(|(now, then)| now - then));
                }
            }
            changes.retain(|x| x.is_finite());
            let (mean, deviation) = two_passes(&changes);
            let got = statistics.tendencies[channel];
            assert_eq!(got.count as usize, changes.len());
            assert!((got.mean - mean).abs() < 1e-6 && (got.deviation() - deviation).abs() < 1e-6);
        }
    }

    #[test]
    fn stretches_merge_to_the_whole() {
        let states = states(40);
        let whole = one_pass(&states);
        for cut in [1, 7, 11, 20, 39] {
            let mut merged = one_pass(&states[..cut]);
            merged.merge(one_pass(&states[cut..]));
            for channel in 0..2 {
                assert!(close(&merged.values[channel], &whole.values[channel]), "cut at {cut}");
                assert!(close(&merged.tendencies[channel], &whole.tendencies[channel]), "cut at {cut}");
            }
            assert_eq!(merged.seen, whole.seen);
        }
    }
}
