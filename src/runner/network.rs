//! The network of a run folder on a device, in physical units.

use std::path::Path;
use std::sync::Arc;

use crate::device::{ArenaPlan, Device};
use crate::error::{Error, Result};
use crate::export::Trained;
use crate::field::State;
use crate::grid::Orientation;
use crate::model::{Network, Purpose};
use crate::stepper::{Stepper, StepperInfo};

/// Forecasts with the averaged weights of a checkpoint. It forecasts from one initial time at a time: the recurrent state
/// lives on the device.
pub struct NetworkStepper {
    device: Box<dyn Device<f32>>,
    network: Network<f32>,
    trained: Arc<Trained>,
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
        Self::of(Arc::new(Trained::open(path)?), device)
    }

    pub fn of(trained: Arc<Trained>, mut device: Box<dyn Device<f32>>) -> Result<Self> {
        let mut arena = ArenaPlan::default();
        let Trained { architecture, geometry, .. } = &*trained;
        let network = Network::plan(&mut arena, architecture, geometry, 1, 1, Purpose::Forecast)?;
        device.allocate(&arena)?;
        network.prepare(&mut *device);
        device.upload(network.slots().statics, trained.inputs.statics());
        device.upload(network.slots().tendency_scale, &trained.normalizer.tendency_scale());
        for parameter in network.parameters() {
            let values = trained.weight(&parameter.name, &parameter.shape)?;
            parameter.write(&mut *device, parameter.slot, values);
        }
        Ok(Self { device, network, trained, started: 0 })
    }

    /// How the training data lay in their files.
    pub fn orientation(&self) -> Orientation {
        self.trained.orientation
    }

    /// What it runs on.
    pub fn device(&self) -> String {
        self.device.describe()
    }

    /// Refuses a forecast that another one has replaced on the device.
    fn current(&self, forecast: &Forecast) -> Result<()> {
        if forecast.number != self.started {
            return Err(Error::run("another forecast has been started on this network since"));
        }
        Ok(())
    }
}

impl Stepper for NetworkStepper {
    type Inner = Forecast;

    fn info(&self) -> &StepperInfo {
        &self.trained.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<Forecast> {
        self.trained.check(analyses)?;
        let analysis = analyses.last().ok_or_else(|| Error::input("a forecast needs an analysis"))?;
        let slots = *self.network.slots();
        let frame = slots.frames.len() / analyses.len();
        let forcing = slots.forcings.len() / analyses.len();
        let (mut values, mut forcings) = (vec![0.0; frame], vec![0.0; forcing]);
        for (index, state) in analyses.iter().enumerate() {
            self.trained.normalizer.normalize(state, &mut values)?;
            if let Some(position) = values.iter().position(|value| !value.is_finite()) {
                let quantity =
                    &self.trained.info.layout.quantities[position % self.trained.info.layout.channels()];
                return Err(Error::input(format!("{quantity} at {} has missing values", state.valid))
                    .hint("a forecast needs whole analyses; choose another initial time"));
            }
            self.trained.inputs.forcings(state.valid, self.trained.info.step, &mut forcings);
            self.device.upload(slots.frames.part(index * frame, frame), &values);
            self.device.upload(slots.forcings.part(index * forcing, forcing), &forcings);
        }
        self.network.warm_up(&mut *self.device);
        self.started += 1;
        Ok(Forecast { number: self.started, steps: 0, analysis: analysis.clone() })
    }

    fn step(&mut self, forecast: &mut Forecast) -> Result<()> {
        self.current(forecast)?;
        let from = forecast.analysis.valid.after(self.trained.info.step.times(forecast.steps));
        let slot = self.network.step_forcings();
        let mut forcings = vec![0.0; slot.len()];
        self.trained.inputs.forcings(from, self.trained.info.step, &mut forcings);
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
        let valid = forecast.analysis.valid.after(self.trained.info.step.times(forecast.steps));
        if values.iter().any(|value| !value.is_finite()) {
            return Err(Error::run(format!(
                "the forecast from {} is not finite after {}",
                forecast.analysis.valid,
                self.trained.info.step.times(forecast.steps)
            ))
            .hint("train longer rollouts, or forecast fewer steps"));
        }
        self.trained.normalizer.unnormalize(&values, valid)
    }
}
