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
    /// `None` where it is undefined at that time, or not forecast, and has to be left out.
    fn components(self, sums: &[Sums]) -> Option<Vec<f64>> {
        if sums.iter().any(Sums::is_absent) {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Layout;
    use crate::grid::Grid;
    use crate::verify::regions::areas;
    use crate::verify::sums::{Fields, Geometry};

    /// The golden case of the physics notes, whose values `scores` 2.7.0 and `xskillscore` 0.0.29 agree on. Row by
    /// row: T = 280 + 10 sin(2 la + 0.3 t) cos ph + 3 cos(la - 0.2 t) sin^2 ph; F = T + 0.8 sin(3 la) cos ph +
    /// 0.5 cos(t + 2 ph); C = 280 + 2 sin ph.
    fn golden(weighted: bool) -> Vec<Vec<Sums>> {
        let latitude: Vec<f64> = (0..8).map(|j| -78.75 + 22.5 * f64::from(j)).collect();
        let longitude: Vec<f64> = (0..16).map(|i| 22.5 * f64::from(i)).collect();
        let grid = Grid::new(latitude, longitude).unwrap();
        let layout = Layout { grid: grid.clone(), quantities: Vec::new() };
        let geometry = Geometry::new(&layout, areas(&grid, &[]).0);
        let field = |f: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            let degrees = grid.latitude.iter().flat_map(|ph| grid.longitude.iter().map(move |la| (*ph, *la)));
            degrees.map(|(ph, la)| f(ph.to_radians(), la.to_radians())).collect()
        };
        let time = |t: f64| {
            let truth = |ph: f64, la: f64| {
                280.0
                    + 10.0 * (2.0 * la + 0.3 * t).sin() * ph.cos()
                    + 3.0 * (la - 0.2 * t).cos() * ph.sin().powi(2)
            };
            let forecast = |ph: f64, la: f64| {
                truth(ph, la) + 0.8 * (3.0 * la).sin() * ph.cos() + 0.5 * (t + 2.0 * ph).cos()
            };
            let climatology = field(&|ph, _| 280.0 + 2.0 * ph.sin());
            let (forecast, truth) = (field(&forecast), field(&truth));
            let fields = Fields { forecast: &forecast, truth: &truth, climatology: Some(&climatology) };
            let sums = geometry.sums(fields, Missing::Propagate)[0];
            vec![if weighted { sums.by_area } else { sums.by_point }]
        };
        [0.0, 1.0, 2.0].map(time).to_vec()
    }

    fn value(metric: Metric, times: &[Vec<Sums>]) -> f64 {
        Series::new(metric, times, Missing::Propagate).outcome(None).value.unwrap()
    }

    #[test]
    fn the_golden_case_has_the_golden_scores() {
        let times = golden(true);
        // half a unit of the last digit given
        for (metric, expected, tolerance) in [
            (Metric::Rmse, 0.580_583, 5e-7),
            (Metric::Mae, 0.477_264, 5e-7),
            (Metric::Bias, 0.060_784, 5e-7),
            (Metric::Acc, 0.995_361_29, 5e-9),
            (Metric::AccPooled, 0.995_350_98, 5e-9),
        ] {
            let found = value(metric, &times);
            assert!((found - expected).abs() < tolerance, "{metric:?} {found}");
        }
        // not the root before the mean over time
        let roots: f64 = times.iter().map(|t| t[0].mean_square().sqrt()).sum::<f64>() / 3.0;
        assert!((roots - 0.580_565).abs() < 5e-7);
    }

    #[test]
    fn without_weights_all_points_count_the_same() {
        let times = golden(false);
        assert_eq!(times[0][0].weight, 128.0);
        assert!((value(Metric::Rmse, &times) - value(Metric::Rmse, &golden(true))).abs() > 1e-3);
    }

    #[test]
    fn skill_is_of_the_mean_square_and_a_time_without_anomaly_is_left_out_of_the_correlation() {
        let mut times = golden(true);
        let model = Series::new(Metric::Rmse, &times, Missing::Propagate).outcome(None);
        let doubled: Vec<Vec<Sums>> =
            times.iter().map(|t| vec![Sums { square: 4.0 * t[0].square, ..t[0] }]).collect();
        let worse = Series::new(Metric::Rmse, &doubled, Missing::Propagate).outcome(None);
        assert!((model.skill(&worse).unwrap() - 0.75).abs() < 1e-12);
        assert!((worse.minus(&model).0.unwrap() - model.value.unwrap()).abs() < 1e-12);

        times[1][0].forecast_anomaly = 0.0;
        let series = Series::new(Metric::Acc, &times, Missing::Propagate);
        assert_eq!(series.times(), 2);
        assert!(series.outcome(None).value.unwrap() > 0.99);

        times[0][0].product = f64::NAN;
        assert_eq!(Series::new(Metric::Acc, &times, Missing::Propagate).outcome(None).value, None);
        assert_eq!(Series::new(Metric::Acc, &times, Missing::Skip).times(), 1);
    }
}
