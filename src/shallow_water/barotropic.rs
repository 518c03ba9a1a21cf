//! The barotropic vorticity equation: what is left of the flow at 500 hPa when it neither converges nor heats, and the
//! oldest numerical forecast (Charney, Fjørtoft and von Neumann 1950, doi:10.3402/tellusa.v2i4.8607).
//!
//! ```text
//! d zeta/dt = -J(psi, zeta + f) + nu lap zeta        zeta = lap psi
//! ```
//!
//! Stepped is the departure q from a reference, the analysis that the forecast started from (or, with driven boundaries,
//! what lies in time between two analyses): `zeta = zeta_ref + q`, `psi = psi_ref + psi'`, `lap psi' = q`, with psi' = 0 on
//! the outermost ring of a box. On the ring stands the reference, and near it q is relaxed to zero.

use super::advection::{narrow, steps};
use super::streamfunction::{Inner, Inversion, f};
use super::{Sphere, laplacian};
use crate::constants::{EARTH_ROTATION, STANDARD_GRAVITY};
use crate::device::{ArenaPlan, Boundary, Channel, Device, Elliptic, HaloMap, Jacobian, Real, Slot};
use crate::error::{Error, Result};
use stepping::{Moment, filters, longest_step, measures, relaxation_rates};

mod stepping;
#[cfg(test)]
mod tests;

/// Steps between two looks at the winds.
const INSPECTED_EVERY: usize = 8;

/// What a forecast computes with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarotropicSettings {
    /// Longest step [s]; one shorter is taken where it divides the time asked for.
    pub step_seconds: f64,
    /// nu [m² s⁻¹]; 2e5 suits a box with points 2.5 degrees apart.
    pub diffusivity: f64,
    /// Depth H of a layer whose surface gives way, so that `(lap - f²/(g H)) d psi/dt` stands on the left [m]. Keeps the
    /// longest waves from running westward. `None`: no such layer.
    pub depth: Option<f64>,
    /// Of the planet [rad s⁻¹].
    pub rotation: f64,
}

impl BarotropicSettings {
    /// Settings for analyses of the real atmosphere: a step that is stable in winds of 100 m/s.
    pub fn of(sphere: &Sphere) -> Self {
        let settings =
            Self { step_seconds: f64::INFINITY, diffusivity: 2e5, depth: None, rotation: EARTH_ROTATION };
        Self { step_seconds: longest_step(sphere, &settings, 100.0), ..settings }
    }
}

/// Analyses that a forecast starts from, and forecasts: fields at the centres, `[lat, lon]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarotropicFields {
    /// Eastward and northward wind [m s⁻¹].
    pub winds: Option<[Vec<f64>; 2]>,
    /// [m² s⁻²]
    pub geopotential: Option<Vec<f64>>,
}

/// A reference state.
#[derive(Clone)]
struct Reference {
    /// `[rows, columns]`
    psi: Vec<f64>,
    /// `lap psi - f²/(g H) psi`, `[rows, columns]`; on the ring of a box `lap psi` alone.
    vorticity: Vec<f64>,
    fields: BarotropicFields,
}

/// Where the boundary goes: from one reference to the next, linearly in time.
struct Drive {
    next: Reference,
    /// [s]
    elapsed: f64,
    length: f64,
}

struct Slots {
    /// With a halo of one cell, in which the ring of a box lies.
    psi: Slot,
    zeta: Slot,
    /// Of the reference before and the next, as psi.
    psi_reference: [Slot; 2],
    vorticity_reference: [Slot; 2],
    /// The remaining ones have no halo.
    q: Slot,
    stage: Slot,
    total: Slot,
    k: Slot,
    solution: Slot,
    /// `[rows]`
    area: Slot,
    /// `[rows]`: f²/(g H).
    stretching: Slot,
    /// `[rows, columns]` [s⁻¹]
    relaxation: Option<Slot>,
    /// `[rows, 2]`, of the globe.
    filters: Option<Slot>,
    table: Slot,
}

