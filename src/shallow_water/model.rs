//! A flow that is stepped on a device.

use std::ops::Range;

use super::dynamics::Dynamics;
use super::explicit::RungeKutta;
use super::layer::{Moment, RUNGE_KUTTA_LIMIT, StepLimit};
use super::nest::{Driving, Nest};
use super::semi_implicit::SemiImplicit;
use super::{Fields, Layer};
use crate::device::{ArenaPlan, Device, HALO, Rates, Real, Slot, Triple};
use crate::error::{Error, Result};

/// One layer of fluid in motion.
pub struct ShallowWater<T: Real> {
    device: Box<dyn Device<T>>,
    dynamics: Dynamics,
    scheme: Scheme,
    /// `[rows, 3]`: see [`Rates`].
    rate_factors: Slot,
    /// The rate [s⁻¹] of what is as fast in any flow.
    steady_rate: f64,
    moment: Moment,
}

#[derive(Debug, Clone)]
enum Scheme {
    RungeKutta(RungeKutta),
    SemiImplicit(SemiImplicit),
}

impl Scheme {
    fn state(&self) -> Triple {
        match self {
            Scheme::RungeKutta(scheme) => scheme.state(),
            Scheme::SemiImplicit(scheme) => scheme.state(),
        }
    }

    fn limit(&self) -> StepLimit {
        match self {
            Scheme::RungeKutta(_) => StepLimit::Waves(RUNGE_KUTTA_LIMIT),
            Scheme::SemiImplicit(_) => StepLimit::Wind,
        }
    }
}

impl<T: Real> ShallowWater<T> {
    /// Steps between two looks at the state.
    pub const LOOK_EVERY: u64 = 16;

    /// A layer of the whole globe at rest that takes steps of `dt` [s] by the classical Runge-Kutta scheme: the reference.
    /// [`Layer::longest_step`] says how long they may be.
    pub fn new(layer: Layer, dt: f64, device: Box<dyn Device<T>>) -> Result<Self> {
        if !layer.sphere.global {
            return Err(Error::input("a box must be told what happens at its edge"));
        }
        let all = 0..layer.sphere.rows;
        Self::with_scheme(layer, all, dt, device, |dynamics, arena| {
            Ok(Scheme::RungeKutta(RungeKutta::plan(dynamics, None, arena)))
        })
    }

    /// As [`new`](Self::new), of one of the `bands` of rows that the layer is cut into: a device that was given
    /// [company](crate::device::Device::company) steps the rows of band `own` while others step the rest.
    /// [`start`](Self::start) takes fields of all rows, [`fields`](Self::fields) gives those of the band.
    pub fn of_band(
        layer: Layer,
        bands: &[Range<usize>],
        own: usize,
        dt: f64,
        device: Box<dyn Device<T>>,
    ) -> Result<Self> {
        if !layer.sphere.global {
            return Err(Error::input("a box must be told what happens at its edge"));
        }
        let band = checked(&layer, bands, own)?;
        Self::with_scheme(layer, band, dt, device, |dynamics, arena| {
            Ok(Scheme::RungeKutta(RungeKutta::plan(dynamics, None, arena)))
        })
    }

    /// A layer in a box, stepped by the Runge-Kutta scheme and drawn towards what `driving` says in a zone of `zone` cells
    /// along its edge.
    pub fn regional(
        layer: Layer,
        dt: f64,
        driving: Driving,
        zone: usize,
        device: Box<dyn Device<T>>,
    ) -> Result<Self> {
        if layer.sphere.global {
            return Err(Error::input("the globe has no edge that could be driven"));
        }
        let all = 0..layer.sphere.rows;
        Self::with_scheme(layer, all, dt, device, |dynamics, arena| {
            let nest = Nest::plan(driving, zone, dynamics, arena)?;
            Ok(Scheme::RungeKutta(RungeKutta::plan(dynamics, Some(nest), arena)))
        })
    }

    /// A layer of the whole globe at rest that takes leapfrog steps of `dt` [s] in which gravity waves are implicit: as
    /// accurate, and an order of magnitude faster. [`Layer::semi_implicit_step`] says how long they may be.
    pub fn semi_implicit(layer: Layer, dt: f64, device: Box<dyn Device<T>>) -> Result<Self> {
        let all = 0..layer.sphere.rows;
        Self::semi_implicit_of_band(layer, &[all], 0, dt, device)
    }

    /// As [`semi_implicit`](Self::semi_implicit), of one band as with [`of_band`](Self::of_band).
    pub fn semi_implicit_of_band(
        layer: Layer,
        bands: &[Range<usize>],
        own: usize,
        dt: f64,
        device: Box<dyn Device<T>>,
    ) -> Result<Self> {
        if !layer.sphere.global {
            return Err(Error::input("semi-implicit steps need the whole globe")
                .hint("step a box by the Runge-Kutta scheme"));
        }
        let band = checked(&layer, bands, own)?;
        Self::with_scheme(layer, band, dt, device, |dynamics, arena| {
            Ok(Scheme::SemiImplicit(SemiImplicit::plan(dynamics, bands, own, dt, arena)))
        })
    }

