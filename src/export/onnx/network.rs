//! The ConvLSTM's step as nodes, from normalised state to normalised state. Inside, images are
//! `[batch, channel, row, column]`. See `model` for the equations.

use super::builder::{Builder, Wire};
use super::convolution::{Arithmetic, Kernel};
use super::halo::Halo;
use super::messages::Type;
use crate::error::Result;
use crate::export::Trained;
use crate::export::quantise::Ranges;
use crate::model::{Architecture, GATES, LAYER_NORM_EPSILON};

/// The state of one layer, `[batch, hidden, row, column]`.
#[derive(Clone)]
pub struct Memory {
    pub h: Wire,
    pub c: Wire,
}

/// The learned numbers as constants of a graph, and how a step uses them.
pub struct Network<'a> {
    trained: &'a Trained,
    halo: Halo,
    layers: Vec<Layer>,
    /// Which channels of the first layer change sign across a pole.
    signs: Option<Wire>,
    /// `[1, static, row, column]`
    statics: Option<Wire>,
    head: Kernel,
    head_bias: Wire,
    /// What the head's output is multiplied by, when it is a tendency.
    tendency_scale: Option<Wire>,
    /// What raw forcings are counted in.
    forcing_units: Option<Wire>,
}

struct Layer {
    hidden: usize,
    gates: Gates,
    bias: Wire,
    norm: Option<Norm>,
    /// Of i, f and o.
    peepholes: Option<[Wire; 3]>,
}

/// The convolutions of a layer's gates.
enum Gates {
    /// Of input and h at once.
    Together(Kernel),
    /// One of the input and one of h, which are counted in different steps.
    Apart { x: Kernel, h: Kernel },
}

/// What each convolution computes in.
pub enum Arithmetics {
    Same(Arithmetic),
    /// In a kind of 8-bit numbers.
    Quantised(Type, Ranges),
}

struct Norm {
    gain: Wire,
    shift: Wire,
    epsilon: Wire,
}

impl<'a> Network<'a> {
    pub fn new(builder: &mut Builder, trained: &'a Trained, arithmetics: &Arithmetics) -> Result<Self> {
        let Trained { architecture, geometry, inputs, .. } = trained;
        let (rows, columns) = geometry.inner(architecture.patch);
        let edges = geometry.edges(architecture.patch);
        let halo = Halo { edges, rows, columns, width: architecture.halo() };
        let layers = (0..architecture.hidden.len())
            .map(|l| Layer::new(builder, trained, l, arithmetics))
            .collect::<Result<Vec<Layer>>>()?;
        let (outputs, top) = (architecture.outputs(), architecture.hidden[architecture.hidden.len() - 1]);
        let shape = [outputs, top, 1, 1];
        let arithmetic = arithmetics.of_h(architecture.hidden.len() - 1);
        let head =
            Kernel::new(builder, "head.weight", shape, trained.weight("head.weight", &shape)?, arithmetic);
        let bias = trained.weight("head.bias", &[outputs])?;
        let mut network = Self {
            trained,
            halo,
            layers,
            signs: signs(builder, trained, arithmetics),
            statics: None,
            head,
            head_bias: builder.floats("head.bias", &[1, outputs, 1, 1], bias),
            tendency_scale: architecture.residual.then(|| {
                let scale = trained.normalizer.tendency_scale();
                builder.floats("normaliser.tendency_scale", &[scale.len()], &scale)
            }),
            forcing_units: (architecture.forcings > 0).then(|| {
                let units = inputs.forcing_units();
                builder.floats("forcings.unit", &[units.len()], &units)
            }),
        };
        if architecture.statics > 0 {
            let shape = [1, geometry.rows, geometry.columns, architecture.statics];
            let fields = builder.floats("statics", &shape, inputs.statics());
            network.statics = Some(network.fold(builder, &fields, architecture.statics));
        }
        Ok(network)
    }

    /// `[hidden, row, column]` of a layer's state.
    pub fn memory_shape(&self, layer: usize) -> [usize; 3] {
        [self.layers[layer].hidden, self.halo.rows, self.halo.columns]
    }

    /// The states before a first step, for the batch of `like`.
    pub fn nothing(&self, builder: &mut Builder, like: &Wire) -> Vec<Memory> {
        let zero = builder.floats("nothing", &[1, 1, 1, 1], &[0.0]);
        let shapes: Vec<[usize; 3]> = (0..self.layers.len()).map(|l| self.memory_shape(l)).collect();
        shapes
            .into_iter()
            .map(|shape| {
                let nothing = builder.for_batch_of(&zero, &shape, like);
                Memory { h: nothing.clone(), c: nothing }
            })
            .collect()
    }