/// A forecast of one level of the atmosphere, of the globe or in a box.
pub struct Barotropic<T: Real> {
    device: Box<dyn Device<T>>,
    sphere: Sphere,
    settings: BarotropicSettings,
    inversion: Inversion,
    inner: Inner,
    elliptic: Elliptic,
    halo: HaloMap,
    slots: Slots,
    reference: Option<Reference>,
    drive: Option<Drive>,
    moment: Moment,
}

impl<T: Real> Barotropic<T> {
    pub fn new(
        mut device: Box<dyn Device<T>>,
        sphere: &Sphere,
        settings: BarotropicSettings,
    ) -> Result<Self> {
        settings.check(sphere)?;
        let inversion = Inversion::new(sphere, settings.rotation)?;
        let inner = inversion.inner();
        let stretching = |latitude: f64| settings.stretching(latitude);
        let mut plan = ArenaPlan::default();
        let elliptic = Elliptic::new(
            &mut plan,
            if sphere.global {
                laplacian::global(sphere, stretching)
            } else {
                laplacian::interior(sphere, |_| 1.0, stretching)
            },
        );
        let (points, padded) = (inner.rows * inner.columns, (inner.rows + 2) * (inner.columns + 2));
        let slots = Slots {
            psi: plan.slot(padded),
            zeta: plan.slot(padded),
            psi_reference: [plan.slot(padded), plan.slot(padded)],
            vorticity_reference: [plan.slot(padded), plan.slot(padded)],
            q: plan.slot(points),
            stage: plan.slot(points),
            total: plan.slot(points),
            k: plan.slot(points),
            solution: plan.slot(points),
            area: plan.slot(inner.rows),
            stretching: plan.slot(inner.rows),
            relaxation: (!sphere.global).then(|| plan.slot(points)),
            filters: sphere.global.then(|| plan.slot(2 * inner.rows)),
            table: plan.slot((inner.rows + 2) * Jacobian::MEASURES),
        };
        device.allocate(&plan)?;
        elliptic.upload(&mut *device);
        let latitudes = (0..inner.rows).map(|j| sphere.latitude((j + inner.ring) as isize));
        device.upload(slots.area, &narrow(&elliptic.coefficients.area));
        device.upload(slots.stretching, &narrow(&latitudes.map(stretching).collect::<Vec<_>>()));
        device.upload(slots.table, &narrow(&measures(sphere, inner, &settings)));
        if let Some(relaxation) = slots.relaxation {
            device.upload(relaxation, &narrow(&relaxation_rates(inner)));
        }
        if let Some(slot) = slots.filters {
            device.upload(slot, &narrow(&filters(sphere)));
        }
        let halo = sphere.edges().map(1, inner.rows, inner.columns, 1, &[Channel::centre(false)])?;
        Ok(Self {
            device,
            sphere: sphere.clone(),
            settings,
            inversion,
            inner,
            elliptic,
            halo,
            slots,
            reference: None,
            drive: None,
            moment: Moment::default(),
        })
    }

    /// Starts from an analysis, of its winds where it has them, else of its geopotential. A box keeps it on its ring.
    pub fn start(&mut self, analysis: &BarotropicFields) -> Result<()> {
        let reference = self.understand(analysis)?;
        self.begin(reference);
        Ok(())
    }

    /// Starts from a stream function [m² s⁻¹], `[lat, lon]` at the centres.
    pub fn start_stream_function(&mut self, psi: &[f64]) -> Result<()> {
        self.sphere.check_fields(psi, &["the stream function"])?;
        let vorticity = self.inversion.vorticity(psi);
        let reference = self.reference_of(psi.to_vec(), vorticity, BarotropicFields::default());
        self.begin(reference);
        Ok(())
    }

