//! One layer of fluid on a sphere: everything that its flow depends on besides its state.

use super::{Fields, Sphere};
use crate::device::{Filter, FluxForm, RowMeasures};
use crate::error::{Error, Result};

/// The limit of the classical Runge-Kutta scheme on the imaginary axis: `|omega dt|` at most this.
pub const RUNGE_KUTTA_LIMIT: f64 = 2.828;

/// Share of the limit that a step uses.
const SAFETY: f64 = 0.9;

/// Wind for which the longest step must hold [m s⁻¹].
const FASTEST_WIND: f64 = 100.0;

/// What limits the step of a scheme.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum StepLimit {
    /// The fastest gravity waves and the wind, of an explicit scheme that is stable for `|omega dt|` up to this.
    Waves(f64),
    /// The wind alone, of leapfrog steps.
    Wind,
}

impl StepLimit {
    /// What a rate times the step must stay below.
    pub fn reach(self) -> f64 {
        match self {
            Self::Waves(reach) => reach,
            Self::Wind => 1.0,
        }
    }

    /// The longest step [s] for a rate [s⁻¹].
    pub fn stable_step(self, rate: f64) -> f64 {
        SAFETY * self.reach() / rate
    }
}

/// A shallow layer of fluid.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub sphere: Sphere,
    /// g [m s⁻²]
    pub gravity: f64,
    /// f at the south-west corners [s⁻¹], `[rows + 1, columns]`: the first and the last row of the globe are its poles.
    pub coriolis: Vec<f64>,
    /// Height of the bottom at the centres [m], `[rows, columns]`; flat where there is none.
    pub orography: Option<Vec<f64>>,
    /// A depth near the mean [m]: the device keeps departures from it, and semi-implicit schemes linearise about it.
    pub depth: f64,
    pub form: FluxForm,
    /// Rows of the globe nearer to a pole than this latitude [radians] are filtered.
    pub filter_latitude: f64,
    /// e-folding time of a wave of two cells in both directions [s]; none for no damping.
    pub damping: Option<f64>,
}

impl Layer {
    /// 60 degrees.
    pub const FILTER_LATITUDE: f64 = std::f64::consts::FRAC_PI_3;

