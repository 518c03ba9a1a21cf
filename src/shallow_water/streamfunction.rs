//! The stream function of a flow, from its winds or from its geopotential, and back.
//!
//! `u = -d psi/dy`, `v = d psi/dx`, vorticity `zeta = lap psi`; fields are `[rows, columns]` at the centres of the cells.
//! Everything here is solved in double precision on the processor: it happens once for a forecast, not once for a step.

use super::linear_balance::FLOOR;
use super::{LinearBalance, Sphere, laplacian};
use crate::device::cpu::Cpu;
use crate::device::{ArenaPlan, Device, Elliptic, Slot};
use crate::error::Result;

/// Solves for stream functions on one grid.
pub(super) struct Inversion {
    sphere: Sphere,
    /// Rotation of the planet [rad s⁻¹].
    rotation: f64,
    device: Cpu<f64>,
    /// `lap x` of the whole grid, nothing across the edges of a box.
    whole: Elliptic,
    /// `lap x` inside the ring of a box, or of the whole globe.
    laplace: Elliptic,
    x: Slot,
}

/// The points where equations hold: all of a globe, and of a box those within its outermost ring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Inner {
    /// Rows and columns before the first of them.
    pub ring: usize,
    pub rows: usize,
    pub columns: usize,
}

impl Inner {
    pub fn of(sphere: &Sphere) -> Self {
        let ring = usize::from(!sphere.global);
        Self { ring, rows: sphere.rows - 2 * ring, columns: sphere.columns - 2 * ring }
    }

    /// Indices of the inner points in a field of the whole grid.
    pub fn points(self) -> impl Iterator<Item = usize> {
        let width = self.columns + 2 * self.ring;
        let row = move |j: usize| j * width + self.ring..j * width + self.ring + self.columns;
        (self.ring..self.ring + self.rows).flat_map(row)
    }

    /// The inner points of a field of the whole grid.
    pub fn cut(self, field: &[f64]) -> Vec<f64> {
        self.points().map(|k| field[k]).collect()
    }

    /// Overwrites the ring of a field of the whole grid.
    pub fn copy_ring(self, from: &[f64], to: &mut [f64]) {
        let inside = self.cut(to);
        to.copy_from_slice(from);
        self.points().zip(inside).for_each(|(k, x)| to[k] = x);
    }

    /// The inner points of a field of the whole grid with a halo of one cell: the ring of a box, zeros around the globe.
    pub fn pad(self, field: &[f64]) -> Vec<f64> {
        if self.ring == 1 {
            return field.to_vec();
        }
        let width = self.columns + 2;
        let mut padded = vec![0.0; (self.rows + 2) * width];
        for (row, values) in padded.chunks_exact_mut(width).skip(1).zip(field.chunks_exact(self.columns)) {
            row[1..=self.columns].copy_from_slice(values);
        }
        padded
    }

    /// Adds values at the inner points to a field of the whole grid.
    fn add(self, inner: &[f64], field: &mut [f64]) {
        self.points().zip(inner).for_each(|(k, x)| field[k] += x);
    }
}

impl Inversion {
    pub fn new(sphere: &Sphere, rotation: f64) -> Result<Self> {
        let mut plan = ArenaPlan::default();
        let [whole, laplace] = if sphere.global {
            [(); 2].map(|()| laplacian::global(sphere, |_| 0.0))
        } else {
            [laplacian::closed(sphere), laplacian::interior(sphere, |_| 1.0, |_| 0.0)]
        };
        let [whole, laplace] = [whole, laplace].map(|c| Elliptic::new(&mut plan, c));
        let x = plan.slot(sphere.rows * sphere.columns);
        let mut device = Cpu::new(None)?;
        device.allocate(&plan)?;
        for elliptic in [&whole, &laplace] {
            elliptic.upload(&mut device);
        }
        Ok(Self { sphere: sphere.clone(), rotation, device, whole, laplace, x })
    }

