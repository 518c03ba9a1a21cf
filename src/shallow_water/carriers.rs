//! The scalars of a forecast, each carried by the wind that suits it.

use crate::device::Device;
use crate::error::Result;

use super::grid_map::{GridMap, Kind};
use super::selection::{Carried, Wind};
use super::{Advection, AdvectionPlan, AdvectionSettings};

/// Longest step of the advection where the plan names none [s].
const LONGEST_STEP: f64 = 3600.0;

/// Scalars that the same share of the same wind carries.
pub(super) struct Carrier {
    wind: Wind,
    share: f64,
    /// Indices into the selection's carried scalars.
    scalars: Vec<usize>,
    model: Advection<f32>,
    map: GridMap,
}

impl Carrier {
    /// One for each wind and share that occurs. A step is at most `longest` [s].
    pub fn group(
        carried: &[Carried],
        map: &GridMap,
        plan: &AdvectionPlan,
        longest: Option<f64>,
        device: &dyn Fn() -> Result<Box<dyn Device<f32>>>,
    ) -> Result<Vec<Self>> {
        let mut kinds: Vec<(Wind, f64)> = Vec::new();
        for scalar in carried {
            if !kinds.contains(&(scalar.wind, scalar.share)) {
                kinds.push((scalar.wind, scalar.share));
            }
        }
        let settings = AdvectionSettings {
            step_seconds: longest.unwrap_or(LONGEST_STEP),
            diffusivity: plan.diffusion,
            ..AdvectionSettings::default()
        };
        let make = |(wind, share): (Wind, f64)| {
            let mine = |c: &Carried| (c.wind, c.share) == (wind, share);
            let scalars: Vec<usize> = (0..carried.len()).filter(|&i| mine(&carried[i])).collect();
            let model = Advection::new(device()?, map.sphere(), scalars.len(), settings)?;
            Ok(Self { wind, share, scalars, model, map: map.clone() })
        };
        kinds.into_iter().map(make).collect()
    }

    pub fn wind(&self) -> Wind {
        self.wind
    }

    /// The wind from now on at the points of the analyses, whole: the share is taken here. `[lat, lon]` each [m s⁻¹].
    pub fn set_wind(&mut self, wind: &[Vec<f64>; 2]) -> Result<()> {
        let [u, v] = wind.each_ref().map(|component| {
            let mut cells = self.map.to_cells(component, Kind::WindComponent);
            cells.iter_mut().for_each(|x| *x *= self.share);
            cells
        });
        self.model.set_winds(&u, &v)
    }

    /// Starts from its own among all scalars, at the points of the analyses.
    pub fn start(&mut self, scalars: &[Vec<f64>]) -> Result<()> {
        let own = self.scalars.iter().flat_map(|&i| self.map.to_cells(&scalars[i], Kind::Scalar));
        self.model.start(&own.collect::<Vec<f64>>())
    }

    pub fn advance(&mut self, seconds: f64) -> Result<()> {
        self.model.advance(seconds)
    }

    /// Puts its own fields among those of all scalars, at the points of the analyses.
    pub fn collect(&self, scalars: &mut [Vec<f64>]) {
        let cells = self.model.fields();
        for (&i, field) in self.scalars.iter().zip(cells.chunks(cells.len() / self.scalars.len())) {
            scalars[i] = self.map.to_points(field, Kind::Scalar);
        }
    }
}
