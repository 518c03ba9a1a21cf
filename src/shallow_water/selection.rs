//! What of the analyses the physics can forecast, and with what.

use crate::error::{Error, Result};
use crate::field::Layout;
use crate::grid::Grid;
use crate::variable::Quantity;

use super::plan::{Model, PhysicsPlan};

/// Channels of the analyses' layout, by what becomes of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    pub model: Model,
    /// Height of the level, where the model forecasts it.
    pub z: Option<usize>,
    /// Wind of the level, where the model forecasts it.
    pub wind: Option<[usize; 2]>,
    pub carried: Vec<Carried>,
}

/// A scalar and the wind that carries it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Carried {
    pub channel: usize,
    pub wind: Wind,
    /// Of that wind.
    pub share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wind {
    /// That of the model at its level, as it changes.
    Model,
    /// That of the analysis, as it is at the initial time.
    Analysis([usize; 2]),
}

/// What keeps its value well enough for a day in a parcel of air that wind at one level can carry it.
const CARRIED: [&str; 5] = ["t", "q", "t2m", "d2m", "tcwv"];

/// Whether the grid is the whole globe, which has no edge.
pub fn is_global(grid: &Grid) -> bool {
    grid.is_periodic() && grid.touches_south_pole() && grid.touches_north_pole()
}

impl Selection {
    /// An error when the layout lacks what the model needs, or nothing of it can be forecast.
    pub fn of(plan: &PhysicsPlan, layout: &Layout) -> Result<Self> {
        let find = |name: &str, level: Option<f64>| {
            layout.quantities.iter().position(|q| q.name == name && q.level == level)
        };
        let pair = |u: &str, v: &str, level| Some([find(u, level)?, find(v, level)?]);
        // The planet of the nature run has one layer and no pressure levels.
        let level = if plan.model == Some(Model::NatureRun) { None } else { Some(plan.level) };
        let (z, wind) = (find("z", level), pair("u", "v", level));
        let has_state = z.is_some() || wind.is_some();
        let model = match plan.model {
            Some(model) => model,
            None if z.is_some() && wind.is_some() && is_global(&layout.grid) => Model::ShallowWater,
            None if has_state => Model::Barotropic,
            None => Model::Advection,
        };
        if model == Model::NatureRun && (z.is_none() || wind.is_none()) {
            return Err(Error::input(format!(
                "the nature run's model needs z, u and v, and there is only {}",
                labels(&layout.quantities)
            ))
            .hint("make the files with: wxsim physics --nature-run"));
        }
        if model != Model::Advection && !has_state {
            return Err(Error::input(format!(
                "the {} model needs z, or u and v, at {} hPa, and there is only {}",
                model.name(),
                plan.level,
                labels(&layout.quantities)
            ))
            .hint("add them to data.sources, or name another level with physics.level"));
        }

        let moves = model != Model::Advection;
        let near_surface = pair("u10", "v10", None);
        let carrier = |quantity: &Quantity| -> Option<(Wind, f64)> {
            let own = quantity.level.and_then(|level| pair("u", "v", Some(level)));
            let share = if quantity.level == Some(plan.level) { 1.0 } else { plan.advection.steering };
            match (own, wind) {
                (Some(own), _) if quantity.level != Some(plan.level) => Some((Wind::Analysis(own), 1.0)),
                _ if moves => Some((Wind::Model, share)),
                (_, Some(steering)) => Some((Wind::Analysis(steering), share)),
                _ => near_surface.filter(|_| quantity.level.is_none()).map(|w| (Wind::Analysis(w), 1.0)),
            }
        };
        let carried: Vec<Carried> = layout
            .quantities
            .iter()
            .enumerate()
            .filter(|(_, quantity)| CARRIED.contains(&quantity.name.as_str()))
            .filter_map(|(channel, quantity)| {
                carrier(quantity).map(|(wind, share)| Carried { channel, wind, share })
            })
            .collect();
        if !moves && carried.is_empty() {
            return Err(Error::input(format!(
                "the physics can forecast nothing of {}",
                labels(&layout.quantities)
            ))
            .hint(format!(
                "it needs z, or u and v, at {} hPa (physics.level), or winds and something that they carry: {}",
                plan.level,
                CARRIED.join(", ")
            )));
        }
        Ok(Self { model, z: z.filter(|_| moves), wind: wind.filter(|_| moves), carried })
    }

