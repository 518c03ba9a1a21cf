//! Work at the side: streams beside the main one, each with memory of its own to work in.

use std::cell::RefCell;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::driver::{Call, Gpu};
use super::memory::Scratch;
use crate::error::Result;

/// Beside the main stream.
pub(super) const LANES: usize = 4;

/// A stream beside the main one.
struct Lane {
    stream: Arc<CudaStream>,
    scratch: RefCell<Scratch>,
    /// Work was put on it that the main stream has not waited for.
    is_ahead: bool,
}

pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// Which one is the main stream's place taken by.
    inside: Option<usize>,
}

impl Lanes {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let lane = |_| -> Result<Lane> {
            let stream = gpu.context.new_stream().call("cuStreamCreate")?;
            Ok(Lane { stream, scratch: RefCell::default(), is_ahead: false })
        };
        Ok(Self { lanes: (0..LANES).map(lane).collect::<Result<_>>()?, inside: None })
    }

    /// The lane that takes work of this number.
    fn number(number: usize) -> usize {
        number % LANES
    }

    /// Puts a lane's stream, where work is recorded, and its memory in place of the main ones.
    pub fn enter(
        &mut self,
        number: usize,
        gpu: &mut Gpu,
        scratch: &mut RefCell<Scratch>,
        records: bool,
    ) -> Result<()> {
        assert!(self.inside.is_none(), "work at the side of work at the side");
        let number = Self::number(number);
        let lane = &mut self.lanes[number];
        if records {
            lane.stream.join(&gpu.stream).call("cuStreamWaitEvent")?;
            lane.is_ahead = true;
            std::mem::swap(&mut lane.stream, &mut gpu.stream);
        }
        std::mem::swap(&mut lane.scratch, scratch);
        self.inside = Some(number);
        Ok(())
    }

    /// Which lane's memory is to be worked in: 0 for the main one.
    pub fn inside(&self) -> usize {
        self.inside.map_or(0, |number| 1 + number)
    }

    /// Undoes [`enter`](Self::enter).
    pub fn leave(&mut self, gpu: &mut Gpu, scratch: &mut RefCell<Scratch>, records: bool) {
        let Some(number) = self.inside.take() else { return };
        let lane = &mut self.lanes[number];
        if records {
            std::mem::swap(&mut lane.stream, &mut gpu.stream);
        }
        std::mem::swap(&mut lane.scratch, scratch);
    }

    /// Lets the main stream wait for a lane.
    pub fn join(&mut self, number: usize, gpu: &Gpu) -> Result<()> {
        let lane = &mut self.lanes[Self::number(number)];
        if std::mem::take(&mut lane.is_ahead) {
            gpu.stream.join(&lane.stream).call("cuStreamWaitEvent")?;
        }
        Ok(())
    }

    /// Lets the main stream wait for all lanes.
    pub fn join_all(&mut self, gpu: &Gpu) -> Result<()> {
        (0..LANES).try_for_each(|number| self.join(number, gpu))
    }

    /// As [`Scratch::shrink`], for all lanes.
    pub fn shrink(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.scratch.get_mut().shrink());
    }

    /// What operations worked in is given back.
    pub fn clear(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.scratch = RefCell::default());
    }
}
