//! Reads whole states: every channel of some dates, on the grid of the data set or as the files store them.

use std::ops::Range;
use std::path::PathBuf;

use rayon::prelude::*;

use super::catalogue::{Catalogue, Channel};
use super::sources::Found;
use super::tracks::Slot;
use crate::error::{Context, Error, Result};
use crate::field::State;
use crate::io::{Reader, StoredField};
use crate::time::ValidTime;

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

/// A field for a device to decode.
pub(super) struct RawField<'a> {
    /// Which date and channel it belongs to; those of one date and channel follow each other and are added up.
    pub date: usize,
    pub channel: usize,
    pub part: &'a Found,
    pub content: Content,
}

pub(super) enum Content {
    Stored(StoredField),
    /// Decoded, `[lat, lon]` of the file's grid: what only the processor can read.
    Values(Vec<f32>),
}

/// As many numbers that mean "missing" a device knows of one field.
const MOST_MISSING: usize = 2;

impl StateReader {
    /// Fills `states` with the fields at their valid times; missing values are NaN. Dates that follow each other in a
    /// file are read together, on all cores.
    pub fn read(&mut self, catalogue: &Catalogue, states: &mut [State]) -> Result<()> {
        let dates: Vec<ValidTime> = states.iter().map(|state| state.valid).collect();
        for (at, channel) in catalogue.channels.iter().enumerate() {
            let wanted = wanted(catalogue, channel, &dates)?;
            for run in wanted.chunk_by(follows) {
                let (part, level, times) = place_of(catalogue, channel, run);
                let Self { open, planes } = self;
                let grid = &part.variable.grid;
                planes.resize(times.len() * grid.points(), f32::NAN);
                with_file(open, catalogue, part, |reader| {
                    reader.read_many(&part.variable, level, times, planes)
                })
                .context(|| reading(catalogue, channel, part, &dates, run))?;
                let regrid = catalogue.regrids.iter().find(|(source, _)| source.matches(grid));
                states[run[0].state..][..run.len()]
                    .par_iter_mut()
                    .zip(planes.par_chunks_exact(grid.points()))
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

    /// The fields of some dates as the files store them, by date and channel.
    pub fn read_raw<'a>(
        &mut self,
        catalogue: &'a Catalogue,
        dates: &[ValidTime],
    ) -> Result<Vec<RawField<'a>>> {
        let mut fields = Vec::new();
        for (at, channel) in catalogue.channels.iter().enumerate() {
            let wanted = wanted(catalogue, channel, dates)?;
            for run in wanted.chunk_by(follows) {
                let (part, level, times) = place_of(catalogue, channel, run);
                let contents =
                    with_file(&mut self.open, catalogue, part, |reader| raw(reader, part, level, times))
                        .context(|| reading(catalogue, channel, part, dates, run))?;
                let of = |(wanted, content): (&Wanted, Content)| RawField {
                    date: wanted.state,
                    channel: at,
                    part,
                    content,
                };
                fields.extend(run.iter().zip(contents).map(of));
            }
        }
        // Stable: what is added up stays in its order.
        fields.sort_by_key(|field| (field.date, field.channel));
        Ok(fields)
    }
}

/// The fields of a channel at some dates, in their order.
fn wanted(catalogue: &Catalogue, channel: &Channel, dates: &[ValidTime]) -> Result<Vec<Wanted>> {
    let track = &catalogue.tracks[channel.track];
    let mut wanted = Vec::with_capacity(dates.len());
    for (state, valid) in dates.iter().enumerate() {
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
    Ok(wanted)
}

/// Whether `b` is the next in the same file, for the next state.
fn follows(a: &Wanted, b: &Wanted) -> bool {
    a.state + 1 == b.state && a.slot.part == b.slot.part && a.slot.time + 1 == b.slot.time
}

/// Where a run of fields lies: its file, level and times.
fn place_of<'a>(
    catalogue: &'a Catalogue,
    channel: &Channel,
    run: &[Wanted],
) -> (&'a Found, usize, Range<usize>) {
    let part = &catalogue.tracks[channel.track].parts[run[0].slot.part as usize];
    let first = run[0].slot.time as usize;
    (part, part.levels[channel.quantity], first..first + run.len())
}

/// What is being done, for an error.
fn reading(
    catalogue: &Catalogue,
    channel: &Channel,
    part: &Found,
    dates: &[ValidTime],
    run: &[Wanted],
) -> String {
    let quantity = &catalogue.tracks[channel.track].quantities[channel.quantity];
    let dates = match &dates[run[0].state..][..run.len()] {
        [only] => only.to_string(),
        [first, .., last] => format!("{first} to {last}"),
        [] => String::new(),
    };
    format!("reading {quantity} at {dates} from {}", part.file.path.display())
}

/// Does something with a file, which stays open unless that fails.
fn with_file<R>(
    open: &mut Vec<(PathBuf, Reader)>,
    catalogue: &Catalogue,
    part: &Found,
    work: impl FnOnce(&mut Reader) -> Result<R>,
) -> Result<R> {
    let path = &part.file.path;
    let at = open.iter().position(|(open, _)| open == path);
    let mut entry = match at {
        Some(at) => open.remove(at),
        None => {
            if open.len() >= catalogue.tracks.len() + SPARE_FILES {
                open.remove(0);
            }
            (path.clone(), Reader::open(&part.file)?)
        }
    };
    let before = entry.1.bytes_read();
    let result = work(&mut entry.1)?;
    catalogue.counters.add_bytes(entry.1.bytes_read() - before);
    open.push(entry);
    Ok(result)
}

/// The fields of one level at consecutive times.
fn raw(reader: &mut Reader, part: &Found, level: usize, times: Range<usize>) -> Result<Vec<Content>> {
    let variable = &part.variable;
    if variable.packing.missing.len() <= MOST_MISSING
        && let Some(stored) = reader.stored(variable, level, times.clone())?
    {
        return Ok(stored.into_iter().map(Content::Stored).collect());
    }
    let points = variable.grid.points();
    let mut values = vec![f32::NAN; times.len() * points];
    reader.read_many(variable, level, times, &mut values)?;
    Ok(values.chunks(points).map(|plane| Content::Values(plane.to_vec())).collect())
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
