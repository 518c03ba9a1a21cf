//! The network of a run folder on a device, in physical units.

use std::path::Path;
use std::sync::Arc;

use crate::device::{ArenaPlan, Device};
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Orientation;
use crate::io::checkpoint::{self, Card, Checkpoint, Tensor};
use crate::io::run_dir::find_checkpoint;
use crate::model::{Architecture, Geometry, Network, Purpose};
use crate::preprocess::{Inputs, Normalizer};
use crate::stepper::{Stepper, StepperInfo};

/// Forecasts with the averaged weights of a checkpoint. It forecasts from one initial time at a time: the recurrent state
/// lives on the device.
pub struct NetworkStepper {
    device: Box<dyn Device<f32>>,
    network: Network<f32>,
    normalizer: Normalizer,
    inputs: Inputs,
    info: StepperInfo,
    orientation: Orientation,
    /// Counts forecasts, so that one which is no longer on the device is noticed.
    started: u64,
}

/// A forecast under way.
pub struct Forecast {
    /// Which one of its stepper's.
    number: u64,
    /// Steps done.
    steps: usize,
    analysis: State,
}

impl NetworkStepper {
    /// Opens a run folder (its best checkpoint) or a checkpoint folder.
    pub fn open(path: &Path, device: Box<dyn Device<f32>>) -> Result<Self> {
        let folder = find_checkpoint(path)?;
        let checkpoint = checkpoint::load(&folder)?;
        let card = Card::read(&checkpoint)?;
        Self::build(&checkpoint, card, device)
            .map_err(|error| error.context(format!("cannot forecast with {}", folder.display())))
    }

    fn build(checkpoint: &Checkpoint, card: Card, mut device: Box<dyn Device<f32>>) -> Result<Self> {
        let unreadable = |error| Error::input("the network's description does not read").caused_by(error);
        let architecture: Architecture = serde_json::from_value(card.architecture).map_err(unreadable)?;
        let layout = Arc::new(card.layout);
        let normalizer = Normalizer::from_tensors(layout.clone(), &card.normalizer, &checkpoint.tensors)?;
        let inputs = Inputs::from_tensors(layout.clone(), &card.inputs, &checkpoint.tensors)?;
        let channels = [
            ("variables", architecture.prognostic, layout.channels()),
            ("static fields", architecture.statics, inputs.static_names().len()),
            ("forcings", architecture.forcings, inputs.forcing_names().len()),
        ];
        if let Some((what, expected, found)) = channels.into_iter().find(|(_, a, b)| a != b) {
            return Err(Error::input(format!(
                "the network takes {expected} {what}, the checkpoint has {found}"
            )));
        }

        let mut arena = ArenaPlan::default();
        let geometry = Geometry::of(&layout);
        let network = Network::plan(&mut arena, &architecture, &geometry, 1, 1, Purpose::Forecast)?;
        device.allocate(&arena)?;
        network.prepare(&mut *device);
        device.upload(network.slots().statics, inputs.statics());
        device.upload(network.slots().tendency_scale, &normalizer.tendency_scale());
        for parameter in network.parameters() {
            let name = format!("weights.{}", parameter.name);
            let values = checkpoint
                .tensors
                .get(&name)
                .filter(|tensor| tensor.shape == parameter.shape)
                .and_then(Tensor::as_f32)
                .ok_or_else(|| Error::input(format!("there is no {name} of shape {:?}", parameter.shape)))?;
            parameter.write(&mut *device, parameter.slot, values);
        }
        let info = StepperInfo {
            name: "convlstm".into(),
            origin: checkpoint.path.display().to_string(),
            layout,
            step: card.step,
            input_frames: architecture.input_frames,
        };
        Ok(Self { device, network, normalizer, inputs, info, orientation: card.orientation, started: 0 })
    }

    /// How the training data lay in their files.
    pub fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// What it runs on.
    pub fn device(&self) -> String {
        self.device.describe()
    }

