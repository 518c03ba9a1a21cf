//! What was learned, to checkpoints and back. Every rank writes as many numbers as any other, about, and whole arrays: so
//! any number of ranks can read them, and whoever only forecasts.

use crate::device::{Device, Real, Slot, with_company};
use crate::error::{Error, Result};
use crate::io::checkpoint::{Tensor, Tensors};
use crate::model::Parameter;
use crate::preprocess::Share;
use crate::train::ranks::Ranks;
use crate::train::workspace::Workspace;
use crate::train::zero::{Kept, spread};

/// The names in checkpoints of the weights' average, which forecasts use, the weights, and the moments.
const KINDS: [&str; 4] = ["weights", "latest", "adam.first", "adam.second"];

/// What a rank has not sent yet: its name behind this.
const RESIDUAL: &str = "wire.residual.";

/// An array of the network, of some kind.
enum Source {
    Kept(Kept),
    /// First or second.
    Moments(usize),
}

impl<T: Real> Workspace<T> {
    fn source(&self, kind: usize) -> Source {
        match kind {
            0 => Source::Kept(self.average),
            1 => Source::Kept(self.weights),
            moment => Source::Moments(moment - 2),
        }
    }

    /// A block of some kind on the device, gathered from the ranks that have its pieces; `None` where the host has all of it.
    pub fn whole(
        &self,
        device: &mut dyn Device<T>,
        ranks: &mut Ranks<'_, T>,
        kind: usize,
        block: usize,
    ) -> Option<Slot> {
        let (cut, own) = (&self.cut, self.cut.own(block));
        // Between updates, gradients are nobody's.
        let room = self.network.room_between_updates(block);
        match self.source(kind) {
            Source::Kept(kept @ Kept::Whole(_)) => return Some(kept.at(cut, block, 0..cut.length(block))),
            Source::Kept(kept @ Kept::Pieces(_)) => {
                device.copy(kept.at(cut, block, own.clone()), room.part(own.start, own.len()));
            }
            Source::Moments(_) if cut.ranks() == 1 => return None,
            Source::Moments(which) => {
                let start = cut.start_of_piece(block);
                let values = self.moments.read(device, which, start..start + own.len());
                device.upload(room.part(own.start, own.len()), &values);
            }
        }
        spread(cut, ranks.replicas(), device, block..block + 1, |_| room);
        Some(room)
    }
}

impl Workspace<f32> {
    /// What this rank writes of all learned arrays, in checkpoint order; all ranks together come to this.
    pub fn to_tensors(&self, device: &mut dyn Device<f32>, ranks: &mut Ranks<'_, f32>) -> Tensors {
        let (own, size) = (ranks.replicas().rank(), ranks.replicas().size());
        let units = ranks.part().units;
        let parameters = self.network.parameters();
        let lengths: Vec<usize> = KINDS.iter().flat_map(|_| parameters.iter().map(Parameter::len)).collect();
        let writers = writers(&lengths, size);
        let mut tensors = Tensors::new();
        for (number, kind) in KINDS.into_iter().enumerate() {
            let mut room = None;
            for (index, parameter) in parameters.iter().enumerate() {
                // Parameters come block after block.
                let whole = match room {
                    Some((block, whole)) if block == parameter.block => whole,
                    _ => self.whole(device, ranks, number, parameter.block),
                };
                // What others hold of the array travels through the same place.
                room = (units.of == 1).then_some((parameter.block, whole));
                if writers[number * parameters.len() + index] == own {
                    let values = match whole {
                        Some(whole) => parameter.read(device, whole.part(parameter.start, parameter.len())),
                        None => {
                            let start = self.cut.start(parameter.block) + parameter.start;
                            let range = start..start + parameter.len();
                            parameter.to_checkpoint(&self.moments.read(device, number - 2, range))
                        }
                    };
                    let values =
                        if units.of == 1 { values } else { self.join(device, units, parameter, values) };
                    if units.number == 0 {
                        let tensor = Tensor::f32(parameter.whole_shape().to_vec(), values);
                        tensors.insert(format!("{kind}.{}", parameter.name), tensor);
                    }
                }
            }
        }
        let residual = self.line.residual();
        if !residual.is_empty() {
            let mut values = vec![0.0; residual.len()];
            device.download(residual, &mut values);
            tensors
                .insert(format!("{RESIDUAL}{}", ranks.number().0), Tensor::f32(vec![values.len()], values));
        }
        tensors
    }

