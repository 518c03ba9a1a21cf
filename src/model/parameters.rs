//! The learned arrays: their names, their order in checkpoints and on the device, and their start values.

use super::architecture::{Architecture, GATES, gate_channel};
use super::int8::Kernel;
use super::keeping::Blocks;
use super::random::Stream;
use super::units::{Holding, Units};
use crate::device::{ArenaPlan, Device, Real, Slot};

/// One learned array.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// `layers.0.input.weight`
    pub name: String,
    /// In a checkpoint; gates in the order i, f, g, o; kernels `[4, hidden, in, k_lat, k_lon]`, k_lat northward. Of the
    /// network's own units.
    pub shape: Vec<usize>,
    /// Which of the network's blocks it belongs to, and where in the block it begins.
    pub block: usize,
    pub start: usize,
    /// Where it is read: part of the network's `weights` where it has them all.
    pub slot: Slot,
    /// Where its gradient is added up, part of the network's `gradients` where it has them all; empty in a network that only
    /// forecasts.
    pub gradient: Slot,
    /// Whether weight decay applies: to kernels, not to biases, gains and peepholes.
    pub decay: bool,
    kind: Kind,
    /// Of all units, and which of them, counted along the second dimension, are the network's; the head's bias is everybody's.
    whole: (Vec<usize>, Kind),
    units: Units,
    /// Held by the first of those with parts of the units, too.
    is_common: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// `[4, hidden, inputs, k, k]`, on the device `[k, k, inputs, gate channel]`.
    GateKernel { hidden: usize, inputs: usize, kernel: usize },
    /// `[4, hidden]`, on the device `[gate channel]`; the start value of each gate.
    GateVector { hidden: usize, start: [f64; GATES] },
    /// `[3, hidden]` of the gates i, f, o, the same on the device.
    Peephole,
    /// `[outputs, hidden, 1, 1]`, on the device `[hidden, outputs]`.
    HeadKernel { hidden: usize, outputs: usize },
    /// `[outputs]`
    HeadBias,
}

impl Kind {
    /// Whether it is the weights of a convolution.
    fn is_kernel(self) -> bool {
        matches!(self, Self::GateKernel { .. } | Self::HeadKernel { .. })
    }
}

/// Slots of one layer's parameters, or of their gradients.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerWeights {
    pub input: Slot,
    pub hidden: Slot,
    /// Added right before the gates' activation.
    pub bias: Slot,
    pub peephole: Option<Slot>,
    pub norm: Option<NormWeights>,
}

/// Slots of a layer normalisation: what is added before it, and its gain. (Its shift is [`LayerWeights::bias`].)
#[derive(Debug, Clone, Copy)]
pub(super) struct NormWeights {
    pub bias: Slot,
    pub gain: Slot,
}

/// All parameters, or all their gradients, by their use.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    pub layers: Vec<LayerWeights>,
    pub head: Slot,
    pub head_bias: Slot,
}

/// Parameters stand on cache-line boundaries within the one slot that holds them all.
const ALIGNMENT: usize = 64;

/// The head's first weights are this much smaller than its inputs would suggest: the untrained forecast is persistence.
const HEAD_START: f64 = 0.1;

impl Kind {
    /// Of a part of the units.
    fn part(self, units: Units) -> Self {
        match self {
            Self::GateKernel { hidden, inputs, kernel } => {
                Self::GateKernel { hidden: units.own(hidden), inputs, kernel }
            }
            Self::GateVector { hidden, start } => Self::GateVector { hidden: units.own(hidden), start },
            Self::HeadKernel { hidden, outputs } => Self::HeadKernel { hidden: units.own(hidden), outputs },
            Self::Peephole | Self::HeadBias => self,
        }
    }
}