    /// Leads the boundary of a box to the `next` analysis, linearly over the coming `seconds`; there it stays. Such a
    /// forecast knows the future at its boundary.
    pub fn drive(&mut self, next: &BarotropicFields, seconds: f64) -> Result<()> {
        if self.sphere.global {
            return Err(Error::input("the globe has no boundary that could be driven"));
        }
        if !(seconds > 0.0 && seconds.is_finite()) {
            return Err(Error::input(format!("a boundary is driven for more than 0 s, found {seconds}")));
        }
        let next = self.understand(next)?;
        let now = self.reference_now()?;
        if now.fields.winds.is_some() != next.fields.winds.is_some()
            || now.fields.geopotential.is_some() != next.fields.geopotential.is_some()
        {
            return Err(Error::input("the analyses of start and boundary hold different quantities"));
        }
        self.upload_reference(0, &now);
        self.upload_reference(1, &next);
        self.reference = Some(now);
        self.drive = Some(Drive { next, elapsed: 0.0, length: seconds });
        Ok(())
    }

    /// Forecasts a time [s] further in steps of equal length. A step that has become too long for the winds, or numbers
    /// that are none, end the forecast with an error that says when, where and what would have been stable.
    pub fn advance(&mut self, seconds: f64) -> Result<()> {
        if self.reference.is_none() {
            return Err(not_started());
        }
        // No step passes the time at which a driven boundary arrives.
        let left = self.drive.as_ref().map(|drive| drive.length - drive.elapsed);
        match left.filter(|left| *left < seconds) {
            Some(left) => {
                self.run(left)?;
                self.run(seconds - left)
            }
            None => self.run(seconds),
        }
    }

    fn run(&mut self, seconds: f64) -> Result<()> {
        let steps = steps(seconds, self.settings.step_seconds)?;
        let dt = seconds / steps as f64;
        for step in 0..steps {
            if step % INSPECTED_EVERY == 0 {
                self.inspect(dt)?;
            }
            self.step(dt);
            self.check_finite(dt)?;
        }
        if let Some(drive) = self.drive.take_if(|drive| drive.has_arrived()) {
            self.upload_reference(0, &drive.next);
            self.reference = Some(drive.next);
        }
        Ok(())
    }

    /// The forecast: the winds of the stream function (without the part of the analysed ones that diverges), and the
    /// geopotential where the analysis had one. On the ring of a box stands the analysis.
    pub fn fields(&mut self) -> Result<BarotropicFields> {
        let now = self.reference_now()?;
        let psi = self.stream_function()?;
        let mut winds = self.inversion.winds(&psi);
        if let Some(analysed) = &now.fields.winds {
            for (wind, analysed) in winds.iter_mut().zip(analysed) {
                self.inner.copy_ring(analysed, wind);
            }
        }
        let geopotential = now.fields.geopotential.map(|phi| {
            let departure: Vec<f64> =
                psi.iter().zip(&now.psi).map(|(psi, reference)| psi - reference).collect();
            let change = self.inversion.geopotential(&departure);
            phi.iter().zip(&change).map(|(phi, change)| phi + change).collect()
        });
        Ok(BarotropicFields { winds: Some(winds), geopotential })
    }

    /// psi [m² s⁻¹], `[lat, lon]`.
    pub fn stream_function(&mut self) -> Result<Vec<f64>> {
        if self.reference.is_none() {
            return Err(not_started());
        }
        self.diagnose();
        let psi = self.download_psi();
        self.device.finish()?;
        Ok(psi)
    }

    /// `lap psi` [s⁻¹], `[lat, lon]`; on the ring of a box that of the nearest point within.
    pub fn vorticity(&mut self) -> Result<Vec<f64>> {
        let psi = self.stream_function()?;
        Ok(self.inversion.vorticity(&psi))
    }

    fn begin(&mut self, reference: Reference) {
        self.upload_reference(0, &reference);
        self.device.zero(self.slots.q);
        self.reference = Some(reference);
        self.drive = None;
        self.moment = Moment::default();
    }

    /// The reference state of an analysis.
    fn understand(&mut self, analysis: &BarotropicFields) -> Result<Reference> {
        let BarotropicFields { winds, geopotential } = analysis;
        if let Some([u, v]) = winds {
            self.sphere.check_fields(u, &["u"])?;
            self.sphere.check_fields(v, &["v"])?;
        }
        if let Some(phi) = geopotential {
            self.sphere.check_fields(phi, &["the geopotential"])?;
        }
        let (psi, vorticity) = match (winds, geopotential) {
            (Some([u, v]), _) => self.inversion.of_winds(u, v),
            (None, Some(phi)) => {
                let psi = self.inversion.of_geopotential(phi)?;
                let vorticity = self.inversion.vorticity(&psi);
                (psi, vorticity)
            }
            (None, None) => {
                return Err(Error::input("a forecast of vorticity starts from winds or a geopotential"));
            }
        };
        Ok(self.reference_of(psi, vorticity, analysis.clone()))
    }

