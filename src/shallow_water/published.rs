//! The published cases as runs: which there are, how they are stepped, and what is exactly known of them.

use std::f64::consts::{PI, TAU};

use super::{
    Advection, AdvectionSettings, Bands, Barotropic, BarotropicSettings, Case, Devices, Fields, Invariants,
    Layer, Mapping, Norms, Perturbation, Points, RUNGE_KUTTA_LIMIT, Scheme, Sphere, dividing_step,
};
use crate::constants::{DAY_SECONDS, WILLIAMSON};
use crate::error::{Error, Result};

/// Williamson et al. 1992, doi:10.1016/S0021-9991(05)80016-6 (1, 2, 5, 6); Galewsky et al. 2004,
/// doi:10.3402/tellusa.v56i5.14436; the Rossby-Haurwitz wave of wavenumber 4, which the barotropic vorticity equation
/// turns without changing it (Haurwitz 1940).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedCase {
    /// A bell carried once around the globe.
    Williamson1,
    /// Steady flow around a tilted axis.
    Williamson2,
    /// Flow over a mountain.
    Williamson5,
    /// A Rossby-Haurwitz wave of shallow water.
    Williamson6,
    /// An unstable jet.
    Galewsky,
    /// A Rossby-Haurwitz wave of vorticity.
    RossbyHaurwitz,
}

/// How to run a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseSettings {
    /// Of the grid, which has twice as many columns.
    pub rows: usize,
    /// Tilt of the axis of cases 1 and 2 [radians].
    pub alpha: f64,
    pub scheme: Scheme,
    /// Longest step [s]; `None`: what the grid allows.
    pub longest_step: Option<f64>,
}

/// A case under way, in double precision and without damping.
pub struct CaseRun {
    sphere: Sphere,
    model: Running,
    /// Whole seconds since the start.
    seconds: i64,
    dt: f64,
    /// Between the states that are asked for [s].
    interval: i64,
}

enum Running {
    Layer { case: Box<Case>, model: Bands<f64>, steady: bool },
    Bell { model: Box<Advection<f64>>, wind: [Vec<f64>; 2], alpha: f64 },
    Wave { model: Box<Barotropic<f64>> },
}

/// Angular speed omega = K of both Rossby-Haurwitz waves [s⁻¹].
const WAVE_SPEED: f64 = 7.848e-6;
/// Their wavenumber R.
const WAVE_NUMBER: f64 = 4.0;

impl PublishedCase {
    /// Days of the published run.
    pub fn days(self) -> i64 {
        match self {
            Self::Williamson1 => 12,
            Self::Williamson2 | Self::RossbyHaurwitz => 5,
            Self::Williamson5 => 15,
            Self::Williamson6 => 14,
            Self::Galewsky => 6,
        }
    }

    /// What the case is, in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Williamson1 => "a bell carried once around the globe",
            Self::Williamson2 => "steady flow around a tilted axis",
            Self::Williamson5 => "flow over a mountain",
            Self::Williamson6 => "a Rossby-Haurwitz wave of shallow water",
            Self::Galewsky => "an unstable jet",
            Self::RossbyHaurwitz => "a Rossby-Haurwitz wave of vorticity",
        }
    }

    /// Whether the axis may be tilted.
    pub fn tilts(self) -> bool {
        matches!(self, Self::Williamson1 | Self::Williamson2)
    }

    /// Whether it is run by a scheme of the shallow layer.
    pub fn is_layer(self) -> bool {
        !matches!(self, Self::Williamson1 | Self::RossbyHaurwitz)
    }
}

