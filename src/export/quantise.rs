//! From float32 to 8 bits after training: how far activations reach, and which numbers weights become.
//!
//! An array is counted in steps, symmetric about 0: `x = step * q` with `|q| <= 127` (int8) or a number of float8
//! (e4m3, `|q| <= 448`). Weights have a step for each output channel, activations one for each array, which decides where
//! they are cut off: by percentile, or where the distribution loses the least information (Migacz 2017, "8-bit inference with
//! TensorRT").

use crate::error::{Error, Result};
use crate::export::Trained;
use crate::model::Memory;
pub use crate::model::Ranges;
use crate::time::ValidTime;

/// How a range is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// All but the largest in ten thousand.
    #[default]
    Percentile,
    /// The least Kullback-Leibler divergence.
    Entropy,
}

/// The share of numbers that a percentile keeps.
const SHARE: f64 = 0.9999;
/// Bins of a histogram, and into how many an 8-bit number falls.
const BINS: usize = 2048;
const LEVELS: usize = 128;

/// How often magnitudes occur.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Of a bin.
    width: f32,
    counts: Vec<u64>,
}

/// What a network's convolutions read, over forecasts.
pub struct Calibration {
    input: Histogram,
    hidden: Vec<Histogram>,
}

impl Calibration {
    pub fn new(trained: &Trained) -> Self {
        let mut input = Histogram::default();
        input.add(trained.inputs.statics());
        Self { input, hidden: vec![Histogram::default(); trained.architecture.hidden.len()] }
    }

    /// A moment of a forecast: the normalised fields of `valid`, from which the next step starts, and what the layers carry.
    pub fn add(&mut self, trained: &Trained, valid: ValidTime, fields: &[f32], memories: &[Memory<f32>]) {
        let mut forcings = vec![0.0; trained.info.layout.grid.points() * trained.architecture.forcings];
        trained.inputs.forcings(valid, trained.info.step, &mut forcings);
        self.input.add(fields);
        self.input.add(&forcings);
        for (histogram, memory) in self.hidden.iter_mut().zip(memories) {
            histogram.add(&memory.h);
        }
    }

    pub fn ranges(&self, method: Method) -> Result<Ranges> {
        let of = |histogram: &Histogram| match method {
            Method::Percentile => histogram.percentile(SHARE),
            Method::Entropy => histogram.least_divergence(),
        };
        // Weather is not cut off: its extremes are what a forecast is for.
        let ranges =
            Ranges { input: self.input.percentile(1.0), hidden: self.hidden.iter().map(of).collect() };
        if ranges.input > 0.0 && ranges.hidden.iter().all(|&range| range > 0.0) {
            return Ok(ranges);
        }
        Err(Error::run("a layer of the network is silent in all forecasts that its ranges are taken from"))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self { width: 1.0 / BINS as f32, counts: vec![0; BINS] }
    }
}

impl Histogram {
    pub fn add(&mut self, values: &[f32]) {
        for x in values.iter().map(|x| x.abs()).filter(|x| x.is_finite()) {
            while x >= self.width * BINS as f32 {
                self.widen();
            }
            self.counts[(x / self.width) as usize] += 1;
        }
    }

    /// Twice as far, in as many bins.
    fn widen(&mut self) {
        self.width *= 2.0;
        for bin in 0..BINS / 2 {
            self.counts[bin] = self.counts[2 * bin] + self.counts[2 * bin + 1];
        }
        self.counts[BINS / 2..].fill(0);
    }

    /// What so large a share of all magnitudes lies below.
    pub fn percentile(&self, share: f64) -> f32 {
        let all: u64 = self.counts.iter().sum();
        let mut below = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            below += count;
            if below as f64 >= share * all as f64 && below > 0 {
                return (bin + 1) as f32 * self.width;
            }
        }
        0.0
    }

    /// Where to cut off so that what is kept, in 128 levels, tells the most of the whole.
    pub fn least_divergence(&self) -> f32 {
        let used = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let candidates = LEVELS.min(used)..=used;
        let divergence = |end: usize| divergence(&self.counts, end);
        let best = candidates.min_by(|&a, &b| divergence(a).total_cmp(&divergence(b)));
        best.unwrap_or(0) as f32 * self.width
    }
}

/// Kullback-Leibler divergence of the first `end` bins, into whose last all beyond falls, from the same bins in 128 levels.
fn divergence(counts: &[u64], end: usize) -> f64 {
    if end == 0 {
        return f64::INFINITY;
    }
    let kept = &counts[..end];
    let beyond: u64 = counts[end..].iter().sum();
    let all = (kept.iter().sum::<u64>() + beyond) as f64;
    let inside = (all - beyond as f64).max(1.0);
    let levels = LEVELS.min(end);
    let mut sum = 0.0;
    for level in 0..levels {
        let (first, last) = (level * end / levels, (level + 1) * end / levels);
        let bins = &kept[first..last];
        let occupied = bins.iter().filter(|&&count| count > 0).count().max(1) as f64;
        let each = bins.iter().sum::<u64>() as f64 / occupied / inside;
        for (offset, &count) in bins.iter().enumerate() {
            let extra = if first + offset + 1 == end { beyond } else { 0 };
            let p = (count + extra) as f64 / all;
            if p > 0.0 {
                // A bin that only holds what was cut off has no counterpart.
                sum += p * (p / each.max(1e-12)).ln();
            }
        }
    }
    sum
}

