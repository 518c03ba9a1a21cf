//! The equations of the nature run on the grid of its analyses, whose cells are larger than its own.

use super::flow::{Flow, FlowFields};
use super::nature_run::NatureRun;
use super::planet::HOUR;
use super::{Fields, Mapping, PhysicsPlan, Points};
use crate::constants::{EARTH_RADIUS, STANDARD_GRAVITY};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::grid::Grid;

/// Forecasts the planet with what made it: its mountains, its jets, coarser.
pub(super) struct PlanetFlow {
    run: NatureRun,
    mapping: Mapping,
    /// The first analysis and state, with the height of the surface in place of the depth.
    first: Option<(Points, Fields)>,
}

impl PlanetFlow {
    /// `interval` [s] is the time between two states: whole hours, since the jets are restored by the hour.
    pub fn new(plan: &PhysicsPlan, grid: &Grid, interval: f64, device: Box<dyn Device<f32>>) -> Result<Self> {
        whole_hours(interval)?;
        if plan.coarsen != 1 {
            return Err(Error::input("physics.coarsen: the nature run's model has the grid of the analyses")
                .hint("leave it out, or make coarser analyses with --average"));
        }
        let mapping = Mapping::new(grid, EARTH_RADIUS)?;
        let run = NatureRun::on(mapping.sphere().clone(), device)?;
        Ok(Self { run, mapping, first: None })
    }

    /// The state with the height of its surface in place of the depth.
    fn surface(&self) -> Fields {
        let mut fields = self.run.fields();
        fields.h.iter_mut().zip(self.run.orography()).for_each(|(h, b)| *h += b);
        fields
    }
}

impl Flow for PlanetFlow {
    fn start(&mut self, analysis: &FlowFields) -> Result<()> {
        let (Some(phi), Some([u, v])) = (&analysis.geopotential, &analysis.wind) else {
            return Err(Error::input("the nature run's model starts from z, u and v"));
        };
        let h = phi.iter().map(|phi| phi / STANDARD_GRAVITY).collect();
        let points = Points { u: u.clone(), v: v.clone(), h };
        let mut fields = self.mapping.to_model(&points)?;
        fields.h.iter_mut().zip(self.run.orography()).for_each(|(h, b)| *h -= b);
        self.run.start(&fields, 0)?;
        self.first = Some((points, self.surface()));
        Ok(())
    }

    fn drive(&mut self, _later: &FlowFields, _seconds: f64) -> Result<()> {
        Err(Error::input("the globe has no boundary that could be driven"))
    }

    fn advance(&mut self, seconds: f64) -> Result<()> {
        self.run.advance(whole_hours(seconds)?)
    }

    fn fields(&mut self) -> Result<FlowFields> {
        let (analysis, first) =
            self.first.as_ref().ok_or_else(|| Error::run("a planet that was not started has no state"))?;
        let Points { u, v, h } = self.mapping.forecast(analysis, first, &self.surface());
        let phi = h.iter().map(|h| STANDARD_GRAVITY * h).collect();
        Ok(FlowFields { geopotential: Some(phi), wind: Some([u, v]) })
    }
}

fn whole_hours(seconds: f64) -> Result<u64> {
    let hours = (seconds / HOUR).round();
    if hours < 1.0 || hours * HOUR != seconds {
        return Err(Error::input(format!("the nature run's model steps by whole hours, not by {seconds} s"))
            .hint("choose a data.step of whole hours"));
    }
    Ok(hours as u64)
}
