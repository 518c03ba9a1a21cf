//! The edge of a box: a zone in which the flow is drawn towards given states (Davies 1976, doi:10.1002/qj.49710243210).

use super::dynamics::Dynamics;
use super::{Fields, Layer};
use crate::device::{ArenaPlan, Device, Real, Slot, Triple};
use crate::error::{Error, Result};

/// What the edge of a box is drawn towards.
#[derive(Debug, Clone, PartialEq)]
pub enum Driving {
    /// The initial state: nothing is known of the future.
    Frozen,
    /// States at times since the start [s], ascending from 0, and straight lines between them. This tells the box what
    /// comes in over its edge: for hindcasts, never to be compared with a forecast that is not told.
    Analyses(Vec<(f64, Fields)>),
}

/// Width of the zone in cells by default.
pub const ZONE: usize = 8;

/// After each step `x += a_d (target - x)`, `a_d = 1 - tanh(d / 2)`, d cells from the edge of each staggered field. The
/// outermost ring, d = 0, is prescribed also within a step: its tendency would need what lies outside.
#[derive(Debug, Clone)]
pub(super) struct Nest {
    driving: Driving,
    zone: usize,
    /// a_d, and 1 on the ring with 0 elsewhere.
    weights: Triple,
    ring: Triple,
    /// At the middle and at the end of a step.
    middle: Triple,
    end: Triple,
}

impl Nest {
    pub fn plan(driving: Driving, zone: usize, dynamics: &Dynamics, arena: &mut ArenaPlan) -> Result<Self> {
        let layer = dynamics.layer();
        let least = layer.sphere.rows.min(layer.sphere.columns);
        if zone == 0 || 2 * zone >= least {
            return Err(Error::input(format!(
                "zones of {zone} cells at the edges of a box of {} x {} cells leave nothing between them or prescribe \
                 nothing",
                layer.sphere.rows, layer.sphere.columns
            ))
            .hint("choose a larger box, or a zone of 4 to 8 cells"));
        }
        if let Driving::Analyses(analyses) = &driving {
            analyses.iter().try_for_each(|(_, fields)| layer.check_fields(fields))?;
            let ascending = analyses.windows(2).all(|pair| pair[0].0 < pair[1].0);
            if analyses.len() < 2 || analyses[0].0 != 0.0 || !ascending {
                return Err(Error::input(format!(
                    "a box is driven by at least two states at ascending times from the start on, found {:?} s",
                    analyses.iter().map(|(time, _)| *time).collect::<Vec<_>>()
                )));
            }
        }
        let mut triple = || dynamics.triple(arena);
        let (weights, ring, end) = (triple(), triple(), triple());
        let middle = if driving == Driving::Frozen { end } else { triple() };
        Ok(Self { driving, zone, weights, ring, middle, end })
    }

    /// Fills the tables, after the device has allocated the plan.
    pub fn prepare<T: Real>(&self, device: &mut dyn Device<T>, dynamics: &Dynamics) {
        for (field, (weights, ring)) in each(self.weights).into_iter().zip(each(self.ring)).enumerate() {
            let distances = distances(dynamics.layer(), field);
            let weight = |d: usize| if d < self.zone { 1.0 - (d as f64 / 2.0).tanh() } else { 0.0 };
            let values: Vec<f64> = distances.iter().map(|&d| weight(d)).collect();
            dynamics.upload_field(device, &values, 0.0, weights);
            let values: Vec<f64> = distances.iter().map(|&d| if d == 0 { 1.0 } else { 0.0 }).collect();
            dynamics.upload_field(device, &values, 0.0, ring);
        }
    }

    /// Takes note of the initial state.
    pub fn start<T: Real>(&self, device: &mut dyn Device<T>, dynamics: &Dynamics, initial: Triple) {
        if self.driving == Driving::Frozen {
            dynamics.fill(device, initial);
            each(initial).into_iter().zip(each(self.end)).for_each(|(from, to)| device.copy(from, to));
        }
    }

    /// Brings the targets of the step from `time` to `time + dt` [s].
    pub fn begin_step<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        dynamics: &Dynamics,
        time: f64,
        dt: f64,
    ) -> Result<()> {
        let Driving::Analyses(analyses) = &self.driving else { return Ok(()) };
        dynamics.upload(device, &between(analyses, time + dt / 2.0)?, self.middle)?;
        dynamics.upload(device, &between(analyses, time + dt)?, self.end)
    }

    /// Prescribes the ring of a state in the middle of the step.
    pub fn middle<T: Real>(&self, device: &mut dyn Device<T>, x: Triple) {
        relax(device, x, self.middle, self.ring);
    }

    /// Prescribes the ring of a state at the end of the step.
    pub fn end<T: Real>(&self, device: &mut dyn Device<T>, x: Triple) {
        relax(device, x, self.end, self.ring);
    }

    /// Draws the zone of the finished step.
    pub fn finish<T: Real>(&self, device: &mut dyn Device<T>, x: Triple) {
        relax(device, x, self.end, self.weights);
    }
}

fn each(triple: Triple) -> [Slot; 3] {
    [triple.u, triple.v, triple.h]
}

fn relax<T: Real>(device: &mut dyn Device<T>, x: Triple, target: Triple, weights: Triple) {
    for ((x, target), weights) in each(x).into_iter().zip(each(target)).zip(each(weights)) {
        device.relax(x, target, weights);
    }
}

/// Cells from the edge, of u, v or h (0, 1, 2). The faces on the edge itself and the first ones inside count alike: the
/// tendency of neither can be computed from what lies in the box.
fn distances(layer: &Layer, field: usize) -> Vec<usize> {
    let (rows, columns) = (layer.sphere.rows, layer.sphere.columns);
    let place = |k: usize, n: usize, on_faces: bool| k.saturating_sub(usize::from(on_faces)).min(n - 1 - k);
    (0..rows * columns)
        .map(|k| place(k / columns, rows, field == 1).min(place(k % columns, columns, field == 0)))
        .collect()
}

/// The state at a time, on the straight line between its neighbours.
fn between(analyses: &[(f64, Fields)], time: f64) -> Result<Fields> {
    let last = analyses.len() - 1;
    // The end of a run is the end of its driving but for the round-off of its steps.
    let end = analyses[last].0;
    if time > end * (1.0 + 1e-12) {
        return Err(Error::input(format!(
            "the box is driven for {:.2} h and was to run to {:.2} h",
            end / 3600.0,
            time / 3600.0
        ))
        .hint("give later states for its edge, or a shorter lead"));
    }
    let after = analyses.iter().position(|(at, _)| *at > time).unwrap_or(last);
    let ((t0, from), (t1, to)) = (&analyses[after - 1], &analyses[after]);
    let share = ((time - t0) / (t1 - t0)).min(1.0);
    let line = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (1.0 - share) * a + share * b).collect();
    Ok(Fields { u: line(&from.u, &to.u), v: line(&from.v, &to.v), h: line(&from.h, &to.h) })
}

#[cfg(test)]
mod tests;
