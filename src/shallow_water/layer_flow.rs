//! A shallow layer that stands for one level of the atmosphere.
//!
//! Its depth is that of rest plus the departure of the level's height from its mean: mountains do not reach 500 hPa, and
//! only differences of depth push. From winds alone the depth follows by balance, from a height alone the wind.

use std::sync::Arc;

use super::flow::{Flow, FlowFields};
use super::grid_map::{GridMap, Kind};
use super::plan::{Boundary, PhysicsPlan, Scheme};
use super::stepper::Devices;
use super::{
    Balance, Bands, DigitalFilter, Driving, Fields, Layer, LinearBalance, Mapping, Points, RUNGE_KUTTA_LIMIT,
    ShallowWater, dividing_step,
};
use crate::constants::{EARTH_RADIUS, EARTH_ROTATION, STANDARD_ATMOSPHERE, STANDARD_GRAVITY};
use crate::error::{Error, Result};
use crate::grid::Grid;

/// Height of a pressure level in the standard atmosphere [m].
pub fn standard_height(level: f64) -> f64 {
    let [pressure, temperature, lapse, exponent] = STANDARD_ATMOSPHERE;
    temperature / lapse * (1.0 - (level / pressure).powf(exponent))
}

/// The layer, what steps it, and how its states are made.
pub(super) struct LayerFlow {
    layer: Layer,
    plan: PhysicsPlan,
    devices: Arc<dyn Devices>,
    /// Where states are balanced.
    balance: Option<Balance>,
    model: Bands<f32>,
    dt: f64,
    /// From the analyses to coarser points, where the model is coarser.
    coarse: Option<GridMap>,
    /// From those to the model.
    mapping: Mapping,
    /// The first analysis and state.
    first: Option<(Points, Fields)>,
    /// What the edge of a box is told at the moment.
    edge: Option<Fields>,
}

impl LayerFlow {
    /// Steps divide `interval` [s].
    pub fn new(plan: &PhysicsPlan, grid: &Grid, interval: f64, devices: Arc<dyn Devices>) -> Result<Self> {
        let coarse = if plan.coarsen > 1 { Some(GridMap::new(grid, plan.coarsen)?) } else { None };
        let mapping = match &coarse {
            Some(map) => Mapping::new(&map.sphere().grid()?, EARTH_RADIUS)?,
            None => Mapping::new(grid, EARTH_RADIUS)?,
        };
        let sphere = mapping.sphere();
        let depth = plan.mean_depth.unwrap_or_else(|| standard_height(plan.level));
        let mut layer = Layer::new(sphere.clone(), STANDARD_GRAVITY, EARTH_ROTATION, depth);
        layer.damping = plan.shallow_water.damping.map(|time| time.seconds as f64);
        let usual = if sphere.global { Scheme::SemiImplicit } else { Scheme::RungeKutta4 };
        let scheme = plan.shallow_water.scheme.unwrap_or(usual);
        let longest = match scheme {
            Scheme::SemiImplicit => layer.semi_implicit_step(),
            // Ridges at 500 hPa stand half a kilometre above the mean.
            Scheme::RungeKutta4 => layer.longest_step(RUNGE_KUTTA_LIMIT, depth + 500.0),
        };
        let dt = dividing_step(plan.time_step.map_or(longest, |step| step.seconds as f64), interval);
        let model = match (scheme, sphere.global) {
            (Scheme::RungeKutta4, false) => {
                let (zone, device) = (plan.shallow_water.zone, devices.single()?);
                Bands::one(ShallowWater::regional(layer.clone(), dt, Driving::Frozen, zone, device)?)
            }
            _ => Bands::new(&layer, scheme, dt, devices.singles()?)?,
        };
        let balance = match sphere.global && plan.shallow_water.balance {
            true => Some(Balance::new(layer.clone(), devices.double()?)?),
            false => None,
        };
        let (plan, first, edge) = (plan.clone(), None, None);
        Ok(Self { layer, plan, devices, balance, model, dt, coarse, mapping, first, edge })
    }

