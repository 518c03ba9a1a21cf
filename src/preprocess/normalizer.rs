//! From physical units to numbers of order 1, and back.
//!
//! ```text
//! y = ln(1 + x / epsilon) or x          z = (y - climatology(valid) - mean) / deviation
//! ```
//!
//! Mean and deviation are one number per quantity, over all points and dates of the training span. Wind components have
//! mean 0 and their root mean square for deviation, so that the change of sign across a pole commutes.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::statistics::{Moments, Statistics};
use super::upright::{Suspect, refuse_turned, suspects};
use super::view::TrainingView;
use crate::climatology::{Arrays, Climatology, ClimatologyFit, ClimatologyKind};
use crate::device::Scaling;
use crate::error::{Context, Error, Result};
use crate::field::{Layout, State};
use crate::io::checkpoint::{Tensor, Tensors};
use crate::time::ValidTime;
use crate::variable::{Behaviour, Quantity};

/// How to normalise.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalizerPlan {
    /// Subtract the climatology, not only the mean.
    pub anomalies: bool,
    pub climatology: ClimatologyKind,
    /// Quantities that are never negative, with the epsilon [their SI unit] of `ln(1 + x / epsilon)`.
    pub log: Vec<(Quantity, f64)>,
}

/// Means, deviations and climatology of the training span.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalizer {
    layout: Arc<Layout>,
    /// One per channel.
    scales: Vec<Scale>,
    /// Of the quantities after the logarithm.
    climatology: Option<Climatology>,
    /// `[lat, lon, channel]`
    mask: Option<Arc<[f32]>>,
}

/// How one quantity is normalised. Numbers are kept in the precision in which they are used, so that a checkpoint gives
/// back the same bits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    /// 0 without a logarithm.
    epsilon: f32,
    mean: f32,
    deviation: f32,
    /// Deviation of the change over one step.
    tendency: f32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    quantities: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    anomalies: Option<ClimatologyKind>,
    has_mask: bool,
}

const SCALES: [&str; 4] = ["log_epsilon", "mean", "deviation", "tendency_deviation"];
/// Parts of the training span whose statistics are taken in parallel.
const STRETCHES: usize = 16;
/// States that a thread reads together: chunks along time are inflated once for them.
const MOST_TOGETHER: usize = 16;
const PREFIX: &str = "normalizer.";
const CLIMATOLOGY: &str = "normalizer.climatology.";
const MASK: &str = "normalizer.mask";

