//! The plan of a network: every buffer and every stencil that a forward and a backward pass use.
//!
//! A step processes one frame: step `t` reads frame `t` (an analysis while `t < input_frames`, later the network's own
//! prediction or the truth) and the forcings of its end `t + 1`. Steps `input_frames - 1` and later give a prediction.

use super::architecture::{Architecture, GATES, Geometry};
use super::int8::Arithmetic;
use super::keeping::Blocks;
use super::parameters::{self, Parameter, Weights};
use super::random::Stream;
use super::units::{Holding, MOMENTS, Meeting, Units};
use crate::device::{
    ArenaPlan, Boundary, Channel, Convolution, Device, HaloMap, Readout, Real, Sequence, Slot,
};
use crate::error::{Error, Result};
use std::marker::PhantomData;

/// What a network's memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Forward and backward over all steps, every activation kept.
    Train,
    /// The same in less memory: the backward pass computes the gates of the steps beyond the analyses again.
    Recompute,
    /// One step after another in constant memory.
    Forecast,
}

impl Purpose {
    pub fn trains(self) -> bool {
        self != Self::Forecast
    }
}

/// How much a network does at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub samples: usize,
    /// The most predictions.
    pub lead_steps: usize,
}

/// What comes in and goes out, on the device.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// Normalised truth `[input_frames + lead_steps, batch, rows, columns, P]`; to forecast, `[input_frames, ..]`.
    pub frames: Slot,
    /// `[input_frames + lead_steps - 1, batch, rows, columns, F]`: entry `t` belongs to the step from frame `t` to
    /// `t + 1`. To forecast, `[input_frames, ..]`, the last for the step to come.
    pub forcings: Slot,
    /// `[rows, columns, S]`
    pub statics: Slot,
    /// `[lead_steps - 1, batch]`: 1 feeds the truth of that lead to the next step, 0 the prediction. Starts as 0.
    pub sampling: Slot,
    /// `[P]`: what the head's output is multiplied by before it is added to the state. Starts as 1.
    pub tendency_scale: Slot,
    /// Normalised `[lead_steps, batch, rows, columns, P]`; to forecast, the state `[1, ..]`.
    pub predictions: Slot,
    /// As predictions. [`Network::backward`] reads the loss gradient here and leaves the gradient through all later
    /// steps. Empty in a network that only forecasts.
    pub prediction_gradients: Slot,
}

/// A planned network. Its numbers live on the device that was allocated from the same plan; this only knows where.
pub struct Network<T: Real> {
    pub(super) architecture: Architecture,
    pub(super) geometry: Geometry,
    pub(super) batch: usize,
    pub(super) lead_steps: usize,
    pub(super) purpose: Purpose,
    pub(super) parameters: Vec<Parameter>,
    pub(super) blocks: Blocks,
    pub(super) weights: Weights,
    pub(super) gradients: Weights,
    pub(super) slots: Slots,
    pub(super) layers: Vec<Layer>,
    pub(super) head: Head,
    pub(super) scratch: Scratch,
    /// Which of each layer's units it holds.
    pub(super) units: Units,
    /// Where moments of layer normalisations and their sums meet.
    pub(super) moments: Meeting,
    pub(super) arithmetic: Arithmetic,
    /// Which parameters are read rounded, and where; the weights of convolutions then lie there.
    pub(super) rounded: Vec<(usize, Slot)>,
    element: PhantomData<fn(T)>,
}

/// A buffer with one entry per time step; steps beyond the last share it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Series {
    pub slot: Slot,
    each: usize,
}

/// One ConvLSTM layer.
pub(super) struct Layer {
    /// Units that are the network's own; what is not said to be theirs is of all units.
    pub hidden: usize,
    /// What it reads, with halo; the h of the layer below, unless dropout stands between.
    pub x: Series,
    pub h: Series,
    pub c: Series,
    pub gates: Series,
    pub normalised: Option<Series>,
    pub inverse_deviation: Option<Series>,
    /// Dropout of this layer's h on its way up, `[batch, hidden]`.
    pub factors: Option<Slot>,
    pub input: Convolution,
    pub recurrent: Convolution,
    /// Halo of x for one step and for all warm-up steps.
    pub x_map: HaloMap,
    pub x_warm_map: HaloMap,
    /// Halo of h, with what others hold of it and without.
    pub h_map: HaloMap,
    pub h_map_here: HaloMap,
    /// Where h and its gradient meet those of other units.
    pub meeting: Meeting,
    /// Gradient of c.
    pub dc: Slot,
    /// Gradient of x, with halo, for up to `input_frames` steps.
    pub dx: Series,
    /// Gradient of h from the next step, with halo.
    pub dh: Slot,
    /// Where others hold units, too.
    pub own: Option<Own>,
}

