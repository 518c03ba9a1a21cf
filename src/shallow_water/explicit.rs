//! The classical Runge-Kutta scheme: the reference that conserves what the discretisation conserves.

use super::dynamics::Dynamics;
use crate::device::{ArenaPlan, Device, FlowOutput, Real, Triple, Write};

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
}

impl RungeKutta {
    pub fn plan(dynamics: &Dynamics, arena: &mut ArenaPlan) -> Self {
        let mut triple = || dynamics.triple(arena);
        Self { x: triple(), stages: [triple(), triple()], sum: triple() }
    }

    pub fn state(&self) -> Triple {
        self.x
    }

    /// One step of `dt` [s].
    pub fn step<T: Real>(&self, device: &mut dyn Device<T>, dynamics: &Dynamics, dt: f64) {
        let (base, sum) = (self.x, self.sum);
        let [first, second] = self.stages;
        let stages = [
            (base, first, dt / 2.0, dt / 6.0, Write::Overwrite),
            (first, second, dt / 2.0, dt / 3.0, Write::Add),
            (second, first, dt, dt / 3.0, Write::Add),
        ];
        for (x, next, a, b, write) in stages {
            dynamics.flow(device, x, &FlowOutput::Stage { base, next, a, sum, b, write });
        }
        dynamics.flow(device, first, &FlowOutput::Last { x: base, sum, b: dt / 6.0 });
        dynamics.damp(device, base, first, dt);
    }
}