impl Normalizer {
    /// Learns from the training span: one pass for statistics, one before it for the climatology where anomalies are
    /// wanted.
    pub fn fit(training: &TrainingView, plan: &NormalizerPlan) -> Result<Self> {
        let layout = training.layout().clone();
        let epsilons = epsilons(&layout, plan)?;
        let fit = |what: &str| format!("fitting the {what} on split.train ({})", training.span());
        let climatology = if plan.anomalies {
            let mut climatology = ClimatologyFit::new(layout.clone(), plan.climatology);
            training.visit(|state| {
                let mut values: Vec<f32> = state.values.iter().copied().collect();
                transform(&mut values, &epsilons);
                climatology.add_values(state.valid, &values)
            })?;
            Some(climatology.finish().context(|| fit("climatology"))?)
        } else {
            None
        };
        let statistics =
            statistics(training, &epsilons, climatology.as_ref()).context(|| fit("statistics"))?;
        let mut scales = Vec::new();
        for (channel, quantity) in layout.quantities.iter().enumerate() {
            let moments = (&statistics.values[channel], &statistics.tendencies[channel]);
            scales.push(scale(quantity, epsilons[channel], moments).context(|| fit("statistics"))?);
        }
        let mask: Option<Arc<[f32]>> = statistics
            .seen
            .contains(&false)
            .then(|| statistics.seen.iter().map(|&seen| if seen { 1.0 } else { 0.0 }).collect());
        Ok(Self { layout, scales, climatology, mask })
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Overwrites `out`, `[lat, lon, channel]`. Points that are always missing become 0; other missing values NaN.
    pub fn normalize(&self, state: &State, out: &mut [f32]) -> Result<()> {
        self.check_size(out.len())?;
        if state.values.len() != out.len() {
            return Err(Error::run(format!(
                "a state of {} values cannot be normalised by the statistics of {}",
                state.values.len(),
                out.len()
            )));
        }
        let channels = self.scales.len();
        let normal = self.climatology_at(state.valid)?;
        for (i, (out, &x)) in out.iter_mut().zip(&state.values).enumerate() {
            let scale = self.scales[i % channels];
            let y = scale.transform(x) - normal.as_ref().map_or(0.0, |c| c[i]);
            *out = (y - scale.mean) / scale.deviation;
        }
        if let Some(mask) = &self.mask {
            out.iter_mut().zip(mask.iter()).filter(|(_, mask)| **mask == 0.0).for_each(|(out, _)| *out = 0.0);
        }
        Ok(())
    }

    /// The inverse: `values` are `[lat, lon, channel]`; points that are always missing become NaN.
    pub fn unnormalize(&self, values: &[f32], valid: ValidTime) -> Result<State> {
        self.check_size(values.len())?;
        let channels = self.scales.len();
        let normal = self.climatology_at(valid)?;
        let mut state = State::missing(self.layout.clone(), valid);
        for (i, (out, &z)) in state.values.iter_mut().zip(values).enumerate() {
            if self.mask.as_ref().is_some_and(|mask| mask[i] == 0.0) {
                continue;
            }
            let scale = self.scales[i % channels];
            let y = z * scale.deviation + scale.mean + normal.as_ref().map_or(0.0, |c| c[i]);
            *out = scale.inverse(y);
        }
        Ok(state)
    }

    /// Makes of fields in physical units that a graph gave what [`unnormalize`](Self::unnormalize) would have given: NaN where
    /// there never is a value, nothing below zero where there was a logarithm.
    pub fn mend(&self, values: &mut [f32]) {
        let channels = self.scales.len();
        for (i, x) in values.iter_mut().enumerate() {
            if self.mask.as_ref().is_some_and(|mask| mask[i] == 0.0) {
                *x = f32::NAN;
            } else if self.scales[i % channels].epsilon > 0.0 {
                *x = x.max(0.0);
            }
        }
    }

    /// Deviation of the tendency over one step, in units of the deviation, per channel.
    pub fn tendency_scale(&self) -> Vec<f32> {
        self.scales.iter().map(|s| s.tendency / s.deviation).collect()
    }

    /// `[lat, lon, channel]`: 1 where there are data, 0 where they are always missing; `None` when nothing is.
    pub fn mask(&self) -> Option<&[f32]> {
        self.mask.as_deref()
    }

    /// For a device or a graph that normalises by itself: what is done to each channel.
    pub fn scalings(&self) -> Vec<Scaling> {
        let of = |s: &Scale| Scaling { epsilon: s.epsilon, mean: s.mean, deviation: s.deviation };
        self.scales.iter().map(of).collect()
    }

    /// What is subtracted before the means.
    pub(super) fn climatology(&self) -> Option<&Climatology> {
        self.climatology.as_ref()
    }

    pub(super) fn shared_mask(&self) -> Option<Arc<[f32]>> {
        self.mask.clone()
    }

    /// What a checkpoint keeps besides the tensors.
    pub fn card(&self) -> serde_json::Value {
        serde_json::json!(Card {
            quantities: self.layout.quantities.iter().map(Quantity::to_string).collect(),
            anomalies: self.climatology.as_ref().map(Climatology::kind),
            has_mask: self.mask.is_some(),
        })
    }

    /// Named `normalizer.*`.
    pub fn to_tensors(&self) -> Tensors {
        let channels = self.scales.len();
        let column =
            |pick: fn(&Scale) -> f32| Tensor::f32(vec![channels], self.scales.iter().map(pick).collect());
        let columns =
            [column(|s| s.epsilon), column(|s| s.mean), column(|s| s.deviation), column(|s| s.tendency)];
        let mut tensors: Tensors =
            SCALES.iter().zip(columns).map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor)).collect();
        if let Some(mask) = &self.mask {
            let (rows, columns, channels) = self.layout.shape();
            tensors.insert(MASK.into(), Tensor::f32(vec![rows, columns, channels], mask.to_vec()));
        }
        for (name, (shape, values)) in self.climatology.iter().flat_map(Climatology::to_arrays) {
            tensors.insert(format!("{CLIMATOLOGY}{name}"), Tensor::f32(shape, values));
        }
        tensors
    }

    /// The inverse of [`card`](Self::card) and [`to_tensors`](Self::to_tensors).
    pub fn from_tensors(layout: Arc<Layout>, card: &serde_json::Value, tensors: &Tensors) -> Result<Self> {
        let card = Card::deserialize(card)
            .map_err(|error| Error::input("the normaliser of a model cannot be read").caused_by(error))?;
        let labels: Vec<String> = layout.quantities.iter().map(Quantity::to_string).collect();
        if card.quantities != labels {
            return Err(Error::input(format!(
                "the normaliser of a model is for {}, its layout for {}",
                card.quantities.join(", "),
                labels.join(", ")
            )));
        }
        let get = |name: &str, size: usize| {
            tensors.get(name).and_then(Tensor::as_f32).filter(|values| values.len() == size).ok_or_else(
                || {
                    Error::input(format!(
                        "the tensor '{name}' of a model is missing or is not of {size} float32 values"
                    ))
                },
            )
        };
        let channels = layout.channels();
        let mut columns = [&[][..]; 4];
        for (column, name) in columns.iter_mut().zip(SCALES) {
            *column = get(&format!("{PREFIX}{name}"), channels)?;
        }
        let [epsilon, mean, deviation, tendency] = columns;
        let scales = (0..channels).map(|i| Scale {
            epsilon: epsilon[i],
            mean: mean[i],
            deviation: deviation[i],
            tendency: tendency[i],
        });
        let values = layout.grid.points() * channels;
        let mask = if card.has_mask { Some(get(MASK, values)?.into()) } else { None };
        let climatology = match card.anomalies {
            None => None,
            Some(_) => {
                let arrays = tensors.iter().filter_map(|(name, tensor)| {
                    let name = name.strip_prefix(CLIMATOLOGY)?;
                    Some((name.to_string(), (tensor.shape.clone(), tensor.as_f32()?.to_vec())))
                });
                let climatology = Climatology::from_arrays(&arrays.collect::<Arrays>())?;
                let (rows, columns, channels) = layout.shape();
                if climatology.shape() != [rows, columns, channels] {
                    return Err(Error::input(format!(
                        "the climatology of a model has shape {:?}, its layout {:?}",
                        climatology.shape(),
                        layout.shape()
                    )));
                }
                Some(climatology)
            }
        };
        Ok(Self { scales: scales.collect(), layout, climatology, mask })
    }

    /// Whether it works on anomalies.
    pub fn has_climatology(&self) -> bool {
        self.climatology.is_some()
    }

    /// What is subtracted before the mean, `[lat, lon, channel]`; `None` without anomalies.
    pub fn climatology_at(&self, valid: ValidTime) -> Result<Option<Vec<f32>>> {
        let Some(climatology) = &self.climatology else { return Ok(None) };
        let mut values = vec![0.0; self.layout.grid.points() * self.scales.len()];
        climatology.evaluate(valid, &mut values)?;
        Ok(Some(values))
    }

    fn check_size(&self, found: usize) -> Result<()> {
        let expected = self.layout.grid.points() * self.scales.len();
        if found != expected {
            return Err(Error::run(format!("a normalised state has {expected} values, not {found}")));
        }
        Ok(())
    }
}

