//! From physical units to numbers of order 1 and back, in float32, as nodes. See `preprocess::Normalizer` for the formula.

use super::builder::{Builder, Wire};
use crate::export::Trained;

/// Constants of the normaliser; fields are `[batch, lat, lon, channel]`.
pub struct Normalise {
    mean: Wire,
    deviation: Wire,
    logarithm: Option<Logarithm>,
    /// Whether a value is missing always.
    never: Option<Wire>,
    zero: Wire,
}

struct Logarithm {
    /// For each channel, whether it has one.
    used: Wire,
    /// 1 or 0, the same as a factor.
    factor: Wire,
    epsilon: Wire,
    one: Wire,
    /// Of the logarithm's argument, which is 1 for nothing.
    least: Wire,
}

impl Normalise {
    pub fn new(builder: &mut Builder, trained: &Trained) -> Self {
        let scalings = trained.normalizer.scalings();
        let channels = scalings.len();
        let of = |value: fn(&crate::device::Scaling) -> f32| scalings.iter().map(value).collect::<Vec<f32>>();
        let mean = builder.floats("normaliser.mean", &[channels], &of(|s| s.mean));
        let deviation = builder.floats("normaliser.deviation", &[channels], &of(|s| s.deviation));
        let logarithm = scalings.iter().any(|s| s.epsilon > 0.0).then(|| Logarithm {
            used: builder.booleans("normaliser.log", &[channels], scalings.iter().map(|s| s.epsilon > 0.0)),
            factor: builder.floats("normaliser.log_factor", &[channels], &of(|s| f32::from(s.epsilon > 0.0))),
            epsilon: builder.floats(
                "normaliser.log_epsilon",
                &[channels],
                &of(|s| if s.epsilon > 0.0 { s.epsilon } else { 1.0 }),
            ),
            one: builder.number("normaliser.one", 1.0),
            least: builder.number("normaliser.least", f32::MIN_POSITIVE),
        });
        let (rows, columns, _) = trained.info.layout.shape();
        let never = trained.normalizer.mask().map(|mask| {
            builder.booleans("normaliser.never", &[rows, columns, channels], mask.iter().map(|&m| m == 0.0))
        });
        let zero = builder.number("normaliser.zero", 0.0);
        Self { mean, deviation, logarithm, never, zero }
    }

    pub fn forward(&self, builder: &mut Builder, x: &Wire, climatology: Option<&Wire>) -> Wire {
        let mut y = x.clone();
        if let Some(log) = &self.logarithm {
            let share = builder.divide(x, &log.epsilon);
            let argument = builder.add(&share, &log.one);
            let argument = builder.node("Max", &[&argument, &log.least], Vec::new());
            let logarithm = builder.node("Log", &[&argument], Vec::new());
            y = builder.choose(&log.used, &logarithm, &y);
        }
        if let Some(climatology) = climatology {
            y = builder.subtract(&y, climatology);
        }
        let centred = builder.subtract(&y, &self.mean);
        let z = builder.divide(&centred, &self.deviation);
        let Some(never) = &self.never else { return z };
        let missing = builder.node("IsNaN", &[x], Vec::new());
        let missing = builder.node("And", &[&missing, never], Vec::new());
        builder.choose(&missing, &self.zero, &z)
    }

    pub fn inverse(&self, builder: &mut Builder, z: &Wire, climatology: Option<&Wire>) -> Wire {
        let scaled = builder.multiply(z, &self.deviation);
        let mut y = builder.add(&scaled, &self.mean);
        if let Some(climatology) = climatology {
            y = builder.add(&y, climatology);
        }
        let Some(log) = &self.logarithm else { return y };
        // The other channels' numbers may be too large for an exponential.
        let exponent = builder.multiply(&y, &log.factor);
        let power = builder.node("Exp", &[&exponent], Vec::new());
        let share = builder.subtract(&power, &log.one);
        let linear = builder.multiply(&share, &log.epsilon);
        builder.choose(&log.used, &linear, &y)
    }
}