    /// From psi and zeta, `[rows, columns]`.
    fn reference_of(&self, psi: Vec<f64>, mut zeta: Vec<f64>, fields: BarotropicFields) -> Reference {
        for k in self.inner.points() {
            let latitude = self.sphere.latitude((k / self.sphere.columns) as isize);
            zeta[k] -= self.settings.stretching(latitude) * psi[k];
        }
        Reference { psi, vorticity: zeta, fields }
    }

    /// What the boundary holds now.
    fn reference_now(&self) -> Result<Reference> {
        let reference = self.reference.as_ref().ok_or_else(not_started)?;
        match &self.drive {
            None => Ok(reference.clone()),
            Some(drive) => Ok(reference.towards(&drive.next, drive.share(0.0))),
        }
    }

    fn upload_reference(&mut self, which: usize, reference: &Reference) {
        let pad = |field: &[f64]| narrow::<T>(&self.inner.pad(field));
        let (psi, vorticity) = (pad(&reference.psi), pad(&reference.vorticity));
        self.device.upload(self.slots.psi_reference[which], &psi);
        self.device.upload(self.slots.vorticity_reference[which], &vorticity);
    }
}

impl BarotropicSettings {
    /// f²/(g H) [m⁻²].
    fn stretching(&self, latitude: f64) -> f64 {
        self.depth.map_or(0.0, |depth| f(self.rotation, latitude).powi(2) / (STANDARD_GRAVITY * depth))
    }

    fn check(&self, sphere: &Sphere) -> Result<()> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !positive(self.step_seconds) || self.depth.is_some_and(|depth| !positive(depth)) {
            return Err(Error::input(format!(
                "a step and the depth of a layer are positive, found {} s and {:?} m",
                self.step_seconds, self.depth
            )));
        }
        if !(self.diffusivity >= 0.0 && self.diffusivity.is_finite() && self.rotation.is_finite()) {
            return Err(Error::input(format!(
                "a diffusivity is not negative, found {} m2 s-1",
                self.diffusivity
            )));
        }
        let stable = longest_step(sphere, self, 0.0);
        if self.step_seconds > stable {
            return Err(Error::input(format!(
                "steps of {:.0} s are too long for a diffusivity of {:e} m2 s-1",
                self.step_seconds, self.diffusivity
            ))
            .hint(format!("take steps of at most {stable:.0} s")));
        }
        Ok(())
    }
}

impl Reference {
    /// On the way to another.
    fn towards(&self, next: &Reference, share: f64) -> Reference {
        let mix = |a: &[f64], b: &[f64]| -> Vec<f64> {
            a.iter().zip(b).map(|(a, b)| (1.0 - share) * a + share * b).collect()
        };
        let winds = self.fields.winds.as_ref().zip(next.fields.winds.as_ref());
        let geopotential = self.fields.geopotential.as_ref().zip(next.fields.geopotential.as_ref());
        Reference {
            psi: mix(&self.psi, &next.psi),
            vorticity: mix(&self.vorticity, &next.vorticity),
            fields: BarotropicFields {
                winds: winds.map(|(a, b)| [mix(&a[0], &b[0]), mix(&a[1], &b[1])]),
                geopotential: geopotential.map(|(a, b)| mix(a, b)),
            },
        }
    }
}

impl Drive {
    /// How far it has come, `later` seconds from now.
    fn share(&self, later: f64) -> f64 {
        ((self.elapsed + later) / self.length).min(1.0)
    }

    /// But for rounding.
    fn has_arrived(&self) -> bool {
        self.elapsed > self.length * (1.0 - 1e-9)
    }
}

fn not_started() -> Error {
    Error::run("the barotropic model has no analysis to start from yet")
}