impl Scale {
    fn transform(self, x: f32) -> f32 {
        Scaling { epsilon: self.epsilon, mean: self.mean, deviation: self.deviation }.transform(x)
    }

    fn inverse(self, y: f32) -> f32 {
        if self.epsilon > 0.0 { (self.epsilon * y.exp_m1()).max(0.0) } else { y }
    }
}

fn transform(values: &mut [f32], epsilons: &[f32]) {
    let only_log = |epsilon| Scale { epsilon, mean: 0.0, deviation: 1.0, tendency: 1.0 };
    for state in values.chunks_mut(epsilons.len()) {
        state.iter_mut().zip(epsilons).for_each(|(x, &epsilon)| *x = only_log(epsilon).transform(*x));
    }
}

/// Statistics of what is normalised. Stretches of the span are read in parallel and
/// joined in the order of time; their number does not depend on that of the threads, so neither do the results.
fn statistics(
    training: &TrainingView,
    epsilons: &[f32],
    climatology: Option<&Climatology>,
) -> Result<Statistics> {
    let channels = epsilons.len();
    let values = training.layout().grid.points() * channels;
    let step = training.catalogue().step();
    let empty = || Statistics::new(values, channels, step);
    let stretch = |dates: &[ValidTime]| -> Result<(Statistics, Vec<Suspect>)> {
        let (mut statistics, mut turned) = (empty(), Vec::new());
        let mut normal = vec![0.0; values];
        for dates in dates.chunks(training.block().min(MOST_TOGETHER)) {
            for state in training.read_many(dates)? {
                for (channel, quantity) in training.layout().quantities.iter().enumerate() {
                    // One field in another unit would hide in the mean of many.
                    let field = Moments::of(state.channel(channel).iter().copied());
                    check_plausible(quantity, &field).context(|| state.valid.to_string())?;
                }
                let mut values: Vec<f32> = state.values.iter().copied().collect();
                transform(&mut values, epsilons);
                if let Some(climatology) = climatology {
                    climatology.evaluate(state.valid, &mut normal)?;
                    turned.extend(suspects(training.layout(), state.valid, &values, &normal));
                    values.iter_mut().zip(&normal).for_each(|(x, c)| *x -= c);
                }
                statistics.add(state.valid, &values)?;
            }
        }
        Ok((statistics, turned))
    };
    let times = training.times();
    let parts: Vec<Result<_>> =
        times.par_chunks(times.len().div_ceil(STRETCHES).max(1)).map(stretch).collect();
    let (mut whole, mut turned) = (empty(), Vec::new());
    for part in parts {
        let (part, its_turned) = part?;
        whole.merge(part);
        turned.extend(its_turned);
    }
    refuse_turned(training.layout(), &turned, &whole.values)?;
    Ok(whole)
}

