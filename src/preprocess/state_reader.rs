//! Reads whole states: every channel of some dates, on the grid of the data set.

use std::ops::Range;
use std::path::PathBuf;

use rayon::prelude::*;

use super::catalogue::Catalogue;
use super::sources::Found;
use super::tracks::Slot;
use crate::error::{Context, Error, Result};
use crate::field::State;
use crate::io::Reader;

/// Open files of one thread, most recently used last.
#[derive(Default)]
pub struct StateReader {
    open: Vec<(PathBuf, Reader)>,
    /// Fields of consecutive dates on their file's grid.
    planes: Vec<f32>,
}

/// Files that a reader keeps open beyond one for each quantity.
const SPARE_FILES: usize = 4;

/// A field of a file, and the state that it is a part of.
struct Wanted {
    state: usize,
    slot: Slot,
    /// It is added to another one.
    added: bool,
}

impl StateReader {
    /// Fills `states` with the fields at their valid times; missing values are NaN. Dates that follow each other in a
    /// file are read together, on all cores.
    pub fn read(&mut self, catalogue: &Catalogue, states: &mut [State]) -> Result<()> {
        let limit = catalogue.tracks.len() + SPARE_FILES;
        for (at, channel) in catalogue.channels.iter().enumerate() {
            let track = &catalogue.tracks[channel.track];
            let mut wanted = Vec::with_capacity(states.len());
            for (state, valid) in states.iter().map(|state| state.valid).enumerate() {
                let slots = Some(valid.seconds)
                    .filter(|_| valid.calendar == catalogue.calendar())
                    .and_then(|seconds| track.slots(seconds))
                    .ok_or_else(|| {
                        Error::input(format!("there are no data at {valid}"))
                            .hint(format!("the files hold {}", catalogue.describe()))
                    })?;
                let one = |(k, slot)| Wanted { state, slot, added: k > 0 };
                wanted.extend(slots.into_iter().enumerate().map(one));
            }
            let follows = |a: &Wanted, b: &Wanted| {
                a.state + 1 == b.state && a.slot.part == b.slot.part && a.slot.time + 1 == b.slot.time
            };
            for run in wanted.chunk_by(follows) {
                let part = &track.parts[run[0].slot.part as usize];
                let first = run[0].slot.time as usize;
                let states = &mut states[run[0].state..][..run.len()];
                let dates = match states {
                    [only] => only.valid.to_string(),
                    [first, .., last] => format!("{} to {}", first.valid, last.valid),
                    [] => String::new(),
                };
                let level = part.levels[channel.quantity];
                self.read_planes(part, first..first + run.len(), level, limit).context(|| {
                    let quantity = &track.quantities[channel.quantity];
                    format!("reading {quantity} at {dates} from {}", part.file.path.display())
                })?;
                let grid = &part.variable.grid;
                let regrid = catalogue.regrids.iter().find(|(source, _)| source.matches(grid));
                states
                    .par_iter_mut()
                    .zip(self.planes.par_chunks_exact(grid.points()))
                    .zip(run)
                    .try_for_each_init(Vec::new, |field, ((state, plane), wanted)| {
                        let plane = match regrid {
                            Some((_, regrid)) => {
                                field.resize(regrid.target().points(), f32::NAN);
                                regrid.apply(plane, field);
                                field.as_slice()
                            }
                            None => plane,
                        };
                        place(state, at, plane, wanted.added)
                    })?;
            }
        }
        Ok(())
    }

    /// Reads fields of a file into `planes`.
    fn read_planes(&mut self, part: &Found, times: Range<usize>, level: usize, limit: usize) -> Result<()> {
        let path = &part.file.path;
        let at = self.open.iter().position(|(open, _)| open == path);
        let mut entry = match at {
            Some(at) => self.open.remove(at),
            None => {
                if self.open.len() >= limit {
                    self.open.remove(0);
                }
                (path.clone(), Reader::open(&part.file)?)
            }
        };
        self.planes.resize(times.len() * part.variable.grid.points(), f32::NAN);
        entry.1.read_many(&part.variable, level, times, &mut self.planes)?;
        self.open.push(entry);
        Ok(())
    }
}

/// Puts a field into a channel of a state, or adds it.
fn place(state: &mut State, channel: usize, field: &[f32], added: bool) -> Result<()> {
    let channels = state.layout.channels();
    let values = state.values.as_slice_mut().ok_or_else(|| Error::run("a state must be contiguous"))?;
    for (out, &x) in values[channel..].iter_mut().step_by(channels).zip(field) {
        *out = if added { *out + x } else { x };
    }
    Ok(())
}
