//! The published test cases of the shallow-water equations on the sphere.
//!
//! Williamson, Drake, Hack, Jakob and Swarztrauber 1992, doi:10.1016/S0021-9991(05)80016-6 (cases 1, 2, 5, 6); Galewsky, Scott
//! and Polvani 2004, doi:10.3402/tellusa.v56i5.14436 (an unstable jet).

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, TAU};

use super::{Fields, Layer, Sphere};
use crate::constants::{DAY_SECONDS, WILLIAMSON};
use crate::error::Result;

/// A layer and its initial state.
#[derive(Debug, Clone)]
pub struct Case {
    pub layer: Layer,
    pub fields: Fields,
}

const RADIUS: f64 = WILLIAMSON[0];
const ROTATION: f64 = WILLIAMSON[1];
const GRAVITY: f64 = WILLIAMSON[2];

impl Case {
    fn new(layer: Layer, fields: Fields) -> Self {
        let depth = layer.sphere.mean(&fields.h);
        Self { layer: Layer { depth, ..layer }, fields }
    }

    /// Case 1: the wind that carries a bell once around the globe in 12 days, over a pole for `alpha` = pi / 2.
    pub fn solid_body_wind(rows: usize, columns: usize, alpha: f64) -> Result<(Sphere, Fields)> {
        let sphere = Sphere::global(rows, columns, RADIUS)?;
        let fields =
            Fields::sample(&sphere, |x, y| rotation_u(x, y, alpha), |x, _| rotation_v(x, alpha), |_, _| 0.0);
        Ok((sphere, fields))
    }

    /// Case 2: steady geostrophic flow whose axis is tilted by `alpha` against that of the grid.
    pub fn steady(rows: usize, columns: usize, alpha: f64) -> Result<Self> {
        let sphere = Sphere::global(rows, columns, RADIUS)?;
        let sine = |x: f64, y: f64| -x.cos() * y.cos() * alpha.sin() + y.sin() * alpha.cos();
        let speed = solid_body_speed();
        let slope = RADIUS * ROTATION * speed + speed * speed / 2.0;
        let fields = Fields::sample(
            &sphere,
            |x, y| rotation_u(x, y, alpha),
            |x, _| rotation_v(x, alpha),
            |x, y| (2.94e4 - slope * sine(x, y).powi(2)) / GRAVITY,
        );
        let mut layer = layer(sphere);
        let n = layer.sphere.columns;
        for (k, f) in layer.coriolis.iter_mut().enumerate() {
            let (j, i) = ((k / n) as isize, (k % n) as isize);
            *f = 2.0 * ROTATION * sine(layer.sphere.face_longitude(i), layer.sphere.face_latitude(j));
        }
        Ok(Self::new(layer, fields))
    }

    /// Case 5: zonal flow over an isolated mountain.
    pub fn mountain(rows: usize, columns: usize) -> Result<Self> {
        let sphere = Sphere::global(rows, columns, RADIUS)?;
        let speed = 20.0;
        let slope = (RADIUS * ROTATION * speed + speed * speed / 2.0) / GRAVITY;
        let (foot, height) = (PI / 9.0, 2000.0);
        let mountain = |x: f64, y: f64| {
            let distance = (x - 1.5 * PI).hypot(y - PI / 6.0).min(foot);
            height * (1.0 - distance / foot)
        };
        let surface = |y: f64| 5960.0 - slope * y.sin().powi(2);
        let fields =
            Fields::sample(&sphere, |_, y| speed * y.cos(), |_, _| 0.0, |x, y| surface(y) - mountain(x, y));
        let orography = Fields::sample(&sphere, |_, _| 0.0, |_, _| 0.0, mountain).h;
        Ok(Self::new(Layer { orography: Some(orography), ..layer(sphere) }, fields))
    }

    /// Case 6: the Rossby-Haurwitz wave of wavenumber 4. Unstable: no run beyond 14 days can be compared.
    pub fn rossby_haurwitz(rows: usize, columns: usize) -> Result<Self> {
        let sphere = Sphere::global(rows, columns, RADIUS)?;
        // omega = K [s⁻¹], R
        let (w, r) = (7.848e-6, 4.0_f64);
        let u = |x: f64, y: f64| {
            let (c, s) = (y.cos(), y.sin());
            RADIUS * w * (c + c.powf(r - 1.0) * (r * s * s - c * c) * (r * x).cos())
        };
        let v = |x: f64, y: f64| -RADIUS * w * r * y.cos().powf(r - 1.0) * y.sin() * (r * x).sin();
        let h = |x: f64, y: f64| {
            let c = y.cos();
            let (c2, power) = (c * c, c.powf(2.0 * r));
            let quarter = w * w / 4.0;
            let a = w / 2.0 * (2.0 * ROTATION + w) * c2
                + quarter * power * ((r + 1.0) * c2 + (2.0 * r * r - r - 2.0) - 2.0 * r * r / c2);
            let b = 2.0 * (ROTATION + w) * w / ((r + 1.0) * (r + 2.0))
                * c.powf(r)
                * ((r * r + 2.0 * r + 2.0) - (r + 1.0).powi(2) * c2);
            let d = quarter * power * ((r + 1.0) * c2 - (r + 2.0));
            8000.0 + RADIUS * RADIUS * (a + b * (r * x).cos() + d * (2.0 * r * x).cos()) / GRAVITY
        };
        let fields = Fields::sample(&sphere, u, v, h);
        Ok(Self::new(layer(sphere), fields))
    }

