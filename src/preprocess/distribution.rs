//! How normalised values are spread: whether what a network is given looks like what it was trained on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::normalizer::Normalizer;
use super::view::TrainingView;
use crate::error::Result;
use crate::time::ValidTime;

/// Bins reach so many standard deviations to both sides.
const REACH: f32 = 5.0;
/// Bins in a standard deviation.
const PER_DEVIATION: f32 = 5.0;
/// All bins, with one for what lies below and one for what lies above.
const BINS: usize = (2.0 * REACH * PER_DEVIATION) as usize + 2;
/// Dates of the training span that are looked at, spread evenly: shares in bins need no more.
const DATES: usize = 512;

/// How many normalised values of each quantity lie in each of the fixed bins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Distribution {
    counts: BTreeMap<String, Vec<u64>>,
}

impl Distribution {
    /// The file of a run folder that holds the one of its training span.
    pub const FILE: &str = "distribution.json";

    /// Of the training span.
    pub fn fit(training: &TrainingView, normalizer: &Normalizer) -> Result<Self> {
        let times = training.times();
        let every = times.len().div_ceil(DATES).max(1);
        let chosen: Vec<ValidTime> = times.iter().copied().step_by(every).collect();
        let labels: Vec<String> = training.layout().quantities.iter().map(ToString::to_string).collect();
        let mut all = Self::default();
        for dates in chosen.chunks(training.block()) {
            for state in training.read_many(dates)? {
                let mut values = vec![0.0; state.values.len()];
                normalizer.normalize(&state, &mut values)?;
                all.add(&Self::of(&labels, &values));
            }
        }
        Ok(all)
    }

    /// Of normalised fields, `[.., quantity]`; values that are missing do not count.
    pub fn of(labels: &[String], values: &[f32]) -> Self {
        let mut counts = vec![vec![0; BINS]; labels.len()];
        for point in values.chunks_exact(labels.len().max(1)) {
            for (counts, value) in counts.iter_mut().zip(point).filter(|(_, value)| value.is_finite()) {
                counts[bin(*value)] += 1;
            }
        }
        Self { counts: labels.iter().cloned().zip(counts).collect() }
    }

    /// Takes other values of the same quantities in.
    pub fn add(&mut self, other: &Self) {
        for (label, counts) in &other.counts {
            let own = self.counts.entry(label.clone()).or_insert_with(|| vec![0; counts.len()]);
            own.iter_mut().zip(counts).for_each(|(own, count)| *own += count);
        }
    }

    /// The Jensen-Shannon divergence of each quantity from another distribution, between 0 (equal) and 1 (nothing in
    /// common): Lin 1991, doi:10.1109/18.61115, with logarithms to the base 2.
    pub fn divergences(&self, other: &Self) -> BTreeMap<String, f64> {
        let of = |(label, counts): (&String, &Vec<u64>)| {
            Some((label.clone(), divergence(counts, other.counts.get(label)?)?))
        };
        self.counts.iter().filter_map(of).collect()
    }
}

fn bin(value: f32) -> usize {
    (((value + REACH) * PER_DEVIATION).floor().clamp(-1.0, (BINS - 2) as f32) + 1.0) as usize
}

/// `None` where one of them has no value, or other bins.
fn divergence(p: &[u64], q: &[u64]) -> Option<f64> {
    let (all_p, all_q) = (p.iter().sum::<u64>() as f64, q.iter().sum::<u64>() as f64);
    if all_p == 0.0 || all_q == 0.0 || p.len() != q.len() {
        return None;
    }
    let part = |a: f64, b: f64| if a > 0.0 { a * (2.0 * a / (a + b)).log2() } else { 0.0 };
    let pairs = p.iter().zip(q).map(|(&a, &b)| (a as f64 / all_p, b as f64 / all_q));
    Some(pairs.map(|(a, b)| (part(a, b) + part(b, a)) / 2.0).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32]) -> Distribution {
        Distribution::of(&["z500".into()], values)
    }

    #[test]
    fn values_fall_into_their_bins_and_beyond_them() {
        assert_eq!((bin(-5.0), bin(-4.7), bin(4.99), bin(0.0)), (1, 2, BINS - 2, 26));
        assert_eq!(
            (bin(-5.1), bin(5.0), bin(f32::INFINITY), bin(f32::NEG_INFINITY)),
            (0, BINS - 1, BINS - 1, 0)
        );
        assert_eq!(of(&[f32::NAN, 0.0]).counts["z500"].iter().sum::<u64>(), 1);
    }

    #[test]
    fn the_divergence_is_nought_for_equals_and_one_for_strangers() {
        let (a, b) = (of(&[0.1, 0.2, 1.0]), of(&[2.0, 3.0]));
        assert_eq!(a.divergences(&a)["z500"], 0.0);
        assert!((a.divergences(&b)["z500"] - 1.0).abs() < 1e-15);
        assert_eq!(a.divergences(&b), b.divergences(&a));
        assert!(a.divergences(&of(&[])).is_empty());
        // p = (1/2, 1/2), q = (1, 0): 1/2 (1/2 log2(2/3) + 1/2 log2 2 + log2(4/3)) = 0.3113 (3/4 log2(4/3) = 0.3113).
        let halves = of(&[0.1, 1.1]).divergences(&of(&[0.1]))["z500"];
        assert!((halves - 0.75 * (4.0_f64 / 3.0).log2()).abs() < 1e-15, "{halves}");
    }

    #[test]
    fn distributions_add_up_and_come_back_from_text() {
        let mut both = of(&[0.1]);
        both.add(&of(&[1.1]));
        assert_eq!(both, of(&[0.1, 1.1]));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Distribution>(&text).unwrap(), both);
    }
}
