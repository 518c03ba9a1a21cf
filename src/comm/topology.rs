//! Where ranks are, how they reach each other, and which of them should be neighbours.
//!
//! Every rank tells the host that it runs on and what its GPU knows of others. Ranks that exchange most, those that share
//! channels, are put where they reach each other fastest; then those that share rows; those that only add up gradients
//! take what is left.

use serde::{Deserialize, Serialize};

use super::meeting::{Meeting, Parcel};
use crate::device::cuda::{Reach, wiring};
use crate::error::{Error, Result};
use std::sync::Arc;

/// One rank's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    pub host: String,
    /// The address of its GPU; `None` for a processor, or where the driver does not tell.
    pub gpu: Option<String>,
    /// The NUMA node next to it.
    pub node: Option<u32>,
    /// GPUs of the host that it reaches by NVLink, and those that it reaches within its NUMA node.
    pub nvlink: Vec<String>,
    pub near: Vec<String>,
}

/// The way from one rank to another, the fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Nvlink,
    /// PCI Express within a NUMA node.
    Pcie,
    /// Within a host.
    Host,
    Network,
}

impl Way {
    const ALL: [Self; 4] = [Self::Nvlink, Self::Pcie, Self::Host, Self::Network];

    fn name(self) -> &'static str {
        match self {
            Self::Nvlink => "NVLink",
            Self::Pcie => "PCIe",
            Self::Host => "the host's memory",
            Self::Network => "the network",
        }
    }
}

/// All ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    pub spots: Vec<Spot>,
}

impl Spot {
    /// Of a rank of this process that drives the GPU of this number.
    pub fn here(gpu: Option<usize>) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let wiring = gpu.and_then(wiring);
        let of = |reach: Reach| {
            let others = wiring.iter().flat_map(|wiring| &wiring.others);
            others.filter(|(_, by)| *by == reach).map(|(bus, _)| bus.clone()).collect()
        };
        Self {
            host: host.trim().to_owned(),
            nvlink: of(Reach::Nvlink),
            near: of(Reach::Pcie),
            node: wiring.as_ref().and_then(|wiring| wiring.node),
            gpu: wiring.map(|wiring| wiring.bus),
        }
    }
}

impl Topology {
    /// Every rank tells its spot.
    pub fn gather(meeting: &mut dyn Meeting, own: &Spot) -> Result<Self> {
        let wrong = |error: serde_json::Error| Error::run("the spot of a rank").caused_by(error);
        let words = serde_json::to_string(own).map_err(wrong)?;
        let all = meeting.exchange("topology", Parcel::ForAll(Arc::from(words.as_bytes())))?;
        let spots =
            all.iter().map(|words| serde_json::from_slice(words).map_err(wrong)).collect::<Result<_>>()?;
        Ok(Self { spots })
    }

    /// Between two ranks.
    pub fn way(&self, a: usize, b: usize) -> Way {
        let (a, b) = (&self.spots[a], &self.spots[b]);
        let among = |list: &[String]| b.gpu.as_ref().is_some_and(|gpu| list.contains(gpu));
        match a.host == b.host {
            false => Way::Network,
            true if among(&a.nvlink) => Way::Nvlink,
            true if among(&a.near) => Way::Pcie,
            true => Way::Host,
        }
    }

    /// The slowest way between two of these ranks.
    fn slowest(&self, ranks: &[usize]) -> Option<Way> {
        let pairs = ranks.iter().enumerate().flat_map(|(i, &a)| ranks[..i].iter().map(move |&b| (a, b)));
        pairs.map(|(a, b)| self.way(a, b)).max()
    }

    /// Puts ranks into the places of a mesh `[data, domain, channel]`, counted with the channels first: place by place the
    /// rank that takes it. Rank 0 takes the first.
    pub fn placement(&self, [data, domain, channel]: [usize; 3]) -> Placement {
        debug_assert_eq!(data * domain * channel, self.spots.len());
        let mut units: Vec<Vec<usize>> = (0..self.spots.len()).map(|rank| vec![rank]).collect();
        for size in [channel, domain] {
            units = self.grouped(units, size);
        }
        let order: Vec<usize> = units.concat();
        // Numbers that the launcher gave stay where others are no better.
        let mesh = [data, domain, channel];
        let own: Vec<usize> = (0..order.len()).collect();
        let better = (0..3).any(|axis| self.way_along(mesh, &order, axis) < self.way_along(mesh, &own, axis));
        let order = if better { order } else { own };
        Placement { mesh, ways: [0, 1, 2].map(|axis| self.way_along(mesh, &order, axis)), order }
    }

