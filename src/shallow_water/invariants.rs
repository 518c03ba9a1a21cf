//! What the continuous equations conserve, with the averages that the scheme itself uses, and norms of errors.

use std::fmt;

use super::{Fields, Layer, Sphere};

/// Integrals over the globe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Invariants {
    /// Volume [m3].
    pub mass: f64,
    /// Kinetic and potential [m5 s⁻²].
    pub energy: f64,
    /// Half the square of potential vorticity, times depth [m s⁻²].
    pub enstrophy: f64,
}

impl Invariants {
    pub fn of(layer: &Layer, fields: &Fields) -> Self {
        let (sphere, n) = (&layer.sphere, layer.sphere.columns);
        let last = sphere.rows - 1;
        let at = |field: &[f64], j: usize, i: usize| field[j * n + i];
        let (mut mass, mut energy, mut enstrophy) = (Sum::default(), Sum::default(), Sum::default());
        for j in 0..sphere.rows {
            let row = j as isize;
            let (area, dxu, dxv) = (sphere.area(row), sphere.dxu(row), sphere.dxv(row));
            for i in 0..n {
                let west = (i + n - 1) % n;
                let (u, v, h) = (at(&fields.u, j, i), at(&fields.v, j, i), at(&fields.h, j, i));
                let bottom = layer.orography.as_ref().map_or(0.0, |b| b[j * n + i]);
                let hu = (h + at(&fields.h, j, west)) / 2.0;
                mass.add(h * area);
                energy.add(hu * u * u * dxu * sphere.dy() / 2.0);
                energy.add(layer.gravity * (h * h / 2.0 + h * bottom) * area);
                if j == 0 {
                    continue;
                }
                let south = |field: &[f64], i| at(field, j - 1, i);
                energy.add((h + south(&fields.h, i)) / 2.0 * v * v * dxv * sphere.dy() / 2.0);
                let circulation = (v - at(&fields.v, j, west)) * sphere.dy() - u * dxu
                    + south(&fields.u, i) * sphere.dxu(row - 1);
                let about = ((h + at(&fields.h, j, west)) * area
                    + (south(&fields.h, i) + south(&fields.h, west)) * sphere.area(row - 1))
                    / 4.0;
                let q = (circulation + layer.coriolis[j * n + i] * sphere.corner_area(row)) / about;
                enstrophy.add(q * q * about / 2.0);
            }
        }
        for (j, face, sign) in [(0, 0, -1.0), (last, sphere.rows, 1.0)] {
            let sum = |field: &[f64]| field[j * n..][..n].iter().sum::<f64>();
            let zeta = sign * sum(&fields.u) * sphere.dxu(j as isize) / sphere.cap_area();
            let depth = sum(&fields.h) / n as f64;
            let q = (zeta + layer.coriolis[face * n]) / depth;
            enstrophy.add(q * q * depth * sphere.cap_area() / 2.0);
        }
        Self { mass: mass.total(), energy: energy.total(), enstrophy: enstrophy.total() }
    }

    /// Changes since `start`, relative to it.
    pub fn since(&self, start: &Self) -> Self {
        let relative = |now: f64, then: f64| (now - then) / then;
        Self {
            mass: relative(self.mass, start.mass),
            energy: relative(self.energy, start.energy),
            enstrophy: relative(self.enstrophy, start.enstrophy),
        }
    }
}

/// A sum that carries its rounding errors along (Neumaier 1974, doi:10.1002/zamm.19740540106): a drift of 1e-15 shall not
/// drown in the round-off of a million terms.
#[derive(Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        self.lost +=
            if self.sum.abs() >= term.abs() { (self.sum - sum) + term } else { (term - sum) + self.sum };
        self.sum = sum;
    }

    fn total(&self) -> f64 {
        self.sum + self.lost
    }
}

impl fmt::Display for Invariants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mass, energy, enstrophy } = self;
        write!(f, "mass {mass:.1e}, energy {energy:.1e}, potential enstrophy {enstrophy:.1e}")
    }
}

/// Normalised errors (Williamson et al. 1992, doi:10.1016/S0021-9991(05)80016-6, equations 82 to 84).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norms {
    pub l1: f64,
    pub l2: f64,
    pub linf: f64,
}

impl Norms {
    /// Of values at the centres, `[rows, columns]`, weighted by area.
    pub fn of(sphere: &Sphere, values: &[f64], truth: &[f64]) -> Self {
        let mean = |value: &dyn Fn(f64, f64) -> f64| {
            sphere.mean(&values.iter().zip(truth).map(|(&x, &t)| value(x, t)).collect::<Vec<_>>())
        };
        let largest = |value: &dyn Fn(f64, f64) -> f64| {
            values.iter().zip(truth).map(|(&x, &t)| value(x, t)).fold(0.0, f64::max)
        };
        let square = |x: f64| x * x;
        Self {
            l1: mean(&|x, t| (x - t).abs()) / mean(&|_, t| t.abs()),
            l2: (mean(&|x, t| square(x - t)) / mean(&|_, t| square(t))).sqrt(),
            linf: largest(&|x, t| (x - t).abs()) / largest(&|_, t| t.abs()),
        }
    }
}

impl fmt::Display for Norms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { l1, l2, linf } = self;
        write!(f, "l1 {l1:.2e}, l2 {l2:.2e}, linf {linf:.2e}")
    }
}