/// A mean outside what is possible means that the numbers are something else than they are said to be.
fn check_plausible(quantity: &Quantity, values: &Moments) -> Result<()> {
    let Some(variable) = quantity.variable() else { return Ok(()) };
    let ((low, high), mean) = (variable.plausible, values.mean);
    if values.count == 0 || (low..=high).contains(&mean) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the mean of {quantity} is {mean:.6} {units}: {name} lies between {low} and {high} {units}",
        name = variable.long_name,
        units = variable.units
    ))
    .hint("the file has another unit or another variable than it says: correct it with unit = \"...\" or rename = \"...\" in its source"))
}

fn epsilons(layout: &Layout, plan: &NormalizerPlan) -> Result<Vec<f32>> {
    let mut epsilons = vec![0.0; layout.channels()];
    for (quantity, epsilon) in &plan.log {
        if layout.quantities.iter().any(|q| q == quantity && q.behaviour() == Behaviour::WindComponent) {
            return Err(Error::input(format!("{quantity} can be negative: it has no logarithm")));
        }
        let channel = layout.channel(&quantity.to_string()).context(|| "input.log".into())?;
        if !(epsilon.is_finite() && *epsilon > 0.0) {
            return Err(Error::input(format!(
                "input.log: the epsilon of {quantity} must be positive, not {epsilon}"
            )));
        }
        epsilons[channel] = *epsilon as f32;
    }
    Ok(epsilons)
}

fn scale(quantity: &Quantity, epsilon: f32, (values, changes): (&Moments, &Moments)) -> Result<Scale> {
    if values.count == 0 {
        return Err(Error::input(format!("{quantity} is missing everywhere and always")));
    }
    let (mean, deviation) = match quantity.behaviour() {
        Behaviour::WindComponent => (0.0, values.root_mean_square()),
        _ => (values.mean, values.deviation()),
    };
    let tendency = changes.deviation();
    // A constant field that rounding moves is still constant.
    let least = 1e-7 * values.mean.abs();
    if !deviation.is_finite() || deviation <= least {
        return Err(Error::input(format!("{quantity} does not vary: it is {mean} at every point and date"))
            .hint("leave it out, or give it as a static field"));
    }
    if !tendency.is_finite() || tendency <= least {
        return Err(Error::input(format!("{quantity} does not change from one step to the next"))
            .hint("give it as a static field, or check the step"));
    }
    Ok(Scale { epsilon, mean: mean as f32, deviation: deviation as f32, tendency: tendency as f32 })
}