    pub fn inner(&self) -> Inner {
        Inner::of(&self.sphere)
    }

    /// Stream function and vorticity, `[rows, columns]`, of the winds that are nearest to `u` and `v` [m s⁻¹] among those without divergence:
    /// the sum of squares of the differences on the faces of the cells, by area, is least. The mean of psi is zero.
    /// Vorticity on the ring of a box takes the wind on its outer faces from the two centres within.
    pub fn of_winds(&mut self, u: &[f64], v: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let circulation = self.circulation(u, v);
        let psi = self.solve(&self.whole.clone(), &circulation);
        let mut vorticity = circulation;
        if !self.sphere.global {
            self.add_outer_faces(u, v, &mut vorticity);
        }
        vorticity.iter_mut().enumerate().for_each(|(k, x)| *x /= self.area(k));
        (psi, vorticity)
    }

    /// Completes the circulation about the cells on the ring of a box.
    fn add_outer_faces(&self, u: &[f64], v: &[f64], circulation: &mut [f64]) {
        let (rows, n) = (self.sphere.rows, self.sphere.columns);
        let beyond = |x: &[f64], last: usize, before: usize| 1.5 * x[last] - 0.5 * x[before];
        for west in (0..rows * n).step_by(n) {
            let east = west + n - 1;
            circulation[west] -= beyond(v, west, west + 1) * self.sphere.dy();
            circulation[east] += beyond(v, east, east - 1) * self.sphere.dy();
        }
        for (south, north) in (0..n).zip((rows - 1) * n..) {
            circulation[south] += beyond(u, south, south + n) * self.sphere.dxv(0);
            circulation[north] -= beyond(u, north, north - n) * self.sphere.dxv(rows as isize);
        }
    }

    /// Circulation about each cell [m² s⁻¹], without the parts along the edges of a box.
    fn circulation(&self, u: &[f64], v: &[f64]) -> Vec<f64> {
        let (rows, n) = (self.sphere.rows, self.sphere.columns);
        let mut circulation = vec![0.0; rows * n];
        for j in 0..rows {
            for i in usize::from(!self.sphere.global)..n {
                let (here, west) = (j * n + i, j * n + (i + n - 1) % n);
                let along = (v[here] + v[west]) / 2.0 * self.sphere.dy();
                circulation[here] -= along;
                circulation[west] += along;
            }
        }
        for j in 1..rows {
            for here in j * n..(j + 1) * n {
                let along = (u[here] + u[here - n]) / 2.0 * self.sphere.dxv(j as isize);
                circulation[here] += along;
                circulation[here - n] -= along;
            }
        }
        circulation
    }

    /// The winds of a stream function [m s⁻¹]: centred differences, towards the inside at the edges of a box.
    pub fn winds(&self, psi: &[f64]) -> [Vec<f64>; 2] {
        let (rows, n) = (self.sphere.rows as isize, self.sphere.columns as isize);
        let lattice_row = |j: isize, i: isize| match j {
            // Across the pole, half way around.
            j if j < 0 => (-1 - j, (i + n / 2) % n),
            j if j >= rows => (2 * rows - 1 - j, (i + n / 2) % n),
            j => (j, i),
        };
        let at = |j: isize, i: isize| {
            let (j, i) = lattice_row(j, i.rem_euclid(n));
            psi[(j * n + i) as usize]
        };
        let [mut u, mut v] = [(); 2].map(|()| Vec::with_capacity(psi.len()));
        for j in 0..rows {
            for i in 0..n {
                let [south, north, west, east] = if self.sphere.global {
                    [j - 1, j + 1, i - 1, i + 1]
                } else {
                    [(j - 1).max(0), (j + 1).min(rows - 1), (i - 1).max(0), (i + 1).min(n - 1)]
                };
                u.push((at(south, i) - at(north, i)) / ((north - south) as f64 * self.sphere.dy()));
                v.push((at(j, east) - at(j, west)) / ((east - west) as f64 * self.sphere.dxu(j)));
            }
        }
        [u, v]
    }

