//! The classical Runge-Kutta scheme: the reference that conserves what the discretisation conserves.

use super::dynamics::Dynamics;
use super::layer::{Moment, RUNGE_KUTTA_LIMIT};
use super::{Fields, Layer};
use crate::device::{ArenaPlan, Device, FlowOutput, Real, Triple, Write};
use crate::error::{Error, Result};

/// A flow that is stepped explicitly.
///
/// ```text
/// k1 = f(x), k2 = f(x + dt/2 k1), k3 = f(x + dt/2 k2), k4 = f(x + dt k3)
/// x += dt/6 (k1 + 2 k2 + 2 k3 + k4)
/// ```
pub struct ShallowWater<T: Real> {
    device: Box<dyn Device<T>>,
    dynamics: Dynamics,
    x: Triple,
    /// The states of the second to fourth evaluation, in turns.
    stages: [Triple; 2],
    /// `dt/6 (k1 + 2 k2 + 2 k3)`
    sum: Triple,
    moment: Moment,
}

impl<T: Real> ShallowWater<T> {
    /// Steps between two looks at the state.
    const LOOK_EVERY: u64 = 16;

    /// A layer with steps of `dt` [s], at rest until it is started.
    pub fn new(layer: Layer, dt: f64, mut device: Box<dyn Device<T>>) -> Result<Self> {
        if !(dt > 0.0 && dt.is_finite()) {
            return Err(Error::input(format!("a time step must be positive, found {dt} s")));
        }
        let mut arena = ArenaPlan::default();
        let stable = layer.longest_step(RUNGE_KUTTA_LIMIT, layer.depth);
        let dynamics = Dynamics::plan(layer, &mut arena)?;
        let mut triple = || dynamics.triple(&mut arena);
        let (x, stages, sum) = (triple(), [triple(), triple()], triple());
        device.allocate(&arena)?;
        dynamics.prepare(&mut *device);
        Ok(Self { device, dynamics, x, stages, sum, moment: Moment { step: 0, time: 0.0, dt, stable } })
    }

    /// Starts from `fields` at time 0.
    pub fn start(&mut self, fields: &Fields) -> Result<()> {
        self.dynamics.upload(&mut *self.device, fields, self.x)?;
        self.moment = Moment { step: 0, time: 0.0, ..self.moment };
        self.look(fields)
    }

    /// Takes `steps` steps. Every few of them the state is looked at: a value that is no number, a dry cell or a step that
    /// has become too long ends the run with an error that says when, where and what would have been stable.
    pub fn advance(&mut self, steps: usize) -> Result<()> {
        for _ in 0..steps {
            self.step();
            if self.moment.step.is_multiple_of(Self::LOOK_EVERY) {
                self.look(&self.fields())?;
            }
        }
        Ok(())
    }

    pub fn fields(&self) -> Fields {
        self.dynamics.download(&*self.device, self.x)
    }

    /// Since the start [s].
    pub fn time(&self) -> f64 {
        self.moment.time
    }

    pub fn dt(&self) -> f64 {
        self.moment.dt
    }

    pub fn layer(&self) -> &Layer {
        self.dynamics.layer()
    }

    pub fn device(&self) -> &dyn Device<T> {
        &*self.device
    }

    fn look(&mut self, fields: &Fields) -> Result<()> {
        self.moment.stable = self.dynamics.layer().inspect(fields, &self.moment, RUNGE_KUTTA_LIMIT)?;
        Ok(())
    }

    fn step(&mut self) {
        let (dt, base, sum) = (self.moment.dt, self.x, self.sum);
        let (dynamics, device) = (&self.dynamics, &mut *self.device);
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
        self.moment.step += 1;
        self.moment.time = self.moment.step as f64 * dt;
    }
}
