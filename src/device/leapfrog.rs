//! What the operations of a leapfrog step with implicit gravity waves are told.

use super::{Flow, Slot, Triple};

/// A step over `2 dt` in which the terms linear in (u, v, h) are averaged over before and after. With S the smoothing of
/// rows and N what is not linear,
///
/// ```text
/// u+ = u- + 2 dt S (N_u - g dh*/dx)        h* = (h- + h+) / 2, u*, v* likewise
/// v+ = v- + 2 dt S (N_v - g dh*/dy)
/// h+ = h- + 2 dt S (N_h - depth div(u*, v*))
/// ```
///
/// Both kinds of terms have to be smoothed. Were it N alone, then S would no longer stand before one operator that
/// conserves energy, and flow across the poles would break off within days, however short the step.
///
/// Everything is written for second differences in time, `w = x- - 2 x + x+`: they are small, so that single precision
/// loses nothing in what is solved for. With the tendency `k`, as an explicit scheme would take it,
///
/// ```text
/// p = 2 (x- - x) + 2 dt k                                                  w, were it not for the average
/// div(S grad w_h) - kappa w_h / S = -kappa (p_h / S - dt depth div(p_u, p_v))        kappa = 1 / (dt^2 g depth)
/// w_u = p_u - dt g S dw_h/dx,   w_v = p_v - dt g S dw_h/dy
/// ```
///
/// and they are what the filter in time of Robert, Asselin and Williams (2009, doi:10.1175/2009MWR2724.1) needs:
/// `x += alpha nu / 2 w`, `x+ += (alpha - 1) nu / 2 w`.
///
/// Rows are cyclic. Where an end does not lie on a pole, others hold what comes beyond it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leapfrog {
    /// Shapes, measures and filters of the rows, g and depth.
    pub flow: Flow,
    /// Half of the time from before to after.
    pub dt: f64,
    /// nu of the filter in time, 0 for none.
    pub filter: f64,
    /// alpha of the filter in time: 1 is Robert's and Asselin's, 1/2 keeps the mean of three levels.
    pub alpha: f64,
    /// x-; becomes x+. Of it, of x and of k the row of v behind the last row is read, too, if that does not lie on a pole.
    pub before: Triple,
    /// x; is filtered.
    pub now: Triple,
    /// k of x.
    pub tendency: Triple,
    /// `[rows, columns]`: the right side of the equation for w_h, times the area of a cell; then its solution.
    pub unknown: Slot,
    /// `[columns]`: the solution in the row before the first; `None` where the first lies on a pole.
    pub south: Option<Slot>,
}

impl Leapfrog {
    /// kappa of the equation.
    pub fn kappa(&self) -> f64 {
        1.0 / (self.dt * self.dt * self.flow.g * self.flow.depth)
    }
}
