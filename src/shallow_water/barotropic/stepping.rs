//! One step of the barotropic model, and what would end it.

use super::{Barotropic, BarotropicSettings};
use crate::device::{Filter, Image, Jacobian, Real, RowSmoothing, Slot, Sum, Term};
use crate::error::{Error, Result};
use crate::shallow_water::streamfunction::{Inner, f};
use crate::shallow_water::{Layer, Sphere};

/// Width of the zone of relaxation along the ring of a box [cells].
const ZONE: usize = 4;
/// Rate of relaxation on the ring, smaller by a factor e with every cell from it [s⁻¹].
const RELAXATION: f64 = 1.0 / 3600.0;
/// Limits of the classical Runge-Kutta scheme on the imaginary and on the real axis.
const LIMITS: [f64; 2] = [2.828, 2.785];
/// Share of a limit that a recommended step uses.
const SAFETY: f64 = 0.7;

/// Where a forecast is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// Steps done.
    pub steps: u64,
    /// Since the start.
    pub seconds: f64,
    /// The longest stable step when it was last asked for [s].
    pub stable: f64,
}

impl Default for Moment {
    fn default() -> Self {
        Self { steps: 0, seconds: 0.0, stable: f64::INFINITY }
    }
}

impl<T: Real> Barotropic<T> {
    /// The classical Runge-Kutta scheme.
    pub(super) fn step(&mut self, dt: f64) {
        let (q, stage, total, k) = (self.slots.q, self.slots.stage, self.slots.total, self.slots.k);
        self.tendency(q, 0.0);
        self.add(total, 0.0, &[(q, 1.0), (k, dt / 6.0)]);
        self.add(stage, 0.0, &[(q, 1.0), (k, dt / 2.0)]);
        self.tendency(stage, dt / 2.0);
        self.add(total, 1.0, &[(k, dt / 3.0)]);
        self.add(stage, 0.0, &[(q, 1.0), (k, dt / 2.0)]);
        self.tendency(stage, dt / 2.0);
        self.add(total, 1.0, &[(k, dt / 3.0)]);
        self.add(stage, 0.0, &[(q, 1.0), (k, dt)]);
        self.tendency(stage, dt);
        self.add(q, 0.0, &[(total, 1.0), (k, dt / 6.0)]);
        self.moment.steps += 1;
        self.moment.seconds += dt;
        if let Some(drive) = &mut self.drive {
            drive.elapsed += dt;
        }
    }

    /// `dq/dt` into k, for q of `state`, `later` seconds from now.
    ///
    /// On the globe with psi and zeta smoothed as the tendency is: so the product of the tendency with psi, and that with
    /// zeta, are those of smoothed fields, and sum to zero as they do without a filter.
    fn tendency(&mut self, state: Slot, later: f64) {
        self.invert(state, later);
        for x in [self.slots.psi, self.slots.zeta] {
            self.smooth(Image::padded(x));
        }
        self.fill_halos();
        let (inner, slots) = (self.inner, &self.slots);
        self.device.jacobian(&Jacobian {
            rows: inner.rows,
            columns: inner.columns,
            p: slots.psi,
            q: slots.zeta,
            table: slots.table,
            diffusion: self.settings.diffusivity,
            k: slots.k,
        });
        self.smooth(Image::plain(slots.k));
        let slots = &self.slots;
        let mut terms = Vec::with_capacity(3);
        if let Some(relaxation) = slots.relaxation {
            terms.push(Term::new(Image::plain(state), -1.0).times(relaxation));
        }
        // The reference moves.
        if let Some(drive) = &self.drive {
            let [before, next] = slots.vorticity_reference;
            terms.push(Term::new(Image::padded(before), 1.0 / drive.length));
            terms.push(Term::new(Image::padded(next), -1.0 / drive.length));
        }
        let y = Image::plain(slots.k);
        self.device.sum(&Sum { rows: inner.rows, columns: inner.columns, y, keep: 1.0, terms: &terms });
    }

    /// psi of now.
    pub(super) fn diagnose(&mut self) {
        self.invert(self.slots.q, 0.0);
    }

