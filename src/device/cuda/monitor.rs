//! How busy a GPU is, asked now and then beside the work.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use nvml_wrapper::{Device, Nvml};

use super::driver::{Call, open};
use super::libraries::Library;
use crate::error::{Error, Result};

/// Between two questions, each of which takes the driver some milliseconds.
const PAUSE: Duration = Duration::from_secs(1);

/// What a GPU does, for all its users together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Share of the last second or so in which a kernel ran [%].
    pub utilization: Option<u32>,
    /// Memory in use, and all of it [bytes].
    pub used: u64,
    pub total: u64,
    /// [W]
    pub power: Option<f64>,
    /// Since the driver was loaded [J].
    pub energy: Option<f64>,
}

/// Watches one GPU until it is dropped.
pub struct Monitor {
    latest: Arc<Mutex<Option<Load>>>,
}

impl Monitor {
    /// Begins to watch the GPU of this number; nothing is seen where NVIDIA's management library is missing.
    pub fn new(ordinal: usize) -> Self {
        let latest = Arc::default();
        let weak = Arc::downgrade(&latest);
        // Without a thread there is nothing to tell.
        let _ = thread::Builder::new().name("monitor".into()).spawn(move || watch(ordinal, &weak));
        Self { latest }
    }

    pub fn latest(&self) -> Option<Load> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(ordinal: usize, latest: &Weak<Mutex<Option<Load>>>) {
    let (Ok(nvml), Ok(bus)) = (management(), bus(ordinal)) else { return };
    let Ok(device) = nvml.device_by_pci_bus_id(bus) else { return };
    while let Some(place) = latest.upgrade() {
        *place.lock().unwrap_or_else(PoisonError::into_inner) = load(&device);
        drop(place);
        thread::sleep(PAUSE);
    }
}

fn load(device: &Device<'_>) -> Option<Load> {
    let memory = device.memory_info().ok()?;
    // Not every card tells these, nor everybody: not the parts of a divided one, for instance.
    let utilization = device.utilization_rates().ok().map(|rates| rates.gpu);
    let power = device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3);
    let energy = device.total_energy_consumption().ok().map(|millijoules| millijoules as f64 / 1e3);
    Some(Load { utilization, used: memory.used, total: memory.total, power, energy })
}

/// NVIDIA's management library, from where the driver's other libraries are found.
pub(super) fn management() -> Result<Nvml> {
    let path = Library::Nvml.find()?;
    Nvml::builder()
        .lib_path(path.as_os_str())
        .init()
        .map_err(|error| Error::run(format!("{} does not open", path.display())).caused_by(error))
}

/// The address by which the management library knows a GPU: it numbers them in another order than CUDA.
pub(super) fn bus(ordinal: usize) -> Result<String> {
    use cudarc::driver::sys;
    open()?;
    let mut text = [0; 32];
    // SAFETY: the buffer is as long as is said; the driver ends the text with a zero.
    unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as i32, ordinal as i32) }
        .result()
        .call("cuDeviceGetPCIBusId")?;
    Ok(text.iter().take_while(|&&c| c != 0).map(|&c| char::from(c as u8)).collect())
}
