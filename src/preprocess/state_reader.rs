//! Reads whole states: every channel of a date, on the grid of the data set.

use std::path::PathBuf;

use super::catalogue::Catalogue;
use super::sources::Found;
use crate::error::{Context, Error, Result};
use crate::field::State;
use crate::io::Reader;

/// Open files of one thread, most recently used last.
#[derive(Default)]
pub struct StateReader {
    open: Vec<(PathBuf, Reader)>,
    /// A field on its file's grid.
    plane: Vec<f32>,
    /// A field on the grid of the data set.
    field: Vec<f32>,
    sum: Vec<f32>,
}

/// Files that a reader keeps open beyond one for each quantity.
const SPARE_FILES: usize = 4;

impl StateReader {
    /// Fills `state` with the fields at its valid time; missing values are NaN.
    pub fn read(&mut self, catalogue: &Catalogue, state: &mut State) -> Result<()> {
        let valid = state.valid;
        let missing = || {
            Error::input(format!("there are no data at {valid}"))
                .hint(format!("the files hold {}", catalogue.describe()))
        };
        if valid.calendar != catalogue.calendar() {
            return Err(missing());
        }
        let channels = catalogue.channels.len();
        let values = state.values.as_slice_mut().ok_or_else(|| Error::run("a state must be contiguous"))?;
        for (at, channel) in catalogue.channels.iter().enumerate() {
            let track = &catalogue.tracks[channel.track];
            let slots = track.slots(valid.seconds).ok_or_else(missing)?;
            for (i, slot) in slots.iter().enumerate() {
                let part = &track.parts[slot.part as usize];
                self.read_plane(
                    part,
                    slot.time as usize,
                    part.levels[channel.quantity],
                    track_limit(catalogue),
                )
                .context(|| {
                    format!(
                        "reading {} at {valid} from {}",
                        track.quantities[channel.quantity],
                        part.file.path.display()
                    )
                })?;
                let grid = &part.variable.grid;
                let regrid = catalogue.regrids.iter().find(|(source, _)| source.matches(grid));
                match regrid {
                    Some((_, regrid)) => {
                        self.field.resize(regrid.target().points(), f32::NAN);
                        regrid.apply(&self.plane, &mut self.field);
                    }
                    None => std::mem::swap(&mut self.field, &mut self.plane),
                }
                if i == 0 {
                    std::mem::swap(&mut self.sum, &mut self.field);
                } else {
                    self.sum.iter_mut().zip(&self.field).for_each(|(sum, x)| *sum += x);
                }
            }
            for (out, &x) in values[at..].iter_mut().step_by(channels).zip(&self.sum) {
                *out = x;
            }
        }
        Ok(())
    }

    /// Reads a field of a file into `plane`.
    fn read_plane(&mut self, part: &Found, time: usize, level: usize, limit: usize) -> Result<()> {
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
        self.plane.resize(part.variable.grid.points(), f32::NAN);
        entry.1.read(&part.variable, time, level, &mut self.plane)?;
        self.open.push(entry);
        Ok(())
    }
}

fn track_limit(catalogue: &Catalogue) -> usize {
    catalogue.tracks.len() + SPARE_FILES
}
