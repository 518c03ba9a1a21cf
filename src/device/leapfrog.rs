//! What the operations of a leapfrog step with implicit gravity waves are told.

use super::{Flow, Slot, Triple};

/// A step over `2 dt` in which the terms linear in (u, v, h) are averaged over before and after:
///
/// ```text
/// u+ = u- + 2 dt (N_u - g dh*/dx)        h* = (h- + h+) / 2, u*, v* likewise
/// v+ = v- + 2 dt (N_v - g dh*/dy)
/// h+ = h- + 2 dt (N_h - depth div(u*, v*))
/// ```
///
/// N is [`Nonlinear`](super::FlowOutput::Nonlinear). Everything is written for second differences in time,
/// `w = x- - 2 x + x+`: they are small, so that single precision loses nothing in what is solved for,
///
/// ```text
/// p = 2 (x- - x) + 2 dt (N - what is linear in x)                          w, were it not for the average
/// lap w_h - kappa w_h = -kappa (p_h - dt depth div(p_u, p_v))              kappa = 1 / (dt^2 g depth)
/// w_u = p_u - dt g dw_h/dx,   w_v = p_v - dt g dw_h/dy
/// ```
///
/// and they are what the filter in time of Robert, Asselin and Williams (2009, doi:10.1175/2009MWR2724.1) needs:
/// `x += alpha nu / 2 w`, `x+ += (alpha - 1) nu / 2 w`.
///
/// On the whole globe: rows are cyclic, both ends lie on poles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leapfrog {
    /// Shapes, measures, g and depth.
    pub flow: Flow,
    /// Half of the time from before to after.
    pub dt: f64,
    /// nu of the filter, 0 for none.
    pub filter: f64,
    /// alpha of the filter: 1 is Robert's and Asselin's, 1/2 keeps the mean of three levels.
    pub alpha: f64,
    /// x-, of which the interior is read; becomes x+.
    pub before: Triple,
    /// x, of which h has its halo filled; is filtered.
    pub now: Triple,
    /// N
    pub nonlinear: Triple,
    /// `[rows, columns]`: the right side of the equation for w_h, times the area of a cell; then its solution.
    pub unknown: Slot,
}

impl Leapfrog {
    /// kappa of the equation.
    pub fn kappa(&self) -> f64 {
        1.0 / (self.dt * self.dt * self.flow.g * self.flow.depth)
    }
}