/// Initial times spread over the seasons of a span: as many in each of them, evenly over its dates.
pub fn across_seasons(times: &[ValidTime], each: usize) -> Vec<ValidTime> {
    let season = |time: &ValidTime| (time.year_fraction() * 4.0) as usize % 4;
    let mut chosen = Vec::new();
    for number in 0..4 {
        let dates: Vec<ValidTime> = times.iter().copied().filter(|time| season(time) == number).collect();
        let count = each.min(dates.len());
        chosen.extend((0..count).map(|i| dates[(2 * i + 1) * dates.len() / (2 * count)]));
    }
    chosen.sort_unstable();
    chosen
}

/// Whole numbers of int8, one step for each of `channels`: `(numbers, steps)`.
pub fn to_int8(values: &[f32], channels: usize) -> (Vec<u8>, Vec<f32>) {
    by_channel(values, channels, 127.0, |q| (q.round_ties_even() as i8) as u8)
}

/// Numbers of float8 (e4m3, no infinities), one step for each of `channels`.
pub fn to_float8(values: &[f32], channels: usize) -> (Vec<u8>, Vec<f32>) {
    by_channel(values, channels, MOST_FLOAT8, float8)
}

/// The largest number of float8.
pub const MOST_FLOAT8: f32 = 448.0;

fn by_channel(values: &[f32], channels: usize, most: f32, code: fn(f32) -> u8) -> (Vec<u8>, Vec<f32>) {
    let mut numbers = Vec::with_capacity(values.len());
    let mut steps = Vec::with_capacity(channels);
    for of_one in values.chunks_exact(values.len() / channels) {
        let largest = of_one.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        // A channel without weights has any step.
        let step = if largest > 0.0 { largest / most } else { 1.0 };
        numbers.extend(of_one.iter().map(|x| code((x / step).clamp(-most, most))));
        steps.push(step);
    }
    (numbers, steps)
}

/// The nearest number with 4 bits of exponent (bias 7) and 3 of fraction; a tie goes to the even one.
fn float8(x: f32) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs().min(MOST_FLOAT8);
    if magnitude == 0.0 {
        return sign;
    }
    // Below 2^-6 the spacing stays that of 2^-6.
    let exponent = (magnitude.log2().floor() as i32).max(-6);
    let mut eighths = (magnitude / 2_f32.powi(exponent - 3)).round_ties_even() as u8;
    let mut biased = exponent + 7;
    if eighths == 16 {
        (eighths, biased) = (8, biased + 1);
    }
    if eighths < 8 { sign | eighths } else { sign | (biased as u8) << 3 | (eighths - 8) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Calendar, LeadTime};

    #[test]
    fn int8_is_off_by_half_a_step_of_its_channel_at_most() {
        let values: Vec<f32> =
            (0..40).map(|i| ((i * 37 % 41) as f32 - 20.0) * if i < 20 { 1.0 } else { 0.01 }).collect();
        let (numbers, steps) = to_int8(&values, 2);
        for (i, (&q, x)) in numbers.iter().zip(&values).enumerate() {
            let step = steps[i / 20];
            assert!((f32::from(q as i8) * step - x).abs() <= 0.5001 * step, "{x}");
        }
        assert!(steps[1] < 0.02 * steps[0]);
    }

    #[test]
    fn float8_has_the_codes_of_its_standard() {
        // From the table of Micikevicius et al. 2022 (arXiv:2209.05433): largest, least normal, largest and least subnormal.
        let known = [
            (448.0, 0x7e),
            (1.0, 0x38),
            (-1.0, 0xb8),
            (0.015625, 0x08),
            (0.013671875, 0x07),
            (0.001953125, 0x01),
        ];
        for (x, code) in known {
            assert_eq!(float8(x), code, "{x}");
        }
        assert_eq!((float8(0.0), float8(1000.0)), (0, 0x7e));
        // Between 1 and 1.125 the tie goes to the even fraction, 1; between 1.875 and 2 to 2.
        assert_eq!((float8(1.0625), float8(1.9375)), (0x38, 0x40));
    }

    #[test]
    fn few_far_away_are_cut_off_and_a_histogram_grows() {
        let mut histogram = Histogram::default();
        let bell: Vec<f32> = (0..100_000).map(|i| (i as f32 / 1e5 * 2.0 - 1.0).powi(3)).collect();
        histogram.add(&bell);
        histogram.add(&[30.0; 3]);
        let total: u64 = histogram.counts.iter().sum();
        assert_eq!(total, 100_003);
        // 32 reach in 2048 bins: a bin is 1/64.
        assert!(histogram.percentile(1.0) > 29.9 && (0.9..1.05).contains(&histogram.percentile(0.9999)));
        // 128 bins at least, which reach to 2.
        assert!((0.9..4.1).contains(&histogram.least_divergence()), "{}", histogram.least_divergence());
    }

    #[test]
    fn every_season_of_the_span_is_heard() {
        let start = ValidTime::parse("2001-01-01", Calendar::Standard).unwrap();
        let times: Vec<ValidTime> = (0..730).map(|day| start.after(LeadTime::from_hours(24 * day))).collect();
        let chosen = across_seasons(&times, 3);
        assert_eq!(chosen.len(), 12);
        for season in 0..4 {
            assert_eq!(chosen.iter().filter(|t| (t.year_fraction() * 4.0) as usize == season).count(), 3);
        }
        assert_eq!(across_seasons(&times[..2], 3).len(), 2);
    }
}
