//! The physics as a forecaster like any other: analyses in, states out, whatever the model in between.
//!
//! A forecast is the analysis plus the change that the model finds, `f(t) = o(t0) + m(t) - m(0)`, on the grid of the
//! analyses: before the first step it is the analysis itself, whatever balance or another grid does to the model's state.

use std::sync::Arc;

use ndarray::Axis;

use crate::climatology::Climatology;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Grid;
use crate::stepper::{Stepper, StepperInfo};
use crate::time::{LeadTime, ValidTime};

use super::Sphere;
use super::carriers::Carrier;
use super::flow::{BarotropicFlow, Flow, FlowFields};
use super::grid_map::GridMap;
use super::layer_flow::{LayerFlow, standard_height};
use super::places::largest_whole_box;
use super::plan::{Boundary, Model, PhysicsPlan};
use super::planet_flow::PlanetFlow;
use super::selection::{Selection, Wind, is_global};

/// Makes the devices that models compute on; each model has memory of its own.
pub trait Devices {
    fn single(&self) -> Result<Box<dyn Device<f32>>>;
    fn double(&self) -> Result<Box<dyn Device<f64>>>;

    /// For one layer of the whole globe in [`Bands`](super::Bands): those that share it are each other's company.
    fn singles(&self) -> Result<Vec<Box<dyn Device<f32>>>> {
        Ok(vec![self.single()?])
    }

    /// As [`singles`](Self::singles).
    fn doubles(&self) -> Result<Vec<Box<dyn Device<f64>>>> {
        Ok(vec![self.double()?])
    }
}

/// The analysis of a later date, for driven boundaries.
pub type Later = Arc<dyn Fn(ValidTime) -> Result<State> + Send + Sync>;

/// Longest time for which scalars are carried by one wind [s].
const COUPLING: f64 = 10_800.0;

/// Forecasts with the model of a plan. It forecasts from one initial time at a time: the state lives on the devices.
pub struct PhysicsStepper {
    info: StepperInfo,
    output: Arc<Layout>,
    /// Channels of `info.layout`.
    selection: Selection,
    /// Of the carried scalars, in their order.
    usual: Option<Climatology>,
    flow: Option<Box<dyn Flow>>,
    carriers: Vec<Carrier>,
    /// How often in a step flow and scalars take turns.
    turns: usize,
    later: Option<Later>,
    /// Counts forecasts, so that one which is no longer on the device is noticed.
    started: u64,
}

/// A forecast under way.
pub struct PhysicsForecast {
    /// Which one of its stepper's.
    number: u64,
    steps: usize,
    analysis: State,
    /// The flow at first, and now.
    flow: Option<[FlowFields; 2]>,
    /// The carried scalars at first, and now.
    scalars: [Vec<Vec<f64>>; 2],
}

impl PhysicsStepper {
    /// For analyses of `layout`, of which it reads what it needs; `step` is the time between the states that it gives.
    /// `usual` is the climatology of that layout: with it, scalars are carried as departures from what is usual.
    pub fn new(
        plan: &PhysicsPlan,
        layout: &Arc<Layout>,
        step: LeadTime,
        usual: Option<&Climatology>,
        devices: &Arc<dyn Devices>,
    ) -> Result<Self> {
        let all = Selection::of(plan, layout)?;
        let has_edge = all.model != Model::Advection && !is_global(&layout.grid);
        if plan.boundary == Boundary::Driven && !has_edge {
            return Err(Error::input("physics.boundary: there is no boundary that could be driven")
                .hint("only a flow in a box is told what happens at its edge: leave physics.boundary away"));
        }
        let part = |channels: Vec<usize>| {
            let quantities = channels.iter().map(|&c| layout.quantities[c].clone()).collect();
            Arc::new(Layout { grid: layout.grid.clone(), quantities })
        };
        let (input, output) = (part(all.needed()), part(all.channels()));
        let carried: Vec<usize> = all.carried.iter().map(|c| c.channel).collect();
        let usual = usual.filter(|_| !carried.is_empty()).map(|usual| usual.select(&carried)).transpose()?;
        // Numbered anew: channels of the part that it reads.
        let selection = Selection::of(&PhysicsPlan { model: Some(all.model), ..plan.clone() }, &input)?;

        let map = GridMap::new(&layout.grid, plan.coarsen)?;
        let longest = plan.time_step.map(|step| step.seconds as f64);
        let single = || devices.single();
        let carriers = Carrier::group(&selection.carried, &map, &plan.advection, longest, &single)?;
        let couples = selection.carried.iter().any(|scalar| scalar.wind == Wind::Model);
        let seconds = step.seconds as f64;
        let turns = if couples { (seconds / COUPLING).ceil().max(1.0) } else { 1.0 };
        let flow = flow(plan, selection.model, &layout.grid, &map, seconds / turns, devices)?;
        let info = StepperInfo {
            name: "physics".into(),
            origin: describe(plan, &selection, map.sphere(), &input),
            layout: input,
            step,
            input_frames: 1,
        };
        let turns = turns as usize;
        Ok(Self { info, output, selection, usual, flow, turns, carriers, later: None, started: 0 })
    }