    /// Refuses analyses that the network was not trained for, saying what differs.
    fn check(&self, analyses: &[State]) -> Result<()> {
        let frames = self.info.input_frames;
        if analyses.len() != frames {
            return Err(Error::input(format!(
                "the network starts from {frames} analyses {} apart, found {}",
                self.info.step,
                analyses.len()
            )));
        }
        for pair in analyses.windows(2) {
            let apart = pair[1].valid.since(pair[0].valid);
            if apart != self.info.step || pair[1].valid.calendar != pair[0].valid.calendar {
                return Err(Error::input(format!(
                    "the network steps by {}, but the analyses of {} and {} are {apart} apart",
                    self.info.step, pair[0].valid, pair[1].valid
                ))
                .hint(format!("give {frames} analyses {} apart", self.info.step)));
            }
        }
        analyses.iter().try_for_each(|analysis| {
            fits(&self.info.layout, &analysis.layout)
                .map_err(|error| error.context(format!("the analysis of {} does not fit", analysis.valid)))
        })
    }

    /// Refuses a forecast that another one has replaced on the device.
    fn current(&self, forecast: &Forecast) -> Result<()> {
        if forecast.number != self.started {
            return Err(Error::run("another forecast has been started on this network since"));
        }
        Ok(())
    }
}

/// Whether states of layout `found` are what a network of layout `expected` reads; an error says what differs.
fn fits(expected: &Layout, found: &Layout) -> Result<()> {
    for quantity in &expected.quantities {
        if !found.quantities.contains(quantity) {
            let names: Vec<String> = found.quantities.iter().map(ToString::to_string).collect();
            return Err(Error::input(format!("the network needs {quantity}"))
                .hint(format!("the input holds {}", names.join(", "))));
        }
    }
    if expected.quantities != found.quantities {
        let names: Vec<String> = expected.quantities.iter().map(ToString::to_string).collect();
        return Err(Error::input(format!("the network takes exactly {}, in this order", names.join(", "))));
    }
    if !expected.grid.matches(&found.grid) {
        return Err(Error::input(format!(
            "the network was trained on the grid {}, the input has {}",
            expected.grid.describe(),
            found.grid.describe()
        ))
        .hint("regrid the input with [data] grid"));
    }
    Ok(())
}

impl Stepper for NetworkStepper {
    type Inner = Forecast;

    fn info(&self) -> &StepperInfo {
        &self.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<Forecast> {
        self.check(analyses)?;
        let analysis = analyses.last().ok_or_else(|| Error::input("a forecast needs an analysis"))?;
        let slots = *self.network.slots();
        let frame = slots.frames.len() / analyses.len();
        let forcing = slots.forcings.len() / analyses.len();
        let (mut values, mut forcings) = (vec![0.0; frame], vec![0.0; forcing]);
        for (index, state) in analyses.iter().enumerate() {
            self.normalizer.normalize(state, &mut values)?;
            if let Some(position) = values.iter().position(|value| !value.is_finite()) {
                let quantity = &self.info.layout.quantities[position % self.info.layout.channels()];
                return Err(Error::input(format!("{quantity} at {} has missing values", state.valid))
                    .hint("a forecast needs whole analyses; choose another initial time"));
            }
            self.inputs.forcings(state.valid, self.info.step, &mut forcings);
            self.device.upload(slots.frames.part(index * frame, frame), &values);
            self.device.upload(slots.forcings.part(index * forcing, forcing), &forcings);
        }
        self.network.warm_up(&mut *self.device);
        self.started += 1;
        Ok(Forecast { number: self.started, steps: 0, analysis: analysis.clone() })
    }

    fn step(&mut self, forecast: &mut Forecast) -> Result<()> {
        self.current(forecast)?;
        let from = forecast.analysis.valid.after(self.info.step.times(forecast.steps));
        let slot = self.network.step_forcings();
        let mut forcings = vec![0.0; slot.len()];
        self.inputs.forcings(from, self.info.step, &mut forcings);
        self.device.upload(slot, &forcings);
        self.network.step(&mut *self.device);
        forecast.steps += 1;
        Ok(())
    }

    fn observe(&self, forecast: &Forecast) -> Result<State> {
        self.current(forecast)?;
        if forecast.steps == 0 {
            return Ok(forecast.analysis.clone());
        }
        let slot = self.network.slots().predictions;
        let mut values = vec![0.0; slot.len()];
        self.device.download(slot, &mut values);
        self.device.finish()?;
        let valid = forecast.analysis.valid.after(self.info.step.times(forecast.steps));
        if values.iter().any(|value| !value.is_finite()) {
            return Err(Error::run(format!(
                "the forecast from {} is not finite after {}",
                forecast.analysis.valid,
                self.info.step.times(forecast.steps)
            ))
            .hint("train longer rollouts, or forecast fewer steps"));
        }
        self.normalizer.unnormalize(&values, valid)
    }
}