    /// One step: the states become those after it, and the next normalised state of the atmosphere comes back. Fields are
    /// `[batch, lat, lon, channel]`; `forcings` are raw.
    pub fn step(
        &self,
        builder: &mut Builder,
        state: &Wire,
        forcings: Option<&Wire>,
        memories: &mut [Memory],
    ) -> Wire {
        let Architecture { prognostic, forcings: forcing_channels, .. } = self.trained.architecture;
        let mut parts = vec![self.fold(builder, state, prognostic)];
        if let Some(statics) = &self.statics {
            let shape =
                [self.trained.architecture.statics * self.patch().pow(2), self.halo.rows, self.halo.columns];
            parts.push(builder.for_batch_of(statics, &shape, state));
        }
        if let (Some(forcings), Some(units)) = (forcings, &self.forcing_units) {
            let counted = builder.divide(forcings, units);
            parts.push(self.fold(builder, &counted, forcing_channels));
        }
        for (l, (layer, memory)) in self.layers.iter().zip(memories).enumerate() {
            let signs = self.signs.as_ref().filter(|_| l == 0);
            let pre_activations = match &layer.gates {
                Gates::Together(kernel) => {
                    parts.push(memory.h.clone());
                    let read = builder.concat(1, &parts);
                    let padded = self.halo.fill(builder, &read, signs);
                    kernel.convolve(builder, &padded)
                }
                Gates::Apart { x, h } => {
                    let read = builder.concat(1, &parts);
                    let padded = self.halo.fill(builder, &read, signs);
                    let of_x = x.convolve(builder, &padded);
                    let padded = self.halo.fill(builder, &memory.h, None);
                    let of_h = h.convolve(builder, &padded);
                    builder.add(&of_x, &of_h)
                }
            };
            *memory = layer.cell(builder, &pre_activations, &memory.c, &self.halo);
            parts = vec![memory.h.clone()];
        }
        let y = self.head.convolve(builder, &parts[0]);
        let y = builder.add(&y, &self.head_bias);
        let change = self.unfold(builder, &y, prognostic);
        let Some(scale) = &self.tendency_scale else { return change };
        let change = builder.multiply(&change, scale);
        builder.add(state, &change)
    }

    fn patch(&self) -> usize {
        self.trained.architecture.patch
    }

    /// `[batch, lat, lon, channel]` to `[batch, (channel, sub-row, sub-column), row, column]`; rows are padded at the end by
    /// replication.
    fn fold(&self, builder: &mut Builder, x: &Wire, channels: usize) -> Wire {
        let patch = self.patch();
        if patch == 1 {
            return builder.transpose(x, &[0, 3, 1, 2]);
        }
        let Halo { rows, columns, .. } = self.halo;
        let grid_rows = self.trained.geometry.rows;
        let mut parts = vec![x.clone()];
        if rows * patch > grid_rows {
            let last = builder.slice(x, 1, grid_rows - 1, grid_rows);
            parts.resize(1 + rows * patch - grid_rows, last);
        }
        let padded = builder.concat(1, &parts);
        let split = builder.reshape(&padded, &[rows, patch, columns, patch, channels]);
        let turned = builder.transpose(&split, &[0, 5, 2, 4, 1, 3]);
        builder.reshape(&turned, &[channels * patch * patch, rows, columns])
    }

    /// The inverse of [`fold`](Self::fold); padding rows are dropped.
    fn unfold(&self, builder: &mut Builder, x: &Wire, channels: usize) -> Wire {
        let patch = self.patch();
        if patch == 1 {
            return builder.transpose(x, &[0, 2, 3, 1]);
        }
        let Halo { rows, columns, .. } = self.halo;
        let grid_rows = self.trained.geometry.rows;
        let split = builder.reshape(x, &[channels, patch, patch, rows, columns]);
        let turned = builder.transpose(&split, &[0, 4, 2, 5, 3, 1]);
        let fields = builder.reshape(&turned, &[rows * patch, columns * patch, channels]);
        if rows * patch == grid_rows { fields } else { builder.slice(&fields, 1, 0, grid_rows) }
    }
}

impl Layer {
    fn new(builder: &mut Builder, trained: &Trained, l: usize, arithmetics: &Arithmetics) -> Result<Self> {
        let architecture = &trained.architecture;
        let (hidden, inputs, side) =
            (architecture.hidden[l], architecture.layer_inputs(l), architecture.kernel);
        let channels = GATES * hidden;
        let name = |what: &str| format!("layers.{l}.{what}");
        let each = side * side;
        let of_x = trained.weight(&name("input.weight"), &[GATES, hidden, inputs, side, side])?;
        let of_h = trained.weight(&name("hidden.weight"), &[GATES, hidden, hidden, side, side])?;
        let shape = |inputs: usize| [channels, inputs, side, side];
        let gates = match arithmetics {
            Arithmetics::Same(arithmetic) => {
                let both: Vec<f32> = of_x
                    .chunks_exact(inputs * each)
                    .zip(of_h.chunks_exact(hidden * each))
                    .flat_map(|(x, h)| x.iter().chain(h))
                    .copied()
                    .collect();
                let shape = shape(inputs + hidden);
                Gates::Together(Kernel::new(builder, &name("weight"), shape, &both, *arithmetic))
            }
            Arithmetics::Quantised(..) => Gates::Apart {
                x: Kernel::new(builder, &name("input.weight"), shape(inputs), of_x, arithmetics.of_x(l)),
                h: Kernel::new(builder, &name("hidden.weight"), shape(hidden), of_h, arithmetics.of_h(l)),
            },
        };
        let mut of_gates = |what: &str| -> Result<Wire> {
            let values = trained.weight(&name(what), &[GATES, hidden])?;
            Ok(builder.floats(&name(what), &[1, channels, 1, 1], values))
        };
        let bias = of_gates("bias")?;
        let norm = match architecture.layer_norm {
            true => Some((of_gates("norm.gain")?, of_gates("norm.shift")?)),
            false => None,
        };
        let norm = norm.map(|(gain, shift)| {
            let epsilon = builder.number(&name("norm.epsilon"), LAYER_NORM_EPSILON as f32);
            Norm { gain, shift, epsilon }
        });
        let peepholes = match architecture.peepholes {
            true => {
                let values = trained.weight(&name("peephole"), &[GATES - 1, hidden])?;
                let mut of = |gate: usize, letter: &str| {
                    let values = &values[gate * hidden..(gate + 1) * hidden];
                    builder.floats(&name(&format!("peephole.{letter}")), &[1, hidden, 1, 1], values)
                };
                Some([of(0, "i"), of(1, "f"), of(2, "o")])
            }
            false => None,
        };
        Ok(Self { hidden, gates, bias, norm, peepholes })
    }