    /// Tells the boundaries of a box the later analyses, at every step.
    pub fn drive(&mut self, later: Later) {
        self.later = Some(later);
    }

    /// Height and wind of an analysis.
    fn flow_fields(&self, state: &State) -> FlowFields {
        FlowFields {
            geopotential: self.selection.z.map(|z| wide(state, z)),
            wind: self.selection.wind.map(|pair| pair.map(|channel| wide(state, channel))),
        }
    }

    /// The carried scalars as they are carried: as departures, where it is known what is usual.
    fn departures(&self, analysis: &State) -> Result<Vec<Vec<f64>>> {
        let usual = self.usual_at(analysis.valid)?;
        let carried = self.selection.carried.iter().zip(usual);
        Ok(carried
            .map(|(scalar, usual)| {
                let field = wide(analysis, scalar.channel);
                field.iter().zip(usual).map(|(x, usual)| x - usual).collect()
            })
            .collect())
    }

    /// The carried scalars now.
    fn carried(&self) -> Vec<Vec<f64>> {
        let mut scalars = vec![Vec::new(); self.selection.carried.len()];
        self.carriers.iter().for_each(|carrier| carrier.collect(&mut scalars));
        scalars
    }

    /// What is usual of each carried scalar; 0 where nothing is known.
    fn usual_at(&self, valid: ValidTime) -> Result<Vec<Vec<f64>>> {
        let (points, scalars) = (self.info.layout.grid.points(), self.selection.carried.len());
        let mut values = vec![0.0; points * scalars];
        if let Some(usual) = &self.usual {
            usual.evaluate(valid, &mut values)?;
        }
        let of = |scalar: usize| values.iter().skip(scalar).step_by(scalars).map(|&x| f64::from(x)).collect();
        Ok((0..scalars).map(of).collect())
    }

    fn current(&self, forecast: &PhysicsForecast) -> Result<()> {
        if forecast.number != self.started {
            return Err(Error::run("another forecast has been started with this model since"));
        }
        Ok(())
    }

    /// One step: flow and scalars in turns, the scalars by the mean wind of a turn; `before` is the flow at first. Returns the flow
    /// at the end.
    fn advance(&mut self, mut before: Option<FlowFields>) -> Result<Option<FlowFields>> {
        let turn = self.info.step.seconds as f64 / self.turns as f64;
        for _ in 0..self.turns {
            if let Some(flow) = &mut self.flow {
                flow.advance(turn)?;
                let after = flow.fields()?;
                if let Some(wind) = mean_wind(before.as_ref(), &after) {
                    let mut moved = self.carriers.iter_mut().filter(|c| c.wind() == Wind::Model);
                    moved.try_for_each(|carrier| carrier.set_wind(&wind))?;
                }
                before = Some(after);
            }
            self.carriers.iter_mut().try_for_each(|carrier| carrier.advance(turn))?;
        }
        Ok(before)
    }
}