    /// `lap psi`, `[rows, columns]`; on the ring of a box that of the nearest inner point.
    pub fn vorticity(&self, psi: &[f64]) -> Vec<f64> {
        let (inner, n) = (self.inner(), self.sphere.columns);
        let flux = self.divergence(psi, |_| 1.0);
        (0..psi.len())
            .map(|k| {
                let nearest = |at: usize, count: usize| at.clamp(inner.ring, inner.ring + count - 1);
                let (j, i) = (nearest(k / n, inner.rows), nearest(k % n, inner.columns));
                flux[(j - inner.ring) * inner.columns + i - inner.ring] / self.sphere.area(j as isize)
            })
            .collect()
    }

    /// The stream function in linear balance with a geopotential [m² s⁻²].
    pub fn of_geopotential(&self, phi: &[f64]) -> Result<Vec<f64>> {
        LinearBalance::new(self.sphere.clone(), self.rotation)?.streamfunction(phi)
    }

    /// The geopotential in linear balance with a stream function, `lap Phi = div(f grad psi)`, for departures from a
    /// balanced state: zero on the ring of a box, where psi is zero, and its mean zero on the globe.
    pub fn geopotential(&mut self, psi: &[f64]) -> Vec<f64> {
        let (global, rotation) = (self.sphere.global, self.rotation);
        // In a box the inverse of the way from Phi to psi.
        let nearest =
            |latitude: f64| if global { latitude } else { latitude.abs().max(FLOOR).copysign(latitude) };
        let right = self.divergence(psi, |latitude| f(rotation, nearest(latitude)));
        let solution = self.solve(&self.laplace.clone(), &right);
        let mut phi = vec![0.0; psi.len()];
        self.inner().add(&solution, &mut phi);
        phi
    }

    /// `area * div(weight grad x)` at the inner points.
    fn divergence(&self, x: &[f64], weight: impl Fn(f64) -> f64) -> Vec<f64> {
        let (sphere, inner, n) = (&self.sphere, self.inner(), self.sphere.columns);
        let mut divergence = Vec::with_capacity(inner.rows * inner.columns);
        for j in inner.ring..inner.ring + inner.rows {
            let row = j as isize;
            let west = weight(sphere.latitude(row)) * sphere.dy() / sphere.dxu(row);
            let [south, north] =
                [row, row + 1].map(|row| weight(sphere.face_latitude(row)) * sphere.dxv(row) / sphere.dy());
            for i in inner.ring..inner.ring + inner.columns {
                let at = |j: usize, i: usize| x[j * n + i];
                let here = at(j, i);
                let along = west * ((at(j, (i + n - 1) % n) - here) + (at(j, (i + 1) % n) - here));
                // Nothing flows across a pole: its face has no length.
                let (before, after) = (at(j.saturating_sub(1), i), at((j + 1).min(sphere.rows - 1), i));
                divergence.push(along + south * (before - here) + north * (after - here));
            }
        }
        divergence
    }

    fn solve(&mut self, elliptic: &Elliptic, right: &[f64]) -> Vec<f64> {
        let x = self.x.part(0, right.len());
        self.device.upload(x, right);
        elliptic.solve(&mut self.device, x, x);
        let mut solution = vec![0.0; right.len()];
        self.device.download(x, &mut solution);
        solution
    }

    /// Of the cell of point `k` of the whole grid [m²].
    fn area(&self, k: usize) -> f64 {
        self.sphere.area((k / self.sphere.columns) as isize)
    }
}

/// The Coriolis parameter [s⁻¹].
pub(super) fn f(rotation: f64, latitude: f64) -> f64 {
    2.0 * rotation * latitude.sin()
}

#[cfg(test)]
mod tests;
