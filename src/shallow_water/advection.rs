//! Scalars carried by given winds: the simplest physics that a forecast of temperature has to beat.
//!
//! Semi-Lagrangian advection with cubic interpolation and implicit diffusion,
//! `(1 - dt kappa lap) q(x, t + dt) = q(x_d, t)`; stable with any step, not conservative.

use super::{Sphere, laplacian};
use crate::device::{
    ArenaPlan, Coefficients, Departures, Device, Elliptic, Image, Interpolation, Lattice, Real, Slot, Sum,
    Term,
};
use crate::error::{Error, Result};

/// The share of the wind at 500 hPa that steers anomalies of temperature near the ground.
///
/// Advected by the wind near the ground, or whole instead of as a departure from the usual temperature of the hour, a
/// forecast is no better than persistence.
pub const STEERING_SHARE: f64 = 0.5;

/// How scalars are carried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdvectionSettings {
    /// Longest step [s]; one shorter is taken where it divides the time asked for.
    pub step_seconds: f64,
    /// kappa [m² s⁻¹]; nothing diffuses through the edges of a box.
    pub diffusivity: f64,
    /// Whether a step may make no new extremes.
    pub limited: bool,
}

impl Default for AdvectionSettings {
    fn default() -> Self {
        Self { step_seconds: 3600.0, diffusivity: 0.0, limited: false }
    }
}

/// The equation `lap q - q / (kappa dt) = -q_before / (kappa dt)`.
struct Diffusion {
    elliptic: Elliptic,
    /// `[rows]`: area / (kappa dt), with the sign of the right side.
    factors: Slot,
    /// `[rows, columns]`
    right: Slot,
}

/// Scalars on the centres of a [`Sphere`]'s cells, and the winds that carry them.
pub struct Advection<T: Real> {
    device: Box<dyn Device<T>>,
    sphere: Sphere,
    settings: AdvectionSettings,
    lattice: Lattice,
    winds: [Slot; 2],
    places: Slot,
    /// The scalars, before and after a step in turns.
    scalars: [Slot; 2],
    diffusion: Option<Diffusion>,
    /// The step that places and diffusion belong to [s].
    placed: Option<f64>,
    started: bool,
    blowing: bool,
}

impl<T: Real> Advection<T> {
    /// Carries `scalars` fields at once.
    pub fn new(
        mut device: Box<dyn Device<T>>,
        sphere: &Sphere,
        scalars: usize,
        settings: AdvectionSettings,
    ) -> Result<Self> {
        if !(settings.step_seconds > 0.0 && settings.step_seconds.is_finite()) {
            return Err(Error::input(format!(
                "a step of advection is longer than 0 s, found {}",
                settings.step_seconds
            )));
        }
        if !(settings.diffusivity >= 0.0 && settings.diffusivity.is_finite()) {
            return Err(Error::input(format!(
                "a diffusivity is not negative, found {} m2 s-1",
                settings.diffusivity
            )));
        }
        let lattice = Lattice {
            rows: sphere.rows,
            columns: sphere.columns,
            first: sphere.latitude(0),
            dp: sphere.dp,
            dl: sphere.dl,
            edges: sphere.edges(),
        };
        let points = sphere.rows * sphere.columns;
        let mut plan = ArenaPlan::default();
        let winds = [plan.slot(points), plan.slot(points)];
        let places = plan.slot(2 * points);
        let scalars = [plan.slot(scalars * points), plan.slot(scalars * points)];
        let diffusion = (settings.diffusivity > 0.0).then(|| Diffusion {
            elliptic: Elliptic::new(
                &mut plan,
                implicit(sphere, settings.diffusivity * settings.step_seconds),
            ),
            factors: plan.slot(sphere.rows),
            right: plan.slot(points),
        });
        device.allocate(&plan)?;
        Ok(Self {
            device,
            sphere: sphere.clone(),
            settings,
            lattice,
            winds,
            places,
            scalars,
            diffusion,
            placed: None,
            started: false,
            blowing: false,
        })
    }

    /// The winds from now on [m s⁻¹], eastward and northward at the centres, `[lat, lon]` each.
    pub fn set_winds(&mut self, u: &[f64], v: &[f64]) -> Result<()> {
        for (slot, (values, name)) in self.winds.into_iter().zip([(u, "u"), (v, "v")]) {
            self.sphere.check_fields(values, &[name])?;
            self.device.upload(slot, &narrow(values));
        }
        self.placed = None;
        self.blowing = true;
        Ok(())
    }