    /// psi and zeta of the q of `state`, `later` seconds from now, the halos of the globe not yet filled.
    fn invert(&mut self, state: Slot, later: f64) {
        let Inner { rows, columns, .. } = self.inner;
        let slots = &self.slots;
        let (solution, device) = (Image::plain(slots.solution), &mut self.device);
        // lap psi' - f^2/(g H) psi' = q, over the area of each cell.
        let circulation = [Term::new(Image::plain(state), 1.0).times(slots.area)];
        device.sum(&Sum { rows, columns, y: solution, keep: 0.0, terms: &circulation });
        self.elliptic.solve(&mut **device, slots.solution, slots.solution);

        let share = self.drive.as_ref().map_or(0.0, |drive| drive.share(later));
        let references = |slots: [Slot; 2]| {
            [(slots[0], 1.0 - share), (slots[1], share)]
                .into_iter()
                .filter(|(_, weight)| *weight != 0.0)
                .map(|(slot, weight)| Term::new(Image::plain(slot), weight))
                .collect::<Vec<_>>()
        };
        // With the ring of a box in the halo.
        for (y, slots) in [(slots.psi, slots.psi_reference), (slots.zeta, slots.vorticity_reference)] {
            let y = Image::plain(y);
            device.sum(&Sum {
                rows: rows + 2,
                columns: columns + 2,
                y,
                keep: 0.0,
                terms: &references(slots),
            });
        }
        let (psi, zeta) = (Image::padded(slots.psi), Image::padded(slots.zeta));
        device.sum(&Sum { rows, columns, y: psi, keep: 1.0, terms: &[Term::new(solution, 1.0)] });
        let mut parts = vec![Term::new(Image::plain(state), 1.0)];
        if self.settings.depth.is_some() {
            parts.push(Term::new(psi, 1.0).times(slots.stretching));
        }
        device.sum(&Sum { rows, columns, y: zeta, keep: 1.0, terms: &parts });
    }

    fn fill_halos(&mut self) {
        if self.sphere.global {
            self.device.halo_fill(&self.halo, self.slots.psi);
            self.device.halo_fill(&self.halo, self.slots.zeta);
        }
    }

    fn smooth(&mut self, x: Image) {
        if let Some(filters) = self.slots.filters {
            let Inner { rows, columns, .. } = self.inner;
            self.device.smooth_rows(&RowSmoothing { rows, columns, x, filters });
        }
    }

    fn add(&mut self, y: Slot, keep: f64, terms: &[(Slot, f64)]) {
        let terms: Vec<Term> = terms.iter().map(|&(x, weight)| Term::new(Image::plain(x), weight)).collect();
        let Inner { rows, columns, .. } = self.inner;
        self.device.sum(&Sum { rows, columns, y: Image::plain(y), keep, terms: &terms });
    }

    /// psi as last diagnosed, `[lat, lon]`.
    pub(super) fn download_psi(&self) -> Vec<f64> {
        let mut padded = vec![T::default(); self.slots.psi.len()];
        self.device.download(self.slots.psi, &mut padded);
        let padded: Vec<f64> = padded.into_iter().map(T::wide).collect();
        if self.inner.ring == 1 { padded } else { Inner { ring: 1, ..self.inner }.cut(&padded) }
    }

    /// Refuses a step that is too long for the winds.
    pub(super) fn inspect(&mut self, dt: f64) -> Result<()> {
        self.diagnose();
        let psi = self.download_psi();
        self.device.finish()?;
        let [u, v] = self.inversion.winds(&psi);
        let (mut fastest, mut at) = (0.0, 0);
        for (k, (u, v)) in u.iter().zip(&v).enumerate() {
            let dx = felt_width(&self.sphere, (k / self.sphere.columns) as isize);
            let rate = u.abs() / dx + v.abs() / self.sphere.dy();
            if rate > fastest {
                (fastest, at) = (rate, k);
            }
        }
        self.moment.stable =
            SAFETY / (fastest / LIMITS[0] + diffusion_rate(&self.sphere, &self.settings) / LIMITS[1]);
        if fastest * dt > LIMITS[0] {
            let what = format!("u is {:.0} and v {:.0} m/s, too fast for the step,", u[at], v[at]);
            return Err(self.broken_off(&what, at, dt));
        }
        Ok(())
    }

