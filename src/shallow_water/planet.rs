//! A planet of our own: a shallow layer over mountains, drawn back to two unstable jets and never at rest.
//!
//! Without seasons, days or measurements it has weather: the jets break up into eddies that wander and merge, mountains
//! hold waves in place, and a small difference grows to a different state within weeks. Enough of it can be made
//! anywhere to train on, and the equations that made it are known.
//!
//! The jets are those of Galewsky, Scott and Polvani 2004 (doi:10.3402/tellusa.v56i5.14436), one in each hemisphere; that
//! they are restored by relaxation follows Polvani, Waugh and Plumb 1995
//! (doi:10.1175/1520-0469(1995)052<1288:OTSEOT>2.0.CO;2).

use std::f64::consts::FRAC_PI_2;

use super::cases::integral;
use super::{Fields, Layer, Sphere};
use crate::constants::{DAY_SECONDS, EARTH_ROTATION, STANDARD_GRAVITY};
use crate::error::{Error, Result};

/// Mean depth of the layer [m]: that of an atmosphere of constant density under the surface pressure of the earth.
const DEPTH: f64 = 10_000.0;
/// Time in which a departure from the jets fades to 1/e [s].
const RELAXATION: f64 = 6.0 * DAY_SECONDS as f64;
/// Time in which the shortest wave fades to 1/e [s].
const DAMPING: f64 = 36.0 * 3600.0;
/// The jets are restored once in so long [s].
pub(super) const HOUR: f64 = 3600.0;

/// Speed [m s⁻¹], southern and northern edge [radians] of the jets.
const JETS: [[f64; 3]; 2] = [[105.0, -FRAC_PI_2 + 0.45, -0.40], [120.0, 0.45, FRAC_PI_2 - 0.45]];

/// Height [m], longitude and latitude [degrees], half width in longitude and latitude [degrees] of the mountains.
const MOUNTAINS: [[f64; 5]; 5] = [
    [2500.0, 250.0, 43.0, 9.0, 18.0],
    [3000.0, 85.0, 35.0, 18.0, 9.0],
    [1500.0, 320.0, 72.0, 10.0, 6.0],
    [2000.0, 290.0, -30.0, 5.0, 22.0],
    [1200.0, 135.0, -25.0, 15.0, 8.0],
];

/// Draws a state back to the jets for an hour.
pub(super) fn restore(fields: &mut Fields, jets: &Fields) {
    let weight = 1.0 - (-HOUR / RELAXATION).exp();
    let pairs = [(&mut fields.u, &jets.u), (&mut fields.v, &jets.v), (&mut fields.h, &jets.h)];
    for (values, target) in pairs {
        values.iter_mut().zip(target).for_each(|(x, t)| *x += weight * (t - *x));
    }
}

/// The layer with its mountains, on the cells of a globe.
pub(super) fn planet(sphere: Sphere) -> Result<Layer> {
    if !sphere.global || sphere.rows < 16 {
        return Err(Error::input(format!(
            "the jets of the nature run need a globe of at least 16 rows, found {} x {} cells",
            sphere.rows, sphere.columns
        )));
    }
    let orography = Fields::sample(&sphere, |_, _| 0.0, |_, _| 0.0, mountains).h;
    let layer = Layer::new(sphere, STANDARD_GRAVITY, EARTH_ROTATION, DEPTH);
    Ok(Layer { orography: Some(orography), damping: Some(DAMPING), ..layer })
}

/// Height of the ground [m] at a longitude and latitude [radians].
fn mountains(x: f64, y: f64) -> f64 {
    let height = |&[height, longitude, latitude, width, length]: &[f64; 5]| {
        let east = (x.to_degrees() - longitude + 180.0).rem_euclid(360.0) - 180.0;
        let north = y.to_degrees() - latitude;
        height * (-(east / width).powi(2) - (north / length).powi(2)).exp()
    };
    MOUNTAINS.iter().map(height).sum()
}

/// The jets, with a surface in balance: `d(g s)/dy = -a u (2 Omega sin y + u tan y / a)`, whose mean is the layer's depth.
pub(super) fn jets(sphere: &Sphere) -> Fields {
    let slope = |y: f64| {
        let u = jet_speed(y);
        sphere.a * u * (2.0 * EARTH_ROTATION * y.sin() + u * y.tan() / sphere.a)
    };
    let (mut fallen, mut from) = (0.0, -FRAC_PI_2);
    let surface: Vec<f64> = (0..sphere.rows as isize)
        .map(|j| {
            fallen += integral(slope, from, sphere.latitude(j));
            from = sphere.latitude(j);
            -fallen / STANDARD_GRAVITY
        })
        .collect();
    let (south, dp) = (sphere.latitude(0), sphere.dp);
    let mut fields = Fields::sample(
        sphere,
        |_, y| jet_speed(y),
        |_, _| 0.0,
        |x, y| surface[((y - south) / dp).round() as usize] - mountains(x, y),
    );
    let excess = DEPTH - sphere.mean(&fields.h);
    fields.h.iter_mut().for_each(|h| *h += excess);
    fields
}

/// Speed of the jets at latitude `y` [m s⁻¹].
fn jet_speed(y: f64) -> f64 {
    let speed = |&[peak, south, north]: &[f64; 3]| {
        if y <= south || y >= north {
            return 0.0;
        }
        let middle = (4.0 / (north - south).powi(2)).exp();
        peak * middle * (1.0 / ((y - south) * (y - north))).exp()
    };
    JETS.iter().map(speed).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::EARTH_RADIUS;

    fn globe(rows: usize) -> Sphere {
        Sphere::global(rows, 2 * rows, EARTH_RADIUS).unwrap()
    }

    #[test]
    fn the_jets_are_in_balance_with_their_surface_and_have_the_mean_depth() {
        let layer = planet(globe(64)).unwrap();
        let (sphere, n) = (&layer.sphere, layer.sphere.columns);
        let fields = jets(sphere);
        assert!((sphere.mean(&fields.h) - DEPTH).abs() < 1e-8);
        let orography = layer.orography.as_ref().unwrap();
        assert!(orography.iter().all(|b| (0.0..4000.0).contains(b)));
        let surface = |j: usize| fields.h[j * n] + orography[j * n];
        for j in 1..sphere.rows {
            let y = sphere.face_latitude(j as isize);
            let u = jet_speed(y);
            let force = -u * (2.0 * EARTH_ROTATION * y.sin() + u * y.tan() / sphere.a);
            let slope = STANDARD_GRAVITY * (surface(j) - surface(j - 1)) / sphere.dy();
            // The strongest force is 1.5e-2 m s-2; a difference over a row of 2.8 degrees sees its mean.
            assert!((slope - force).abs() < 1.5e-3, "{slope} {force}");
        }
    }

    #[test]
    fn what_is_drawn_back_to_the_jets_comes_nearer_by_the_share_of_an_hour() {
        let jets = jets(&planet(globe(16)).unwrap().sphere);
        let mut fields = jets.clone();
        fields.h.iter_mut().for_each(|h| *h += 144.5);
        restore(&mut fields, &jets);
        // 1 - exp(-1 / 144) = 1 / 144.5
        assert!(fields.h.iter().zip(&jets.h).all(|(a, b)| (a - b - 143.5).abs() < 1e-3));
        assert!(planet(globe(8)).is_err());
    }
}