impl CaseRun {
    /// States will be asked for every `interval` seconds, which steps divide.
    pub fn new(
        which: PublishedCase,
        settings: &CaseSettings,
        interval: i64,
        devices: &dyn Devices,
    ) -> Result<Self> {
        let (rows, columns, alpha) = (settings.rows, 2 * settings.rows, settings.alpha);
        let step = |longest: f64| dividing_step(settings.longest_step.unwrap_or(longest), interval as f64);
        let run = |sphere, model, dt| Ok(Self { sphere, model, seconds: 0, dt, interval });
        let case = match which {
            PublishedCase::Williamson1 => {
                let (sphere, fields) = Case::solid_body_wind(rows, columns, alpha)?;
                let dt = step(3600.0 * 64.0 / rows as f64);
                let advection = AdvectionSettings { step_seconds: dt, ..AdvectionSettings::default() };
                let mut model = Advection::new(devices.double()?, &sphere, 1, advection)?;
                let (wind, start) = (centred(&sphere, &fields)?, bell(&sphere, alpha, 0.0));
                model.set_winds(&wind[0], &wind[1])?;
                model.start(&start)?;
                return run(sphere, Running::Bell { model: Box::new(model), wind, alpha }, dt);
            }
            PublishedCase::RossbyHaurwitz => {
                let sphere = Sphere::global(rows, columns, WILLIAMSON[0])?;
                let dt = step(1800.0 * 64.0 / rows as f64);
                let settings = BarotropicSettings {
                    step_seconds: dt,
                    diffusivity: 0.0,
                    depth: None,
                    rotation: WILLIAMSON[1],
                };
                let mut model = Barotropic::new(devices.double()?, &sphere, settings)?;
                model.start_stream_function(&wave(&sphere, 0.0))?;
                return run(sphere, Running::Wave { model: Box::new(model) }, dt);
            }
            PublishedCase::Williamson2 => Case::steady(rows, columns, alpha)?,
            PublishedCase::Williamson5 => Case::mountain(rows, columns)?,
            PublishedCase::Williamson6 => Case::rossby_haurwitz(rows, columns)?,
            PublishedCase::Galewsky => Case::jet(rows, columns, Perturbation::Bump)?,
        };
        let layer: Layer = case.layer.clone();
        let deepest = case.fields.h.iter().copied().fold(0.0, f64::max);
        let dt = match settings.scheme {
            Scheme::RungeKutta4 => step(layer.longest_step(RUNGE_KUTTA_LIMIT, deepest)),
            Scheme::SemiImplicit => step(layer.semi_implicit_step()),
        };
        let mut model = Bands::new(&layer, settings.scheme, dt, devices.doubles()?)?;
        model.start(&case.fields)?;
        let steady = which == PublishedCase::Williamson2;
        let sphere = case.layer.sphere.clone();
        run(sphere, Running::Layer { case: Box::new(case), model, steady }, dt)
    }

    pub fn sphere(&self) -> &Sphere {
        &self.sphere
    }

    /// Length of a step [s].
    pub fn dt(&self) -> f64 {
        self.dt
    }

    /// One interval.
    pub fn advance(&mut self) -> Result<()> {
        let interval = self.interval as f64;
        match &mut self.model {
            Running::Layer { model, .. } => model.advance((interval / self.dt).round() as usize)?,
            Running::Bell { model, .. } => model.advance(interval)?,
            Running::Wave { model } => model.advance(interval)?,
        }
        self.seconds += self.interval;
        Ok(())
    }

    /// What the case is about, at the centres: depth [m], the height of the bell [m], or the stream function [m² s⁻¹].
    pub fn field(&mut self) -> Result<Vec<f64>> {
        match &mut self.model {
            Running::Layer { model, .. } => Ok(model.fields().h),
            Running::Bell { model, .. } => Ok(model.fields()),
            Running::Wave { model } => model.stream_function(),
        }
    }

    /// Eastward and northward at the centres [m s⁻¹].
    pub fn wind(&mut self) -> Result<[Vec<f64>; 2]> {
        match &mut self.model {
            Running::Layer { model, .. } => centred(&self.sphere, &model.fields()),
            Running::Bell { wind, .. } => Ok(wind.clone()),
            Running::Wave { model } => {
                let winds = model.fields()?.winds;
                winds.ok_or_else(|| Error::run("the barotropic model gave no wind"))
            }
        }
    }

    /// Norms of the error of [`field`](Self::field), where it is known exactly: at every time of a steady flow or a turning
    /// wave, and of the bell when it is back.
    pub fn norms(&mut self) -> Result<Option<Norms>> {
        let truth = match &self.model {
            Running::Layer { case, steady: true, .. } => case.fields.h.clone(),
            Running::Bell { alpha, .. } => {
                bell(&self.sphere, *alpha, TAU * self.seconds as f64 / (12 * DAY_SECONDS) as f64)
            }
            Running::Wave { .. } => wave(&self.sphere, self.seconds as f64),
            _ => return Ok(None),
        };
        let field = self.field()?;
        Ok(Some(Norms::of(&self.sphere, &field, &truth)))
    }