    /// An array of all units; `values` are those of this rank's.
    fn join(
        &self,
        device: &mut dyn Device<f32>,
        units: Share,
        parameter: &Parameter,
        values: Vec<f32>,
    ) -> Vec<f32> {
        let room = self.network.room_between_updates(parameter.block).part(0, values.len());
        let mut part = |number: usize| {
            if number == units.number {
                device.upload(room, &values);
            }
            with_company(device, |company, device| company.spread(device, room, number));
            let mut values = vec![0.0; values.len()];
            device.download(room, &mut values);
            values
        };
        let parts: Vec<Vec<f32>> = (0..units.of).map(&mut part).collect();
        parameter.join(&parts)
    }

    /// The inverse of [`to_tensors`](Self::to_tensors), for any number of ranks; tells what is not there any more.
    pub fn read_tensors(
        &self,
        device: &mut dyn Device<f32>,
        ranks: &mut Ranks<'_, f32>,
        tensors: &Tensors,
    ) -> Result<Option<String>> {
        for (number, kind) in KINDS.into_iter().enumerate() {
            for parameter in self.network.parameters() {
                let name = format!("{kind}.{}", parameter.name);
                let values = tensors
                    .get(&name)
                    .filter(|tensor| tensor.shape == parameter.whole_shape())
                    .and_then(Tensor::as_f32)
                    .ok_or_else(|| {
                        Error::input(format!(
                            "the checkpoint has no {name} of shape {:?}",
                            parameter.whole_shape()
                        ))
                        .hint("it belongs to another network; start another run")
                    })?;
                let values = parameter.to_device(&parameter.cut(values));
                match self.source(number) {
                    Source::Kept(kept) => self.put(device, kept, parameter, &values),
                    Source::Moments(which) => self.put_moments(device, which, parameter, &values),
                }
            }
        }
        Ok(self.read_residual(device, ranks, tensors))
    }

    fn put_moments(&self, device: &mut dyn Device<f32>, which: usize, parameter: &Parameter, values: &[f32]) {
        let own = self.cut.own(parameter.block);
        let range = parameter.start.max(own.start)..(parameter.start + parameter.len()).min(own.end);
        if !range.is_empty() {
            let start = self.cut.start_of_piece(parameter.block) + range.start - own.start;
            let values = &values[range.start - parameter.start..][..range.len()];
            self.moments.write(device, which, start, values);
        }
    }

    fn read_residual(
        &self,
        device: &mut dyn Device<f32>,
        ranks: &mut Ranks<'_, f32>,
        tensors: &Tensors,
    ) -> Option<String> {
        let residual = self.line.residual();
        if residual.is_empty() {
            return None;
        }
        let (own, size) = ranks.number();
        let kept = tensors.keys().filter(|name| name.starts_with(RESIDUAL)).count();
        let values = tensors.get(&format!("{RESIDUAL}{own}")).and_then(Tensor::as_f32);
        match values.filter(|values| kept == size && values.len() == residual.len()) {
            Some(values) => {
                device.upload(residual, values);
                None
            }
            None => Some(format!(
                "gradients that were left for later updates are forgotten: the checkpoint has those of {kept} ranks, \
                 shared in another way than now by {size}"
            )),
        }
    }
}

/// Who writes which of arrays of these lengths, so that all write about as much: long ones first, each by whoever has least.
fn writers(lengths: &[usize], ranks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&array| std::cmp::Reverse(lengths[array]));
    let (mut loads, mut writers) = (vec![0; ranks], vec![0; lengths.len()]);
    for array in order {
        let least = (0..ranks).min_by_key(|&rank| loads[rank]).unwrap_or(0);
        writers[array] = least;
        loads[least] += lengths[array];
    }
    writers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_write_about_as_much_each() {
        assert_eq!(writers(&[5, 1, 9, 3], 1), [0; 4]);
        assert_eq!(writers(&[5, 1, 9, 3], 2), [1, 1, 0, 1]);
        assert_eq!(writers(&[4, 4, 4, 4, 1], 8), [0, 1, 2, 3, 4], "some write nothing");
    }
}