    fn with_scheme(
        layer: Layer,
        band: Range<usize>,
        dt: f64,
        mut device: Box<dyn Device<T>>,
        plan: impl FnOnce(&Dynamics, &mut ArenaPlan) -> Result<Scheme>,
    ) -> Result<Self> {
        if !(dt > 0.0 && dt.is_finite()) {
            return Err(Error::input(format!("a time step must be positive, found {dt} s")));
        }
        let mut arena = ArenaPlan::default();
        let dynamics = Dynamics::plan_band(layer, band, &mut arena)?;
        let scheme = plan(&dynamics, &mut arena)?;
        let rate_factors = arena.slot(3 * dynamics.band().len());
        device.allocate(&arena)?;
        dynamics.prepare(&mut *device);
        match &scheme {
            Scheme::RungeKutta(scheme) => scheme.prepare(&mut *device, &dynamics),
            Scheme::SemiImplicit(scheme) => scheme.prepare(&mut *device),
        }
        let (layer, limit) = (dynamics.layer(), scheme.limit());
        let rows = dynamics.band().clone();
        let factors: Vec<T> = rows.flat_map(|j| layer.rate_factors(limit, j as isize)).map(T::of).collect();
        device.upload(rate_factors, &factors);
        let steady_rate = layer.largest_steady_rate(limit);
        let stable = match limit {
            StepLimit::Waves(reach) => layer.longest_step(reach, layer.depth),
            StepLimit::Wind => layer.semi_implicit_step(),
        };
        let moment = Moment { step: 0, time: 0.0, dt, stable };
        Ok(Self { device, dynamics, scheme, rate_factors, steady_rate, moment })
    }

    /// Starts from `fields` at time 0.
    pub fn start(&mut self, fields: &Fields) -> Result<()> {
        self.dynamics.upload(&mut *self.device, fields, self.scheme.state())?;
        match &mut self.scheme {
            Scheme::RungeKutta(scheme) => scheme.start(&mut *self.device, &self.dynamics),
            Scheme::SemiImplicit(scheme) => scheme.restart(),
        }
        self.moment = Moment { step: 0, time: 0.0, ..self.moment };
        self.device.finish()?;
        self.examine(fields, 0)
    }

    /// Takes `steps` steps. Every few of them the state is looked at: a value that is no number, a dry cell or a step that
    /// has become too long ends the run with an error that says when, where and what would have been stable.
    ///
    /// Those who step other bands are told, so that they do not wait.
    pub fn advance(&mut self, steps: usize) -> Result<()> {
        let result = self.advance_alone(steps);
        if let (Err(error), Some(company)) = (&result, self.device.company()) {
            company.fail(error);
        }
        result
    }

    fn advance_alone(&mut self, steps: usize) -> Result<()> {
        for _ in 0..steps {
            self.step()?;
            if self.moment.step.is_multiple_of(Self::LOOK_EVERY) {
                self.look()?;
            }
        }
        self.device.finish()
    }

    pub fn fields(&self) -> Fields {
        self.dynamics.download(&*self.device, self.scheme.state())
    }

    /// Since the start [s].
    pub fn time(&self) -> f64 {
        self.moment.time
    }

    /// Steps since the start.
    pub fn steps(&self) -> u64 {
        self.moment.step
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

    /// Asks the device for the fastest rate alone, and looks closer where that is too fast.
    fn look(&mut self) -> Result<()> {
        let (layer, limit) = (self.dynamics.layer(), self.scheme.limit());
        let rates = Rates {
            rows: self.dynamics.band().len(),
            columns: layer.sphere.columns,
            x: self.scheme.state(),
            depth: layer.depth,
            factors: self.rate_factors,
        };
        let fastest = self.device.fastest_rate(&rates).max(self.steady_rate);
        if fastest * self.moment.dt > limit.reach() {
            self.device.finish()?;
            return self.examine(&self.fields(), self.dynamics.band().start);
        }
        self.moment.stable = limit.stable_step(fastest);
        Ok(())
    }

    /// Fields that begin with row `first`.
    fn examine(&mut self, fields: &Fields, first: usize) -> Result<()> {
        let layer = self.dynamics.layer();
        self.moment.stable = layer.inspect(fields, first, &self.moment, self.scheme.limit())?;
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let (Moment { time, dt, .. }, device) = (self.moment, &mut *self.device);
        match &mut self.scheme {
            Scheme::RungeKutta(scheme) => scheme.step(device, &self.dynamics, time, dt)?,
            Scheme::SemiImplicit(scheme) => scheme.step(device, &self.dynamics, dt),
        }
        self.moment.step += 1;
        self.moment.time = self.moment.step as f64 * dt;
        Ok(())
    }
}

/// The band of that number, where the bands are all rows, one behind the other, and each holds what its neighbours' halos and
/// its own pole rule copy.
fn checked(layer: &Layer, bands: &[Range<usize>], own: usize) -> Result<Range<usize>> {
    let rows = layer.sphere.rows;
    let mut end = 0;
    for band in bands {
        // The row of faces on the pole is no other's mirror.
        let least = if band.start == 0 || band.end == rows { HALO + 1 } else { HALO };
        if band.start != end || (bands.len() > 1 && band.len() < least) {
            return Err(Error::input(format!(
                "rows {band:?} are no band of {rows} rows: it begins where the one before ends and holds at least {least}"
            )));
        }
        end = band.end;
    }
    let band = bands.get(own).cloned().filter(|_| end == rows);
    band.ok_or_else(|| {
        Error::input(format!("{bands:?} are no bands of {rows} rows of which one is number {own}"))
    })
}
