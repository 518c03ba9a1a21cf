//! Processors for the models of the physics.

use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::error::Result;
use crate::shallow_water::Devices;

/// Every model gets a device of its own, with memory of its own, on the same cores.
pub struct Cpus {
    /// Of each; one per core when left out.
    pub threads: Option<usize>,
}

impl Devices for Cpus {
    fn single(&self) -> Result<Box<dyn Device<f32>>> {
        Ok(Box::new(Cpu::new(self.threads)?))
    }

    fn double(&self) -> Result<Box<dyn Device<f64>>> {
        Ok(Box::new(Cpu::new(self.threads)?))
    }
}
