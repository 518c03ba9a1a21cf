//! A network in whole numbers of 8 bits: its weights and the ranges of its activations, as a file beside an exported graph.
//!
//! The file is in the format of safetensors. Each kernel stands in the order of checkpoints as int8, with the step of each
//! output, `name.step`, and `ranges` are where activations are cut off: what the first layer reads, then each layer's h.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::{Dtype, SafeTensors, View};

use super::Trained;
use super::quantise::to_int8;
use crate::error::{Context, Error, Result};
use crate::model::{Architecture, GATES, Int8Weights, Ranges};

/// Kernels in whole numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8 {
    pub ranges: Ranges,
    /// Of each kernel, numbers in the order of checkpoints, and the step of each output.
    kernels: BTreeMap<String, (Vec<i8>, Vec<f32>)>,
}

/// What says which network the numbers are of.
const FINGERPRINT: &str = "weights_sha256";

/// What to do about a file that does not fit.
const AGAIN: &str = "make it with: wxsim export RUN --onnx --precision int8";

impl Int8 {
    /// Of a network whose activations have these ranges.
    pub fn of(trained: &Trained, ranges: Ranges) -> Result<Self> {
        ranges.check(&trained.architecture)?;
        let mut kernels = BTreeMap::new();
        for (name, shape) in kernels_of(&trained.architecture) {
            let outputs = outputs_of(&shape);
            let (numbers, steps) = to_int8(trained.weight(&name, &shape)?, outputs);
            kernels.insert(name, (numbers.into_iter().map(|bits| bits as i8).collect(), steps));
        }
        Ok(Self { ranges, kernels })
    }

    /// As a network computes with them.
    pub fn weights(&self, architecture: &Architecture) -> Result<Int8Weights> {
        Int8Weights::new(architecture, self.ranges.clone(), |name, _| {
            self.kernels
                .get(name)
                .cloned()
                .ok_or_else(|| Error::input(format!("there are no whole numbers of {name}")))
        })
    }

    /// The bytes of a file.
    pub fn encode(&self, trained: &Trained) -> Result<Vec<u8>> {
        let shapes = kernels_of(&trained.architecture);
        let mut arrays: Vec<(String, Array<'_>)> = Vec::new();
        for (name, shape) in shapes {
            let Some((numbers, steps)) = self.kernels.get(&name) else { continue };
            let outputs = vec![outputs_of(&shape)];
            arrays.push((format!("{name}.step"), Array { shape: outputs, numbers: Numbers::Floats(steps) }));
            arrays.push((name, Array { shape, numbers: Numbers::Whole(numbers) }));
        }
        let ranges = self.ranges.to_values();
        let of_ranges = Array { shape: vec![ranges.len()], numbers: Numbers::Floats(&ranges) };
        arrays.push((Ranges::NAME.into(), of_ranges));
        let metadata = HashMap::from([(FINGERPRINT.to_owned(), trained.fingerprint())]);
        safetensors::serialize(arrays.iter().map(|(name, array)| (name, array)), Some(metadata))
            .map_err(|error| Error::run("whole numbers cannot be written").caused_by(error.to_string()))
    }

    /// Reads the file `path`, which must have been made of this network.
    pub fn read(path: &Path, trained: &Trained) -> Result<Self> {
        let bytes = std::fs::read(path)
            .context(|| format!("cannot read {}", path.display()))
            .map_err(|error| error.hint(AGAIN))?;
        Self::decode(&bytes, trained).map_err(|error| error.context(format!("cannot use {}", path.display())))
    }

    fn decode(bytes: &[u8], trained: &Trained) -> Result<Self> {
        let damaged =
            |why: String| Error::input(format!("it is no file of whole numbers: {why}")).hint(AGAIN);
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(error.to_string()))?;
        let fingerprint = metadata.metadata().as_ref().and_then(|entries| entries.get(FINGERPRINT));
        if fingerprint != Some(&trained.fingerprint()) {
            return Err(Error::input(format!("it was made of another network than {}", trained.info.origin))
                .hint(AGAIN));
        }
        let all = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
        let array = |name: &str, kind: Dtype, shape: Option<&[usize]>| {
            let found = all.tensor(name).map_err(|error| damaged(error.to_string()))?;
            if found.dtype() != kind || shape.is_some_and(|shape| shape != found.shape()) {
                return Err(damaged(format!("{name} is {:?} {:?}", found.dtype(), found.shape())));
            }
            Ok(found.data().to_vec())
        };
        let floats = |name: &str, shape: Option<&[usize]>| {
            let bytes = array(name, Dtype::F32, shape)?;
            let one = |bytes: &[u8]| bytes.try_into().map_or(f32::NAN, f32::from_le_bytes);
            Ok::<Vec<f32>, Error>(bytes.chunks_exact(4).map(one).collect())
        };
        let mut kernels = BTreeMap::new();
        for (name, shape) in kernels_of(&trained.architecture) {
            let steps = floats(&format!("{name}.step"), Some(&[outputs_of(&shape)]))?;
            let numbers = array(&name, Dtype::I8, Some(&shape))?.into_iter().map(|bits| bits as i8).collect();
            kernels.insert(name, (numbers, steps));
        }
        let ranges = Ranges::of_values(&floats(Ranges::NAME, None)?, &trained.architecture)?;
        Ok(Self { ranges, kernels })
    }
}

/// Names and shapes in checkpoints of all weights of convolutions.
fn kernels_of(architecture: &Architecture) -> Vec<(String, Vec<usize>)> {
    let side = architecture.kernel;
    let mut all = Vec::new();
    for (l, &hidden) in architecture.hidden.iter().enumerate() {
        for (what, inputs) in [("input", architecture.layer_inputs(l)), ("hidden", hidden)] {
            all.push((format!("layers.{l}.{what}.weight"), vec![GATES, hidden, inputs, side, side]));
        }
    }
    let top = architecture.hidden[architecture.hidden.len() - 1];
    all.push(("head.weight".into(), vec![architecture.outputs(), top, 1, 1]));
    all
}

/// Of a kernel of that shape, whose inputs and taps are the last three numbers.
fn outputs_of(shape: &[usize]) -> usize {
    shape[..shape.len() - 3].iter().product()
}

enum Numbers<'a> {
    Whole(&'a [i8]),
    Floats(&'a [f32]),
}

struct Array<'a> {
    shape: Vec<usize>,
    numbers: Numbers<'a>,
}

impl View for &Array<'_> {
    fn dtype(&self) -> Dtype {
        match self.numbers {
            Numbers::Whole(_) => Dtype::I8,
            Numbers::Floats(_) => Dtype::F32,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.numbers {
            Numbers::Whole(numbers) => numbers.iter().map(|&number| number as u8).collect(),
            Numbers::Floats(numbers) => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        match self.numbers {
            Numbers::Whole(numbers) => numbers.len(),
            Numbers::Floats(numbers) => size_of_val(numbers),
        }
    }
}
