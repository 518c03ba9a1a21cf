//! A digital filter of initial states: what oscillates faster than a cut-off goes.
//!
//! The flow is stepped from the initial time forward and backward without damping, and the states are averaged with the
//! weights of a low-pass filter in time (Lynch and Huang 1992, doi:10.1175/1520-0493(1992)120<1019:IOTHMU>2.0.CO;2):
//!
//! ```text
//! x = sum of w_n x_n,  n = -N .. N,   w_n ~ sin(n theta) / (n pi) sin(n pi / (N + 1)) / (n pi / (N + 1)),   sum of w_n = 1
//! ```
//!
//! with `theta = 2 pi dt / cutoff`. Backward in time is forward in time with wind and rotation turned about.

use std::f64::consts::{PI, TAU};

use super::layer::RUNGE_KUTTA_LIMIT;
use super::{Fields, Layer, ShallowWater, dividing_step};
use crate::device::{Device, Real};
use crate::error::{Error, Result};

/// The filter's window and what it lets through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DigitalFilter {
    /// From the first state to the last [s].
    pub span: f64,
    /// Periods shorter than this are damped [s].
    pub cutoff: f64,
}

impl Default for DigitalFilter {
    /// Six hours each: takes about 60 % of the gravity waves of analysed wind and height.
    fn default() -> Self {
        Self { span: 6.0 * 3600.0, cutoff: 6.0 * 3600.0 }
    }
}

impl DigitalFilter {
    /// Filters `fields`; `device` makes a device for each direction of time.
    pub fn apply<T: Real>(
        &self,
        layer: &Layer,
        fields: &Fields,
        device: impl Fn() -> Result<Box<dyn Device<T>>>,
    ) -> Result<Fields> {
        if !(self.span > 0.0 && self.cutoff > 0.0) {
            return Err(Error::input(format!(
                "span and cut-off of a digital filter are positive, found {} s and {} s",
                self.span, self.cutoff
            )));
        }
        let deepest = fields.h.iter().copied().fold(0.0, f64::max);
        let dt = dividing_step(layer.longest_step(RUNGE_KUTTA_LIMIT, deepest), self.span / 2.0);
        let steps = (self.span / 2.0 / dt).round() as usize;
        let weights = self.weights(steps, dt);
        let mut sum = fields.clone();
        each(&mut sum, |x| *x *= weights[0]);
        let layer = Layer { damping: None, ..layer.clone() };
        for forward in [true, false] {
            let (layer, start) =
                if forward { (layer.clone(), fields.clone()) } else { reversed(&layer, fields) };
            let mut flow = ShallowWater::new(layer, dt, device()?)?;
            flow.start(&start)?;
            for weight in &weights[1..] {
                flow.advance(1)?;
                let state = flow.fields();
                let sign = if forward { 1.0 } else { -1.0 };
                add(&mut sum.u, weight * sign, &state.u);
                add(&mut sum.v, weight * sign, &state.v);
                add(&mut sum.h, *weight, &state.h);
            }
        }
        Ok(sum)
    }

    /// Of the states 0, 1, ... `steps` steps away from the initial time.
    fn weights(&self, steps: usize, dt: f64) -> Vec<f64> {
        let theta = TAU * dt / self.cutoff;
        let window = |n: usize| {
            let (n, end) = (n as f64, (steps + 1) as f64);
            (n * theta).sin() / (n * PI) * (n * PI / end).sin() / (n * PI / end)
        };
        let mut weights: Vec<f64> =
            (0..=steps).map(|n| if n == 0 { theta / PI } else { window(n) }).collect();
        let whole = weights[0] + 2.0 * weights[1..].iter().sum::<f64>();
        weights.iter_mut().for_each(|w| *w /= whole);
        weights
    }
}

/// The flow that runs forward in time as this one runs backward.
fn reversed(layer: &Layer, fields: &Fields) -> (Layer, Fields) {
    let (mut layer, mut fields) = (layer.clone(), fields.clone());
    [&mut layer.coriolis, &mut fields.u, &mut fields.v]
        .into_iter()
        .for_each(|values| values.iter_mut().for_each(|x| *x = -*x));
    (layer, fields)
}

