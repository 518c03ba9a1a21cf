//! wxsim's own network, on a processor or a GPU.

use std::sync::Arc;

use super::provider::{Kept, Provider};
use crate::device::{ArenaPlan, Device};
use crate::error::{Error, Result};
use crate::export::{Int8, Trained};
use crate::field::State;
use crate::model::{Arithmetic, Batch, Network, Purpose};
use crate::time::ValidTime;

/// The recurrent state lives on the device.
pub struct Native {
    device: Box<dyn Device<f32>>,
    network: Network<f32>,
    trained: Arc<Trained>,
    in_int8: bool,
}

impl Native {
    pub fn new(trained: Arc<Trained>, device: Box<dyn Device<f32>>) -> Result<Self> {
        Self::computing(trained, device, Arithmetic::Plain)
    }

    /// The network of `trained` in these whole numbers.
    pub fn in_int8(trained: Arc<Trained>, device: Box<dyn Device<f32>>, int8: &Int8) -> Result<Self> {
        let weights = int8.weights(&trained.architecture)?;
        Self::computing(trained, device, Arithmetic::Int8(weights))
    }

    fn computing(
        trained: Arc<Trained>,
        mut device: Box<dyn Device<f32>>,
        arithmetic: Arithmetic,
    ) -> Result<Self> {
        let mut arena = ArenaPlan::default();
        let Trained { architecture, geometry, .. } = &*trained;
        let batch = Batch { samples: 1, lead_steps: 1 };
        let in_int8 = matches!(arithmetic, Arithmetic::Int8(_));
        let network =
            Network::plan_in(&mut arena, architecture, geometry, batch, Purpose::Forecast, arithmetic)?;
        device.allocate(&arena)?;
        trained.load(&network, &mut *device)?;
        Ok(Self { device, network, trained, in_int8 })
    }

    /// What a network takes on a device that computes in single precision [bytes].
    pub fn memory(trained: &Trained) -> Result<u64> {
        let mut arena = ArenaPlan::default();
        Network::<f32>::plan(&mut arena, &trained.architecture, &trained.geometry, 1, 1, Purpose::Forecast)?;
        Ok((arena.elements() * size_of::<f32>()) as u64)
    }

    /// Normalised fields after the last step, which is waited for.
    fn fields(&self) -> Result<Vec<f32>> {
        let slot = self.network.slots().predictions;
        let mut values = vec![0.0; slot.len()];
        self.device.download(slot, &mut values);
        self.device.finish()?;
        Ok(values)
    }
}

impl Provider for Native {
    fn describe(&self) -> String {
        let device = self.device.describe();
        if self.in_int8 { format!("{device}, convolutions in int8") } else { device }
    }

    fn start(&mut self, analyses: &[State]) -> Result<()> {
        let Trained { normalizer, inputs, info, .. } = &*self.trained;
        let slots = *self.network.slots();
        let frame = slots.frames.len() / analyses.len();
        let forcing = slots.forcings.len() / analyses.len();
        let (mut values, mut forcings) = (vec![0.0; frame], vec![0.0; forcing]);
        for (index, state) in analyses.iter().enumerate() {
            normalizer.normalize(state, &mut values)?;
            if let Some(position) = values.iter().position(|value| !value.is_finite()) {
                let quantity = &info.layout.quantities[position % info.layout.channels()];
                return Err(Error::input(format!("{quantity} at {} has missing values", state.valid))
                    .hint("a forecast needs whole analyses; choose another initial time"));
            }
            inputs.forcings(state.valid, info.step, &mut forcings);
            self.device.upload(slots.frames.part(index * frame, frame), &values);
            self.device.upload(slots.forcings.part(index * forcing, forcing), &forcings);
        }
        self.network.warm_up(&mut *self.device);
        Ok(())
    }

    fn step(&mut self, from: ValidTime) -> Result<()> {
        let slot = self.network.step_forcings();
        let mut forcings = vec![0.0; slot.len()];
        self.trained.inputs.forcings(from, self.trained.info.step, &mut forcings);
        self.device.upload(slot, &forcings);
        self.network.step(&mut *self.device);
        Ok(())
    }

    fn state(&mut self, valid: ValidTime) -> Result<State> {
        self.trained.normalizer.unnormalize(&self.fields()?, valid)
    }

    fn keep(&mut self, _valid: ValidTime) -> Result<()> {
        self.device.start_copy(&self.network.carried());
        Ok(())
    }

    fn kept(&mut self, wait: bool) -> Result<Option<Kept>> {
        let copied = self.device.copied(wait)?;
        Ok(copied.map(|copied| {
            let (fields, memories) = self.network.memories(copied);
            Kept { fields, memories }
        }))
    }

    fn resume(&mut self, kept: &Kept, _valid: ValidTime) -> Result<()> {
        self.network.remember(&mut *self.device, &kept.fields, &kept.memories);
        self.device.finish()
    }
}