    /// The channels that are forecast, ascending.
    pub fn channels(&self) -> Vec<usize> {
        let mut channels: Vec<usize> = self.carried.iter().map(|c| c.channel).collect();
        channels.extend(self.z);
        channels.extend(self.wind.into_iter().flatten());
        channels.sort_unstable();
        channels
    }

    /// The channels that have to be there to forecast those, ascending.
    pub fn needed(&self) -> Vec<usize> {
        let winds = self.carried.iter().filter_map(|c| match c.wind {
            Wind::Model => None,
            Wind::Analysis(pair) => Some(pair),
        });
        let mut channels = self.channels();
        channels.extend(winds.flatten());
        channels.sort_unstable();
        channels.dedup();
        channels
    }
}

fn labels(quantities: &[Quantity]) -> String {
    let labels: Vec<String> = quantities.iter().map(Quantity::to_string).collect();
    labels.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shallow_water::plan::tests::plan;

    fn layout(labels: &[&str], global: bool) -> Layout {
        let n = if global { 12 } else { 8 };
        let latitude = (0..6).map(|j| if global { -75.0 + 30.0 * f64::from(j) } else { 30.0 + f64::from(j) });
        let longitude = (0..n).map(|i| 30.0 * f64::from(i)).collect();
        let grid = Grid::new(latitude.collect(), longitude).unwrap();
        Layout { grid, quantities: labels.iter().map(|l| Quantity::parse(l)).collect() }
    }

    #[test]
    fn the_model_is_what_the_analyses_allow() {
        for (labels, global, model, channels) in [
            (&["msl", "t850", "z500"][..], false, Model::Barotropic, &[1, 2][..]),
            (&["z500", "u500", "v500", "msl"], true, Model::ShallowWater, &[0, 1, 2]),
            (&["z500", "u500", "v500"], false, Model::Barotropic, &[0, 1, 2]),
            (&["u500", "v500"], true, Model::Barotropic, &[0, 1]),
            (&["t2m", "u10", "v10", "tp"], true, Model::Advection, &[0]),
        ] {
            let found = Selection::of(&plan(), &layout(labels, global)).unwrap();
            assert_eq!((found.model, found.channels().as_slice()), (model, channels), "{labels:?}");
        }
    }

    #[test]
    fn a_scalar_is_carried_by_the_wind_that_suits_it() {
        let labels = ["t850", "u850", "v850", "z500", "t2m", "t500", "t300", "u10", "v10", "r850"];
        let found = Selection::of(&plan(), &layout(&labels, false)).unwrap();
        let of = |channel| found.carried.iter().find(|c| c.channel == channel).map(|c| (c.wind, c.share));
        assert_eq!(of(0), Some((Wind::Analysis([1, 2]), 1.0)), "850 hPa has its own wind");
        assert_eq!((of(4), of(6)), (Some((Wind::Model, 0.5)), Some((Wind::Model, 0.5))));
        assert_eq!((of(5), of(9)), (Some((Wind::Model, 1.0)), None));
        assert_eq!(found.channels(), [0, 3, 4, 5, 6], "winds that only carry are not forecast");
        assert_eq!(found.needed(), [0, 1, 2, 3, 4, 5, 6]);

        let advection = PhysicsPlan { model: Some(Model::Advection), ..plan() };
        let found = Selection::of(&advection, &layout(&["t2m", "z500", "u500", "v500"], true)).unwrap();
        assert_eq!((found.z, found.wind, found.channels()), (None, None, vec![0]));
        assert_eq!(found.carried[0].wind, Wind::Analysis([2, 3]));
    }

    #[test]
    fn what_cannot_be_forecast_is_refused_with_what_is_missing() {
        let of = |plan: &PhysicsPlan, labels| Selection::of(plan, &layout(labels, false)).unwrap_err();
        let error = of(&plan(), &["msl", "t850"]);
        assert!(error.to_string().contains("nothing of msl, t850"), "{error}");
        let shallow = PhysicsPlan { model: Some(Model::ShallowWater), level: 300.0, ..plan() };
        let error = of(&shallow, &["z500", "u500"]);
        assert!(error.to_string().contains("shallow-water model needs z, or u and v, at 300 hPa"), "{error}");
    }
}