fn each(fields: &mut Fields, change: impl Fn(&mut f64)) {
    [&mut fields.u, &mut fields.v, &mut fields.h].into_iter().flatten().for_each(change);
}

fn add(sum: &mut [f64], weight: f64, values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::Cpu;
    use crate::shallow_water::Case;

    fn device() -> Result<Box<dyn Device<f64>>> {
        Ok(Box::new(Cpu::new(Some(1))?))
    }

    #[test]
    fn a_flow_that_is_turned_about_returns_to_its_start() {
        let Case { layer, fields } = Case::rossby_haurwitz(16, 32).unwrap();
        let mut there = ShallowWater::new(layer.clone(), 600.0, device().unwrap()).unwrap();
        there.start(&fields).unwrap();
        there.advance(6).unwrap();
        let (layer, turned) = reversed(&layer, &there.fields());
        let mut back = ShallowWater::new(layer, 600.0, device().unwrap()).unwrap();
        back.start(&turned).unwrap();
        back.advance(6).unwrap();
        let error = back.fields().h.iter().zip(&fields.h).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        let moved = there.fields().h.iter().zip(&fields.h).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs()));
        println!("moved {moved:.1} m, returned to {error:.1e} m");
        // What the truncation of the scheme leaves.
        assert!(moved > 50.0 && error < 1e-2 * moved, "{moved} {error}");
    }

    #[test]
    fn the_weights_let_slow_waves_pass_and_stop_fast_ones() {
        let filter = DigitalFilter::default();
        let (steps, dt) = (36, 300.0);
        let weights = filter.weights(steps, dt);
        let response = |period: f64| {
            let wave = |n: usize| (TAU * n as f64 * dt / period).cos();
            weights[0] + 2.0 * (1..=steps).map(|n| weights[n] * wave(n)).sum::<f64>()
        };
        assert!((response(1e12) - 1.0).abs() < 1e-12);
        assert!(response(2.0 * 86_400.0) > 0.95, "{}", response(2.0 * 86_400.0));
        assert!(response(2.0 * 3600.0).abs() < 0.1, "{}", response(2.0 * 3600.0));
    }

    #[test]
    fn gravity_waves_of_a_mound_are_damped() {
        let Case { layer, fields } = Case::steady(32, 64, 0.0).unwrap();
        // Curvature in time, which fast waves have and slow ones have not.
        let restlessness = |fields: &Fields| {
            let mut flow = ShallowWater::new(layer.clone(), 600.0, device().unwrap()).unwrap();
            flow.start(fields).unwrap();
            flow.advance(6).unwrap();
            let half = flow.fields().h;
            flow.advance(6).unwrap();
            let whole = flow.fields().h;
            let curved = |k: usize| whole[k] - 2.0 * half[k] + fields.h[k];
            layer.sphere.mean(&(0..half.len()).map(|k| curved(k).powi(2)).collect::<Vec<_>>()).sqrt()
        };
        let mut disturbed = fields.clone();
        // A mound that belongs to no wind.
        for (k, h) in disturbed.h.iter_mut().enumerate() {
            let (y, x) =
                (layer.sphere.latitude((k / 64) as isize), layer.sphere.longitude((k % 64) as isize));
            *h += 150.0 * (-60.0 * ((y - 0.5).powi(2) + (x - 3.0).powi(2))).exp();
        }
        let filtered = DigitalFilter::default().apply(&layer, &disturbed, device).unwrap();
        let [quiet, noisy, filtered] = [&fields, &disturbed, &filtered].map(restlessness);
        println!("steady flow {quiet:.2} m, with a mound {noisy:.2} m, filtered {filtered:.2} m");
        assert!(quiet < 0.1 * noisy && filtered < 0.5 * noisy, "{quiet} {noisy} {filtered}");
    }
}