/// Names, shapes, start values and order: what a checkpoint holds.
fn list(architecture: &Architecture) -> Vec<(String, Vec<usize>, Kind)> {
    let kernel = architecture.kernel;
    let mut list = Vec::new();
    for (layer, &hidden) in architecture.hidden.iter().enumerate() {
        let mut add =
            |what: &str, shape: Vec<usize>, kind| list.push((format!("layers.{layer}.{what}"), shape, kind));
        for (what, inputs) in [("input.weight", architecture.layer_inputs(layer)), ("hidden.weight", hidden)]
        {
            let kind = Kind::GateKernel { hidden, inputs, kernel };
            add(what, vec![GATES, hidden, inputs, kernel, kernel], kind);
        }
        // A forget gate that starts open keeps what it saw (Jozefowicz et al. 2015). A normalisation would remove a
        // bias common to all units, so there the shift after it carries the 1.
        let open = [0.0, 1.0, 0.0, 0.0];
        let vector = |start| Kind::GateVector { hidden, start };
        let shape = vec![GATES, hidden];
        if architecture.layer_norm {
            add("bias", shape.clone(), vector([0.0; GATES]));
            add("norm.gain", shape.clone(), vector([1.0; GATES]));
            add("norm.shift", shape, vector(open));
        } else {
            add("bias", shape, vector(open));
        }
        if architecture.peepholes {
            add("peephole", vec![GATES - 1, hidden], Kind::Peephole);
        }
    }
    let (hidden, outputs) = (architecture.hidden[architecture.hidden.len() - 1], architecture.outputs());
    list.push(("head.weight".into(), vec![outputs, hidden, 1, 1], Kind::HeadKernel { hidden, outputs }));
    list.push(("head.bias".into(), vec![outputs], Kind::HeadBias));
    list
}

/// Plans all parameters as parts of blocks, and their gradients likewise (or as empty slots); those of convolutions only where
/// they are kept in the device's numbers.
pub(super) fn plan(
    arena: &mut ArenaPlan,
    architecture: &Architecture,
    gradients: bool,
    kernels: bool,
    Holding { units, keeping, beside: lender }: Holding<&Blocks>,
) -> (Vec<Parameter>, Blocks) {
    // The second dimension counts units, where there is one.
    let part = |(name, shape, kind): (String, Vec<usize>, Kind)| {
        let units = if shape.len() > 1 { units } else { Units::ALL };
        let mut own = shape.clone();
        own.iter_mut().skip(1).take(1).for_each(|hidden| *hidden = units.own(*hidden));
        (name, own, (shape, kind), units)
    };
    let is_first = units.number == 0;
    let mut list = list(architecture);
    list.retain(|(_, _, kind)| kernels || !kind.is_kernel());
    let list: Vec<_> = list.into_iter().map(part).collect();
    let len = |shape: &[usize]| shape.iter().product::<usize>();
    // One for each layer, and one for the head; kernels come first in each.
    let head = architecture.hidden.len();
    let block_of = |name: &str| {
        let layer = name.strip_prefix("layers.").and_then(|rest| rest.split('.').next()?.parse().ok());
        layer.unwrap_or(head)
    };
    let (mut lengths, mut tails, mut places) = (vec![0; head + 1], vec![0; head + 1], Vec::new());
    for (name, shape, (_, kind), _) in &list {
        let (block, room) = (block_of(name), len(shape).next_multiple_of(ALIGNMENT));
        places.push((block, lengths[block]));
        lengths[block] += room;
        tails[block] += if kind.is_kernel() { 0 } else { room };
    }
    let blocks = Blocks::plan(arena, keeping, lengths, &tails, gradients, lender.and_then(Blocks::shelves));
    let parameter = |((name, shape, whole, units), (block, start))| {
        let (shape, whole): (Vec<usize>, (Vec<usize>, Kind)) = (shape, whole);
        let kind = whole.1.part(units);
        let is_common = whole.0.len() == 1 && !is_first;
        let len = len(&shape);
        let slot = blocks.weights_at(block, start, len);
        let gradient = blocks.gradients_at(block, start, len);
        let decay = kind.is_kernel();
        Parameter { name, shape, block, start, slot, gradient, decay, kind, whole, units, is_common }
    };
    (list.into_iter().zip(places).map(parameter).collect(), blocks)
}

impl Weights {
    /// Of a convolution.
    pub fn of(&self, kernel: Kernel) -> Slot {
        match kernel {
            Kernel::Input(l) => self.layers[l].input,
            Kernel::Hidden(l) => self.layers[l].hidden,
            Kernel::Head => self.head,
        }
    }

