//! Windows: stretches of dates a step apart, and the order in which they are shown.

use crate::time::{LeadTime, ValidTime};

/// The first dates of all windows of `frames` dates in `times` (increasing, whole steps apart) that no gap interrupts.
pub fn starts(times: &[ValidTime], frames: usize, step: LeadTime) -> Vec<ValidTime> {
    let Some(steps) = frames.checked_sub(1) else { return Vec::new() };
    let whole = |w: &&[ValidTime]| w[steps].since(w[0]) == step.times(steps);
    times.windows(frames).filter(whole).map(|w| w[0]).collect()
}

/// The windows of an epoch in the order of that epoch: a permutation that depends on nothing but seed and epoch.
pub fn shuffled(count: usize, seed: u64, epoch: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut random = SplitMix::new(seed, epoch);
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// By how many of `columns` columns the globe is turned for a batch: depends on nothing but seed, epoch and batch.
pub fn turn(columns: usize, seed: u64, epoch: u64, batch: u64) -> u32 {
    // Another stream than that of the order.
    let mut random = SplitMix(SplitMix::new(!seed, epoch).next() ^ batch.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    random.below(columns.max(1) as u64) as u32
}

/// SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195).
struct SplitMix(u64);

impl SplitMix {
    fn new(seed: u64, epoch: u64) -> Self {
        let mut mixed = Self(seed);
        let seed = mixed.next();
        Self(seed ^ epoch.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`, without bias (Lemire 2019, doi:10.1145/3230636).
    fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.next()) * u128::from(bound);
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Calendar;

    #[test]
    fn no_window_crosses_a_gap() {
        let day = |d: i64| ValidTime::new(d * 86_400, Calendar::Standard);
        let times: Vec<ValidTime> = [0, 1, 2, 5, 6, 7, 8, 10].map(day).to_vec();
        let step = LeadTime::from_hours(24);
        assert_eq!(starts(&times, 3, step), [0, 5, 6].map(day));
        assert_eq!(starts(&times, 1, step), times);
        assert!(starts(&times, 5, step).is_empty() && starts(&times, 9, step).is_empty());
        assert!(starts(&times, 0, step).is_empty());
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs for seed 1234567 as listed by Rosetta Code and java.util.SplittableRandom.
        let mut random = SplitMix(1234567);
        assert_eq!([random.next(), random.next()], [6457827717110365317, 3203168211198807973]);
    }

    #[test]
    fn turns_are_uniform_and_always_the_same() {
        let mut counts = [0; 8];
        (0..8000).for_each(|batch| counts[turn(8, 1, batch % 5, batch) as usize] += 1);
        // 1000 each, within five deviations of sqrt(1000 * 7 / 8).
        assert!(counts.iter().all(|&count: &i32| (count - 1000).abs() < 150), "{counts:?}");
        assert_eq!(turn(1440, 7, 3, 11), turn(1440, 7, 3, 11));
        assert_eq!(turn(1, 7, 3, 11), 0);
    }

    #[test]
    fn every_epoch_is_another_permutation_and_every_run_the_same() {
        let first = shuffled(1000, 7, 0);
        assert_eq!(first, shuffled(1000, 7, 0));
        assert_ne!(first, shuffled(1000, 7, 1));
        assert_ne!(first, shuffled(1000, 8, 0));
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &x)| i as u32 == x));
        // a shuffle leaves about one element in its place
        assert!(first.iter().enumerate().filter(|(i, x)| *i as u32 == **x).count() < 10);
    }
}