    /// Groups of `size` units that reach each other as fast as can be: whole ones of the fastest way, then of the next.
    fn grouped(&self, mut units: Vec<Vec<usize>>, size: usize) -> Vec<Vec<usize>> {
        if size == 1 {
            return units;
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for way in Way::ALL {
            let mut left = Vec::new();
            while !units.is_empty() {
                let mut cluster = vec![units.remove(0)];
                // Everybody who reaches all of the cluster.
                let mut next = 0;
                while next < units.len() {
                    let mut all = cluster.concat();
                    all.extend(&units[next]);
                    if self.slowest(&all).is_none_or(|slowest| slowest <= way) {
                        cluster.push(units.remove(next));
                    } else {
                        next += 1;
                    }
                }
                let whole = cluster.len() / size * size;
                left.extend(cluster.split_off(whole));
                groups.extend(cluster.chunks(size).map(<[_]>::concat));
            }
            left.sort();
            units = left;
        }
        groups.sort();
        groups
    }

    /// The slowest way in any group along an axis of a mesh.
    fn way_along(&self, mesh: [usize; 3], order: &[usize], axis: usize) -> Option<Way> {
        let stride: usize = mesh[axis + 1..].iter().product();
        let firsts = (0..order.len()).filter(|place| (place / stride).is_multiple_of(mesh[axis]));
        let groups =
            firsts.map(|first| (0..mesh[axis]).map(|i| order[first + i * stride]).collect::<Vec<_>>());
        groups.filter_map(|group| self.slowest(&group)).max()
    }

    /// What there is, a line for each host.
    pub fn describe(&self) -> Vec<String> {
        let mut hosts: Vec<&str> = Vec::new();
        for spot in &self.spots {
            if !hosts.contains(&spot.host.as_str()) {
                hosts.push(&spot.host);
            }
        }
        let line = |host: &&str| {
            let ranks: Vec<usize> = (0..self.spots.len()).filter(|&r| self.spots[r].host == **host).collect();
            let nodes: Vec<String> = {
                let mut nodes: Vec<u32> = ranks.iter().filter_map(|&rank| self.spots[rank].node).collect();
                nodes.sort_unstable();
                nodes.dedup();
                nodes.iter().map(u32::to_string).collect()
            };
            let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
            let joined = self.slowest(&ranks).map(|way| format!(", joined by {} or faster", way.name()));
            let nodes =
                if nodes.is_empty() { String::new() } else { format!(", NUMA nodes {}", nodes.join(", ")) };
            format!("{host}: ranks {}{}{nodes}", numbers.join(", "), joined.unwrap_or_default())
        };
        hosts.iter().map(line).collect()
    }
}

/// Which rank takes which place of a mesh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// `[data, domain, channel]`
    pub mesh: [usize; 3],
    /// By place.
    pub order: Vec<usize>,
    /// The slowest way along each axis; `None` where an axis has one rank.
    pub ways: [Option<Way>; 3],
}

impl Placement {
    /// Whether ranks keep the numbers that they were given.
    pub fn is_as_given(&self) -> bool {
        self.order.iter().enumerate().all(|(place, &rank)| place == rank)
    }

    pub fn describe(&self) -> String {
        let [data, domain, channel] = self.mesh;
        let by = |what: &str, way: Option<Way>| way.map(|way| format!("{what} by {}", way.name()));
        let ways = [("gradients", 0), ("rows", 1), ("channels", 2)];
        let ways: Vec<String> =
            ways.into_iter().filter_map(|(what, axis)| by(what, self.ways[axis])).collect();
        let order =
            if self.is_as_given() { String::new() } else { format!("; ranks in the order {:?}", self.order) };
        format!("mesh: {data} x {domain} x {channel} (data x domain x channel), {}{order}", ways.join(", "))
    }
}

/// Looks up variables by name.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What other libraries are told where NVLink multicast must not be used.
const WITHOUT_MULTICAST: [(&str, &str); 2] =
    [("NVSHMEM_DISABLE_NVLS", "1"), ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")];
const NVLS: &str = "NCCL_NVLS_ENABLE";

/// Whether the environment forbids multicast and the user has told NCCL nothing of it.
fn forbids_multicast(variables: Variables<'_>) -> bool {
    variables(NVLS).is_none()
        && WITHOUT_MULTICAST.iter().any(|(name, value)| variables(name).as_deref() == Some(*value))
}

/// Leaves NVLink multicast off in NCCL where the environment forbids it to other libraries. Called once, before a program
/// starts threads.
pub fn heed_environment() {
    if forbids_multicast(&|name| std::env::var(name).ok()) {
        // SAFETY: no other thread reads the environment yet, as the caller promises by when it calls.
        unsafe { std::env::set_var(NVLS, "0") };
    }
}

#[cfg(test)]
mod tests;
