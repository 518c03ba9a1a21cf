//! Normalised frames by date: kept in memory where they fit, read and normalised on demand where they do not.

use std::sync::Arc;

use rayon::prelude::*;

use super::filling::Filling;
use super::inputs::Inputs;
use super::loader::{Batch, Request};
use super::normalizer::Normalizer;
use super::plan::MissingPolicy;
use super::view::View;
use crate::error::{Error, Result};
use crate::time::{InitTime, LeadTime, ValidTime};

/// The frames of a view.
pub struct Frames {
    view: View,
    normalizer: Arc<Normalizer>,
    inputs: Arc<Inputs>,
    /// The dates whose frames are whole.
    times: Vec<ValidTime>,
    kept: Option<Kept>,
}

/// `[time, lat, lon, channel]` and `[time, lat, lon, forcing]`.
struct Kept {
    frames: Vec<f32>,
    forcings: Vec<f32>,
}

impl Frames {
    /// Reads everything when it fits into `memory` bytes. Under `missing = "skip"`, everything is read once to find the
    /// dates that are not whole.
    pub fn new(view: &View, normalizer: Arc<Normalizer>, inputs: Arc<Inputs>, memory: usize) -> Result<Self> {
        if **normalizer.layout() != **view.layout() {
            return Err(Error::run(
                "the normaliser belongs to another grid or other quantities than the data",
            ));
        }
        let mut frames = Self { view: view.clone(), normalizer, inputs, times: Vec::new(), kept: None };
        frames.times = frames.filling().times();
        if view.catalogue().missing() == MissingPolicy::Skip {
            let whole: Vec<Result<bool>> =
                frames.times.par_iter().map(|&t| frames.filling().is_whole(t)).collect();
            let whole: Vec<bool> = whole.into_iter().collect::<Result<_>>()?;
            let mut whole = whole.into_iter();
            frames.times.retain(|_| whole.next().unwrap_or(false));
        }
        let bytes = (frames.values() + frames.forcing_values()) * frames.times.len() * size_of::<f32>();
        if bytes <= memory {
            frames.kept = Some(frames.read_all()?);
        }
        Ok(frames)
    }

    pub fn times(&self) -> &[ValidTime] {
        &self.times
    }

    pub fn step(&self) -> LeadTime {
        self.view.catalogue().step()
    }

    /// Numbers in a frame.
    fn values(&self) -> usize {
        let (rows, columns, channels) = self.view.layout().shape();
        rows * columns * channels
    }

    /// Numbers in the forcings of a step.
    fn forcing_values(&self) -> usize {
        self.view.layout().grid.points() * self.inputs.forcing_names().len()
    }

    fn filling(&self) -> Filling<'_> {
        Filling { view: &self.view, mask: self.normalizer.mask() }
    }

    fn read_all(&self) -> Result<Kept> {
        let (values, forcing_values) = (self.values(), self.forcing_values());
        let mut frames = vec![0.0; values * self.times.len()];
        let mut forcings = vec![0.0; forcing_values * self.times.len()];
        let block = self.view.block();
        for (dates, out) in self.times.chunks(block).zip(frames.chunks_mut((block * values).max(1))) {
            self.read(dates, out.par_chunks_mut(values.max(1)))?;
        }
        if forcing_values > 0 {
            self.times
                .par_iter()
                .zip(forcings.par_chunks_mut(forcing_values))
                .for_each(|(&valid, out)| self.inputs.forcings(valid, self.step(), out));
        }
        Ok(Kept { frames, forcings })
    }

    /// Reads and normalises the frames of some dates, each into its place.
    fn read<'a>(
        &self,
        dates: &[ValidTime],
        out: impl IndexedParallelIterator<Item = &'a mut [f32]>,
    ) -> Result<()> {
        let states = self.filling().read_many(dates)?;
        let results: Vec<Result<()>> =
            states.par_iter().zip(out).map(|(state, out)| self.normalizer.normalize(state, out)).collect();
        results.into_iter().collect()
    }

    fn index(&self, valid: ValidTime) -> Result<usize> {
        self.times
            .binary_search(&valid)
            .map_err(|_| Error::run(format!("{valid} is not among the frames of {}", self.view.name())))
    }

    /// The frames of a window, each into its place.
    fn window(&self, dates: &[ValidTime], out: Vec<&mut [f32]>) -> Result<()> {
        let Some(kept) = &self.kept else { return self.read(dates, out.into_par_iter()) };
        for (&valid, out) in dates.iter().zip(out) {
            let at = self.index(valid)? * out.len();
            out.copy_from_slice(&kept.frames[at..at + out.len()]);
        }
        Ok(())
    }

    fn forcing(&self, valid: ValidTime, out: &mut [f32]) -> Result<()> {
        match &self.kept {
            Some(kept) => {
                let at = self.index(valid)? * out.len();
                out.copy_from_slice(&kept.forcings[at..at + out.len()]);
            }
            None => self.inputs.forcings(valid, self.step(), out),
        }
        Ok(())
    }

    /// Prepares a batch.
    pub(super) fn batch(&self, request: &Request) -> Result<Batch> {
        let Request { starts, batch, input_frames, length } = request;
        let (values, forcing_values) = (self.values(), self.forcing_values());
        let mut frames = vec![0.0; length * batch * values];
        let mut forcings = vec![0.0; (length - 1) * batch * forcing_values];
        for window in 0..*batch {
            let start = starts[window.min(starts.len() - 1)];
            let dates: Vec<ValidTime> =
                (0..*length).map(|frame| start.after(self.step().times(frame))).collect();
            let places = frames.chunks_exact_mut(values.max(1)).skip(window).step_by(*batch);
            self.window(&dates, places.collect())?;
            for (frame, &valid) in dates[..length - 1].iter().enumerate() {
                let at = frame * batch + window;
                self.forcing(valid, &mut forcings[at * forcing_values..(at + 1) * forcing_values])?;
            }
        }
        let init = (0..*batch).map(|window| {
            let start = starts[window.min(starts.len() - 1)];
            InitTime(start.after(self.step().times(input_frames - 1)))
        });
        Ok(Batch {
            frames,
            forcings,
            mask: self.normalizer.shared_mask(),
            init: init.collect(),
            samples: starts.len(),
        })
    }
}