    /// Starts from `fields`, `[scalar, lat, lon]` in any unit. Steer temperature as an anomaly, by [`STEERING_SHARE`] of
    /// the wind at 500 hPa.
    pub fn start(&mut self, fields: &[f64]) -> Result<()> {
        let points = self.sphere.rows * self.sphere.columns;
        let names: Vec<String> =
            (1..=self.scalars[0].len() / points).map(|n| format!("scalar {n}")).collect();
        self.sphere.check_fields(fields, &names)?;
        self.device.upload(self.scalars[0], &narrow(fields));
        self.started = true;
        Ok(())
    }

    /// Carries the scalars for a time [s] in steps of equal length.
    pub fn advance(&mut self, seconds: f64) -> Result<()> {
        if !self.started || !self.blowing {
            return Err(Error::run("advection has no scalars or no winds yet"));
        }
        let steps = steps(seconds, self.settings.step_seconds)?;
        let dt = seconds / steps as f64;
        for _ in 0..steps {
            self.prepare(dt);
            self.step();
            self.diffuse();
        }
        self.device.finish()
    }

    /// The scalars, `[scalar, lat, lon]`.
    pub fn fields(&self) -> Vec<f64> {
        let mut values = vec![T::default(); self.scalars[0].len()];
        self.device.download(self.scalars[0], &mut values);
        values.into_iter().map(T::wide).collect()
    }

    /// Finds the points of departure and makes the equation of diffusion, unless winds and step are those of the last
    /// ones.
    fn prepare(&mut self, dt: f64) {
        if self.placed == Some(dt) {
            return;
        }
        if let Some(diffusion) = &mut self.diffusion {
            diffusion.elliptic.coefficients = implicit(&self.sphere, self.settings.diffusivity * dt);
            diffusion.elliptic.upload(&mut *self.device);
            let factors: Vec<f64> = diffusion.elliptic.coefficients.diagonal.iter().map(|d| -d).collect();
            self.device.upload(diffusion.factors, &narrow(&factors));
        }
        let [u, v] = self.winds;
        self.device.depart(&Departures {
            lattice: self.lattice.clone(),
            iterations: 3,
            u,
            v,
            scale: dt / self.sphere.a,
            places: self.places,
        });
        self.placed = Some(dt);
    }

    fn step(&mut self) {
        let [from, to] = self.scalars;
        self.device.interpolate(&Interpolation {
            lattice: self.lattice.clone(),
            places: self.places,
            from,
            to,
            limited: self.settings.limited,
        });
        self.scalars = [to, from];
    }

    fn diffuse(&mut self) {
        let Some(Diffusion { elliptic, factors, right }) = &self.diffusion else { return };
        let (rows, columns) = (self.sphere.rows, self.sphere.columns);
        for n in 0..self.scalars[0].len() / (rows * columns) {
            let scalar = self.scalars[0].part(n * rows * columns, rows * columns);
            let terms = [Term::new(Image::plain(scalar), 1.0).times(*factors)];
            self.device.sum(&Sum { rows, columns, y: Image::plain(*right), keep: 0.0, terms: &terms });
            elliptic.solve(&mut *self.device, *right, scalar);
        }
    }
}

/// `lap q - q / (kappa dt)`, `kappa_dt` [m²].
fn implicit(sphere: &Sphere, kappa_dt: f64) -> Coefficients {
    if sphere.global {
        return laplacian::global(sphere, |_| 1.0 / kappa_dt);
    }
    let closed = laplacian::closed(sphere);
    let diagonal = closed.area.iter().map(|area| area / kappa_dt).collect();
    Coefficients { diagonal, ..closed }
}

/// Into how many steps of at most `longest` [s] a time [s] is divided.
pub(super) fn steps(seconds: f64, longest: f64) -> Result<usize> {
    let steps = (seconds / longest - 1e-9).ceil();
    if !(seconds >= 0.0 && steps <= 1e9) {
        return Err(Error::input(format!("{seconds} s cannot be divided into steps of {longest} s")));
    }
    Ok((steps as usize).max(usize::from(seconds > 0.0)))
}

pub(super) fn narrow<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::of(value)).collect()
}

#[cfg(test)]
mod tests;
