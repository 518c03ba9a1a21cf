//! Intervals for means over initial times that depend on each other: the moving-block bootstrap
//! (Künsch 1989, doi:10.1214/aos/1176347265; for forecast differences Wilks 1997,
//! doi:10.1175/1520-0442(1997)010<0065:RHTFAF>2.0.CO;2).
//!
//! Blocks of consecutive initial times are drawn with replacement until as many times are drawn as there are. All
//! scores use the same draws, so that differences compare like with like.

use crate::error::{Error, Result};
use crate::time::LeadTime;

/// How to resample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BootstrapPlan {
    /// Length of a block in time.
    pub block: LeadTime,
    pub resamples: usize,
    pub seed: u64,
}

impl Default for BootstrapPlan {
    fn default() -> Self {
        Self { block: LeadTime::from_hours(240), resamples: 1000, seed: 1 }
    }
}

/// Fewer blocks than this make no interval worth printing.
pub const FEWEST_BLOCKS: usize = 5;

/// The draws, as starts of blocks.
#[derive(Debug, Clone)]
pub struct Resampler {
    times: usize,
    block: usize,
    /// `[resample][block]`
    starts: Vec<Vec<usize>>,
}

impl BootstrapPlan {
    pub fn validate(&self) -> Result<()> {
        if self.resamples < 100 {
            return Err(Error::input(format!(
                "{} resamples are too few for the 2.5 % tail of an interval",
                self.resamples
            ))
            .hint("use at least 100; 1000 is the default"));
        }
        if self.block.seconds <= 0 {
            return Err(Error::input(format!("a bootstrap block of {} is empty", self.block)));
        }
        Ok(())
    }

    /// Draws for initial times at these seconds (ascending). A block is as many times as fit into the block length
    /// at their median spacing. `None` when there are fewer than [`FEWEST_BLOCKS`] blocks.
    pub fn draw(&self, seconds: &[i64]) -> Option<Resampler> {
        let mut spacing: Vec<i64> = seconds.windows(2).map(|w| w[1] - w[0]).collect();
        spacing.sort_unstable();
        let median = *spacing.get(spacing.len() / 2)?;
        let block = ((self.block.seconds as f64 / median.max(1) as f64).round() as usize).max(1);
        let times = seconds.len();
        if times < FEWEST_BLOCKS * block {
            return None;
        }
        let mut random = SplitMix(self.seed);
        let starts = (0..self.resamples)
            .map(|_| (0..times.div_ceil(block)).map(|_| random.below(times - block + 1)).collect())
            .collect();
        Some(Resampler { times, block, starts })
    }
}

impl Resampler {
    /// Sums of a series over each resample; `series` has one value per initial time.
    pub fn sums(&self, series: &[f64]) -> Vec<f64> {
        debug_assert_eq!(series.len(), self.times);
        let mut before = Vec::with_capacity(self.times + 1);
        let mut sum = 0.0;
        before.push(sum);
        for x in series {
            sum += x;
            before.push(sum);
        }
        let one = |starts: &Vec<usize>| {
            let mut left = self.times;
            let mut total = 0.0;
            for &start in starts {
                let length = self.block.min(left);
                total += before[start + length] - before[start];
                left -= length;
            }
            total
        };
        self.starts.iter().map(one).collect()
    }
}

/// The 2.5 % and 97.5 % points, linear between order statistics; `None` when a value is not finite.
pub fn interval(mut values: Vec<f64>) -> Option<(f64, f64)> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |quantile: f64| {
        let position = quantile * (values.len() - 1) as f64;
        let below = position.floor() as usize;
        let above = (below + 1).min(values.len() - 1);
        values[below] + (values[above] - values[below]) * (position - below as f64)
    };
    Some((at(0.025), at(0.975)))
}

/// SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195): small, seeded, the same everywhere.
#[derive(Debug, Clone)]
pub(super) struct SplitMix(pub u64);

impl SplitMix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`: the high half of a product, whose bias of `n / 2^64` nobody will meet.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(n: usize) -> Vec<i64> {
        (0..n as i64).map(|d| d * 86_400).collect()
    }

    fn normal(random: &mut SplitMix) -> f64 {
        // twelve uniforms: variance 1, near enough to normal for a coverage test
        (0..12).map(|_| random.next() as f64 / u64::MAX as f64).sum::<f64>() - 6.0
    }

    /// Coverage of the mean of an AR(1) series (correlation 0.6 a day) of 800 days, 300 trials. Theory: blocks of ten
    /// days see (1 - 2 * 0.6 / (10 * (1 - 0.36))) = 0.81 of the long-run variance, hence 92 % coverage; four
    /// standard deviations of the count of 300 trials are 6 %.
    #[test]
    fn intervals_cover_the_truth_of_dependent_series_about_as_often_as_they_say() {
        let plan = BootstrapPlan { resamples: 200, ..BootstrapPlan::default() };
        let resampler = plan.draw(&days(800)).unwrap();
        let mut random = SplitMix(7);
        let mut covered = 0;
        for _ in 0..300 {
            let mut x = normal(&mut random) / (1.0_f64 - 0.36).sqrt();
            let series: Vec<f64> = (0..800)
                .map(|_| {
                    x = 0.6 * x + normal(&mut random);
                    x
                })
                .collect();
            let means = resampler.sums(&series).iter().map(|s| s / 800.0).collect();
            let (low, high) = interval(means).unwrap();
            covered += usize::from(low <= 0.0 && 0.0 <= high);
        }
        let coverage = covered as f64 / 300.0;
        assert!((0.86..=0.98).contains(&coverage), "{coverage}");
    }

    #[test]
    fn a_seed_gives_the_same_draws_and_every_draw_has_all_times() {
        let plan = BootstrapPlan::default();
        let (a, b) = (plan.draw(&days(803)).unwrap(), plan.draw(&days(803)).unwrap());
        assert_eq!(a.starts, b.starts);
        assert!(a.sums(&vec![1.0; 803]).iter().all(|&s| s == 803.0));
        let other = BootstrapPlan { seed: 2, ..plan }.draw(&days(803)).unwrap();
        assert_ne!(a.starts, other.starts);
    }

    #[test]
    fn blocks_are_ten_days_whatever_the_spacing_and_few_blocks_give_no_interval() {
        let plan = BootstrapPlan::default();
        let six_hourly: Vec<i64> = (0..400).map(|i| i * 21_600).collect();
        assert_eq!(plan.draw(&six_hourly).unwrap().block, 40);
        assert_eq!(plan.draw(&days(100)).unwrap().block, 10);
        assert!(plan.draw(&days(49)).is_none());
        assert!(plan.draw(&[0]).is_none() && plan.draw(&[]).is_none());
    }
}