    /// Finds the slots of all uses; `slot` chooses between values and gradients. Weights of convolutions that are kept elsewhere
    /// are empty.
    pub fn find(
        architecture: &Architecture,
        parameters: &[Parameter],
        slot: impl Fn(&Parameter) -> Slot,
    ) -> Self {
        let find =
            |name: String| slot(parameters.iter().find(|p| p.name == name).expect("every use is listed"));
        let kernel = |name: String| parameters.iter().find(|p| p.name == name).map_or(Slot::EMPTY, &slot);
        let layers = (0..architecture.hidden.len())
            .map(|layer| {
                let kernel = |what: &str| kernel(format!("layers.{layer}.{what}"));
                let find = |what: &str| find(format!("layers.{layer}.{what}"));
                let norm = architecture
                    .layer_norm
                    .then(|| NormWeights { bias: find("bias"), gain: find("norm.gain") });
                LayerWeights {
                    input: kernel("input.weight"),
                    hidden: kernel("hidden.weight"),
                    bias: find(if norm.is_some() { "norm.shift" } else { "bias" }),
                    peephole: architecture.peepholes.then(|| find("peephole")),
                    norm,
                }
            })
            .collect();
        Self { layers, head: kernel("head.weight".into()), head_bias: find("head.bias".into()) }
    }
}

impl Parameter {
    /// Elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// In a checkpoint, of all units.
    pub fn whole_shape(&self) -> &[usize] {
        &self.whole.0
    }

    /// Whether this network is the one of those with parts of the units that counts it: each has its own, and the first one
    /// what all have.
    pub fn is_counted(&self) -> bool {
        !self.is_common
    }

    /// The network's own of an array of all units, in checkpoint order.
    pub fn cut<V: Copy>(&self, whole: &[V]) -> Vec<V> {
        let each = self.len() / self.shape[0];
        let rows = whole.chunks_exact(each * self.units.of);
        rows.flat_map(|row| &row[self.units.number * each..][..each]).copied().collect()
    }

    /// The inverse: an array of all units from that of each part of them, in their order.
    pub fn join<V: Copy>(&self, parts: &[Vec<V>]) -> Vec<V> {
        let each = self.len() / self.shape[0];
        let row =
            |row: usize| parts[..self.units.of].iter().flat_map(move |part| &part[row * each..][..each]);
        (0..self.shape[0]).flat_map(row).copied().collect()
    }

    /// Columns on the device: numbers that stand beside each other and belong to different outputs.
    pub(super) fn outputs(&self) -> usize {
        match self.kind {
            Kind::GateKernel { hidden, .. } | Kind::GateVector { hidden, .. } => GATES * hidden,
            Kind::HeadKernel { outputs, .. } => outputs,
            Kind::Peephole | Kind::HeadBias => self.len(),
        }
    }

    /// Whether it is the weights of a convolution.
    pub(super) fn is_kernel(&self) -> bool {
        self.kind.is_kernel()
    }

    /// From the device's order to a checkpoint's. The same serves everything shaped like the parameter: gradients,
    /// moments, averages.
    pub fn to_checkpoint<V: Copy + Default>(&self, device: &[V]) -> Vec<V> {
        let mut values = vec![V::default(); self.len()];
        self.each_pair(|checkpoint, position| values[checkpoint] = device[position]);
        values
    }

    /// From a checkpoint's order to the device's.
    pub fn to_device<V: Copy + Default>(&self, checkpoint: &[V]) -> Vec<V> {
        let mut values = vec![V::default(); self.len()];
        self.each_pair(|position, device| values[device] = checkpoint[position]);
        values
    }

    /// Reads the array in `slot`, which is laid out like this parameter, in checkpoint order.
    pub fn read<T: Real>(&self, device: &dyn Device<T>, slot: Slot) -> Vec<T> {
        let mut values = vec![T::default(); self.len()];
        device.download(slot, &mut values);
        self.to_checkpoint(&values)
    }

    /// Writes an array in checkpoint order to `slot`, which is laid out like this parameter.
    pub fn write<T: Real>(&self, device: &mut dyn Device<T>, slot: Slot, checkpoint: &[T]) {
        device.upload(slot, &self.to_device(checkpoint));
    }

    /// Calls `pair(index in a checkpoint, index on the device)` for all elements.
    fn each_pair(&self, mut pair: impl FnMut(usize, usize)) {
        match self.kind {
            Kind::GateKernel { hidden, inputs, kernel } => {
                let points = kernel * kernel;
                for gate in 0..GATES {
                    for unit in 0..hidden {
                        let channel = gate_channel(gate, unit, hidden);
                        for input in 0..inputs {
                            for point in 0..points {
                                let checkpoint = ((gate * hidden + unit) * inputs + input) * points + point;
                                pair(checkpoint, (point * inputs + input) * GATES * hidden + channel);
                            }
                        }
                    }
                }
            }
            Kind::GateVector { hidden, .. } => {
                for gate in 0..GATES {
                    for unit in 0..hidden {
                        pair(gate * hidden + unit, gate_channel(gate, unit, hidden));
                    }
                }
            }
            Kind::HeadKernel { hidden, outputs } => {
                for output in 0..outputs {
                    for unit in 0..hidden {
                        pair(output * hidden + unit, unit * outputs + output);
                    }
                }
            }
            Kind::Peephole | Kind::HeadBias => (0..self.len()).for_each(|i| pair(i, i)),
        }
    }