/// Images of a layer's own units, with halo: h, what the layer above reads behind dropout, and gradients of both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub h: Slot,
    pub above: Slot,
    pub dh: Slot,
    pub dabove: Slot,
}

/// The 1x1 head.
pub(super) struct Head {
    /// h of the top layer without halo, for steps that predict.
    pub x: Series,
    pub y: Slot,
    pub dx: Slot,
    pub dy: Series,
    pub shape: Convolution,
    pub readout: Readout,
}

pub(super) struct Scratch {
    /// What is fed to the steps beyond the analyses, `[batch, rows, columns, P]` each.
    pub fed: Series,
    pub dfed: Slot,
    /// The h of a cell that is computed again, where all units are here.
    pub h: Slot,
}

impl Series {
    fn plan(arena: &mut ArenaPlan, steps: usize, each: usize) -> Self {
        Self { slot: arena.slot(steps * each), each }
    }

    fn activations(arena: &mut ArenaPlan, steps: usize, each: usize) -> Self {
        Self { slot: arena.activations(steps * each), each }
    }

    pub fn at(&self, step: usize) -> Slot {
        self.span(step, 1)
    }

    /// Steps `first..first + count`.
    pub fn span(&self, first: usize, count: usize) -> Slot {
        let last = (self.slot.len() / self.each.max(1)).saturating_sub(count);
        self.slot.part(first.min(last) * self.each, count * self.each)
    }
}

impl<T: Real> Network<T> {
    /// Plans the memory of a network: `batch` samples, up to `lead_steps` predictions (to forecast: any number, one at
    /// a time).
    pub fn plan(
        arena: &mut ArenaPlan,
        architecture: &Architecture,
        geometry: &Geometry,
        batch: usize,
        lead_steps: usize,
        purpose: Purpose,
    ) -> Result<Self> {
        let batch = Batch { samples: batch, lead_steps };
        Self::plan_in(arena, architecture, geometry, batch, purpose, Arithmetic::Plain)
    }

    /// As [`plan`](Self::plan), of a network whose convolutions compute with other numbers.
    pub fn plan_in(
        arena: &mut ArenaPlan,
        architecture: &Architecture,
        geometry: &Geometry,
        batch: Batch,
        purpose: Purpose,
        arithmetic: Arithmetic,
    ) -> Result<Self> {
        Self::plan_holding(arena, architecture, geometry, batch, purpose, arithmetic, Holding::ALL)
    }

