//! Missing dates and missing values: refused, bridged in time, or left out, as the configuration says.

use rayon::prelude::*;

use super::plan::{LONGEST_BRIDGE, MissingPolicy};
use super::view::View;
use crate::error::{Error, Result};
use crate::field::State;
use crate::time::ValidTime;

/// Gives states without holes: every value is there, but for points that are always missing.
pub struct Filling<'a> {
    pub view: &'a View,
    /// `[lat, lon, channel]`: 0 where a quantity is always missing.
    pub mask: Option<&'a [f32]>,
}

impl Filling<'_> {
    /// The dates that may be asked for, as far as the catalogue knows without reading: those that the files hold whole
    /// and, under `missing = "interpolate"`, those with neighbours near enough on both sides.
    pub fn times(&self) -> Vec<ValidTime> {
        let times = self.view.visible_times();
        let step = self.view.catalogue().step();
        if self.view.catalogue().missing() != MissingPolicy::Interpolate {
            return times.to_vec();
        }
        let mut bridged = Vec::with_capacity(times.len());
        for (i, &valid) in times.iter().enumerate() {
            bridged.push(valid);
            let Some(next) = times.get(i + 1) else { break };
            let steps = (next.since(valid).seconds / step.seconds) as usize;
            if steps <= LONGEST_BRIDGE + 1 {
                bridged.extend((1..steps).map(|k| valid.after(step.times(k))));
            }
        }
        bridged
    }

    /// The states of some dates with their holes filled; an error, naming quantity and date, when they cannot be.
    /// Dates that follow each other in a file are read together.
    pub fn read_many(&self, dates: &[ValidTime]) -> Result<Vec<State>> {
        let catalogue = self.view.catalogue();
        let is_bridged = |valid: ValidTime| self.bridges() && !catalogue.has(valid);
        let there: Vec<ValidTime> = dates.iter().copied().filter(|&valid| !is_bridged(valid)).collect();
        let mut read = self.view.read_many(&there)?.into_iter();
        let absent = |valid| State::missing(catalogue.layout().clone(), valid);
        let states: Vec<State> = dates
            .iter()
            .map(|&valid| if is_bridged(valid) { None } else { read.next() }.unwrap_or_else(|| absent(valid)))
            .collect();
        // The first error in order, whatever thread meets one first.
        let filled: Vec<Result<State>> = states.into_par_iter().map(|state| self.fill(state)).collect();
        filled.into_iter().collect()
    }

    /// Whether holes are filled from the dates before and after.
    fn bridges(&self) -> bool {
        self.view.catalogue().missing() == MissingPolicy::Interpolate
    }

    fn fill(&self, mut state: State) -> Result<State> {
        let holes = self.holes(&state);
        let open = self.close(&mut state, &holes)?;
        if open.is_empty() { Ok(state) } else { Err(self.refuse(&state, &open, self.bridges())) }
    }

    /// Puts values into holes, as far as the dates around have them; returns the holes that stay.
    fn close(&self, state: &mut State, holes: &[usize]) -> Result<Vec<usize>> {
        if holes.is_empty() || !self.bridges() {
            return Ok(holes.to_vec());
        }
        let before = self.neighbours(state.valid, holes, Side::Before)?;
        let after = self.neighbours(state.valid, holes, Side::After)?;
        let mut open = Vec::new();
        let values = state.values.as_slice_mut().ok_or_else(|| Error::run("a state must be contiguous"))?;
        for (i, &hole) in holes.iter().enumerate() {
            match (before.get(i).copied().flatten(), after.get(i).copied().flatten()) {
                (Some((a, x)), Some((b, y))) => {
                    let (a, b) = (f64::from(a), f64::from(b));
                    values[hole] = ((f64::from(x) * b + f64::from(y) * a) / (a + b)) as f32;
                }
                _ => open.push(hole),
            }
        }
        Ok(open)
    }

    /// Fills the quantities that a state lacks altogether, as far as the dates around have them. Other holes stay: there
    /// may be points that never have a value.
    pub fn fill_absent(&self, state: &mut State) -> Result<()> {
        let channels = state.layout.channels();
        let absent = absent(state);
        let holes: Vec<usize> = (0..state.values.len()).filter(|i| absent[i % channels]).collect();
        self.close(state, &holes)?;
        Ok(())
    }

    /// Whether a date has no holes.
    pub fn is_whole(&self, valid: ValidTime) -> Result<bool> {
        Ok(self.holes(&self.view.read(valid)?).is_empty())
    }

    /// Where values are missing that should be there.
    fn holes(&self, state: &State) -> Vec<usize> {
        let is_masked = |i: usize| self.mask.is_some_and(|mask| mask[i] == 0.0);
        let missing = state.values.iter().enumerate().filter(|(i, x)| !x.is_finite() && !is_masked(*i));
        missing.map(|(i, _)| i).collect()
    }

    /// For each hole the nearest value on one side, and how many steps away it is.
    fn neighbours(&self, valid: ValidTime, holes: &[usize], side: Side) -> Result<Vec<Option<(u32, f32)>>> {
        let step = self.view.catalogue().step();
        let mut found = vec![None; holes.len()];
        for k in 1..=LONGEST_BRIDGE {
            let away = step.times(k);
            let neighbour = match side {
                Side::Before => ValidTime::new(valid.seconds - away.seconds, valid.calendar),
                Side::After => valid.after(away),
            };
            if !self.view.may_read(neighbour) || !self.view.catalogue().has(neighbour) {
                continue;
            }
            let state = self.view.read(neighbour)?;
            let values = state.values.as_slice().ok_or_else(|| Error::run("a state must be contiguous"))?;
            for (found, &hole) in found.iter_mut().zip(holes) {
                if found.is_none() && values[hole].is_finite() {
                    *found = Some((k as u32, values[hole]));
                }
            }
            if found.iter().all(Option::is_some) {
                break;
            }
        }
        Ok(found)
    }

    fn refuse(&self, state: &State, holes: &[usize], bridged: bool) -> Error {
        let layout = &state.layout;
        let channels = layout.channels();
        let (channel, point) = (holes[0] % channels, holes[0] / channels);
        let count = holes.iter().filter(|hole| *hole % channels == channel).count();
        let (row, column) = (point / layout.grid.columns(), point % layout.grid.columns());
        let how = if bridged { ", and no neighbour in time has them" } else { "" };
        Error::input(format!(
            "{} at {} is missing at {count} of {} points (first at {} N, {} E) where other dates have values{how}",
            layout.quantities[channel],
            state.valid,
            layout.grid.points(),
            layout.grid.latitude[row],
            layout.grid.longitude[column]
        ))
        .hint(if bridged {
            "set [data] missing = \"skip\" to leave out every window that contains such a date"
        } else {
            "set [data] missing = \"interpolate\" to bridge it in time, or \"skip\" to leave out every window with it"
        })
    }
}

/// For each quantity whether a state has no value of it.
pub fn absent(state: &State) -> Vec<bool> {
    (0..state.layout.channels()).map(|channel| state.channel(channel).iter().all(|x| x.is_nan())).collect()
}

#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}
