//! The classical Runge-Kutta scheme: the reference that conserves what the discretisation conserves.

use super::dynamics::Dynamics;
use super::nest::Nest;
use crate::device::{ArenaPlan, Device, FlowOutput, Real, Triple, Write};
use crate::error::Result;

/// A state, and what a step from it takes.
///
/// ```text
/// k1 = f(x), k2 = f(x + dt/2 k1), k3 = f(x + dt/2 k2), k4 = f(x + dt k3)
/// x += dt/6 (k1 + 2 k2 + 2 k3 + k4)
/// ```
#[derive(Debug, Clone)]
pub(super) struct RungeKutta {
    x: Triple,
    /// The states of the second to fourth evaluation, in turns.
    stages: [Triple; 2],
    /// `dt/6 (k1 + 2 k2 + 2 k3)`
    sum: Triple,
    /// Of a box.
    nest: Option<Nest>,
}

impl RungeKutta {
    pub fn plan(dynamics: &Dynamics, nest: Option<Nest>, arena: &mut ArenaPlan) -> Self {
        let mut triple = || dynamics.triple(arena);
        Self { x: triple(), stages: [triple(), triple()], sum: triple(), nest }
    }

    /// Fills the tables, after the device has allocated the plan.
    pub fn prepare<T: Real>(&self, device: &mut dyn Device<T>, dynamics: &Dynamics) {
        if let Some(nest) = &self.nest {
            nest.prepare(device, dynamics);
        }
    }

    /// Takes note of the initial state.
    pub fn start<T: Real>(&self, device: &mut dyn Device<T>, dynamics: &Dynamics) {
        if let Some(nest) = &self.nest {
            nest.start(device, dynamics, self.x);
        }
    }

    pub fn state(&self) -> Triple {
        self.x
    }

    /// One step of `dt` from `time` since the start [s].
    pub fn step<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        dynamics: &Dynamics,
        time: f64,
        dt: f64,
    ) -> Result<()> {
        let (base, sum, nest) = (self.x, self.sum, &self.nest);
        if let Some(nest) = nest {
            nest.begin_step(device, dynamics, time, dt)?;
        }
        let [first, second] = self.stages;
        let stages = [
            (base, first, dt / 2.0, dt / 6.0, Write::Overwrite),
            (first, second, dt / 2.0, dt / 3.0, Write::Add),
            (second, first, dt, dt / 3.0, Write::Add),
        ];
        for (stage, (x, next, a, b, write)) in stages.into_iter().enumerate() {
            dynamics.flow(device, x, &FlowOutput::Stage { base, next, a, sum, b, write });
            if let Some(nest) = nest {
                if stage < 2 { nest.middle(device, next) } else { nest.end(device, next) }
            }
        }
        dynamics.flow(device, first, &FlowOutput::Last { x: base, sum, b: dt / 6.0 });
        dynamics.damp(device, base, first, dt);
        if let Some(nest) = nest {
            nest.finish(device, base);
        }
        Ok(())
    }
}