    /// Start values in checkpoint order, those of all units whichever are the network's; `stream` numbers the parameters.
    ///
    /// Kernels are uniform with the variance `2 / (fan in + fan out)` of Glorot and Bengio (2010) for each gate.
    pub(super) fn start_values<T: Real>(&self, seed: u64, stream: u64) -> Vec<T> {
        let random = Stream::new(seed, stream);
        let len = self.whole.0.iter().product::<usize>();
        let uniform = |bound: f64| {
            (0..len as u64).map(|n| T::of((2.0 * random.uniform(n) - 1.0) * bound)).collect::<Vec<T>>()
        };
        let whole = match self.whole.1 {
            Kind::GateKernel { hidden, inputs, kernel } => {
                uniform((6.0 / ((inputs + hidden) * kernel * kernel) as f64).sqrt())
            }
            Kind::GateVector { hidden, start } => {
                start.iter().flat_map(|&value| std::iter::repeat_n(T::of(value), hidden)).collect()
            }
            Kind::HeadKernel { hidden, .. } => uniform(HEAD_START / (hidden as f64).sqrt()),
            Kind::Peephole | Kind::HeadBias => vec![T::default(); len],
        };
        self.cut(&whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoint_order_and_device_order_are_inverse_and_kernels_keep_their_places() {
        let architecture = Architecture {
            prognostic: 2,
            statics: 1,
            forcings: 0,
            hidden: vec![20, 3],
            kernel: 3,
            patch: 2,
            layer_norm: true,
            peepholes: true,
            residual: true,
            input_frames: 2,
            dropout: 0.0,
        };
        let (parameters, blocks) = plan(&mut ArenaPlan::default(), &architecture, true, true, Holding::ALL);
        assert_eq!(blocks.weights.len(), blocks.gradients.len());
        for parameter in &parameters {
            let values: Vec<usize> = (0..parameter.len()).collect();
            assert_eq!(parameter.to_checkpoint(&parameter.to_device(&values)), values, "{}", parameter.name);
        }
        let kernel = parameters.iter().find(|p| p.name == "layers.0.input.weight").unwrap();
        assert_eq!(kernel.shape, [4, 20, 12, 3, 3]);
        let values: Vec<usize> = (0..kernel.len()).collect();
        let device = kernel.to_device(&values);
        // gate 2, unit 17, input 5, row 2, column 1
        let device_index = ((2 * 3 + 1) * 12 + 5) * 80 + gate_channel(2, 17, 20);
        assert_eq!(device[device_index], (((2 * 20 + 17) * 12 + 5) * 3 + 2) * 3 + 1);
    }

    #[test]
    fn parts_of_the_units_start_as_those_of_all_and_join_again() {
        let architecture = Architecture {
            prognostic: 2,
            statics: 0,
            forcings: 0,
            hidden: vec![6, 12],
            kernel: 1,
            patch: 1,
            layer_norm: true,
            peepholes: true,
            residual: true,
            input_frames: 1,
            dropout: 0.0,
        };
        let of = |units| {
            plan(&mut ArenaPlan::default(), &architecture, true, true, Holding { units, ..Holding::ALL }).0
        };
        let parts = [0, 1, 2].map(|number| of(Units { number, of: 3 }));
        for (n, whole) in of(Units::ALL).iter().enumerate() {
            assert_eq!(parts[1][n].whole_shape(), whole.shape);
            let values = parts.each_ref().map(|part| part[n].start_values::<f64>(5, n as u64));
            assert_eq!(values[0].len(), parts[0][n].len());
            assert_eq!(parts[0][n].join(&values), whole.start_values::<f64>(5, n as u64), "{}", whole.name);
        }
        assert!(architecture.check_units(3).is_ok());
        assert_eq!(architecture.check_units(4).unwrap_err().advice().unwrap().chars().next(), Some('3'));
    }
}
