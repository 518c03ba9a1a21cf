//! The streamfunction that belongs to a geopotential where no wind is known, and back.
//!
//! Linear balance (Lorenz 1960, doi:10.3402/tellusa.v12i4.9416): `div(f grad psi) = lap Phi`. With psi = Phi / f the wind
//! would have a spurious eastward part `Phi f' / f^2` of tens of metres a second; f must stand inside the divergence.
//! Nearer to the equator than 15 degrees, f is that of 15 degrees: there the wind comes out too weak.

use std::ops::Range;

use super::{Fields, Sphere, laplacian};
use crate::device::cpu::Cpu;
use crate::device::{ArenaPlan, Coefficients, Device, Elliptic};
use crate::error::{Error, Result};

/// f is not smaller than at this latitude [radians].
pub const FLOOR: f64 = 15.0 * std::f64::consts::PI / 180.0;

/// Linear balance on the globe, or in a box on one side of the equator.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearBalance {
    sphere: Sphere,
    /// Angular velocity [rad s⁻¹].
    rotation: f64,
}

impl LinearBalance {
    /// On a sphere that rotates with `rotation` [rad s⁻¹].
    pub fn new(sphere: Sphere, rotation: f64) -> Result<Self> {
        let [south, north] = [0, sphere.rows as isize].map(|j| sphere.face_latitude(j));
        if !sphere.global && south < 0.0 && north > 0.0 {
            let [south, north] = [south, north].map(f64::to_degrees);
            return Err(Error::input(format!(
                "a geopotential has no balanced wind in a box across the equator, found {south:.1} to {north:.1} N"
            ))
            .hint("give the wind, or cut the box off at the equator"));
        }
        Ok(Self { sphere, rotation })
    }

    /// f at `latitude`, away from 0, without its sign.
    fn magnitude(&self, latitude: f64) -> f64 {
        2.0 * self.rotation * latitude.abs().max(FLOOR).sin()
    }

    /// psi [m2 s⁻¹] of a geopotential [m2 s⁻²], both `[rows, columns]` at the centres.
    ///
    /// In a box, psi on the outermost ring is the departure of the geopotential from its mean over the f of the middle of
    /// the box. On the globe each hemisphere is solved for itself with psi = 0 on the equator.
    pub fn streamfunction(&self, geopotential: &[f64]) -> Result<Vec<f64>> {
        self.check(geopotential)?;
        let sphere = &self.sphere;
        let magnitude = |latitude: f64| self.magnitude(latitude);
        if !sphere.global {
            let middle = (sphere.face_latitude(0) + sphere.face_latitude(sphere.rows as isize)) / 2.0;
            let (mean, f) = (sphere.mean(geopotential), magnitude(middle));
            let ring: Vec<f64> = geopotential.iter().map(|phi| (phi - mean) / f).collect();
            let right = self.flux_divergence(|_| 1.0, geopotential, 1..sphere.rows - 1);
            let mut psi = self.solve_inside(&magnitude, right, &ring)?;
            psi.iter_mut().for_each(|psi| *psi *= middle.signum());
            return Ok(psi);
        }
        let mut psi = vec![0.0; geopotential.len()];
        // With an odd number of rows the middle one lies on the equator.
        for (rows, sign) in [(sphere.rows.div_ceil(2)..sphere.rows, 1.0), (0..sphere.rows / 2, -1.0)] {
            let mut right = self.flux_divergence(|_| 1.0, geopotential, rows.clone());
            right.iter_mut().for_each(|r| *r *= sign);
            let solution = solve(laplacian::hemisphere(sphere, magnitude, rows.clone()), &right)?;
            psi[rows.start * sphere.columns..rows.end * sphere.columns].copy_from_slice(&solution);
        }
        Ok(psi)
    }

    /// The geopotential [m2 s⁻²] of psi [m2 s⁻¹] in a box, on whose outermost ring it is `boundary`; all `[rows, columns]`.
    pub fn geopotential(&self, psi: &[f64], boundary: &[f64]) -> Result<Vec<f64>> {
        self.check(psi)?;
        self.check(boundary)?;
        let f = |latitude: f64| latitude.signum() * self.magnitude(latitude);
        let right = self.flux_divergence(f, psi, 1..self.sphere.rows - 1);
        self.solve_inside(&|_| 1.0, right, boundary)
    }

