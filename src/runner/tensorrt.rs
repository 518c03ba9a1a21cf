//! An engine of TensorRT as a provider.

use std::path::Path;
use std::sync::Arc;

use super::provider::{Kept, Provider};
use crate::error::Result;
use crate::export::onnx::{self, Extent, Form, names};
use crate::export::tensorrt::Engine;
use crate::export::{Precision, Trained};
use crate::field::State;
use crate::model::{Memory, Ranges};
use crate::time::ValidTime;

pub struct TensorRt {
    engine: Engine,
    trained: Arc<Trained>,
    /// `["h_0", "c_0", ..]`
    memories: Vec<String>,
    /// Which time the copy under way belongs to.
    keeping: Option<ValidTime>,
}

impl TensorRt {
    /// Opens an engine that was built from this network in this precision; `ranges` are those of its activations in 8 bits.
    pub fn open(
        trained: Arc<Trained>,
        engine: &Path,
        precision: Precision,
        ranges: Option<&Ranges>,
        ordinal: usize,
    ) -> Result<Self> {
        let graph = onnx::encode(&trained, precision, Extent::Step, Form::Native, ranges)?;
        let memories = names::memories(trained.architecture.hidden.len());
        Ok(Self { engine: Engine::open(engine, &graph, ordinal)?, trained, memories, keeping: None })
    }

    fn feed(&mut self, from: ValidTime) -> Result<()> {
        let Trained { normalizer, info, .. } = &*self.trained;
        let forcings = self.trained.raw_forcings(from);
        if !forcings.is_empty() {
            self.engine.set(names::FORCINGS, &forcings)?;
        }
        let times = [(names::CLIMATOLOGY, from), (names::CLIMATOLOGY_NEXT, from.after(info.step))];
        for (name, valid) in times {
            if let Some(normal) = normalizer.climatology_at(valid)? {
                self.engine.set(name, &normal)?;
            }
        }
        Ok(())
    }
}

impl Provider for TensorRt {
    fn describe(&self) -> String {
        self.engine.description.clone()
    }

    fn start(&mut self, analyses: &[State]) -> Result<()> {
        for name in &self.memories {
            let len = self.engine.get(name)?.len();
            self.engine.set(name, &vec![0.0; len])?;
        }
        for (frame, state) in analyses.iter().enumerate() {
            if frame > 0 {
                self.step(analyses[frame - 1].valid)?;
            }
            self.engine.set(names::X, &self.trained.fed(state))?;
        }
        Ok(())
    }

    fn step(&mut self, from: ValidTime) -> Result<()> {
        self.feed(from)?;
        self.engine.run()
    }

    fn state(&mut self, valid: ValidTime) -> Result<State> {
        self.trained.published(self.engine.get(names::X)?, valid)
    }

    fn keep(&mut self, valid: ValidTime) -> Result<()> {
        let names = std::iter::once(names::X).chain(self.memories.iter().map(String::as_str));
        self.engine.start_copy(names)?;
        self.keeping = Some(valid);
        Ok(())
    }

    fn kept(&mut self, wait: bool) -> Result<Option<Kept>> {
        let Some(valid) = self.keeping else { return Ok(None) };
        let Some(copied) = self.engine.copied(wait)? else { return Ok(None) };
        self.keeping = None;
        let mut copied = copied.into_iter();
        let state = self.trained.published(copied.next().unwrap_or_default(), valid)?;
        let mut fields = vec![0.0; state.values.len()];
        self.trained.normalizer.normalize(&state, &mut fields)?;
        let mut next = |hidden: usize| transposed(&copied.next().unwrap_or_default(), hidden);
        let hidden = &self.trained.architecture.hidden;
        let memories = hidden.iter().map(|&hidden| Memory { h: next(hidden), c: next(hidden) }).collect();
        Ok(Some(Kept { fields, memories }))
    }

    fn resume(&mut self, kept: &Kept, valid: ValidTime) -> Result<()> {
        let state = self.trained.normalizer.unnormalize(&kept.fields, valid)?;
        self.engine.set(names::X, &self.trained.fed(&state))?;
        for ((pair, memory), &hidden) in
            self.memories.chunks(2).zip(&kept.memories).zip(&self.trained.architecture.hidden)
        {
            for (name, values) in pair.iter().zip([&memory.h, &memory.c]) {
                self.engine.set(name, &transposed(values, values.len() / hidden))?;
            }
        }
        Ok(())
    }
}

/// `[rows, columns]` of a matrix of so many rows, turned over.
fn transposed(values: &[f32], rows: usize) -> Vec<f32> {
    let columns = values.len() / rows;
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turned_over_twice_is_as_before() {
        let values: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let turned = transposed(&values, 2);
        assert_eq!(turned, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(transposed(&turned, 3), values);
    }
}
