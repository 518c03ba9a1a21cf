//! Leapfrog steps with implicit gravity waves: three times as long as explicit ones, and one evaluation instead of four.
//!
//! Robert 1969 (semi-implicit); Williams 2009, doi:10.1175/2009MWR2724.1 (the filter in time). The terms linear in
//! (u, v, h) about the layer's depth are averaged over before and after, which takes a Helmholtz equation for each step;
//! what limits the step is then the wind across the poles. The filter of the polar rows is part of the equation.

use std::ops::Range;

use super::dynamics::Dynamics;
use super::laplacian;
use crate::device::{
    ArenaPlan, Coefficients, Device, Elliptic, FlowOutput, Leapfrog, Real, Slot, Smoothing, Triple,
    with_company,
};

/// nu of the filter in time.
const FILTER: f64 = 0.1;
/// alpha of the filter in time.
const ALPHA: f64 = 0.53;

/// Two time levels of a flow, and what a step from them takes.
#[derive(Debug, Clone)]
pub(super) struct SemiImplicit {
    /// The level before, filtered.
    before: Triple,
    now: Triple,
    tendency: Triple,
    unknown: Slot,
    /// The unknown in the row before the first, where another device holds it.
    south: Option<Slot>,
    /// The equations of a step, and of the first, which is half as long.
    equation: Elliptic,
    first_equation: Elliptic,
    first: bool,
}

impl SemiImplicit {
    /// Takes slots for steps of `dt` [s] on the `own`-th of the bands that devices hold.
    pub fn plan(
        dynamics: &Dynamics,
        bands: &[Range<usize>],
        own: usize,
        dt: f64,
        arena: &mut ArenaPlan,
    ) -> Self {
        let layer = dynamics.layer();
        let (rows, columns) = (layer.sphere.rows as isize, layer.sphere.columns);
        let smoothing = Smoothing {
            centres: (0..rows).map(|j| layer.measures(j).filter.strength()).collect(),
            faces: (0..=rows).map(|j| layer.measures(j).face_filter.strength()).collect(),
        };
        let mut equation = |dt: f64| {
            let kappa = 1.0 / (dt * dt * layer.gravity * layer.depth);
            let smoothing = Some(smoothing.clone());
            let coefficients = Coefficients { smoothing, ..laplacian::global(&layer.sphere, |_| kappa) };
            Elliptic::of_band(arena, coefficients, bands, own)
        };
        let (equation, first_equation) = (equation(dt), equation(dt / 2.0));
        Self {
            before: dynamics.triple(arena),
            now: dynamics.triple(arena),
            tendency: dynamics.triple(arena),
            unknown: arena.slot(dynamics.band().len() * columns),
            south: (own > 0).then(|| arena.slot(columns)),
            equation,
            first_equation,
            first: true,
        }
    }

    /// Fills the tables, after the device has allocated the plan.
    pub fn prepare<T: Real>(&self, device: &mut dyn Device<T>) {
        self.equation.upload(device);
        self.first_equation.upload(device);
    }

    /// The state, where the initial one is put before [`restart`](Self::restart).
    pub fn state(&self) -> Triple {
        self.now
    }

    /// The next step starts from the state alone.
    pub fn restart(&mut self) {
        self.first = true;
    }

