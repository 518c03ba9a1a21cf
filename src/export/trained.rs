//! What a checkpoint holds of a trained network, read and checked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ndarray::Array3;
use sha2::{Digest, Sha256};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Orientation;
use crate::io::checkpoint::{self, Card, Checkpoint, Tensor};
use crate::io::run_dir::find_checkpoint;
use crate::model::{Architecture, Geometry, Network, Ranges};
use crate::preprocess::{Inputs, Normalizer};
use crate::stepper::StepperInfo;
use crate::time::ValidTime;

/// A network at rest: all that is needed to run it anywhere.
pub struct Trained {
    pub architecture: Architecture,
    pub geometry: Geometry,
    pub normalizer: Normalizer,
    pub inputs: Inputs,
    pub info: StepperInfo,
    /// How the training data lay in their files.
    pub orientation: Orientation,
    /// By name and in the order of checkpoints: the averages over training, which forecasts use.
    weights: BTreeMap<String, Tensor>,
    /// Where activations are cut off, if the network was trained to be rounded.
    pub ranges: Option<Ranges>,
}

const WEIGHTS: &str = "weights.";

impl Trained {
    /// Reads a run folder (its best checkpoint) or a checkpoint folder.
    pub fn open(path: &Path) -> Result<Self> {
        let folder = find_checkpoint(path)?;
        let checkpoint = checkpoint::load(&folder)?;
        let card = Card::read(&checkpoint)?;
        Self::read(checkpoint, card)
            .map_err(|error| error.context(format!("cannot forecast with {}", folder.display())))
    }

    fn read(checkpoint: Checkpoint, card: Card) -> Result<Self> {
        let unreadable = |error| Error::input("the network's description does not read").caused_by(error);
        let architecture: Architecture = serde_json::from_value(card.architecture).map_err(unreadable)?;
        let layout = Arc::new(card.layout);
        let normalizer = Normalizer::from_tensors(layout.clone(), &card.normalizer, &checkpoint.tensors)?;
        let inputs = Inputs::from_tensors(layout.clone(), &card.inputs, &checkpoint.tensors)?;
        let channels = [
            ("variables", architecture.prognostic, layout.channels()),
            ("static fields", architecture.statics, inputs.static_names().len()),
            ("forcings", architecture.forcings, inputs.forcing_names().len()),
        ];
        if let Some((what, expected, found)) = channels.into_iter().find(|(_, a, b)| a != b) {
            return Err(Error::input(format!(
                "the network takes {expected} {what}, the checkpoint has {found}"
            )));
        }
        let geometry = Geometry::of(&layout);
        architecture.validate_on(&geometry)?;
        let info = StepperInfo {
            name: "convlstm".into(),
            origin: checkpoint.path.display().to_string(),
            layout,
            step: card.step,
            input_frames: architecture.input_frames,
        };
        let ranges = Ranges::of_state(&checkpoint.state_json, &architecture)?;
        let weights = checkpoint
            .tensors
            .into_iter()
            .filter_map(|(name, tensor)| Some((name.strip_prefix(WEIGHTS)?.to_owned(), tensor)))
            .collect();
        let orientation = card.orientation;
        Ok(Self { architecture, geometry, normalizer, inputs, info, orientation, weights, ranges })
    }