    /// An analysis on the points that lead to the model, with the depth of the layer as height. Wind that is not known is
    /// none.
    fn points(&self, analysis: &FlowFields) -> Points {
        let cells = |x: &[f64], kind| match &self.coarse {
            Some(map) => map.to_cells(x, kind),
            None => x.to_vec(),
        };
        let depth = self.layer.depth;
        let wind = analysis.wind.as_ref().map(|pair| pair.each_ref().map(|x| cells(x, Kind::WindComponent)));
        let height = analysis.geopotential.as_ref().map(|phi| cells(phi, Kind::Scalar));
        let length = match (&wind, &height) {
            (Some([u, _]), _) => u.len(),
            (None, Some(phi)) => phi.len(),
            (None, None) => 0,
        };
        let [u, v] = wind.unwrap_or_else(|| [vec![0.0; length], vec![0.0; length]]);
        let h = match height {
            None => vec![depth; length],
            Some(phi) => {
                let mean = phi.iter().sum::<f64>() / length as f64;
                phi.iter().map(|phi| depth + (phi - mean) / self.layer.gravity).collect()
            }
        };
        Points { u, v, h }
    }

    /// The model's state of an analysis as it is.
    fn plain(&self, analysis: &FlowFields, points: &Points) -> Result<Fields> {
        let fields = self.mapping.to_model(points)?;
        // The depth of rest is the mean over the globe, not over the points.
        let (sphere, depth) = (&self.layer.sphere, self.layer.depth);
        let excess = sphere.mean(&fields.h) - depth;
        let h: Vec<f64> = fields.h.iter().map(|h| h - excess).collect();
        match &analysis.wind {
            Some(_) => Ok(Fields { h, ..fields }),
            None if sphere.global => {
                LinearBalance::new(sphere.clone(), EARTH_ROTATION)?.fields(&h, self.layer.gravity)
            }
            None => Err(Error::input("shallow water in a box needs the wind, and there is only the height")
                .hint("add the wind to data.sources, or set physics.model = \"barotropic\"")),
        }
    }

    /// Balanced and filtered as the plan says.
    fn calmed(&mut self, fields: Fields) -> Result<Fields> {
        let fields = match &mut self.balance {
            Some(balance) => balance.balance(&fields)?,
            None => fields,
        };
        match self.plan.shallow_water.filter {
            Some(span) if self.layer.sphere.global => {
                let seconds = span.seconds as f64;
                let filter = DigitalFilter { span: seconds, cutoff: seconds };
                filter.apply::<f32>(&self.layer, &fields, || self.devices.single())
            }
            _ => Ok(fields),
        }
    }
}

impl Flow for LayerFlow {
    fn start(&mut self, analysis: &FlowFields) -> Result<()> {
        let points = self.points(analysis);
        let plain = self.plain(analysis, &points)?;
        let initial = self.calmed(plain)?;
        self.edge = (self.plan.boundary == Boundary::Driven).then(|| initial.clone());
        self.model.start(&initial)?;
        self.first = Some((points, initial));
        Ok(())
    }

    fn drive(&mut self, later: &FlowFields, seconds: f64) -> Result<()> {
        let next = self.plain(later, &self.points(later))?;
        let before = self.edge.replace(next.clone()).ok_or_else(not_started)?;
        let now = self.model.fields();
        let (dt, zone) = (self.dt, self.plan.shallow_water.zone);
        let driving = Driving::Analyses(vec![(0.0, before), (seconds, next)]);
        let device = self.devices.single()?;
        self.model = Bands::one(ShallowWater::regional(self.layer.clone(), dt, driving, zone, device)?);
        self.model.start(&now)
    }

    fn advance(&mut self, seconds: f64) -> Result<()> {
        self.model.advance((seconds / self.dt).round() as usize)
    }

    fn fields(&mut self) -> Result<FlowFields> {
        let (analysis, first) = self.first.as_ref().ok_or_else(not_started)?;
        let Points { u, v, h } = self.mapping.forecast(analysis, first, &self.model.fields());
        let points = |x: Vec<f64>, kind| match &self.coarse {
            Some(map) => map.to_points(&x, kind),
            None => x,
        };
        let phi: Vec<f64> = h.iter().map(|h| self.layer.gravity * h).collect();
        Ok(FlowFields {
            geopotential: Some(points(phi, Kind::Scalar)),
            wind: Some([points(u, Kind::WindComponent), points(v, Kind::WindComponent)]),
        })
    }
}

fn not_started() -> Error {
    Error::run("a layer that was not started has no state")
}