    /// As [`plan_in`](Self::plan_in), for a network that has only some of its units, or of its learned arrays at a time; what it
    /// borrows may be put where another one reads it, which then is not used at the same time. Who holds the other units is
    /// the device's company.
    pub fn plan_holding(
        arena: &mut ArenaPlan,
        architecture: &Architecture,
        geometry: &Geometry,
        Batch { samples: batch, lead_steps }: Batch,
        purpose: Purpose,
        arithmetic: Arithmetic,
        holding: Holding<&Self>,
    ) -> Result<Self> {
        architecture.validate_on(geometry)?;
        let units = holding.units;
        architecture.check_units(units.of)?;
        arithmetic.check(architecture, purpose, &holding)?;
        if batch == 0 || lead_steps == 0 {
            return Err(Error::input(format!(
                "a network needs at least one sample and one lead step, found {batch} and {lead_steps}"
            )));
        }
        let training = purpose.trains();
        let frames = architecture.input_frames;
        // Steps whose activations are kept, predictions kept, and steps that are convolved at once. A forecast passes over
        // all analyses but the last at once, and makes its steps where the last of these was.
        let (steps, leads, warm) = if training {
            (frames + lead_steps - 1, lead_steps, frames)
        } else {
            let passed = (frames - 1).max(1);
            (passed, 1, passed)
        };
        // Gates that are computed again have one place after those of the analyses.
        let kept = if purpose == Purpose::Recompute { steps.min(frames + 1) } else { steps };
        let Holding { keeping, beside, .. } = holding;
        let holding = Holding { units, keeping, beside: beside.map(|network| &network.blocks) };
        let kernels = !matches!(arithmetic, Arithmetic::Int8(_));
        let (parameters, blocks) = parameters::plan(arena, architecture, training, kernels, holding);
        let mut rounded = Vec::new();
        if let Arithmetic::Rounded { .. } = arithmetic {
            let read_rounded = parameters.iter().enumerate().filter(|(_, p)| p.is_kernel());
            rounded.extend(read_rounded.map(|(number, p)| (number, arena.slot(p.len()))));
        }
        let weights = Weights::find(architecture, &parameters, |parameter| {
            let read = rounded.iter().find(|&&(number, _)| parameters[number].name == parameter.name);
            read.map_or(parameter.slot, |&(_, slot)| slot)
        });
        let gradients = Weights::find(architecture, &parameters, |p| p.gradient);

        let points = batch * geometry.rows * geometry.columns;
        let state = points * architecture.prognostic;
        let kept_frames = if training { frames + lead_steps } else { frames };
        let slots = Slots {
            frames: arena.slot(kept_frames * state),
            forcings: arena.slot((frames + leads - 1) * points * architecture.forcings),
            statics: arena.slot(geometry.rows * geometry.columns * architecture.statics),
            sampling: arena.slot((leads - 1) * batch),
            tendency_scale: arena.slot(architecture.prognostic),
            predictions: arena.slot(leads * state),
            prediction_gradients: arena.slot(if training { leads * state } else { 0 }),
        };

        let (rows, columns) = geometry.inner(architecture.patch);
        let halo = architecture.halo();
        let inner = batch * rows * columns;
        let padded = batch * (rows + 2 * halo) * (columns + 2 * halo);
        let edges = geometry.edges(architecture.patch);
        let bare = |images, channels: &[Channel]| edges.map(images, rows, columns, halo, channels);
        // Rows of neighbouring bands travel one slot after the other, but for those of h, which travel at the side.
        let widest = (0..architecture.hidden.len()).map(|l| architecture.layer_inputs(l));
        let widest = widest.chain(architecture.hidden.iter().copied()).max().unwrap_or(0);
        let room = arena.slot(bare(warm * batch, &vec![Channel::centre(false); widest])?.room());
        let map = |images, channels: &[Channel]| bare(images, channels).map(|map| map.with_room(room));
        let convolution =
            |inputs, outputs, kernel| Convolution { images: batch, rows, columns, inputs, outputs, kernel };

        // Gradients of what two neighbouring layers read are alive at once, never of three; that of analyses is not needed.
        let only_training = |len| if training { len } else { 0 };
        let read = |l| padded * architecture.layer_inputs(l);
        let dx_len = |l| if l == 0 { read(l) } else { warm * read(l) };
        let dx = [0, 1].map(|first| {
            let longest = (first..architecture.hidden.len()).step_by(2).map(dx_len).max().unwrap_or(0);
            arena.activations(only_training(longest))
        });
        let part = |slot: Slot, len| slot.part(0, only_training(len));

        let pairs = if architecture.layer_norm { inner * MOMENTS } else { 0 };
        let moments = Meeting::plan(arena, units, units.of * pairs);
        let mut layers: Vec<Layer> = Vec::new();
        for (l, &all) in architecture.hidden.iter().enumerate() {
            let inputs = architecture.layer_inputs(l);
            let dropout = training && architecture.dropout > 0.0;
            let x = match layers.last() {
                Some(below) if !dropout => below.h,
                _ => Series::activations(arena, steps, padded * inputs),
            };
            let even = Channel::centre(false);
            let read = if l == 0 { input_channels(architecture, geometry) } else { vec![even; inputs] };
            let hidden = units.own(all);
            let channels = GATES * hidden;
            let normalised =
                architecture.layer_norm.then(|| Series::activations(arena, kept, inner * channels));
            let inverse_deviation = architecture.layer_norm.then(|| Series::plan(arena, kept, inner * GATES));
            let h_map = bare(batch, &vec![even; hidden])?;
            let room = arena.slot(h_map.room());
            layers.push(Layer {
                hidden,
                x,
                h: Series::activations(arena, steps, padded * all),
                c: Series::plan(arena, if training { steps } else { 1 }, inner * hidden),
                gates: Series::activations(arena, kept, inner * channels),
                normalised,
                inverse_deviation,
                factors: dropout.then(|| arena.slot(batch * hidden)),
                input: convolution(inputs, channels, architecture.kernel),
                recurrent: convolution(all, channels, architecture.kernel),
                x_map: map(batch, &read)?,
                x_warm_map: map(warm * batch, &read)?,
                h_map_here: h_map.here(),
                h_map: h_map.with_room(room),
                meeting: Meeting::plan(arena, units, padded * all),
                dc: arena.slot(only_training(inner * hidden)),
                dx: Series { slot: part(dx[l % 2], dx_len(l)), each: padded * inputs },
                dh: arena.activations(only_training(padded * all)),
                own: (!units.is_all()).then(|| {
                    let mut image =
                        |is_used: bool| arena.activations(if is_used { padded * hidden } else { 0 });
                    Own {
                        h: image(true),
                        above: image(dropout),
                        dh: image(training),
                        dabove: image(training),
                    }
                }),
            });
        }

        let (top, outputs) =
            (units.own(architecture.hidden[architecture.hidden.len() - 1]), architecture.outputs());
        let y = arena.slot(inner * outputs);
        let head = Head {
            x: Series::activations(arena, leads, inner * top),
            y,
            dx: arena.activations(only_training(inner * top)),
            dy: Series { slot: arena.slot(only_training(leads * inner * outputs)), each: inner * outputs },
            shape: convolution(top, outputs, 1),
            readout: Readout {
                images: batch,
                rows: geometry.rows,
                columns: geometry.columns,
                channels: architecture.prognostic,
                patch: architecture.patch,
                y,
                bias: weights.head_bias,
                scale: architecture.residual.then_some(slots.tendency_scale),
            },
        };
        let fed = if training { leads - 1 } else { 1 };
        let again = purpose == Purpose::Recompute && units.is_all();
        let widest = architecture.hidden.iter().copied().max().unwrap_or(0);
        let scratch = Scratch {
            fed: Series::plan(arena, fed, state),
            dfed: arena.slot(only_training(state)),
            h: arena.activations(if again { padded * widest } else { 0 }),
        };
        Ok(Self {
            architecture: architecture.clone(),
            geometry: geometry.clone(),
            batch,
            lead_steps,
            purpose,
            parameters,
            blocks,
            weights,
            gradients,
            slots,
            layers,
            head,
            scratch,
            units,
            moments,
            arithmetic,
            rounded,
            element: PhantomData,
        })
    }

