//! Networks of whole numbers: the weights of convolutions counted in steps, one for each output, in 8 bits, and what they read
//! counted in one step for each array. And networks that learn as if they were.

use serde::{Deserialize, Serialize};

use super::architecture::Architecture;
use super::network::{Network, Purpose};
use super::parameters;
use super::units::Holding;
use crate::device::{ArenaPlan, Convolution, Counting, Device, Int8Kernel, Real, Slot, Write};
use crate::error::{Error, Result};

/// Where activations are cut off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranges {
    /// Of what the first layer reads.
    pub input: f32,
    /// Of each layer's h.
    pub hidden: Vec<f32>,
}

/// What a network's convolutions compute with.
#[derive(Debug, Clone)]
pub enum Arithmetic {
    /// The device's numbers.
    Plain,
    /// Whole numbers: to forecast only.
    Int8(Int8Weights),
    /// The device's numbers, rounded to those that 8 bits would hold. Gradients pass as if nothing were rounded, only cut off
    /// (the straight-through estimator of Bengio, Leonard and Courville 2013, arXiv:1308.3432).
    Rounded {
        ranges: Ranges,
        /// The largest whole number.
        most: f32,
    },
}

/// All convolutions' weights in 8 bits, and the ranges of what they read.
#[derive(Debug, Clone)]
pub struct Int8Weights {
    ranges: Ranges,
    /// Of what a layer reads, and of its h.
    layers: Vec<[Int8Kernel; 2]>,
    head: Int8Kernel,
}

/// Which weights a convolution has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    Input(usize),
    Hidden(usize),
    Head,
}

impl Ranges {
    /// The name of the array in checkpoints and other files: what the first layer reads, then each layer's h.
    pub const NAME: &str = "ranges";

    /// Those that a network learned with, by what its checkpoint says in `state.json`; `None` where it was not rounded.
    pub fn of_state(state_json: &str, architecture: &Architecture) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct State {
            train: Train,
        }
        #[derive(Deserialize)]
        struct Train {
            quantise: Option<Ranges>,
        }
        // A checkpoint without a training was not rounded.
        let Ok(state) = serde_json::from_str::<State>(state_json) else { return Ok(None) };
        state.train.quantise.iter().try_for_each(|ranges| ranges.check(architecture))?;
        Ok(state.train.quantise)
    }

    pub fn to_values(&self) -> Vec<f32> {
        std::iter::once(self.input).chain(self.hidden.iter().copied()).collect()
    }

    /// Refuses an array of another network.
    pub fn of_values(values: &[f32], architecture: &Architecture) -> Result<Self> {
        let [input, hidden @ ..] = values else {
            return Err(Error::input("there are no ranges of activations"));
        };
        let ranges = Self { input: *input, hidden: hidden.to_vec() };
        ranges.check(architecture)?;
        Ok(ranges)
    }

    /// Refuses those of another network, or none.
    pub fn check(&self, architecture: &Architecture) -> Result<()> {
        let all_positive = self.input > 0.0 && self.hidden.iter().all(|&range| range > 0.0);
        if self.hidden.len() != architecture.hidden.len() || !all_positive {
            return Err(Error::input(format!(
                "{self:?} are no ranges of a network of {} layers",
                architecture.hidden.len()
            )));
        }
        Ok(())
    }

    /// Of what a convolution reads.
    fn of(&self, kernel: Kernel) -> f32 {
        match kernel {
            Kernel::Input(0) => self.input,
            Kernel::Input(l) => self.hidden[l - 1],
            Kernel::Hidden(l) => self.hidden[l],
            Kernel::Head => self.hidden[self.hidden.len() - 1],
        }
    }
}

impl Arithmetic {
    /// Rounded to 8 bits.
    pub fn rounded(ranges: Ranges) -> Self {
        Self::Rounded { ranges, most: Counting::INT8 }
    }

    /// Refuses what does not suit the network or its purpose.
    pub(super) fn check(
        &self,
        architecture: &Architecture,
        purpose: Purpose,
        holding: &Holding<&Network<impl Real>>,
    ) -> Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Int8(_) if purpose.trains() => {
                Err(Error::input("a network of whole numbers only forecasts"))
            }
            Self::Int8(weights) => weights.ranges.check(architecture),
            Self::Rounded { .. } if purpose == Purpose::Recompute => {
                Err(Error::input("train.recompute: a network that learns to be rounded keeps its gates"))
            }
            Self::Rounded { .. } if holding.keeping.borrows() => {
                Err(Error::input("train.quantise: each rank rounds weights that it keeps")
                    .hint("--set parallel.zero=2"))
            }
            Self::Rounded { .. } if !holding.units.is_all() => {
                Err(Error::input("train.quantise: each rank rounds what it has all units of")
                    .hint("--set parallel.channel=1"))
            }
            Self::Rounded { .. } if architecture.dropout > 0.0 => {
                Err(Error::input("model.dropout: a network learns to be rounded with all of its units")
                    .hint("--set model.dropout=0"))
            }
            Self::Rounded { ranges, .. } => ranges.check(architecture),
        }
    }
}

