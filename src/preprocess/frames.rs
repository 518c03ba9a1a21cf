//! Normalised frames by date: kept in memory where they fit, read and normalised on demand where they do not.

use std::sync::Arc;

use rayon::prelude::*;

use super::effort::{Counters, Effort};
use super::filling::Filling;
use super::inputs::Inputs;
use super::loader::{Batch, Request};
use super::normalizer::Normalizer;
use super::plan::MissingPolicy;
use super::raw::RawBatch;
use super::state_reader::RawField;
use super::view::View;
use crate::climatology::Climatology;
use crate::error::{Error, Result};
use crate::field::State;
use crate::grid::Grid;
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

    pub fn grid(&self) -> &Grid {
        &self.view.layout().grid
    }

    /// What preparing batches has cost so far.
    pub fn effort(&self) -> Effort {
        self.counters().total()
    }

    fn counters(&self) -> &Counters {
        &self.view.catalogue().counters
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
        let normalize = |(state, out): (&State, &mut [f32])| self.normalizer.normalize(state, out);
        let results: Vec<Result<()>> =
            self.counters().preparing(|| states.par_iter().zip(out).map(normalize).collect());
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
            None => self.counters().preparing(|| self.inputs.forcings(valid, self.step(), out)),
        }
        Ok(())
    }

    /// Prepares a batch.
    pub(super) fn batch(&self, request: &Request) -> Result<Batch> {
        let Request { batch, length, .. } = request;
        let (values, forcing_values) = (self.values(), self.forcing_values());
        let mut frames = vec![0.0; length * batch * values];
        let mut forcings = vec![0.0; (length - 1) * batch * forcing_values];
        for window in 0..*batch {
            let dates = self.dates(request, window);
            let places = frames.chunks_exact_mut(values.max(1)).skip(window).step_by(*batch);
            self.window(&dates, places.collect())?;
            for (frame, &valid) in dates[..length - 1].iter().enumerate() {
                let at = frame * batch + window;
                self.forcing(valid, &mut forcings[at * forcing_values..(at + 1) * forcing_values])?;
            }
        }
        let mut mask = self.normalizer.shared_mask();
        if request.turn > 0 {
            let (_, columns, channels) = self.view.layout().shape();
            turn_columns(&mut frames, columns, channels, request.turn);
            turn_columns(&mut forcings, columns, self.inputs.forcing_names().len(), request.turn);
            if let Some(mask) = &mut mask {
                turn_columns(Arc::make_mut(mask), columns, channels, request.turn);
            }
        }
        let samples = request.starts.len();
        Ok(Batch { frames, forcings, mask, init: self.init(request), turn: request.turn, samples })
    }

    /// Prepares a batch as far as the device does not.
    pub(super) fn raw(&self, request: &Request) -> Result<RawBatch> {
        let Request { batch, length, turn, .. } = *request;
        let catalogue = self.view.catalogue();
        let (mut fields, mut valid) = (Vec::new(), vec![None; length * batch]);
        for window in 0..batch {
            let dates = self.dates(request, window);
            let read = self.view.read_raw(&dates)?;
            fields.extend(read.into_iter().map(|f| RawField { date: f.date * batch + window, ..f }));
            dates.iter().enumerate().for_each(|(frame, &date)| valid[frame * batch + window] = Some(date));
        }
        // Stable: what is added up stays in its order.
        fields.sort_by_key(|field| (field.date, field.channel));
        let valid: Vec<ValidTime> = valid.into_iter().flatten().collect();
        self.counters().preparing(|| {
            let raw = RawBatch::new(catalogue, &self.normalizer, request, &valid, fields)?;
            let steps = &valid[..(length - 1) * batch];
            let moments = steps.iter().map(|&from| self.inputs.moment(from, self.step(), turn)).collect();
            let forcings = steps.len() * self.forcing_values();
            Ok(raw.with_moments(moments, forcings, self.init(request)))
        })
    }

    /// Whether a device can do what there is to do: see [`raw`](super::raw).
    pub(super) fn can_be_raw(&self) -> bool {
        let is_window = matches!(self.normalizer.climatology(), Some(Climatology::Window(_)));
        let bridges = self.view.catalogue().missing() == MissingPolicy::Interpolate;
        self.kept.is_none() && !is_window && !bridges
    }

    /// The dates of a window; windows beyond the last repeat it.
    fn dates(&self, request: &Request, window: usize) -> Vec<ValidTime> {
        let start = request.starts[window.min(request.starts.len() - 1)];
        (0..request.length).map(|frame| start.after(self.step().times(frame))).collect()
    }

    /// The date of the last input frame of each window.
    fn init(&self, request: &Request) -> Vec<InitTime> {
        let last = request.input_frames - 1;
        (0..request.batch).map(|window| InitTime(self.dates(request, window)[last])).collect()
    }
}

/// Turns fields `[.., lon, channel]`: column i becomes what column `i + turn` was.
pub fn turn_columns(fields: &mut [f32], columns: usize, channels: usize, turn: u32) {
    let row = columns * channels;
    if row > 0 {
        fields.chunks_exact_mut(row).for_each(|row| row.rotate_left(turn as usize * channels));
    }
}