    /// On the globe, the wind of the streamfunction of `gravity h`, and h. The wind has no divergence.
    pub fn fields(&self, h: &[f64], gravity: f64) -> Result<Fields> {
        if !self.sphere.global {
            return Err(Error::input("the wind on the faces of cells is made from psi on the globe alone"));
        }
        let psi = self.streamfunction(&h.iter().map(|h| gravity * h).collect::<Vec<_>>())?;
        let (sphere, n) = (&self.sphere, self.sphere.columns);
        // At the south-west corners; on a pole there is one value.
        let mean = |j: usize| psi[j * n..][..n].iter().sum::<f64>() / n as f64;
        let corner = |j: usize, i: usize| {
            let (west, i) = ((i + n - 1) % n, i % n);
            match j {
                0 => mean(0),
                j if j == sphere.rows => mean(j - 1),
                j => {
                    let (here, south) = (&psi[j * n..][..n], &psi[(j - 1) * n..][..n]);
                    (here[i] + here[west] + south[i] + south[west]) / 4.0
                }
            }
        };
        let cells = || (0..sphere.rows * n).map(|k| (k / n, k % n));
        Ok(Fields {
            u: cells().map(|(j, i)| -(corner(j + 1, i) - corner(j, i)) / sphere.dy()).collect(),
            v: cells()
                .map(|(j, i)| match sphere.dxv(j as isize) {
                    0.0 => 0.0,
                    length => (corner(j, i + 1) - corner(j, i)) / length,
                })
                .collect(),
            h: h.to_vec(),
        })
    }

    /// `div(weight grad x)` over the area of the cells of some rows: of all columns of the globe, of the columns of a box
    /// but the outermost.
    fn flux_divergence(&self, weight: impl Fn(f64) -> f64, x: &[f64], rows: Range<usize>) -> Vec<f64> {
        let (sphere, n) = (&self.sphere, self.sphere.columns);
        let columns = if sphere.global { 0..n } else { 1..n - 1 };
        let along = |face: usize, i: usize| {
            let j = face as isize;
            match sphere.dxv(j) {
                0.0 => 0.0,
                dxv => {
                    let coupling = weight(sphere.face_latitude(j)) * dxv / sphere.dy();
                    coupling * (x[face * n + i] - x[(face - 1) * n + i])
                }
            }
        };
        let across = |j: usize, i: usize| {
            let row = &x[j * n..][..n];
            let coupling = weight(sphere.latitude(j as isize)) * sphere.dy() / sphere.dxu(j as isize);
            coupling * ((row[(i + 1) % n] - row[i]) - (row[i] - row[(i + n - 1) % n]))
        };
        rows.flat_map(|j| columns.clone().map(move |i| (j, i)))
            .map(|(j, i)| across(j, i) + (along(j + 1, i) - along(j, i)))
            .collect()
    }

    /// `div(weight grad x) = right` inside a box on whose outermost ring x is `ring`.
    fn solve_inside(
        &self,
        weight: &dyn Fn(f64) -> f64,
        mut right: Vec<f64>,
        ring: &[f64],
    ) -> Result<Vec<f64>> {
        let (rows, n) = (self.sphere.rows, self.sphere.columns);
        let mut x = ring.to_vec();
        for j in 1..rows - 1 {
            x[j * n + 1..(j + 1) * n - 1].fill(0.0);
        }
        let known = self.flux_divergence(weight, &x, 1..rows - 1);
        right.iter_mut().zip(known).for_each(|(r, known)| *r -= known);
        let inside = solve(laplacian::interior(&self.sphere, weight, |_| 0.0), &right)?;
        for (j, row) in inside.chunks(n - 2).enumerate() {
            x[(j + 1) * n + 1..][..n - 2].copy_from_slice(row);
        }
        Ok(x)
    }

    fn check(&self, values: &[f64]) -> Result<()> {
        let expected = self.sphere.rows * self.sphere.columns;
        match values.len() {
            found if found == expected => Ok(()),
            found => Err(Error::input(format!("{found} values where the grid has {expected} cells"))),
        }
    }
}

