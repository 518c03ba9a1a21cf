//! What the stepper needs of a model of the flow.

use crate::device::Device;
use crate::error::Result;

use super::grid_map::{GridMap, Kind};
use super::{Barotropic, BarotropicFields, BarotropicSettings, PhysicsPlan};

/// Height and wind at the points of the analyses, `[lat, lon]` each; of an analysis, what there is of them.
#[derive(Debug, Clone)]
pub(super) struct FlowFields {
    /// [m² s⁻²]
    pub geopotential: Option<Vec<f64>>,
    /// Eastward and northward [m s⁻¹].
    pub wind: Option<[Vec<f64>; 2]>,
}

/// A model of the flow at one level, on whatever grid of its own.
pub(super) trait Flow {
    /// Starts from an analysis, which holds height or wind or both.
    fn start(&mut self, analysis: &FlowFields) -> Result<()>;

    /// What the edge of a box is told in the time to come: this analysis after so many seconds, and linear in between.
    fn drive(&mut self, later: &FlowFields, seconds: f64) -> Result<()>;

    fn advance(&mut self, seconds: f64) -> Result<()>;

    /// The state; its departures from the first one are what is forecast.
    fn fields(&mut self) -> Result<FlowFields>;
}

/// The barotropic model.
pub(super) struct BarotropicFlow {
    model: Barotropic<f32>,
    map: GridMap,
}

impl BarotropicFlow {
    pub fn new(plan: &PhysicsPlan, map: GridMap, device: Box<dyn Device<f32>>) -> Result<Self> {
        let usual = BarotropicSettings::of(map.sphere());
        let settings = BarotropicSettings {
            depth: plan.mean_depth,
            diffusivity: plan.barotropic.diffusion.unwrap_or(usual.diffusivity),
            step_seconds: plan.time_step.map_or(usual.step_seconds, |step| step.seconds as f64),
            ..usual
        };
        Ok(Self { model: Barotropic::new(device, map.sphere(), settings)?, map })
    }

    fn on_cells(&self, fields: &FlowFields) -> BarotropicFields {
        let wind = |x: &Vec<f64>| self.map.to_cells(x, Kind::WindComponent);
        BarotropicFields {
            winds: fields.wind.as_ref().map(|pair| pair.each_ref().map(wind)),
            geopotential: fields.geopotential.as_ref().map(|phi| self.map.to_cells(phi, Kind::Scalar)),
        }
    }
}

impl Flow for BarotropicFlow {
    fn start(&mut self, analysis: &FlowFields) -> Result<()> {
        let analysis = self.on_cells(analysis);
        self.model.start(&analysis)
    }

    fn drive(&mut self, later: &FlowFields, seconds: f64) -> Result<()> {
        let later = self.on_cells(later);
        self.model.drive(&later, seconds)
    }

    fn advance(&mut self, seconds: f64) -> Result<()> {
        self.model.advance(seconds)
    }

    fn fields(&mut self) -> Result<FlowFields> {
        let BarotropicFields { winds, geopotential } = self.model.fields()?;
        let wind = |x: Vec<f64>| self.map.to_points(&x, Kind::WindComponent);
        Ok(FlowFields {
            geopotential: geopotential.map(|phi| self.map.to_points(&phi, Kind::Scalar)),
            wind: winds.map(|pair| pair.map(wind)),
        })
    }
}
