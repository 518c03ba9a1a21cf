//! What changes in the course of a training: each a function of a count, so that a resumed run has nothing to restore.

use crate::train::plan::{LearningRate, Sampling, Stage};

impl LearningRate {
    /// The rate of the update with index `update` (from 0) of `total`.
    pub fn at(&self, update: u64, total: u64) -> f64 {
        if update < self.warm_up {
            return self.peak * (update + 1) as f64 / self.warm_up as f64;
        }
        let rest = total.saturating_sub(self.warm_up + 1).max(1) as f64;
        let passed = ((update - self.warm_up) as f64 / rest).min(1.0);
        self.floor + 0.5 * (self.peak - self.floor) * (1.0 + (std::f64::consts::PI * passed).cos())
    }
}

impl Sampling {
    /// Probability that a rollout step is fed the truth, `epochs` (with their fraction) into the training.
    pub fn probability(&self, epochs: f64) -> f64 {
        let passed = if self.epochs == 0 { 1.0 } else { (epochs / self.epochs as f64).min(1.0) };
        self.start * (1.0 - passed) + self.end * passed
    }
}

/// Decay of the moving average at its update with index `update`: young averages must forget their random beginning
/// sooner.
pub fn ema_decay(decay: f64, update: u64) -> f64 {
    let young = (1 + update) as f64 / (10 + update) as f64;
    decay.min(young)
}

/// The stage of the curriculum that epoch `epoch` belongs to, and whether it is the last one; the last stage goes on
/// for ever.
pub fn stage(curriculum: &[Stage], epoch: usize) -> (usize, Stage) {
    let mut end = 0;
    for (index, stage) in curriculum.iter().enumerate() {
        end += stage.epochs;
        if epoch < end || index + 1 == curriculum.len() {
            return (index, *stage);
        }
    }
    (0, Stage { epochs: 0, leads: 1 })
}

/// A number in [0, 1) from a seed and counters: the same wherever and whenever it is asked for. SplitMix64
/// (Steele et al. 2014, doi:10.1145/2660193.2660195) over each counter in turn.
pub fn uniform(seed: u64, counters: &[u64]) -> f64 {
    let mixed = counters.iter().fold(mix(seed), |state, counter| mix(state ^ mix(*counter)));
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// A seed of its own for each use of the one seed that the user gives.
pub fn derived_seed(seed: u64, purpose: u64) -> u64 {
    mix(mix(seed) ^ mix(purpose))
}

fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_climbs_linearly_and_falls_as_a_cosine_to_its_floor() {
        let rate = LearningRate { peak: 1.0, floor: 0.1, warm_up: 4 };
        let total = 4 + 101;
        for (update, expected) in [(0, 0.25), (3, 1.0), (4, 1.0), (4 + 50, 0.55), (4 + 100, 0.1), (500, 0.1)]
        {
            let found = rate.at(update, total);
            assert!((found - expected).abs() < 1e-12, "{update}: {found} instead of {expected}");
        }
        let none = LearningRate { warm_up: 0, ..rate };
        assert_eq!(none.at(0, 1), 1.0, "a training of one update takes the peak");
    }

    #[test]
    fn sampling_goes_from_start_to_end_and_stays() {
        let sampling = Sampling { start: 1.0, end: 0.2, epochs: 4 };
        for (epochs, expected) in [(0.0, 1.0), (1.0, 0.8), (4.0, 0.2), (9.0, 0.2)] {
            assert!((sampling.probability(epochs) - expected).abs() < 1e-12);
        }
        assert_eq!(Sampling { epochs: 0, ..sampling }.probability(0.0), 0.2);
    }

    #[test]
    fn the_average_is_short_at_first() {
        assert_eq!(ema_decay(0.999, 0), 0.1);
        assert_eq!(ema_decay(0.999, 80), 0.9);
        assert_eq!(ema_decay(0.999, 1_000_000), 0.999);
    }

    #[test]
    fn epochs_fall_into_stages_and_the_last_one_stays() {
        let curriculum = [Stage { epochs: 2, leads: 1 }, Stage { epochs: 1, leads: 4 }];
        let leads = |epoch| stage(&curriculum, epoch).1.leads;
        assert_eq!([leads(0), leads(1), leads(2), leads(3)], [1, 1, 4, 4]);
    }

    #[test]
    fn random_numbers_are_uniform_and_differ_by_every_counter() {
        let draws: Vec<f64> = (0..10_000).map(|i| uniform(7, &[3, i])).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        // Standard error of the mean of 10^4 uniform numbers is 0.0029; five of them.
        assert!((mean - 0.5).abs() < 0.015, "{mean}");
        assert_ne!(uniform(7, &[3, 1]), uniform(7, &[1, 3]));
        assert_ne!(uniform(7, &[3, 1]), uniform(8, &[3, 1]));
    }
}