/// The model of the flow, where one is needed; it is asked for its state every `turn` [s].
fn flow(
    plan: &PhysicsPlan,
    model: Model,
    grid: &Grid,
    map: &GridMap,
    turn: f64,
    devices: &Arc<dyn Devices>,
) -> Result<Option<Box<dyn Flow>>> {
    Ok(match model {
        Model::Advection => None,
        Model::Barotropic => Some(Box::new(BarotropicFlow::new(plan, map.clone(), devices.single()?)?)),
        Model::NatureRun => Some(Box::new(PlanetFlow::new(plan, grid, turn, devices.single()?)?)),
        Model::ShallowWater => Some(Box::new(LayerFlow::new(plan, grid, turn, devices.clone())?)),
    })
}

/// What a history says of the model.
fn describe(plan: &PhysicsPlan, selection: &Selection, sphere: &Sphere, layout: &Layout) -> String {
    let [dp, dl] = [sphere.dp, sphere.dl].map(|step| (step.to_degrees() * 1000.0).round() / 1000.0);
    let (rows, columns, name) = (sphere.rows, sphere.columns, selection.model.name());
    let mut text = match selection.model {
        Model::Advection => name.to_string(),
        Model::NatureRun => format!("{name} model"),
        Model::ShallowWater | Model::Barotropic => format!("{name} model at {} hPa", plan.level),
    };
    text.push_str(&format!(" on {rows} x {columns} cells of {dp} x {dl} degrees"));
    match (selection.model, plan.mean_depth) {
        (Model::ShallowWater, None) => {
            let depth = standard_height(plan.level);
            text.push_str(&format!(", mean depth {depth:.0} m (of the level in the standard atmosphere)"));
        }
        (Model::ShallowWater | Model::Barotropic, Some(depth)) => {
            text.push_str(&format!(", mean depth {depth} m"));
        }
        (Model::Barotropic, None) | (Model::Advection | Model::NatureRun, _) => {}
    }
    if !sphere.global && selection.model != Model::Advection {
        text.push_str(match plan.boundary {
            Boundary::Frozen => ", boundaries frozen at the analysis",
            Boundary::Driven => ", boundaries driven by later analyses",
        });
    }
    for scalar in &selection.carried {
        let quantity = &layout.quantities[scalar.channel];
        let wind = match scalar.wind {
            Wind::Model => format!("{} hPa", plan.level),
            Wind::Analysis([u, _]) => {
                layout.quantities[u].level.map_or("10 m".into(), |level| format!("{level} hPa"))
            }
        };
        text.push_str(&format!(", {quantity} carried by {} of the wind at {wind}", scalar.share));
    }
    text
}

/// The mean of the winds before and after a turn.
fn mean_wind(before: Option<&FlowFields>, after: &FlowFields) -> Option<[Vec<f64>; 2]> {
    let [u, v] = after.wind.as_ref()?;
    let earlier = before.and_then(|before| before.wind.as_ref()).unwrap_or(after.wind.as_ref()?);
    let mean = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect();
    Some([mean(&earlier[0], u), mean(&earlier[1], v)])
}

impl Stepper for PhysicsStepper {
    type Inner = PhysicsForecast;

    fn info(&self) -> &StepperInfo {
        &self.info
    }

    fn output(&self) -> &Arc<Layout> {
        &self.output
    }

    fn start(&mut self, analyses: &[State]) -> Result<PhysicsForecast> {
        let analysis = analyses.last().ok_or_else(|| Error::input("a forecast needs an analysis"))?;
        let analysis = analysis.arranged(&self.info.layout)?;
        check_values(&analysis)?;
        let fields = self.flow_fields(&analysis);
        let flow = match &mut self.flow {
            None => None,
            Some(flow) => {
                flow.start(&fields)?;
                let first = flow.fields()?;
                Some([first.clone(), first])
            }
        };
        let departures = self.departures(&analysis)?;
        for carrier in &mut self.carriers {
            if let Wind::Analysis(pair) = carrier.wind() {
                carrier.set_wind(&pair.map(|channel| wide(&analysis, channel)))?;
            }
            carrier.start(&departures)?;
        }
        let first = self.carried();
        let scalars = [first.clone(), first];
        self.started += 1;
        Ok(PhysicsForecast { number: self.started, steps: 0, analysis, flow, scalars })
    }

