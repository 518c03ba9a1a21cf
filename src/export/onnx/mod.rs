//! A trained network as an ONNX graph.
//!
//! One step, whose states go in and come out. Fields are `[batch, lat, lon, channel]` as everywhere in wxsim:
//!
//! ```text
//! x                     float32, physical units
//! forcings              float32, of the step that ends at the target time; solar radiation in W m-2
//! climatology           where the network works on anomalies: that of x's time, after the logarithm of those that have one
//! h_0, c_0, ..          float32 [batch, hidden, row, column], zeros before the first step
//! ->
//! y                     as x, one step later
//! h_0_next, c_0_next, ..
//! climatology_next      (an input) that of y's time
//! ```
//!
//! Or a whole forecast: `x` are the analyses `[batch, frame, lat, lon, channel]`, states begin as zeros inside, and `y` holds
//! all leads `[batch, lead, lat, lon, channel]`.
//!
//! Nothing is lost between `y` and the next `x`: a never-negative quantity may come out a little below zero and a point that
//! is missing always has some value; who publishes `y` mends both (`preprocess::Normalizer::mend`).

mod builder;
mod convolution;
mod halo;
mod messages;
mod network;
mod normalise;

use prost::Message;

use super::quantise::Ranges;
use super::{Precision, Trained};
use crate::error::{Error, Result};
use builder::{Builder, Wire};
use convolution::Arithmetic;
use messages::{Entry, IR_VERSION, Model, OPSET, OperatorSet, Type};
use network::{Arithmetics, Memory, Network};
use normalise::Normalise;

/// How much of a forecast one graph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Step,
    /// Warm-up and so many leads.
    Forecast(usize),
}

/// Whether a graph is made for its users or for a library that lacks some kind of convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Native,
    /// Float32 convolutions of numbers that are rounded as the native ones would.
    Emulated,
}

/// Protocol buffers are read with 32-bit lengths.
const MOST_BYTES: usize = i32::MAX as usize;

/// Names of the inputs and outputs.
pub mod names {
    pub const X: &str = "x";
    pub const FORCINGS: &str = "forcings";
    pub const CLIMATOLOGY: &str = "climatology";
    pub const CLIMATOLOGY_NEXT: &str = "climatology_next";
    pub const Y: &str = "y";

    /// `["h_0", "c_0", "h_1", ..]`
    pub fn memories(layers: usize) -> Vec<String> {
        (0..layers).flat_map(|layer| ["h", "c"].map(|what| format!("{what}_{layer}"))).collect()
    }

    pub fn next(memory: &str) -> String {
        format!("{memory}_next")
    }
}

/// The bytes of an ONNX file. `ranges` are those of the activations, which only 8-bit precisions need.
pub fn encode(
    trained: &Trained,
    precision: Precision,
    extent: Extent,
    form: Form,
    ranges: Option<&Ranges>,
) -> Result<Vec<u8>> {
    let narrow = |kind| match form {
        Form::Native => Arithmetic::Narrow(kind),
        Form::Emulated => Arithmetic::Rounded(kind),
    };
    let quantised = |kind| {
        let ranges = ranges.ok_or_else(|| {
            Error::input(format!("the ranges of activations in {precision} are not known"))
                .hint("they are taken from forecasts: use wxsim export")
        })?;
        Ok(Arithmetics::Quantised(kind, ranges.clone()))
    };
    let arithmetics = match precision {
        Precision::Fp32 | Precision::Tf32 => Arithmetics::Same(Arithmetic::Single),
        Precision::Fp16 => Arithmetics::Same(narrow(Type::Float16)),
        Precision::Bf16 => Arithmetics::Same(narrow(Type::Bfloat16)),
        Precision::Int8 => quantised(Type::Int8)?,
        Precision::Fp8 => quantised(Type::Float8)?,
    };
    let mut builder = Builder::default();
    let normalise = Normalise::new(&mut builder, trained);
    let network = Network::new(&mut builder, trained, &arithmetics)?;
    let ports = Ports { trained };
    let metadata = metadata(trained, precision, extent);
    match extent {
        Extent::Step => ports.step(&mut builder, &normalise, &network),
        Extent::Forecast(leads) => ports.forecast(&mut builder, &normalise, &network, leads),
    }
    let model = Model {
        ir_version: IR_VERSION,
        producer_name: "wxsim".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        doc_string: format!("{} of {}", trained.info.name, trained.info.origin),
        graph: Some(builder.finish("forecast")),
        opset_import: vec![OperatorSet { domain: String::new(), version: OPSET }],
        metadata,
    };
    let bytes = model.encoded_len();
    if bytes > MOST_BYTES {
        return Err(Error::input(format!("the graph has {bytes} bytes, and an ONNX file holds 2 GiB"))
            .hint("export it in fp16, or fewer steps"));
    }
    Ok(model.encode_to_vec())
}

