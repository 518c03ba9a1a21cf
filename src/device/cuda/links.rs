//! How the GPUs of this machine reach each other, as NVIDIA's management library tells.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{P2pCapabilitiesIndex, P2pStatus, TopologyLevel};

use super::monitor::{bus, management};

/// The way from one GPU to another, the fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// NVLink, by a switch or without.
    Nvlink,
    /// PCI Express, within one NUMA node.
    Pcie,
    /// From one NUMA node of the machine to another.
    Nodes,
}

/// A GPU among those of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    /// Its address on the bus, which names it.
    pub bus: String,
    /// The NUMA node next to it.
    pub node: Option<u32>,
    /// The others that can be seen.
    pub others: Vec<(String, Reach)>,
}

/// Of the GPU with this number; `None` where the library or the driver does not tell.
pub fn wiring(ordinal: usize) -> Option<Wiring> {
    let nvml = management().ok()?;
    let own_bus = bus(ordinal).ok()?;
    let own = nvml.device_by_pci_bus_id(own_bus).ok()?;
    let name = address(&own)?;
    let others = (0..nvml.device_count().ok()?).filter_map(|index| {
        let other = nvml.device_by_index(index).ok()?;
        let bus = address(&other).filter(|bus| *bus != name)?;
        Some((bus, reach(&own, other)))
    });
    Some(Wiring { others: others.collect(), node: own.numa_node_id().ok(), bus: name })
}

fn address(device: &Device<'_>) -> Option<String> {
    Some(device.pci_info().ok()?.bus_id.to_lowercase())
}

fn reach(own: &Device<'_>, other: Device<'_>) -> Reach {
    // A switch between them is no hindrance: the driver says whether one can read the other's memory by NVLink.
    if let Ok(P2pStatus::Ok) = own.p2p_status(&other, P2pCapabilitiesIndex::NvLink) {
        return Reach::Nvlink;
    }
    match own.topology_common_ancestor(other) {
        Ok(TopologyLevel::System) | Err(_) => Reach::Nodes,
        Ok(_) => Reach::Pcie,
    }
}
