//! Devices, and the models that lie ready on them.

use std::collections::HashMap;

use super::cycle::Served;
use super::plan::DevicesPlan;
use crate::error::{Error, Result};
use crate::runner::{Native, NetworkStepper};

/// Gives whole cycles to the device that has the least to do.
pub struct Pool {
    plan: DevicesPlan,
    devices: Vec<Device>,
    /// What each model takes on a device [bytes].
    memory: HashMap<String, u64>,
}

struct Device {
    name: String,
    /// Cycles of each model that are being computed.
    running: HashMap<String, usize>,
    /// Models that are open and do nothing, the last used last.
    idle: Vec<(String, NetworkStepper)>,
}

/// A place on a device, and the model when it is open there.
pub struct Place {
    pub device: usize,
    pub name: String,
    pub stepper: Option<NetworkStepper>,
}

impl Pool {
    /// Refuses a model that fits on no device.
    pub fn new(plan: DevicesPlan, models: &[Served]) -> Result<Self> {
        let memory: HashMap<String, u64> = models
            .iter()
            .map(|model| Ok((model.plan.name.clone(), Native::memory(&model.trained)?)))
            .collect::<Result<_>>()?;
        if let (Some(most), Some((name, bytes))) =
            (plan.memory, memory.iter().max_by_key(|(_, bytes)| **bytes))
            && *bytes > most
        {
            let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
            return Err(Error::input(format!(
                "the model {name} takes {} MiB, and serve.devices.memory_mebibytes allows {}",
                mebibytes(*bytes),
                mebibytes(most)
            )));
        }
        let device = |name: &String| Device { name: name.clone(), running: HashMap::new(), idle: Vec::new() };
        Ok(Self { devices: plan.names.iter().map(device).collect(), plan, memory })
    }

    /// Opens every model on every device, as far as they may lie there together: what cannot work shows before it is needed.
    pub fn open(
        &mut self,
        models: &[Served],
        open: impl Fn(&Served, &str) -> Result<NetworkStepper>,
    ) -> Result<()> {
        for device in 0..self.devices.len() {
            for model in models {
                let name = &model.plan.name;
                let Some(place) = self.take_on(device, name) else { continue };
                let opened = open(model, &place.name).map_err(|error| {
                    error.context(format!("serve.devices: {} cannot compute the model {name}", place.name))
                })?;
                self.give_back(device, name, Some(opened));
            }
        }
        Ok(())
    }

    /// A place for a cycle of a model, on the device with the fewest cycles; of equals, on one where it lies ready.
    pub fn take(&mut self, model: &str) -> Option<Place> {
        let free = |device: &Device| device.cycles() < self.plan.at_once;
        let order = |&(_, device): &(usize, &Device)| (device.cycles(), !device.has_ready(model));
        let mut places: Vec<(usize, &Device)> =
            self.devices.iter().enumerate().filter(|(_, device)| free(device)).collect();
        places.sort_by_key(order);
        let numbers: Vec<usize> = places.into_iter().map(|(number, _)| number).collect();
        numbers.into_iter().find_map(|number| self.take_on(number, model))
    }

    fn take_on(&mut self, number: usize, model: &str) -> Option<Place> {
        let device = &mut self.devices[number];
        let ready = device.idle.iter().rposition(|(name, _)| name == model);
        let stepper = ready.map(|at| device.idle.remove(at).1);
        if stepper.is_none()
            && let Some(most) = self.plan.memory
        {
            // Who has not been used for longest makes room.
            while device.bytes(&self.memory) + self.memory[model] > most {
                if device.idle.is_empty() {
                    return None;
                }
                device.idle.remove(0);
            }
        }
        *device.running.entry(model.to_owned()).or_default() += 1;
        Some(Place { device: number, name: device.name.clone(), stepper })
    }

    /// The cycle is over; a model that works stays ready.
    pub fn give_back(&mut self, device: usize, model: &str, stepper: Option<NetworkStepper>) {
        let device = &mut self.devices[device];
        if let Some(running) = device.running.get_mut(model) {
            *running -= 1;
        }
        if let Some(stepper) = stepper {
            device.idle.push((model.to_owned(), stepper));
        }
    }

    /// What lies ready of a model is another network from now on.
    pub fn forget(&mut self, model: &str) {
        self.devices.iter_mut().for_each(|device| device.idle.retain(|(name, _)| name != model));
    }

    /// Devices, each with the cycles that it computes.
    pub fn load(&self) -> Vec<(String, usize)> {
        self.devices.iter().map(|device| (device.name.clone(), device.cycles())).collect()
    }

    pub fn is_idle(&self) -> bool {
        self.devices.iter().all(|device| device.cycles() == 0)
    }
}

impl Device {
    fn cycles(&self) -> usize {
        self.running.values().sum()
    }

    fn has_ready(&self, model: &str) -> bool {
        self.idle.iter().any(|(name, _)| name == model)
    }

    fn bytes(&self, memory: &HashMap<String, u64>) -> u64 {
        let running: u64 = self.running.iter().map(|(name, count)| memory[name] * *count as u64).sum();
        running + self.idle.iter().map(|(name, _)| memory[name]).sum::<u64>()
    }
}