/// What goes in and what comes out.
struct Ports<'a> {
    trained: &'a Trained,
}

impl Ports<'_> {
    fn step(&self, builder: &mut Builder, normalise: &Normalise, network: &Network<'_>) {
        let (state, forcing) = (self.state_shape(&[]), self.forcing_shape(&[]));
        let x = builder.input(names::X, &state, &self.units());
        let forcings = forcing.map(|shape| builder.input(names::FORCINGS, &shape, &self.forcing_units()));
        let mut climatology =
            |name: &str, of: &str| self.has_climatology().then(|| builder.input(name, &state, of));
        let now = climatology(names::CLIMATOLOGY, "of the time of x");
        let next = climatology(names::CLIMATOLOGY_NEXT, "of the time of y");
        let layers = self.trained.architecture.hidden.len();
        let memory_names = names::memories(layers);
        let shape_of = |l: usize| {
            let inner = network.memory_shape(l);
            std::iter::once(None).chain(inner.map(Some)).collect::<Vec<Option<usize>>>()
        };
        let mut memories: Vec<Memory> = memory_names
            .chunks(2)
            .enumerate()
            .map(|(l, pair)| {
                let mut input = |name: &String| builder.input(name, &shape_of(l), "0 before the first step");
                Memory { h: input(&pair[0]), c: input(&pair[1]) }
            })
            .collect();
        let z = normalise.forward(builder, &x, now.as_ref());
        let z = network.step(builder, &z, forcings.as_ref(), &mut memories);
        let y = normalise.inverse(builder, &z, next.as_ref());
        builder.output(names::Y, &y, &state, &self.units());
        for (l, (pair, memory)) in memory_names.chunks(2).zip(&memories).enumerate() {
            builder.output(&names::next(&pair[0]), &memory.h, &shape_of(l), "for the next step");
            builder.output(&names::next(&pair[1]), &memory.c, &shape_of(l), "for the next step");
        }
    }

    fn forecast(&self, builder: &mut Builder, normalise: &Normalise, network: &Network<'_>, leads: usize) {
        let frames = self.trained.architecture.input_frames;
        let steps = frames + leads - 1;
        let states = self.state_shape(&[frames]);
        let x = builder.input(names::X, &states, &format!("analyses, oldest first: {}", self.units()));
        let forcings = self.forcing_shape(&[steps]).map(|shape| {
            let doc = format!("of each step from the first analysis on: {}", self.forcing_units());
            builder.input(names::FORCINGS, &shape, &doc)
        });
        let all = self.state_shape(&[leads]);
        let mut climatology = |name: &str, shape: &[Option<usize>], of: &str| {
            self.has_climatology().then(|| builder.input(name, shape, of))
        };
        let known = climatology(names::CLIMATOLOGY, &states, "of the times of x");
        let ahead = climatology(names::CLIMATOLOGY_NEXT, &all, "of the times of y");

        let (rows, columns, channels) = self.trained.info.layout.shape();
        let field = [rows, columns, channels];
        let entry = |builder: &mut Builder, series: &Wire, number: usize, shape: &[usize]| {
            let one = builder.slice(series, 1, number, number + 1);
            builder.reshape(&one, shape)
        };
        let mut memories = network.nothing(builder, &x);
        let mut state = None;
        let mut found = Vec::new();
        for step in 0..steps {
            let z = match state.take().filter(|_| step >= frames) {
                Some(z) => z,
                None => {
                    let x = entry(builder, &x, step, &field);
                    let normal = known.as_ref().map(|series| entry(builder, series, step, &field));
                    normalise.forward(builder, &x, normal.as_ref())
                }
            };
            let forcings = forcings.as_ref().map(|series| {
                entry(builder, series, step, &[rows, columns, self.trained.architecture.forcings])
            });
            let z = network.step(builder, &z, forcings.as_ref(), &mut memories);
            if let Some(lead) = (step + 1).checked_sub(frames) {
                let normal = ahead.as_ref().map(|series| entry(builder, series, lead, &field));
                let y = normalise.inverse(builder, &z, normal.as_ref());
                found.push(builder.reshape(&y, &[1, rows, columns, channels]));
            }
            state = Some(z);
        }
        let y = builder.concat(1, &found);
        builder.output(names::Y, &y, &all, &self.units());
    }

    fn has_climatology(&self) -> bool {
        self.trained.normalizer.has_climatology()
    }

    /// `[batch, before.., lat, lon, channel]`
    fn state_shape(&self, before: &[usize]) -> Vec<Option<usize>> {
        let (rows, columns, channels) = self.trained.info.layout.shape();
        let inner = before.iter().copied().chain([rows, columns, channels]).map(Some);
        std::iter::once(None).chain(inner).collect()
    }

    /// `None` without forcings.
    fn forcing_shape(&self, before: &[usize]) -> Option<Vec<Option<usize>>> {
        let channels = self.trained.architecture.forcings;
        let mut shape = self.state_shape(before);
        *shape.last_mut()? = Some(channels);
        (channels > 0).then_some(shape)
    }

    fn units(&self) -> String {
        let of = |quantity: &crate::variable::Quantity| {
            let units = quantity.variable().map_or("units of the training files", |v| v.units);
            format!("{quantity} [{units}]")
        };
        let all: Vec<String> = self.trained.info.layout.quantities.iter().map(of).collect();
        all.join(", ")
    }

    fn forcing_units(&self) -> String {
        self.trained
            .inputs
            .forcing_names()
            .iter()
            .map(|name| if name == "solar" { "solar [W m-2]".to_string() } else { name.clone() })
            .collect::<Vec<String>>()
            .join(", ")
    }
}