    /// From the gates' convolution to the states after the step.
    fn cell(&self, builder: &mut Builder, convolved: &Wire, c: &Wire, halo: &Halo) -> Memory {
        let mut a = builder.add(convolved, &self.bias);
        if let Some(norm) = &self.norm {
            a = norm.apply(builder, &a, self.hidden, halo);
        }
        let [mut i, mut f, g, mut o] = builder.split::<GATES>(&a, 1);
        let look = |builder: &mut Builder, a: &Wire, weight: &Wire, c: &Wire| {
            let seen = builder.multiply(weight, c);
            builder.add(a, &seen)
        };
        if let Some([of_i, of_f, _]) = &self.peepholes {
            i = look(builder, &i, of_i, c);
            f = look(builder, &f, of_f, c);
        }
        let (i, f, g) = (builder.sigmoid(&i), builder.sigmoid(&f), builder.tanh(&g));
        let (kept, new) = (builder.multiply(&f, c), builder.multiply(&i, &g));
        let c = builder.add(&kept, &new);
        if let Some([_, _, of_o]) = &self.peepholes {
            o = look(builder, &o, of_o, &c);
        }
        let (o, seen) = (builder.sigmoid(&o), builder.tanh(&c));
        Memory { h: builder.multiply(&o, &seen), c }
    }
}

impl Norm {
    /// Over the units of each gate at each point.
    fn apply(&self, builder: &mut Builder, a: &Wire, hidden: usize, halo: &Halo) -> Wire {
        let by_gate = builder.reshape(a, &[GATES, hidden, halo.rows, halo.columns]);
        let mean = builder.mean_over(&by_gate, 2);
        let centred = builder.subtract(&by_gate, &mean);
        let squares = builder.multiply(&centred, &centred);
        let variance = builder.mean_over(&squares, 2);
        let variance = builder.add(&variance, &self.epsilon);
        let deviation = builder.node("Sqrt", &[&variance], Vec::new());
        let normal = builder.divide(&centred, &deviation);
        let flat = builder.reshape(&normal, &[GATES * hidden, halo.rows, halo.columns]);
        let scaled = builder.multiply(&flat, &self.gain);
        builder.add(&scaled, &self.shift)
    }
}

impl Arithmetics {
    /// Of convolutions that read what layer `l` reads.
    fn of_x(&self, l: usize) -> Arithmetic {
        match self {
            Self::Same(arithmetic) => *arithmetic,
            Self::Quantised(kind, ranges) if l == 0 => Arithmetic::Quantised(*kind, ranges.input),
            Self::Quantised(..) => self.of_h(l - 1),
        }
    }

    /// Of convolutions that read the h of layer `l`.
    fn of_h(&self, l: usize) -> Arithmetic {
        match self {
            Self::Same(arithmetic) => *arithmetic,
            Self::Quantised(kind, ranges) => Arithmetic::Quantised(*kind, ranges.hidden[l]),
        }
    }
}

/// -1 for channels of the first layer (and its h behind them, where it is read with them) that change sign across a pole;
/// `None` where none does.
fn signs(builder: &mut Builder, trained: &Trained, arithmetics: &Arithmetics) -> Option<Wire> {
    let (architecture, geometry) = (&trained.architecture, &trained.geometry);
    if !geometry.odd.contains(&true) {
        return None;
    }
    let points = architecture.patch * architecture.patch;
    let mut signs: Vec<f32> = geometry
        .odd
        .iter()
        .flat_map(|&odd| std::iter::repeat_n(if odd { -1.0 } else { 1.0 }, points))
        .collect();
    let behind = match arithmetics {
        Arithmetics::Same(_) => architecture.hidden[0],
        Arithmetics::Quantised(..) => 0,
    };
    signs.resize(architecture.inputs() + behind, 1.0);
    Some(builder.floats("signs_across_a_pole", &[1, signs.len(), 1, 1], &signs))
}