impl Int8Weights {
    /// `counted` gives the whole numbers of a learned array of that name and shape, in the order of checkpoints, and the step of
    /// each of its outputs.
    pub fn new(
        architecture: &Architecture,
        ranges: Ranges,
        mut counted: impl FnMut(&str, &[usize]) -> Result<(Vec<i8>, Vec<f32>)>,
    ) -> Result<Self> {
        ranges.check(architecture)?;
        let (parameters, _) =
            parameters::plan(&mut ArenaPlan::default(), architecture, false, true, Holding::ALL);
        let find = |name: &str| {
            let found = parameters.iter().find(|parameter| parameter.name == name);
            found.ok_or_else(|| Error::input(format!("the network has no {name}")))
        };
        let mut kernel = |name: &str, inputs: usize, side: usize, bias: &str| {
            let (parameter, bias) = (find(name)?, find(bias)?);
            let (numbers, steps) = counted(name, &parameter.shape)?;
            if numbers.len() != parameter.len() || steps.len() != bias.len() {
                return Err(Error::input(format!("{name} has other whole numbers than its shape says")));
            }
            let (numbers, steps) = (parameter.to_device(&numbers), bias.to_device(&steps));
            Int8Kernel::new(side, inputs, steps.len(), numbers, steps)
        };
        let side = architecture.kernel;
        let mut layers = Vec::new();
        for (l, &hidden) in architecture.hidden.iter().enumerate() {
            let name = |what: &str| format!("layers.{l}.{what}");
            let mut of = |what: &str, inputs| kernel(&name(what), inputs, side, &name("bias"));
            layers.push([of("input.weight", architecture.layer_inputs(l))?, of("hidden.weight", hidden)?]);
        }
        let top = architecture.hidden[architecture.hidden.len() - 1];
        let head = kernel("head.weight", top, 1, "head.bias")?;
        Ok(Self { ranges, layers, head })
    }

    fn of(&self, kernel: Kernel) -> &Int8Kernel {
        match kernel {
            Kernel::Input(l) => &self.layers[l][0],
            Kernel::Hidden(l) => &self.layers[l][1],
            Kernel::Head => &self.head,
        }
    }
}

impl<T: Real> Network<T> {
    /// `y (+)=` a convolution of x by some of the weights.
    pub(super) fn convolve(
        &self,
        device: &mut dyn Device<T>,
        shape: &Convolution,
        kernel: Kernel,
        [x, y]: [Slot; 2],
        write: Write,
    ) {
        match &self.arithmetic {
            Arithmetic::Int8(weights) => {
                let counting = Counting::int8(weights.ranges.of(kernel));
                device.convolve_int8(shape, x, weights.of(kernel), counting.step, y, write);
            }
            _ => device.convolve(shape, x, self.weights.of(kernel), y, write),
        }
    }

    /// Rounds the weights of convolutions for those that read them so. They may be kept in other forms by the device: a sequence
    /// of its own, before those that use them.
    pub(super) fn round_weights(&self, device: &mut dyn Device<T>) {
        let Arithmetic::Rounded { most, .. } = self.arithmetic else { return };
        device.repeat(self.sequence("round weights", 0), &mut |device| {
            for (parameter, rounded) in &self.rounded {
                let parameter = &self.parameters[*parameter];
                device.round_columns(parameter.outputs(), most, parameter.slot, *rounded);
            }
        });
    }

    /// Rounds what a kernel will read, where it is read so.
    pub(super) fn round(&self, device: &mut dyn Device<T>, kernel: Kernel, x: Slot) {
        if let Some(counting) = self.counting(kernel) {
            device.round(counting, x);
        }
    }

    /// The gradient of what was rounded.
    pub(super) fn round_backward(&self, device: &mut dyn Device<T>, kernel: Kernel, x: Slot, dx: Slot) {
        if let Some(counting) = self.counting(kernel) {
            device.round_adjoint(counting, x, dx);
        }
    }

    fn counting(&self, kernel: Kernel) -> Option<Counting> {
        match &self.arithmetic {
            Arithmetic::Rounded { ranges, most } => {
                Some(Counting { step: ranges.of(kernel) / most, most: *most })
            }
            _ => None,
        }
    }
}
