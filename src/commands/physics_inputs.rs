//! What the models of the physics are given by the edge: devices, and the later analyses of a hindcast.

use std::sync::{Arc, OnceLock};

use crate::commands::devices::{Choice, Opened};
use crate::device::{Device, Real};
use crate::error::{Error, Result};
use crate::preprocess::Catalogue;
use crate::shallow_water::{Devices, Later};
use crate::time::ValidTime;

/// Every model gets a device of its own, with memory of its own, on the same cores or the same GPU.
pub struct Chosen {
    choice: Choice,
    threads: Option<usize>,
    description: OnceLock<String>,
}

impl Chosen {
    /// `threads` are those of each processor; one per core when left out.
    pub fn new(choice: Choice, threads: Option<usize>) -> Self {
        Self { choice, threads, description: OnceLock::new() }
    }

    /// Of the first device that was made; nothing before.
    pub fn describe(&self) -> &str {
        self.description.get().map_or("", String::as_str)
    }

    fn open<T: Real>(&self) -> Result<Box<dyn Device<T>>> {
        let device = Opened::new(self.choice, self.threads)?.device;
        self.description.get_or_init(|| device.describe());
        Ok(device)
    }
}

impl Devices for Chosen {
    fn single(&self) -> Result<Box<dyn Device<f32>>> {
        self.open()
    }

    fn double(&self) -> Result<Box<dyn Device<f64>>> {
        self.open()
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
