//! The recurrent state that a cycle started from, on disk: the next cycle goes on from it, and the same cycle made again
//! starts with the same bits.

use std::path::Path;

use crate::error::{Context, Error, Result};
use crate::field::State;
use crate::runner::{Kept, Memory, Trained};
use crate::time::ValidTime;

use super::stored::Arrays;

/// Writes what was kept at `valid`.
pub fn write(path: &Path, kept: &Kept, trained: &Trained, valid: ValidTime) -> Result<()> {
    let mut arrays = Arrays::default();
    arrays.put("fields", vec![kept.fields.len()], kept.fields.clone());
    for (layer, memory) in kept.memories.iter().enumerate() {
        arrays.put(format!("h_{layer}"), vec![memory.h.len()], memory.h.clone());
        arrays.put(format!("c_{layer}"), vec![memory.c.len()], memory.c.clone());
    }
    arrays.words.insert("valid".into(), valid.to_string());
    arrays.words.insert("run".into(), trained.info.origin.clone());
    arrays.write(path)
}

/// Whether a file holds what this network kept at `valid`: another one cannot go on from it.
pub fn fits(path: &Path, trained: &Trained, valid: ValidTime) -> bool {
    Arrays::words_of(path).is_ok_and(|words| {
        words.get("run") == Some(&trained.info.origin) && words.get("valid") == Some(&valid.to_string())
    })
}

/// Reads what was kept, and the state that belongs to it, in physical units.
pub fn read(path: &Path, trained: &Trained, valid: ValidTime) -> Result<(Kept, State)> {
    let read = || {
        let mut arrays = Arrays::read(path)?;
        for (key, expected) in [("valid", valid.to_string()), ("run", trained.info.origin.clone())] {
            let found = arrays.words.get(key);
            if found != Some(&expected) {
                return Err(Error::input(format!(
                    "{key} is {}, where {expected} was expected",
                    found.map_or("nothing", String::as_str)
                )));
            }
        }
        let points = trained.info.layout.grid.points();
        let fields = arrays.take("fields", points * trained.info.layout.channels())?;
        let mut memories = Vec::new();
        for (layer, size) in trained.memory_sizes().into_iter().enumerate() {
            let h = arrays.take(&format!("h_{layer}"), size)?;
            memories.push(Memory { h, c: arrays.take(&format!("c_{layer}"), size)? });
        }
        let state = trained.normalizer.unnormalize(&fields, valid)?;
        Ok((Kept { fields, memories }, state))
    };
    read().context(|| format!("the recurrent state {}", path.display()))
}
