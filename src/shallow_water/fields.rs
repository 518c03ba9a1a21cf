//! The state of a shallow layer on the host.

use super::Sphere;

/// Wind and depth of the cells of a [`Sphere`]; each `[rows, columns]`, southern row first.
#[derive(Debug, Clone, PartialEq)]
pub struct Fields {
    /// Eastward wind on the west faces [m s⁻¹].
    pub u: Vec<f64>,
    /// Northward wind on the south faces [m s⁻¹]; row 0 of the globe lies on the pole and is 0.
    pub v: Vec<f64>,
    /// Depth at the centres, from the bottom to the surface [m].
    pub h: Vec<f64>,
}

impl Fields {
    /// Samples `u`, `v` and `h`, functions of longitude and latitude [radians], where each field stands.
    pub fn sample(
        sphere: &Sphere,
        u: impl Fn(f64, f64) -> f64,
        v: impl Fn(f64, f64) -> f64,
        h: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let each = |value: &dyn Fn(isize, isize) -> f64| {
            let rows = 0..sphere.rows as isize;
            rows.flat_map(|j| (0..sphere.columns as isize).map(move |i| value(j, i))).collect()
        };
        Self {
            u: each(&|j, i| u(sphere.face_longitude(i), sphere.latitude(j))),
            v: each(&|j, i| {
                let on_pole = sphere.dxv(j) == 0.0;
                if on_pole { 0.0 } else { v(sphere.longitude(i), sphere.face_latitude(j)) }
            }),
            h: each(&|j, i| h(sphere.longitude(i), sphere.latitude(j))),
        }
    }
}