/// The solution in double precision.
fn solve(coefficients: Coefficients, right: &[f64]) -> Result<Vec<f64>> {
    let mut plan = ArenaPlan::default();
    let elliptic = Elliptic::new(&mut plan, coefficients);
    let unknown = plan.slot(right.len());
    let mut device = Cpu::<f64>::new(Some(1))?;
    device.allocate(&plan)?;
    elliptic.upload(&mut device);
    device.upload(unknown, right);
    elliptic.solve(&mut device, unknown, unknown);
    let mut solution = vec![0.0; right.len()];
    device.download(unknown, &mut solution);
    Ok(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{EARTH_RADIUS, EARTH_ROTATION};
    use crate::grid::Grid;
    use crate::shallow_water::Case;

    fn regional(rows: usize, columns: usize, south: f64, step: f64) -> Sphere {
        let even = |n: usize, first: f64| (0..n).map(|i| first + step * i as f64).collect::<Vec<f64>>();
        Sphere::regional(&Grid::new(even(rows, south), even(columns, 10.0)).unwrap(), EARTH_RADIUS).unwrap()
    }

    fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
        values.into_iter().fold(0.0, |m, x| m.max(x.abs()))
    }

    #[test]
    fn a_box_brings_the_geopotential_back_that_it_made_a_streamfunction_of() {
        for south in [32.5, -62.5] {
            let sphere = regional(13, 17, south, 2.5);
            let balance = LinearBalance::new(sphere.clone(), EARTH_ROTATION).unwrap();
            let phi: Vec<f64> = (0..13 * 17)
                .map(|k| 5e4 + 2e3 * (f64::from(k / 17) * 0.4).sin() + 1e3 * (f64::from(k % 17) * 0.7).cos())
                .collect();
            let psi = balance.streamfunction(&phi).unwrap();
            let back = balance.geopotential(&psi, &phi).unwrap();
            let error = largest(back.iter().zip(&phi).map(|(a, b)| a - b));
            assert!(error < 1e-7, "{error} m2/s2 of 5e4");
            // Low geopotential has a cyclonic wind: psi rises with it in the north, falls in the south.
            let (mut low, mut high) = (0, 0);
            for k in 0..phi.len() {
                low = if phi[k] < phi[low] { k } else { low };
                high = if phi[k] > phi[high] { k } else { high };
            }
            assert!((psi[high] - psi[low]) * south > 0.0);
        }
    }

    #[test]
    fn solid_rotation_keeps_its_wind_outside_the_tropics() {
        let mut errors = Vec::new();
        for rows in [32, 45, 64] {
            let sphere = Sphere::global(rows, 16, EARTH_RADIUS).unwrap();
            let w = 20.0 / EARTH_RADIUS;
            let height = |y: f64| -EARTH_ROTATION * EARTH_RADIUS.powi(2) * w * y.sin().powi(2) / 10.0 + 5e3;
            let h: Vec<f64> = (0..rows * 16).map(|k| height(sphere.latitude((k / 16) as isize))).collect();
            let fields =
                LinearBalance::new(sphere.clone(), EARTH_ROTATION).unwrap().fields(&h, 10.0).unwrap();
            let error = largest((0..rows * 16).map(|k| {
                let y = sphere.latitude((k / 16) as isize);
                let u = 20.0 * y.cos() * (y.sin().abs() / FLOOR.sin()).min(1.0);
                // Where f bends, the four-point mean of psi is of first order.
                let near = (y.abs() - FLOOR).abs() < 2.0 * sphere.dp || y.abs() < sphere.dp;
                if near { 0.0 } else { fields.u[k] - u }
            }));
            assert!(largest(fields.v) < 1e-9, "no wind across circles of latitude");
            errors.push(error);
        }
        println!("{errors:?} m/s of 20");
        assert!(errors[0] < 0.5 && errors[2] < errors[0] / 3.0, "{errors:?}");
    }

    #[test]
    fn waves_of_middle_latitudes_keep_their_wind_and_nothing_diverges() {
        // The Rossby-Haurwitz wave's wind is purely rotational; its height is in nonlinear balance, here it is linear.
        let Case { layer, fields } = Case::rossby_haurwitz(64, 128).unwrap();
        let sphere = &layer.sphere;
        let balance = LinearBalance::new(sphere.clone(), EARTH_ROTATION).unwrap();
        let psi: Vec<f64> = (0..64 * 128)
            .map(|k| (sphere.latitude(k / 128), sphere.longitude(k % 128)))
            .map(|(y, x)| {
                let scale = sphere.a * sphere.a * 7.848e-6;
                scale * (-y.sin() + y.cos().powi(4) * y.sin() * (4.0 * x).cos())
            })
            .collect();
        let f = |latitude: f64| 2.0 * EARTH_ROTATION * latitude.sin();
        let right = balance.flux_divergence(f, &psi, 0..64);
        let phi = solve(laplacian::global(sphere, |_| 0.0), &right).unwrap();
        let found = balance.fields(&phi, 1.0).unwrap();
        let wrong = |k: usize| (found.u[k] - fields.u[k]).hypot(found.v[k] - fields.v[k]);
        let band = |from: f64| {
            largest((0..64 * 128).map(|k| {
                let y = sphere.face_latitude((k / 128) as isize).abs().to_degrees();
                if y > from { wrong(k) } else { 0.0 }
            }))
        };
        println!("largest error poleward of 25, 40 degrees: {:.1}, {:.1} m/s of 100", band(25.0), band(40.0));
        assert!(band(25.0) < 10.0 && band(40.0) < 3.0);
        let mut most = 0.0_f64;
        for j in 0..63 {
            for i in 0..128 {
                let (k, east) = (j * 128 + i, j * 128 + (i + 1) % 128);
                let out = (found.u[east] - found.u[k]) * sphere.dy()
                    + found.v[k + 128] * sphere.dxv(j as isize + 1)
                    - found.v[k] * sphere.dxv(j as isize);
                most = most.max(out.abs() / sphere.area(j as isize));
            }
        }
        assert!(most < 1e-16, "divergence {most} 1/s");
    }

    #[test]
    fn a_box_across_the_equator_is_refused() {
        let error = LinearBalance::new(regional(9, 9, -5.0, 2.5), EARTH_ROTATION).unwrap_err();
        assert!(error.to_string().contains("across the equator"));
    }
}