    pub fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The most predictions that one forward pass makes.
    pub fn lead_steps(&self) -> usize {
        self.lead_steps
    }

    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// In a fixed order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// All parameters in one slot, block after block, with zeros between them. Networks of one architecture have the same
    /// layout here, so that weights are handed on, averaged and kept by whole slots. Of no use where weights are
    /// borrowed.
    pub fn weights(&self) -> Slot {
        self.blocks.weights
    }

    /// The gradients of all parameters, laid out as [`weights`](Self::weights); empty in a network that only forecasts. Where
    /// gradients are taken away, only those that every step adds to. To be zeroed before the first backward pass of an
    /// update.
    pub fn gradients(&self) -> Slot {
        self.blocks.gradients
    }

    /// Room as long as a block that nobody uses between an update and the next backward pass.
    pub fn room_between_updates(&self, block: usize) -> Slot {
        self.blocks.room_between_updates(block)
    }

    /// Numbers of each block.
    pub fn blocks(&self) -> &[usize] {
        self.blocks.lengths()
    }

    /// Bytes are zero after allocation; this sets what must start otherwise: no dropout, a tendency scale of 1.
    pub fn prepare(&self, device: &mut dyn Device<T>) {
        device.upload(self.slots.tendency_scale, &vec![T::of(1.0); self.architecture.prognostic]);
        self.without_dropout(device);
    }

    /// Calls `with` for each parameter with its start values, in the order of the device.
    pub fn each_start(&self, seed: u64, with: &mut dyn FnMut(&Parameter, Vec<T>)) {
        for (stream, parameter) in self.parameters.iter().enumerate() {
            with(parameter, parameter.to_device(&parameter.start_values::<T>(seed, stream as u64)));
        }
    }

