//! What the models of the physics are given by the edge: processors, and the later analyses of a hindcast.

use std::sync::Arc;

use crate::device::Device;
use crate::device::cpu::Cpu;
use crate::error::{Error, Result};
use crate::preprocess::Catalogue;
use crate::shallow_water::{Devices, Later};
use crate::time::ValidTime;

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

/// The analyses of a catalogue that `may_read` lets through, for driven boundaries.
pub fn later(
    catalogue: Arc<Catalogue>,
    may_read: impl Fn(ValidTime) -> bool + Send + Sync + 'static,
) -> Later {
    Arc::new(move |valid| {
        if !catalogue.has(valid) || !may_read(valid) {
            return Err(Error::input(format!("there is no analysis of {valid}"))
                .hint("driven boundaries need one at every step: forecast less far, or set physics.boundary = \"frozen\""));
        }
        catalogue.read(valid)
    })
}