    /// Tells these weights from all others.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (name, tensor) in &self.weights {
            hash.update(name.as_bytes());
            for value in tensor.as_f32().unwrap_or_default() {
                hash.update(value.to_le_bytes());
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Puts everything that does not change onto a device that was allocated for `network`.
    pub fn load(&self, network: &Network<f32>, device: &mut dyn Device<f32>) -> Result<()> {
        network.prepare(device);
        device.upload(network.slots().statics, self.inputs.statics());
        device.upload(network.slots().tendency_scale, &self.normalizer.tendency_scale());
        for parameter in network.parameters() {
            parameter.write(device, parameter.slot, self.weight(&parameter.name, &parameter.shape)?);
        }
        Ok(())
    }

    /// A learned array in the order of checkpoints.
    pub fn weight(&self, name: &str, shape: &[usize]) -> Result<&[f32]> {
        self.weights
            .get(name)
            .filter(|tensor| tensor.shape == shape)
            .and_then(Tensor::as_f32)
            .ok_or_else(|| Error::input(format!("there is no {WEIGHTS}{name} of shape {shape:?}")))
    }

    /// Refuses analyses that the network was not trained for, saying what differs.
    pub fn check(&self, analyses: &[State]) -> Result<()> {
        let frames = self.info.input_frames;
        if analyses.len() != frames {
            return Err(Error::input(format!(
                "the network starts from {frames} analyses {} apart, found {}",
                self.info.step,
                analyses.len()
            )));
        }
        for pair in analyses.windows(2) {
            let apart = pair[1].valid.since(pair[0].valid);
            if apart != self.info.step || pair[1].valid.calendar != pair[0].valid.calendar {
                return Err(Error::input(format!(
                    "the network steps by {}, but the analyses of {} and {} are {apart} apart",
                    self.info.step, pair[0].valid, pair[1].valid
                ))
                .hint(format!("give {frames} analyses {} apart", self.info.step)));
            }
        }
        analyses.iter().try_for_each(|analysis| self.check_state(analysis))
    }

    /// Refuses a state of other quantities or of another grid.
    pub fn check_state(&self, state: &State) -> Result<()> {
        fits(&self.info.layout, &state.layout)
            .map_err(|error| error.context(format!("the analysis of {} does not fit", state.valid)))
    }

    /// Numbers of the h, and of the c, that each layer carries from step to step.
    pub fn memory_sizes(&self) -> Vec<usize> {
        let (rows, columns) = self.geometry.inner(self.architecture.patch);
        self.architecture.hidden.iter().map(|hidden| rows * columns * hidden).collect()
    }

    /// Whether a state has a value wherever there ever is one.
    pub fn is_whole(&self, state: &State) -> bool {
        let mask = self.normalizer.mask();
        let missing = |i: usize| mask.is_some_and(|mask| mask[i] == 0.0);
        state.values.iter().enumerate().all(|(i, x)| x.is_finite() || missing(i))
    }

    /// `[lat, lon, forcing]` of the step that starts at `from`, in physical units.
    pub fn raw_forcings(&self, from: ValidTime) -> Vec<f32> {
        let units = self.inputs.forcing_units();
        let mut values = vec![0.0; self.info.layout.grid.points() * units.len()];
        self.inputs.forcings(from, self.info.step, &mut values);
        values.iter_mut().enumerate().for_each(|(i, x)| *x *= units[i % units.len()]);
        values
    }

    /// An analysis as a graph reads it, `[lat, lon, channel]`: what cannot be negative is not.
    pub fn fed(&self, state: &State) -> Vec<f32> {
        let mut values: Vec<f32> = state.values.iter().copied().collect();
        self.normalizer.mend(&mut values);
        values
    }

    /// What a graph gave as a state that others may see.
    pub fn published(&self, mut values: Vec<f32>, valid: ValidTime) -> Result<State> {
        self.normalizer.mend(&mut values);
        let layout = self.info.layout.clone();
        let values = Array3::from_shape_vec(layout.shape(), values)
            .map_err(|error| Error::run("a graph gave a state of another size").caused_by(error))?;
        Ok(State { layout, valid, values })
    }
}

/// Whether states of layout `found` are what a network of layout `expected` reads; an error says what differs.
fn fits(expected: &Layout, found: &Layout) -> Result<()> {
    for quantity in &expected.quantities {
        if !found.quantities.contains(quantity) {
            let names: Vec<String> = found.quantities.iter().map(ToString::to_string).collect();
            return Err(Error::input(format!("the network needs {quantity}"))
                .hint(format!("the input holds {}", names.join(", "))));
        }
    }
    if expected.quantities != found.quantities {
        let names: Vec<String> = expected.quantities.iter().map(ToString::to_string).collect();
        return Err(Error::input(format!("the network takes exactly {}, in this order", names.join(", "))));
    }
    if !expected.grid.matches(&found.grid) {
        return Err(Error::input(format!(
            "the network was trained on the grid {}, the input has {}",
            expected.grid.describe(),
            found.grid.describe()
        ))
        .hint("regrid the input with [data] grid"));
    }
    Ok(())
}