    /// Refuses numbers that are none.
    pub(super) fn check_finite(&self, dt: f64) -> Result<()> {
        if self.device.sum_of_squares(self.slots.q).is_finite() {
            return Ok(());
        }
        self.device.finish()?;
        let mut q = vec![T::default(); self.slots.q.len()];
        self.device.download(self.slots.q, &mut q);
        let wrong = |value: &T| !value.wide().is_finite();
        let k = q.iter().position(wrong).unwrap_or(0);
        let Inner { ring, columns, .. } = self.inner;
        let at = (k / columns + ring) * self.sphere.columns + k % columns + ring;
        Err(self.broken_off(&format!("the vorticity is {}", q[k]), at, dt))
    }

    fn broken_off(&self, what: &str, at: usize, dt: f64) -> Error {
        let Moment { steps, seconds, stable } = self.moment;
        let n = self.sphere.columns;
        Error::run(format!(
            "the flow broke off at step {steps} ({:.2} h): {what} at {}; a step of {stable:.0} s would have been stable \
             where {dt:.0} s were taken",
            seconds / 3600.0,
            self.sphere.describe(at / n, at % n)
        ))
        .hint(format!("take steps of at most {stable:.0} s, or more diffusion"))
    }
}

/// The longest step that is stable in winds of `wind` [m s⁻¹] along both directions at once.
pub(super) fn longest_step(sphere: &Sphere, settings: &BarotropicSettings, wind: f64) -> f64 {
    let last = sphere.rows as isize - 1;
    let dx = felt_width(sphere, 0).min(felt_width(sphere, last));
    let advection = wind / dx + wind / sphere.dy();
    SAFETY / (advection / LIMITS[0] + diffusion_rate(sphere, settings) / LIMITS[1])
}

/// Smallest width that a wave along row j can feel: that of its cells, or of the first row that is filtered.
fn felt_width(sphere: &Sphere, j: isize) -> f64 {
    let width = sphere.dxu(j);
    if sphere.global { width.max(sphere.a * Layer::FILTER_LATITUDE.cos() * sphere.dl) } else { width }
}

/// Of the shortest wave [s⁻¹]. The filter takes more from waves than the narrow cells near a pole add: with
/// `s = sin(pi k / N)` the second difference is 4 s^2, and s^2 times the filter's response is nowhere above 1.54 times the
/// square of rho, the row's width over that of the first row that is filtered.
fn diffusion_rate(sphere: &Sphere, settings: &BarotropicSettings) -> f64 {
    let last = sphere.rows as isize - 1;
    let dx = felt_width(sphere, 0).min(felt_width(sphere, last));
    let along = if sphere.global { 4.0 * 1.54 } else { 4.0 };
    settings.diffusivity * (along / (dx * dx) + 4.0 / sphere.dy().powi(2))
}

/// The table of the [`Jacobian`].
pub(super) fn measures(sphere: &Sphere, inner: Inner, settings: &BarotropicSettings) -> Vec<f64> {
    let mut table = Vec::new();
    for row in 0..(inner.rows + 2) as isize {
        let j = row - 1 + inner.ring as isize;
        // Beyond a pole, f is that of the row that is copied there.
        let cell = j.clamp(0, sphere.rows as isize - 1);
        let latitude = sphere.latitude(cell);
        let south = sphere.dxv(j.clamp(0, sphere.rows as isize)) / sphere.dy();
        let west = sphere.dy() / sphere.dxu(cell);
        table.extend([f(settings.rotation, latitude), 1.0 / sphere.area(cell), west, south]);
    }
    table
}

/// Of each row of the globe, for the [`RowSmoothing`].
pub(super) fn filters(sphere: &Sphere) -> Vec<f64> {
    let rho = |j: usize| sphere.latitude(j as isize).cos() / Layer::FILTER_LATITUDE.cos();
    (0..sphere.rows).flat_map(|j| Filter::bounded_by(rho(j)).z).collect()
}

/// Rates at the inner points of a box [s⁻¹].
pub(super) fn relaxation_rates(inner: Inner) -> Vec<f64> {
    let Inner { rows, columns, .. } = inner;
    (0..rows * columns)
        .map(|k| {
            let (j, i) = (k / columns, k % columns);
            let from_ring = 1 + j.min(rows - 1 - j).min(i).min(columns - 1 - i);
            if from_ring > ZONE { 0.0 } else { RELAXATION * (-(from_ring as f64)).exp() }
        })
        .collect()
}