    /// One step of `dt` [s]. The first goes from the state as before and now, so that its middle is half a step away; there
    /// is nothing to filter yet.
    pub fn step<T: Real>(&mut self, device: &mut dyn Device<T>, dynamics: &Dynamics, dt: f64) {
        let (dt, filter, equation) = match std::mem::take(&mut self.first) {
            true => (dt / 2.0, 0.0, &self.first_equation),
            false => (dt, FILTER, &self.equation),
        };
        if filter == 0.0 {
            let (from, to) = (self.now, self.before);
            [(from.u, to.u), (from.v, to.v), (from.h, to.h)]
                .into_iter()
                .for_each(|(from, to)| device.copy(from, to));
        }
        let (now, before, tendency, unknown) = (self.now, self.before, self.tendency, self.unknown);
        let (flow, alpha, south) = (*dynamics.shape(), ALPHA, self.south);
        let step = Leapfrog { flow, dt, filter, alpha, before, now, tendency, unknown, south };
        dynamics.flow(device, now, &FlowOutput::Tendency(tendency));
        let is_cut = flow.poles != [true; 2];
        if is_cut {
            dynamics.fill_cross(device, &[before.v, tendency.v]);
        }
        device.leapfrog_predict(&step);
        equation.solve(device, unknown, unknown);
        if is_cut {
            // Each gives its last row to the band beyond it.
            let (rows, columns) = (flow.rows, flow.columns);
            let last = unknown.part((rows - 1) * columns, columns);
            let beyond =
                [south.map(|south| [Slot::EMPTY, south]), (!flow.poles[1]).then_some([last, Slot::EMPTY])];
            with_company(device, |company, device| company.swap(device, &[beyond]));
        }
        device.leapfrog_correct(&step);
        std::mem::swap(&mut self.now, &mut self.before);
        dynamics.damp(device, self.now, tendency, 2.0 * dt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::Cpu;
    use crate::shallow_water::{Case, Fields, ShallowWater};

    fn started<T: Real>(case: &Case, dt: f64, threads: usize) -> ShallowWater<T> {
        let device = Box::new(Cpu::new(Some(threads)).unwrap());
        let mut model = ShallowWater::semi_implicit(case.layer.clone(), dt, device).unwrap();
        model.start(&case.fields).unwrap();
        model
    }

    /// The tendency of a state.
    fn tendency(case: &Case, fields: &Fields) -> Fields {
        let mut arena = ArenaPlan::default();
        let dynamics = Dynamics::plan(case.layer.clone(), &mut arena).unwrap();
        let (x, k) = (dynamics.triple(&mut arena), dynamics.triple(&mut arena));
        let mut device = Cpu::<f64>::new(Some(1)).unwrap();
        device.allocate(&arena).unwrap();
        dynamics.prepare(&mut device);
        dynamics.upload(&mut device, fields, x).unwrap();
        dynamics.flow(&mut device, x, &FlowOutput::Tendency(k));
        let field = |slot| dynamics.download_field(&device, slot, 0.0);
        Fields { u: field(k.u), v: field(k.v), h: field(k.h) }
    }

    /// Largest of what the equations of a step over `time` leave, relative to the largest change of its field.
    fn residual(case: &Case, [before, now, after]: [&Fields; 3], time: f64) -> f64 {
        let (sphere, n) = (&case.layer.sphere, case.layer.sphere.columns);
        let k = tendency(case, now);
        // What the average is more than now.
        let more = combined(before, now, after, [0.5, -1.0, 0.5]);
        let through = |j: usize, i: usize| {
            if j == sphere.rows { 0.0 } else { more.v[j * n + i] * sphere.dxv(j as isize) }
        };
        let (mut worst, mut most) = ([0.0_f64; 3], [0.0_f64; 3]);
        for cell in 0..sphere.rows * n {
            let (j, i) = (cell / n, cell % n);
            let (west, east, row) = (j * n + (i + n - 1) % n, j * n + (i + 1) % n, j as isize);
            let slope_x = (more.h[cell] - more.h[west]) / sphere.dxu(row);
            let slope_y = if j == 0 { 0.0 } else { (more.h[cell] - more.h[cell - n]) / sphere.dy() };
            let out = (more.u[east] - more.u[cell]) * sphere.dy() + through(j + 1, i) - through(j, i);
            let (g, depth) = (case.layer.gravity, case.layer.depth);
            let equations = [
                (after.u[cell] - before.u[cell], k.u[cell] - g * slope_x),
                (after.v[cell] - before.v[cell], k.v[cell] - g * slope_y),
                (after.h[cell] - before.h[cell], k.h[cell] - depth * out / sphere.area(row)),
            ];
            for (field, (change, tendency)) in equations.into_iter().enumerate() {
                worst[field] = worst[field].max((change - time * tendency).abs());
                most[field] = most[field].max(change.abs());
            }
        }
        (0..3).map(|field| worst[field] / most[field]).fold(0.0, f64::max)
    }

    fn combined(a: &Fields, b: &Fields, c: &Fields, factors: [f64; 3]) -> Fields {
        let [x, y, z] = factors;
        let sum = |a: &[f64], b: &[f64], c: &[f64]| {
            a.iter().zip(b).zip(c).map(|((a, b), c)| x * a + y * b + z * c).collect()
        };
        Fields { u: sum(&a.u, &b.u, &c.u), v: sum(&a.v, &b.v, &c.v), h: sum(&a.h, &b.h, &c.h) }
    }

    #[test]
    fn steps_solve_their_equations_and_are_filtered_as_written() {
        let mut case = Case::mountain(24, 44).unwrap();
        // Without the filter of the polar rows, which a test cannot write out in a line.
        case.layer.filter_latitude = std::f64::consts::FRAC_PI_2;
        for (k, u) in case.fields.u.iter_mut().enumerate() {
            *u += (k as f64 * 0.3).sin();
        }
        let dt = 1800.0;
        let mut model = started::<f64>(&case, dt, 2);
        let mut states = vec![case.fields.clone()];
        for _ in 0..3 {
            model.advance(1).unwrap();
            states.push(model.fields());
        }
        // The first step has nothing to filter, and is from the initial state over dt.
        let first = residual(&case, [&states[0], &states[0], &states[1]], dt);
        // The second: its end before the filter, x, follows from x + (alpha - 1) nu / 2 w, w = x0 - 2 x1 + x.
        let share = (ALPHA - 1.0) * FILTER / 2.0;
        let unfiltered = |before: &Fields, now: &Fields, after: &Fields| {
            let whole = 1.0 + share;
            combined(before, now, after, [-share / whole, 2.0 * share / whole, 1.0 / whole])
        };
        let end = unfiltered(&states[0], &states[1], &states[2]);
        let second = residual(&case, [&states[0], &states[1], &end], 2.0 * dt);
        // The third starts from the filtered first.
        let weight = ALPHA * FILTER / 2.0;
        let start = combined(&states[0], &states[1], &end, [weight, 1.0 - 2.0 * weight, weight]);
        let end = unfiltered(&start, &states[2], &states[3]);
        let third = residual(&case, [&start, &states[2], &end], 2.0 * dt);
        println!("residuals {first:.1e} {second:.1e} {third:.1e}");
        // Depths of 6 km rounded to 1e-12 m, changes of 10 m; winds over the 50 km of the rows next to a pole.
        assert!(first < 1e-11 && second < 1e-11 && third < 1e-11);
    }

    #[test]
    fn one_thread_gives_the_bits_of_many() {
        let case = Case::rossby_haurwitz(32, 64).unwrap();
        let run = |threads| {
            let mut model = started::<f32>(&case, 2400.0, threads);
            model.advance(5).unwrap();
            model.fields()
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn a_start_forgets_what_was_before() {
        let case = Case::rossby_haurwitz(16, 32).unwrap();
        let mut model = started::<f64>(&case, 3600.0, 1);
        model.advance(3).unwrap();
        let first = model.fields();
        model.start(&case.fields).unwrap();
        model.advance(3).unwrap();
        assert_eq!(first, model.fields());
    }

    #[test]
    fn a_step_too_long_for_the_wind_ends_the_run_and_says_which_would_do() {
        let case = Case::steady(32, 64, std::f64::consts::FRAC_PI_2).unwrap();
        let model = |dt| {
            let device = Box::new(Cpu::<f64>::new(Some(1)).unwrap());
            ShallowWater::semi_implicit(case.layer.clone(), dt, device).unwrap()
        };
        let message = model(7200.0).start(&case.fields).unwrap_err().to_string();
        let stable: f64 =
            message.split("a step of ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!((2400.0..4800.0).contains(&stable), "{message}");
        let mut model = model(stable);
        model.start(&case.fields).unwrap();
        model.advance(150).unwrap();
    }

    #[test]
    fn a_box_is_refused() {
        let even = |n: usize, first: f64| (0..n).map(|i| first + 2.0 * i as f64).collect::<Vec<f64>>();
        let grid = crate::grid::Grid::new(even(8, 40.0), even(9, 0.0)).unwrap();
        let sphere = crate::shallow_water::Sphere::regional(&grid, 6e6).unwrap();
        let layer = crate::shallow_water::Layer::new(sphere, 10.0, 1e-4, 5e3);
        let device = Box::new(Cpu::<f32>::new(Some(1)).unwrap());
        let error = ShallowWater::semi_implicit(layer, 600.0, device).err().unwrap();
        assert!(error.to_string().contains("whole globe"));
    }
}