    /// A layer of mean depth `depth` [m] over a flat bottom on a sphere that rotates with `rotation` [s⁻¹] about its axis.
    pub fn new(sphere: Sphere, gravity: f64, rotation: f64, depth: f64) -> Self {
        let coriolis = (0..=sphere.rows as isize)
            .flat_map(|j| std::iter::repeat_n(2.0 * rotation * sphere.face_latitude(j).sin(), sphere.columns))
            .collect();
        Self {
            sphere,
            gravity,
            coriolis,
            orography: None,
            depth,
            form: FluxForm::default(),
            filter_latitude: Self::FILTER_LATITUDE,
            damping: None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let (rows, columns) = (self.sphere.rows, self.sphere.columns);
        let expect = |what: &str, found: usize, expected: usize| match found == expected {
            true => Ok(()),
            false => Err(Error::input(format!("{what} has {found} values where {expected} are expected"))),
        };
        expect("the Coriolis parameter", self.coriolis.len(), (rows + 1) * columns)?;
        if let Some(orography) = &self.orography {
            expect("the orography", orography.len(), rows * columns)?;
        }
        if !(self.depth > 0.0 && self.gravity > 0.0) {
            let (depth, gravity) = (self.depth, self.gravity);
            return Err(Error::input(format!(
                "depth and gravity of a layer are positive, found {depth} m and {gravity} m s-2"
            )));
        }
        match self.damping {
            Some(time) if !(time > 0.0) => {
                Err(Error::input(format!("the damping time must be positive, found {time} s"))
                    .hint("leave it out for no damping"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_fields(&self, fields: &Fields) -> Result<()> {
        let expected = self.sphere.rows * self.sphere.columns;
        for (name, values) in [("u", &fields.u), ("v", &fields.v), ("h", &fields.h)] {
            if values.len() != expected {
                return Err(Error::input(format!(
                    "{name} has {} values where the grid has {expected} cells",
                    values.len()
                )));
            }
        }
        Ok(())
    }

    /// Smallest width of a cell that a wave can feel in row j: that of the row, or of the first row that is filtered.
    pub(super) fn width(&self, j: isize) -> f64 {
        match self.sphere.global {
            true => self.sphere.dxu(j).max(self.sphere.a * self.filter_latitude.cos() * self.sphere.dl),
            false => self.sphere.dxu(j),
        }
    }

    /// The longest step [s] of a scheme with the limit `reach` (see [`RUNGE_KUTTA_LIMIT`]) over a layer nowhere deeper than
    /// `deepest` [m], for winds up to 100 m/s: 0.9 of `reach / (2 c sqrt(1/dx^2 + 1/dy^2) + U/dx)`, `c^2 = g deepest`.
    pub fn longest_step(&self, reach: f64, deepest: f64) -> f64 {
        let last = self.sphere.rows as isize - 1;
        let dx = self.width(0).min(self.width(last));
        SAFETY * reach / (self.wave_rate(dx, deepest) + FASTEST_WIND / dx)
    }

    /// A step of semi-implicit schemes that suits the winds of the atmosphere [s]: 1200 s for cells of 2.8125 degrees. What
    /// limits it is wind across the poles; on grids of a few rows it is inertial oscillations, which are explicit too.
    pub fn semi_implicit_step(&self) -> f64 {
        let fastest = self.coriolis.iter().fold(0.0_f64, |most, f| most.max(f.abs()));
        let wind = 1200.0 * self.sphere.dp.min(self.sphere.dl).to_degrees() / 2.8125;
        if fastest > 0.0 { wind.min(0.8 / fastest) } else { wind }
    }

    /// What `|u|`, `|v|` and the root of the depth count for in [`rate`](Self::rate), in row j.
    pub(super) fn rate_factors(&self, limit: StepLimit, j: isize) -> [f64; 3] {
        let (dx, dy) = (self.width(j), self.sphere.dy());
        match limit {
            StepLimit::Waves(_) => [1.0 / dx, 1.0 / dy, self.wave_rate(dx, 1.0)],
            // A filtered row passes waves of as little as half the width of the first one, as centred differences see them.
            StepLimit::Wind => [1.0 / self.sphere.dxu(j).max(dx / 2.0), 1.0 / dy, 0.0],
        }
    }

    /// The rate of what is as fast in any flow, at a corner [s⁻¹]: inertial oscillations are explicit too, but no wind
    /// carries them.
    fn steady_rate(&self, limit: StepLimit, k: usize) -> f64 {
        if limit == StepLimit::Wind { self.coriolis[k].abs() } else { 0.0 }
    }

    /// The largest of them.
    pub(super) fn largest_steady_rate(&self, limit: StepLimit) -> f64 {
        let cells = self.sphere.rows * self.sphere.columns;
        (0..cells).map(|k| self.steady_rate(limit, k)).fold(0.0, f64::max)
    }

    /// How fast the fastest thing in a cell happens [s⁻¹], which times the step must stay below the limit's reach.
    fn rate(&self, limit: StepLimit, k: usize, fields: &Fields, first: usize) -> f64 {
        let [by_u, by_v, by_root] = self.rate_factors(limit, (first + k / self.sphere.columns) as isize);
        let rate = by_u * fields.u[k].abs() + by_v * fields.v[k].abs() + by_root * fields.h[k].sqrt();
        rate.max(self.steady_rate(limit, first * self.sphere.columns + k))
    }

    fn wave_rate(&self, dx: f64, depth: f64) -> f64 {
        2.0 * (self.gravity * depth).sqrt() * (dx.powi(-2) + self.sphere.dy().powi(-2)).sqrt()
    }

    /// Finds what would end a run: a value that is no number, a layer that is dry, a step that is too long, in fields that
    /// begin with row `first`. Returns the longest stable step [s].
    pub(super) fn inspect(
        &self,
        fields: &Fields,
        first: usize,
        moment: &Moment,
        limit: StepLimit,
    ) -> Result<f64> {
        let (sphere, n) = (&self.sphere, self.sphere.columns);
        let stop = |what: String, k: usize, stable: f64| {
            let Moment { step, time, dt, .. } = moment;
            Error::run(format!(
                "the flow broke off at step {step} ({:.2} h): {what} at {}; a step of {stable:.0} s would have been \
                 stable where {dt:.0} s were taken",
                time / 3600.0,
                sphere.describe(first + k / n, k % n)
            ))
            .hint(format!("take steps of at most {stable:.0} s"))
        };
        for (name, values) in [("u", &fields.u), ("v", &fields.v), ("h", &fields.h)] {
            if let Some(k) = values.iter().position(|x| !x.is_finite()) {
                return Err(stop(format!("{name} is {}", values[k]), k, moment.stable));
            }
        }
        if let Some(k) = fields.h.iter().position(|&h| h <= 0.0) {
            return Err(stop(format!("h is {:.1} m", fields.h[k]), k, moment.stable));
        }
        let (mut fastest, mut at, reach) = (0.0, 0, limit.reach());
        for k in 0..fields.h.len() {
            let rate = self.rate(limit, k, fields, first);
            if rate > fastest {
                (fastest, at) = (rate, k);
            }
        }
        if fastest * moment.dt > reach {
            let (u, v, h) = (fields.u[at], fields.v[at], fields.h[at]);
            let courant = fastest * moment.dt / reach;
            let what =
                format!("the step is {courant:.2} of its limit for u {u:.0}, v {v:.0} m/s and h {h:.0} m");
            return Err(stop(what, at, limit.stable_step(fastest)));
        }
        Ok(limit.stable_step(fastest))
    }

    /// Measures of row j, which may lie in the halo: there those of the nearest row.
    pub(super) fn measures(&self, j: isize) -> RowMeasures {
        let (sphere, rows) = (&self.sphere, self.sphere.rows as isize);
        let cell = |j: isize| j.clamp(0, rows - 1);
        let face = |j: isize| sphere.dxv(j.clamp(0, rows));
        let filter = |latitude: f64| match sphere.global {
            true => Filter::bounded_by(latitude.cos() / self.filter_latitude.cos()),
            false => Filter::default(),
        };
        RowMeasures {
            dxu: sphere.dxu(cell(j)),
            dxv: [face(j), face(j + 1)],
            area: sphere.area(cell(j)),
            corner_area: (sphere.area(cell(j)) + sphere.area(cell(j - 1))) / 2.0,
            filter: filter(sphere.latitude(cell(j))),
            // On a pole there is nothing to filter.
            face_filter: if face(j) == 0.0 {
                Filter::default()
            } else {
                filter(sphere.face_latitude(j.clamp(0, rows)))
            },
        }
    }
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moment {
    pub step: u64,
    /// Since the start [s].
    pub time: f64,
    pub dt: f64,
    /// The longest stable step when it was last asked for [s].
    pub stable: f64,
}

/// The longest step not above `limit` that divides `interval` into whole steps [s].
pub fn dividing_step(limit: f64, interval: f64) -> f64 {
    interval / (interval / limit).ceil()
}
