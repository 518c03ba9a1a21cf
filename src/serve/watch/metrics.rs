//! Numbers for Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::levels::latency;
use crate::error::{Error, Result};
use crate::serve::events::{Event, Standing};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCycle {
    model: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfProvider {
    model: String,
    provider: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfFile {
    verdict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDevice {
    device: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQuantity {
    model: String,
    quantity: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfAlarm {
    alarm: String,
}

type Real = Gauge<f64, AtomicU64>;
type Seconds = Family<OfModel, Histogram, fn() -> Histogram>;

/// What a GPU says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub device: String,
    /// In use [bytes].
    pub memory: u64,
    /// [W]
    pub power: Option<f64>,
    /// Since the driver was loaded [J].
    pub energy: Option<f64>,
}

/// All of them.
pub struct Metrics {
    registry: Registry,
    cycles: Family<OfCycle, Counter>,
    providers: Family<OfProvider, Counter>,
    files: Family<OfFile, Counter>,
    cycle_seconds: Seconds,
    latency: Seconds,
    first_lead: Seconds,
    energy: Family<OfModel, Histogram, fn() -> Histogram>,
    queue: Gauge,
    decoding: Gauge,
    device_cycles: Family<OfDevice, Gauge>,
    device_memory: Family<OfDevice, Gauge>,
    device_power: Family<OfDevice, Real>,
    drift: Family<OfQuantity, Real>,
    skill: Family<OfModel, Real>,
    alarms: Family<OfAlarm, Gauge>,
}

fn seconds() -> Histogram {
    Histogram::new([0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0])
}

fn joules() -> Histogram {
    Histogram::new([1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6])
}

impl Metrics {
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("wxsim"),
            cycles: Family::default(),
            providers: Family::default(),
            files: Family::default(),
            cycle_seconds: Family::new_with_constructor(seconds),
            latency: Family::new_with_constructor(seconds),
            first_lead: Family::new_with_constructor(seconds),
            energy: Family::new_with_constructor(joules),
            queue: Gauge::default(),
            decoding: Gauge::default(),
            device_cycles: Family::default(),
            device_memory: Family::default(),
            device_power: Family::default(),
            drift: Family::default(),
            skill: Family::default(),
            alarms: Family::default(),
        };
        let r = &mut metrics.registry;
        r.register("cycles", "Cycles that are over, or attempts that failed", metrics.cycles.clone());
        r.register("provided_cycles", "Published cycles by what computed them", metrics.providers.clone());
        r.register("files", "Files of the inbox that were dealt with", metrics.files.clone());
        r.register("cycle_seconds", "From begin to end of a published cycle", metrics.cycle_seconds.clone());
        r.register(
            "latency_seconds",
            "From the last file that a cycle needed to its publication",
            metrics.latency.clone(),
        );
        r.register(
            "first_lead_seconds",
            "From the last file that a cycle needed to its first lead",
            metrics.first_lead.clone(),
        );
        r.register(
            "cycle_energy_joules",
            "What the GPU took while a cycle was computed",
            metrics.energy.clone(),
        );
        r.register("queue", "Cycles that wait for a device", metrics.queue.clone());
        r.register("decoding", "Files that are being decoded", metrics.decoding.clone());
        r.register("device_cycles", "Cycles that a device computes", metrics.device_cycles.clone());
        r.register("device_memory_bytes", "Memory of a GPU that is in use", metrics.device_memory.clone());
        r.register("device_power_watts", "Power of a GPU", metrics.device_power.clone());
        r.register(
            "drift",
            "Jensen-Shannon divergence of the last analysis from the training data",
            metrics.drift.clone(),
        );
        r.register(
            "skill_ratio",
            "Error of past forecasts over that of the validation",
            metrics.skill.clone(),
        );
        r.register("alarm", "1 while an alarm is raised", metrics.alarms.clone());
        metrics
    }

    pub fn hear(&self, event: &Event) {
        let over = |model: &str, outcome| {
            self.cycles.get_or_create(&OfCycle { model: model.into(), outcome }).inc();
        };
        let file = |verdict| {
            self.files.get_or_create(&OfFile { verdict }).inc();
        };
        match event {
            Event::Accepted { .. } => file("accepted"),
            Event::Rejected { .. } => file("rejected"),
            Event::Duplicate { .. } => file("duplicate"),
            Event::Missing { model, .. } => over(model, "missing"),
            Event::Failed { model, again: Some(_), .. } => over(model, "retried"),
            Event::Failed { model, again: None, .. } => over(model, "failed"),
            Event::Published(cycle) => {
                over(&cycle.model, "published");
                let model = OfModel { model: cycle.model.clone() };
                let provider = cycle.provider.clone().unwrap_or_default();
                self.providers.get_or_create(&OfProvider { model: cycle.model.clone(), provider }).inc();
                let observe = |family: &Seconds, value: Option<f64>| {
                    if let Some(value) = value {
                        family.get_or_create(&model).observe(value);
                    }
                };
                observe(&self.cycle_seconds, cycle.seconds);
                observe(&self.latency, latency(cycle));
                let first = cycle.first_lead.zip(cycle.input);
                observe(&self.first_lead, first.map(|(first, input)| (first - input).max(0) as f64 / 1000.0));
            }
            _ => {}
        }
    }

    pub fn energy(&self, model: &str, joules: f64) {
        self.energy.get_or_create(&OfModel { model: model.into() }).observe(joules);
    }

    pub fn stands(&self, standing: &Standing<'_>, readings: &[Reading]) {
        self.queue.set(standing.queued as i64);
        self.decoding.set(standing.decoding as i64);
        for (device, cycles) in standing.devices {
            self.device_cycles.get_or_create(&OfDevice { device: device.clone() }).set(*cycles as i64);
        }
        for reading in readings {
            let device = OfDevice { device: reading.device.clone() };
            self.device_memory.get_or_create(&device).set(reading.memory as i64);
            if let Some(power) = reading.power {
                self.device_power.get_or_create(&device).set(power);
            }
        }
    }

    pub fn drifts(&self, model: &str, quantity: &str, divergence: f64) {
        let label = OfQuantity { model: model.into(), quantity: quantity.into() };
        self.drift.get_or_create(&label).set(divergence);
    }

    pub fn skill(&self, model: &str, ratio: f64) {
        self.skill.get_or_create(&OfModel { model: model.into() }).set(ratio);
    }

    pub fn alarm(&self, name: &str, raised: bool) {
        self.alarms.get_or_create(&OfAlarm { alarm: name.into() }).set(i64::from(raised));
    }

    /// In the text format of OpenMetrics.
    pub fn text(&self) -> Result<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry)
            .map_err(|error| Error::run("the metrics cannot be written").caused_by(error))?;
        Ok(text)
    }
}