    /// Start values for all parameters. The untrained forecast is nearly persistence when the head is residual.
    pub fn initialise(&self, device: &mut dyn Device<T>, seed: u64) {
        self.each_start(seed, &mut |parameter, values| device.upload(parameter.slot, &values));
    }

    /// Silences another random choice of units for each sample, the same at all points and steps (Gal and Ghahramani
    /// 2016), and amplifies the others to keep the mean. The choice depends on `seed`, `step` and the sample's number alone;
    /// `first` is that of the first one here.
    pub fn draw_dropout(&self, device: &mut dyn Device<T>, seed: u64, step: u64, first: usize) {
        let rate = self.architecture.dropout;
        for (layer, factors) in
            self.layers.iter().enumerate().filter_map(|(l, layer)| Some((l, layer.factors?)))
        {
            let random = Stream::new(seed, (layer as u64) << 48 | step);
            let factor = |n| if random.uniform(n) < rate { 0.0 } else { 1.0 / (1.0 - rate) };
            let (own, all) = (self.layers[layer].hidden, self.architecture.hidden[layer]);
            let unit = |n: usize| ((first + n / own) * all + self.units.number * own + n % own) as u64;
            let values: Vec<T> = (0..factors.len()).map(|n| T::of(factor(unit(n)))).collect();
            device.upload(factors, &values);
        }
    }

    /// All units speak: for evaluation.
    pub fn without_dropout(&self, device: &mut dyn Device<T>) {
        for factors in self.layers.iter().filter_map(|layer| layer.factors) {
            device.upload(factors, &vec![T::of(1.0); factors.len()]);
        }
    }

    /// One of the sequences of operations of this network.
    pub(super) fn sequence(&self, name: &'static str, number: usize) -> Sequence {
        Sequence { name, of: self.weights(), number }
    }

    /// Entries `first..first + count` of a slot of states.
    pub(super) fn state_of(&self, slot: Slot, first: usize, count: usize) -> Slot {
        let each = self.batch * self.geometry.rows * self.geometry.columns * self.architecture.prognostic;
        slot.part(first * each, count * each)
    }

    /// Entries `first..first + count` of the forcings.
    pub(super) fn forcings_of(&self, first: usize, count: usize) -> Slot {
        let each = self.batch * self.geometry.rows * self.geometry.columns * self.architecture.forcings;
        self.slots.forcings.part(first * each, count * each)
    }
}

/// How the first layer's input channels behave at the edges.
fn input_channels(architecture: &Architecture, geometry: &Geometry) -> Vec<Channel> {
    let mut channels: Vec<Channel> = geometry
        .odd
        .iter()
        .flat_map(|&odd| std::iter::repeat_n(Channel::centre(odd), architecture.patch_points()))
        .collect();
    channels.resize(architecture.inputs(), Channel::centre(false));
    channels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Edge, cpu::Cpu};

    #[test]
    fn dropout_silences_its_share_and_keeps_the_mean() {
        let architecture = Architecture {
            prognostic: 1,
            statics: 0,
            forcings: 0,
            hidden: vec![900],
            kernel: 1,
            patch: 1,
            layer_norm: false,
            peepholes: false,
            residual: true,
            input_frames: 1,
            dropout: 0.2,
        };
        let geometry = Geometry {
            rows: 1,
            columns: 1,
            periodic: false,
            north_south: [Edge::Replicate; 2],
            odd: vec![false],
        };
        let mut plan = ArenaPlan::default();
        let network =
            Network::<f32>::plan(&mut plan, &architecture, &geometry, 4, 1, Purpose::Train).unwrap();
        let device = &mut Cpu::<f32>::new(Some(1)).unwrap();
        device.allocate(&plan).unwrap();
        network.draw_dropout(device, 1, 1, 0);
        let mut factors = vec![0.0; 3600];
        device.download(network.layers[0].factors.unwrap(), &mut factors);
        let silent = factors.iter().filter(|&&factor| factor == 0.0).count();
        // Four standard deviations of 3600 draws of 0.2: 96.
        assert!(silent.abs_diff(720) < 96, "{silent} of 3600");
        assert!(factors.iter().all(|&factor| factor == 0.0 || factor == 1.25));
    }
}
