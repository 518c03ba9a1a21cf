//! From sums per initial time to metrics and their differences.
//!
//! Every metric is a function of time means: RMSE takes its root after the mean over time, the pooled anomaly
//! correlation and S1 are ratios of means. A bootstrap resample therefore only resums the same series.

use super::bootstrap::{Resampler, interval};
use super::sums::{Missing, Sums};

/// The metrics, in the order of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Rmse,
    Mae,
    Bias,
    Acc,
    AccPooled,
    S1,
    VectorRmse,
}

/// Of single quantities.
pub const SCALAR: [Metric; 6] =
    [Metric::Rmse, Metric::Mae, Metric::Bias, Metric::Acc, Metric::AccPooled, Metric::S1];

/// A metric's time series, ready to be averaged over any choice of times.
#[derive(Debug, Clone)]
pub struct Series {
    metric: Metric,
    /// One or more, per initial time; 0 where not counted.
    components: Vec<Vec<f64>>,
    /// 1 where the value of a time is defined, 0 where it is left out.
    counted: Vec<f64>,
}

/// The metric of all times, and of each resample.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub value: Option<f64>,
    /// Mean square error for the root metrics, the value for others: what skill is made of.
    pub error: Option<f64>,
    resampled: Vec<f64>,
}

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Self::Rmse => "rmse",
            Self::Mae => "mae",
            Self::Bias => "bias",
            Self::Acc => "acc",
            Self::AccPooled => "acc_pooled",
            Self::S1 => "s1",
            Self::VectorRmse => "vector_rmse",
        }
    }

    pub fn needs_climatology(self) -> bool {
        matches!(self, Self::Acc | Self::AccPooled)
    }

    /// Whether a difference between competitors says who is better.
    pub fn ranks(self) -> bool {
        self != Self::Bias
    }

    /// Whether 1 - error / baseline's error has a meaning.
    pub fn has_skill(self) -> bool {
        matches!(self, Self::Rmse | Self::Mae | Self::S1 | Self::VectorRmse)
    }

    fn root(self) -> bool {
        matches!(self, Self::Rmse | Self::VectorRmse)
    }

    /// The means that this metric needs from the sums of one time (of one quantity, or of a wind's two components);
    /// `None` where it is undefined at that time and has to be left out.
    fn components(self, sums: &[Sums]) -> Option<Vec<f64>> {
        let first = &sums[0];
        Some(match self {
            Self::Rmse | Self::VectorRmse => vec![sums.iter().map(Sums::mean_square).sum()],
            Self::Mae => vec![first.mean_absolute()],
            Self::Bias => vec![first.mean_error()],
            Self::Acc => {
                let [product, forecast, truth] = first.covariance();
                if forecast == 0.0 || truth == 0.0 {
                    return None;
                }
                vec![product / (forecast * truth).sqrt()]
            }
            Self::AccPooled => first.covariance().to_vec(),
            Self::S1 => vec![first.gradient_error, first.gradient],
        })
    }

    /// The metric from the time means of its components.
    fn combine(self, means: &[f64]) -> f64 {
        match self {
            Self::Rmse | Self::VectorRmse => means[0].sqrt(),
            Self::Mae | Self::Bias | Self::Acc => means[0],
            Self::AccPooled => means[0] / (means[1] * means[2]).sqrt(),
            Self::S1 => 100.0 * means[0] / means[1],
        }
    }
}

impl Series {
    /// `times` holds, per initial time, the sums of one quantity or of the two components of a wind.
    pub fn new(metric: Metric, times: &[Vec<Sums>], missing: Missing) -> Self {
        let mut components: Vec<Vec<f64>> = Vec::new();
        let mut counted = vec![0.0; times.len()];
        for (t, sums) in times.iter().enumerate() {
            let Some(values) = metric.components(sums) else { continue };
            // A time of which every point was dropped has no mean.
            if missing == Missing::Skip && values.iter().any(|v| v.is_nan()) {
                continue;
            }
            components.resize_with(values.len(), || vec![0.0; times.len()]);
            for (component, value) in components.iter_mut().zip(values) {
                component[t] = value;
            }
            counted[t] = 1.0;
        }
        Self { metric, components, counted }
    }

    /// How many times have a value.
    pub fn times(&self) -> usize {
        self.counted.iter().filter(|&&c| c > 0.0).count()
    }

    pub fn outcome(&self, resampler: Option<&Resampler>) -> Outcome {
        let count: f64 = self.counted.iter().sum();
        let finite = |x: f64| x.is_finite().then_some(x);
        if count == 0.0 {
            return Outcome { value: None, error: None, resampled: Vec::new() };
        }
        let means: Vec<f64> = self.components.iter().map(|c| c.iter().sum::<f64>() / count).collect();
        let value = finite(self.metric.combine(&means));
        let error = if self.metric.root() { finite(means[0]) } else { value };
        let resampled = match (resampler, value) {
            (Some(resampler), Some(_)) => {
                let counts = resampler.sums(&self.counted);
                let sums: Vec<Vec<f64>> = self.components.iter().map(|c| resampler.sums(c)).collect();
                let mut means = vec![0.0; sums.len()];
                (0..counts.len())
                    .map(|b| {
                        means.iter_mut().zip(&sums).for_each(|(m, s)| *m = s[b] / counts[b]);
                        // prefix sums of squares may leave a rounding error below zero
                        if self.metric.root() {
                            means[0] = means[0].max(0.0);
                        }
                        self.metric.combine(&means)
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        Outcome { value, error, resampled }
    }
}

impl Outcome {
    /// 95 % interval of the value.
    pub fn interval(&self) -> Option<(f64, f64)> {
        interval(self.resampled.clone())
    }

    /// This minus another, with its 95 % interval; both were resampled alike.
    pub fn minus(&self, other: &Outcome) -> (Option<f64>, Option<(f64, f64)>) {
        let value = self.value.zip(other.value).map(|(a, b)| a - b);
        let differences = if self.resampled.len() == other.resampled.len() {
            self.resampled.iter().zip(&other.resampled).map(|(a, b)| a - b).collect()
        } else {
            Vec::new()
        };
        (value, interval(differences))
    }

    /// 1 - error / other's error; `None` against a perfect baseline.
    pub fn skill(&self, other: &Outcome) -> Option<f64> {
        let (mine, theirs) = self.error.zip(other.error)?;
        (theirs != 0.0).then(|| 1.0 - mine / theirs)
    }
}