    fn step(&mut self, forecast: &mut PhysicsForecast) -> Result<()> {
        self.current(forecast)?;
        let seconds = self.info.step.seconds as f64;
        if let (Some(later), true) = (&self.later, self.flow.is_some()) {
            let next = forecast.analysis.valid.after(self.info.step.times(forecast.steps + 1));
            let state = later(next)
                .map_err(|error| error.context(format!("nothing is known of the boundary at {next}")))?;
            let state = state.arranged(&self.info.layout)?;
            check_values(&state)?;
            let fields = self.flow_fields(&state);
            if let Some(flow) = &mut self.flow {
                flow.drive(&fields, seconds)?;
            }
        }
        let now = forecast.flow.as_ref().map(|[_, now]| now.clone());
        let after = self.advance(now)?;
        if let (Some([_, now]), Some(after)) = (&mut forecast.flow, after) {
            *now = after;
        }
        forecast.scalars[1] = self.carried();
        forecast.steps += 1;
        Ok(())
    }

    fn observe(&self, forecast: &PhysicsForecast) -> Result<State> {
        self.current(forecast)?;
        let analysis = &forecast.analysis;
        let mut state = analysis.arranged(&self.output)?;
        if forecast.steps == 0 {
            return Ok(state);
        }
        state.valid = analysis.valid.after(self.info.step.times(forecast.steps));
        let mut add = |channel: usize, change: &[f64]| -> Result<()> {
            let quantity = &self.info.layout.quantities[channel];
            let place = self.output.channel(&quantity.to_string())?;
            let field = state.values.index_axis_mut(Axis(2), place);
            field.into_iter().zip(change).for_each(|(value, change)| *value += *change as f32);
            Ok(())
        };
        let change = |now: &[f64], first: &[f64]| -> Vec<f64> {
            now.iter().zip(first).map(|(now, first)| now - first).collect()
        };
        if let Some([first, now]) = &forecast.flow {
            if let (Some(z), Some(now), Some(first)) =
                (self.selection.z, &now.geopotential, &first.geopotential)
            {
                add(z, &change(now, first))?;
            }
            if let (Some(pair), Some(now), Some(first)) = (self.selection.wind, &now.wind, &first.wind) {
                for (channel, (now, first)) in pair.into_iter().zip(now.iter().zip(first)) {
                    add(channel, &change(now, first))?;
                }
            }
        }
        let usual = [self.usual_at(analysis.valid)?, self.usual_at(state.valid)?];
        let [first, now] = &forecast.scalars;
        for (index, scalar) in self.selection.carried.iter().enumerate() {
            add(scalar.channel, &change(&now[index], &first[index]))?;
            add(scalar.channel, &change(&usual[1][index], &usual[0][index]))?;
        }
        Ok(state)
    }
}

fn wide(state: &State, channel: usize) -> Vec<f64> {
    state.channel(channel).iter().map(|&x| f64::from(x)).collect()
}

/// The equations cannot start from fields with holes.
fn check_values(analysis: &State) -> Result<()> {
    let hole = analysis.values.indexed_iter().find(|(_, value)| !value.is_finite());
    let Some(((row, column, channel), _)) = hole else { return Ok(()) };
    let Layout { grid, quantities } = &*analysis.layout;
    let missing: Vec<bool> = analysis
        .values
        .lanes(Axis(2))
        .into_iter()
        .map(|point| point.iter().any(|x| !x.is_finite()))
        .collect();
    let advice = match largest_whole_box(&missing, grid.columns()).filter(|_| !is_global(grid)) {
        Some([rows, columns]) => format!(
            "the largest box without holes is data.grid = {{ south = {}, north = {}, west = {}, east = {} }} in a configuration",
            grid.latitude[rows.start],
            grid.latitude[rows.end - 1],
            grid.longitude[columns.start],
            grid.longitude[columns.end - 1]
        ),
        None => "choose another initial time, or set data.missing = \"interpolate\"".into(),
    };
    Err(Error::input(format!(
        "{} at {} has no value at {} N, {} E: physics needs whole fields",
        quantities[channel], analysis.valid, grid.latitude[row], grid.longitude[column]
    ))
    .hint(advice))
}

#[cfg(test)]
mod tests;
