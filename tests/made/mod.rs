//! Networks of every kind with random numbers in place of learned ones, in checkpoint folders, and analyses for them.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use wxsim::climatology::{Climatology, Harmonic};
use wxsim::device::ArenaPlan;
use wxsim::field::{Layout, State};
use wxsim::grid::{Grid, Orientation};
use wxsim::io::checkpoint::{self, Card, FORMAT, Tensor, Tensors};
use wxsim::model::{Architecture, Geometry, Network, Purpose};
use wxsim::preprocess::{Forcing, Inputs, InputsPlan, Normalizer, StaticField, StaticPlan};
use wxsim::time::{Calendar, LeadTime, ValidTime};
use wxsim::variable::Quantity;

/// A kind of network.
pub struct Kind {
    pub name: &'static str,
    pub latitude: Vec<f64>,
    pub longitude: Vec<f64>,
    pub architecture: Architecture,
    /// On anomalies from a climatology.
    pub anomalies: bool,
    /// Some point of the second quantity is missing always.
    pub hole: bool,
}

/// Of these the last one has a logarithm.
const QUANTITIES: [&str; 3] = ["z500", "u850", "tp"];
const SEED: u64 = 7;

fn steps(first: f64, step: f64, count: usize) -> Vec<f64> {
    (0..count).map(|i| first + i as f64 * step).collect()
}

/// Every edge rule, patch and variant of the cell.
pub fn kinds() -> Vec<Kind> {
    let plain = Architecture {
        prognostic: QUANTITIES.len(),
        statics: 1,
        forcings: 3,
        hidden: vec![6, 5],
        kernel: 3,
        patch: 1,
        layer_norm: false,
        peepholes: false,
        residual: true,
        input_frames: 2,
        dropout: 0.1,
    };
    vec![
        Kind {
            name: "a pole beyond the rows, layer norm and peepholes",
            latitude: steps(-75.0, 30.0, 6),
            longitude: steps(0.0, 45.0, 8),
            architecture: Architecture { layer_norm: true, peepholes: true, ..plain.clone() },
            anomalies: false,
            hole: false,
        },
        Kind {
            name: "rows on the poles",
            latitude: steps(-90.0, 30.0, 7),
            longitude: steps(0.0, 45.0, 8),
            architecture: Architecture { kernel: 5, ..plain.clone() },
            anomalies: true,
            hole: false,
        },
        Kind {
            name: "patches that do not divide the rows",
            latitude: steps(-90.0, 30.0, 7),
            longitude: steps(0.0, 45.0, 8),
            architecture: Architecture { patch: 2, input_frames: 1, ..plain.clone() },
            anomalies: false,
            hole: false,
        },
        Kind {
            name: "a region with a hole",
            latitude: steps(40.0, 5.0, 5),
            longitude: steps(-10.0, 5.0, 6),
            architecture: Architecture { kernel: 5, input_frames: 3, ..plain.clone() },
            anomalies: true,
            hole: true,
        },
        Kind {
            name: "a belt that the halo goes around more than once, without residual",
            latitude: steps(-20.0, 20.0, 3),
            longitude: steps(0.0, 90.0, 4),
            architecture: Architecture { kernel: 11, residual: false, statics: 0, forcings: 0, ..plain },
            anomalies: false,
            hole: false,
        },
    ]
}

/// Uniform in [-1, 1].
pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1_u64 << 23) as f32) - 1.0
        })
        .collect()
}

impl Kind {
    pub fn layout(&self) -> Arc<Layout> {
        let grid = Grid::new(self.latitude.clone(), self.longitude.clone()).unwrap();
        Arc::new(Layout { grid, quantities: QUANTITIES.map(Quantity::parse).to_vec() })
    }

    /// Writes the checkpoint folder `path`.
    pub fn save(&self, path: &Path) {
        let layout = self.layout();
        let normalizer = self.normalizer();
        let mut tensors = normalizer.to_tensors();
        let inputs = self.inputs();
        tensors.extend(inputs.to_tensors());
        tensors.extend(self.weights());
        let card = Card {
            format: FORMAT,
            wxsim: "test".into(),
            layout: (*layout).clone(),
            orientation: Orientation::default(),
            step: LeadTime::from_hours(6),
            architecture: serde_json::to_value(&self.architecture).unwrap(),
            inputs: inputs.card(),
            normalizer: normalizer.card(),
        };
        checkpoint::save(path, &tensors, &json!({ "model": card }).to_string()).unwrap();
    }