    /// The barotropically unstable jet of Galewsky et al. (2004), which stays as it is without its perturbation.
    pub fn jet(rows: usize, columns: usize, perturbation: Perturbation) -> Result<Self> {
        let sphere = Sphere::global(rows, columns, RADIUS)?;
        let depths = balanced_depths(&sphere);
        let (south, dp) = (sphere.latitude(0), sphere.dp);
        let bump = |x: f64, y: f64| {
            let x = if x > PI { x - TAU } else { x };
            120.0 * y.cos() * (-(3.0 * x).powi(2)).exp() * (-(15.0 * (FRAC_PI_4 - y)).powi(2)).exp()
        };
        let height = if perturbation == Perturbation::Bump { 1.0 } else { 0.0 };
        let fields = Fields::sample(
            &sphere,
            |_, y| jet_speed(y),
            |_, _| 0.0,
            |x, y| depths[((y - south) / dp).round() as usize] + height * bump(x, y),
        );
        Ok(Self::new(layer(sphere), fields))
    }
}

/// Whether a jet starts undisturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Perturbation {
    None,
    /// Of 120 m at 45 N, from which the jet rolls up within 6 days.
    Bump,
}

fn layer(sphere: Sphere) -> Layer {
    Layer::new(sphere, GRAVITY, ROTATION, 1.0)
}

/// Once around in 12 days [m s⁻¹].
fn solid_body_speed() -> f64 {
    TAU * RADIUS / (12 * DAY_SECONDS) as f64
}

fn rotation_u(x: f64, y: f64, alpha: f64) -> f64 {
    solid_body_speed() * (y.cos() * alpha.cos() + y.sin() * x.cos() * alpha.sin())
}

fn rotation_v(x: f64, alpha: f64) -> f64 {
    -solid_body_speed() * x.sin() * alpha.sin()
}

/// Speed of the jet at latitude `y` [m s⁻¹].
fn jet_speed(y: f64) -> f64 {
    let (south, north) = (PI / 7.0, FRAC_PI_2 - PI / 7.0);
    if y <= south || y >= north {
        return 0.0;
    }
    let peak = (-4.0 / (north - south).powi(2)).exp();
    80.0 / peak * (1.0 / ((y - south) * (y - north))).exp()
}

/// Depths of the rows in balance with the jet: `g h = g h0 - integral of a u (2 Omega sin y + u tan y / a) dy`.
fn balanced_depths(sphere: &Sphere) -> Vec<f64> {
    /// With it the mean over the globe is 10 km.
    const SOUTH_POLE: f64 = 10_158.186_17;
    let slope = |y: f64| {
        let u = jet_speed(y);
        RADIUS * u * (2.0 * ROTATION * y.sin() + u * y.tan() / RADIUS)
    };
    let (mut fallen, mut from) = (0.0, -FRAC_PI_2);
    (0..sphere.rows as isize)
        .map(|j| {
            let to = sphere.latitude(j);
            fallen += integral(slope, from, to);
            from = to;
            SOUTH_POLE - fallen / GRAVITY
        })
        .collect()
}

/// Gauss-Legendre quadrature of 8 nodes on each of 16 pieces.
pub(super) fn integral(f: impl Fn(f64) -> f64, from: f64, to: f64) -> f64 {
    const NODES: [(f64, f64); 4] = [
        (0.183_434_642_495_649_8, 0.362_683_783_378_362),
        (0.525_532_409_916_329, 0.313_706_645_877_887_3),
        (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
        (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
    ];
    const PIECES: usize = 16;
    let half = (to - from) / (2 * PIECES) as f64;
    let piece = |k: usize| {
        let middle = from + (2 * k + 1) as f64 * half;
        NODES.iter().map(|&(x, weight)| weight * (f(middle - half * x) + f(middle + half * x))).sum::<f64>()
    };
    half * (0..PIECES).map(piece).sum::<f64>()
}

#[cfg(test)]
mod tests;