/// What a reader needs to feed the graph and to name what it gives.
fn metadata(trained: &Trained, precision: Precision, extent: Extent) -> Vec<Entry> {
    let Trained { architecture, normalizer, inputs, info, .. } = trained;
    let grid = &info.layout.grid;
    let variables: Vec<String> = info.layout.quantities.iter().map(ToString::to_string).collect();
    let units: Vec<&str> =
        info.layout.quantities.iter().map(|q| q.variable().map_or("", |v| v.units)).collect();
    let leads = match extent {
        Extent::Step => 1,
        Extent::Forecast(leads) => leads,
    };
    let scalings = normalizer.scalings();
    let of = |value: fn(&crate::device::Scaling) -> f32| scalings.iter().map(value).collect::<Vec<f32>>();
    let normaliser = serde_json::json!({
        "description": normalizer.card(),
        "log_epsilon": of(|s| s.epsilon),
        "mean": of(|s| s.mean),
        "deviation": of(|s| s.deviation),
        "tendency_scale": normalizer.tendency_scale(),
    });
    let entries = [
        ("wxsim", serde_json::json!(env!("CARGO_PKG_VERSION"))),
        ("run", serde_json::json!(info.origin)),
        ("precision", serde_json::json!(precision.name())),
        ("variables", serde_json::json!(variables)),
        ("units", serde_json::json!(units)),
        ("latitude", serde_json::json!(grid.latitude)),
        ("longitude", serde_json::json!(grid.longitude)),
        ("step_seconds", serde_json::json!(info.step.seconds)),
        ("leads", serde_json::json!(leads)),
        ("input_frames", serde_json::json!(info.input_frames)),
        ("statics", serde_json::json!(inputs.static_names())),
        ("forcings", serde_json::json!(inputs.forcing_names())),
        ("architecture", serde_json::json!(architecture)),
        ("normaliser", normaliser),
    ];
    let text = |(key, value): (&str, serde_json::Value)| Entry {
        key: key.into(),
        // A name stands for itself; everything else is JSON.
        value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    };
    entries.map(text).to_vec()
}