    /// What a layer should have kept, as relative changes since the start.
    pub fn drift(&self) -> Option<Invariants> {
        let Running::Layer { case, model, .. } = &self.model else { return None };
        let now = Invariants::of(&case.layer, &model.fields());
        Some(now.since(&Invariants::of(&case.layer, &case.fields)))
    }

    /// Height of a layer's surface at places (longitude, latitude) [degrees], between four centres [m].
    pub fn surface_at(&self, places: &[(f64, f64)]) -> Option<Vec<f64>> {
        let Running::Layer { case, model, .. } = &self.model else { return None };
        let mut surface = model.fields().h;
        if let Some(orography) = &case.layer.orography {
            surface.iter_mut().zip(orography).for_each(|(h, b)| *h += b);
        }
        Some(places.iter().map(|&(x, y)| between(&self.sphere, &surface, x, y)).collect())
    }
}

/// From the faces to the centres.
fn centred(sphere: &Sphere, fields: &Fields) -> Result<[Vec<f64>; 2]> {
    let zero = vec![0.0; fields.h.len()];
    let nowhere = Points { u: zero.clone(), v: zero.clone(), h: zero.clone() };
    let still = Fields { u: zero.clone(), v: zero.clone(), h: zero };
    let mapping = Mapping::new(&sphere.grid()?, sphere.a)?;
    let Points { u, v, .. } = mapping.forecast(&nowhere, &still, fields);
    Ok([u, v])
}

fn at_centres(sphere: &Sphere, value: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let cells = (0..sphere.rows as isize).flat_map(|j| (0..sphere.columns as isize).map(move |i| (j, i)));
    cells.map(|(j, i)| value(sphere.longitude(i), sphere.latitude(j))).collect()
}

/// The bell of case 1, 1000 m high and a third of the radius wide: at first on the equator at 90 W, then turned by an angle
/// about the axis that is tilted by `alpha`.
fn bell(sphere: &Sphere, alpha: f64, angle: f64) -> Vec<f64> {
    // The axis is (-sin alpha, 0, cos alpha), and the middle begins at (0, -1, 0), at right angles to it: it moves along
    // their product.
    let (sine, cosine) = angle.sin_cos();
    let middle = [sine * alpha.cos(), -cosine, sine * alpha.sin()];
    at_centres(sphere, |x, y| {
        let place = [y.cos() * x.cos(), y.cos() * x.sin(), y.sin()];
        let r = place.iter().zip(middle).map(|(p, m)| p * m).sum::<f64>().clamp(-1.0, 1.0).acos();
        if 3.0 * r < 1.0 { 500.0 * (1.0 + (3.0 * PI * r).cos()) } else { 0.0 }
    })
}

/// The stream function of the wave after some seconds.
fn wave(sphere: &Sphere, seconds: f64) -> Vec<f64> {
    let (w, r) = (WAVE_SPEED, WAVE_NUMBER);
    let turn = (r * (3.0 + r) * w - 2.0 * WILLIAMSON[1]) / ((1.0 + r) * (2.0 + r)) * seconds;
    at_centres(sphere, |x, y| {
        sphere.a * sphere.a * w * y.sin() * (y.cos().powf(r) * (r * (x - turn)).cos() - 1.0)
    })
}

/// Bilinear at a place [degrees]; beyond the outermost row lies the row across the pole.
pub(super) fn between(sphere: &Sphere, values: &[f64], longitude: f64, latitude: f64) -> f64 {
    let (rows, n) = (sphere.rows as isize, sphere.columns as isize);
    let value = |j: isize, i: isize| {
        let (j, i) = match j {
            j if j < 0 => (-1 - j, i + n / 2),
            j if j >= rows => (2 * rows - 1 - j, i + n / 2),
            j => (j, i),
        };
        values[(j * n + i.rem_euclid(n)) as usize]
    };
    let y = (latitude.to_radians() - sphere.latitude(0)) / sphere.dp;
    let x = (longitude.to_radians() - sphere.west) / sphere.dl;
    let (j, i, fy, fx) = (y.floor() as isize, x.floor() as isize, y - y.floor(), x - x.floor());
    let row = |j| (1.0 - fx) * value(j, i) + fx * value(j, i + 1);
    (1.0 - fy) * row(j) + fy * row(j + 1)
}