    fn weights(&self) -> Tensors {
        let plan = &mut ArenaPlan::default();
        let geometry = Geometry::of(&self.layout());
        let network =
            Network::<f32>::plan(plan, &self.architecture, &geometry, 1, 1, Purpose::Forecast).unwrap();
        let mut tensors = Tensors::new();
        for (number, parameter) in network.parameters().iter().enumerate() {
            // Sums over the inputs of a kernel stay of order one.
            let inputs: usize = parameter.shape[2.min(parameter.shape.len() - 1)..].iter().product();
            let bound = if parameter.decay { 1.5 / (inputs as f32).sqrt() } else { 0.5 };
            let centre = if parameter.name.ends_with("gain") { 1.0 } else { 0.0 };
            let values = noise(parameter.len(), SEED + number as u64);
            let values = values.iter().map(|x| centre + bound * x).collect();
            tensors
                .insert(format!("weights.{}", parameter.name), Tensor::f32(parameter.shape.clone(), values));
        }
        tensors
    }

    fn inputs(&self) -> Inputs {
        let statics = StaticPlan { field: StaticField::CosLatitude, file: None };
        let plan = InputsPlan {
            statics: vec![statics; self.architecture.statics],
            forcings: match self.architecture.forcings {
                0 => Vec::new(),
                _ => vec![Forcing::Solar, Forcing::LocalTime],
            },
        };
        Inputs::new(self.layout(), &plan).unwrap()
    }

    pub fn normalizer(&self) -> Normalizer {
        let layout = self.layout();
        let (rows, columns, channels) = layout.shape();
        let values = rows * columns * channels;
        let scales = [
            ("log_epsilon", [0.0, 0.0, 1e-3]),
            ("mean", [if self.anomalies { 10.0 } else { 54_000.0 }, 0.0, 0.7]),
            ("deviation", [800.0, 8.0, 1.1]),
            ("tendency_deviation", [40.0, 0.6, 0.05]),
        ];
        let mut tensors: Tensors = scales
            .map(|(name, scale)| (format!("normalizer.{name}"), Tensor::f32(vec![channels], scale.to_vec())))
            .into();
        if self.hole {
            let mask = (0..values).map(|i| if i == 4 * channels + 1 { 0.0 } else { 1.0 }).collect();
            tensors.insert("normalizer.mask".into(), Tensor::f32(vec![rows, columns, channels], mask));
        }
        if self.anomalies {
            let of = |hour: u64| {
                let mut field = noise(5 * values, 99 + hour);
                for (i, x) in field.iter_mut().enumerate() {
                    let first = i < values;
                    *x = match i % channels {
                        0 if first => 54_000.0 + 1000.0 * *x,
                        0 => 300.0 * *x,
                        1 => 4.0 * *x,
                        _ => 0.2 * *x,
                    };
                }
                field
            };
            let coefficients: BTreeMap<u32, Vec<f32>> =
                (0..4).map(|part| (part * 21_600, of(u64::from(part)))).collect();
            let climatology =
                Climatology::Harmonic(Harmonic { shape: [rows, columns, channels], coefficients });
            for (name, (shape, values)) in climatology.to_arrays() {
                tensors.insert(format!("normalizer.climatology.{name}"), Tensor::f32(shape, values));
            }
        }
        let card = json!({
            "quantities": QUANTITIES,
            "anomalies": self.anomalies.then_some("harmonic"),
            "has_mask": self.hole,
        });
        Normalizer::from_tensors(layout, &card, &tensors).unwrap()
    }

    /// As many analyses, 6 hours apart, as the network starts from.
    pub fn analyses(&self) -> Vec<State> {
        let first = ValidTime::parse("2001-06-30T18", Calendar::Standard).unwrap();
        let normalizer = self.normalizer();
        (0..self.architecture.input_frames)
            .map(|frame| {
                let values = noise(self.layout().grid.points() * QUANTITIES.len(), 1000 + frame as u64);
                let valid = first.after(LeadTime::from_hours(6).times(frame));
                normalizer.unnormalize(&values, valid).unwrap()
            })
            .collect()
    }
}
