//! Sequences of operations that are recorded once and then done by one call.
//!
//! The first time a sequence is simply done: scratch memory, tables and the choice of kernels are made then. The second
//! time it is recorded and done; from then on it is replayed. A recording holds the addresses of slots, which stay where
//! they are until the device is allocated anew.

use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

use super::super::{Device, Real, Sequence, Slot};
use super::driver::{Call, Gpu};
use super::{Cuda, prepared};
use crate::error::{Error, Result};

/// A recorded sequence.
struct Graph(CudaGraph);

// SAFETY: the driver's handles are used by one thread at a time, each of which binds the context first.
unsafe impl Send for Graph {}

impl Graph {
    fn replay(&self) -> Result<()> {
        self.0.launch().call("cuGraphLaunch")
    }
}

#[derive(Default)]
pub(super) struct Graphs {
    /// `None` was done once and not recorded yet.
    known: Vec<(Sequence, Option<Recording>)>,
    pub recording: bool,
    /// What the sequence that is being recorded has written, as far as anything is made of it.
    written: Vec<Slot>,
}

/// A graph, and what it writes.
struct Recording {
    graph: Graph,
    written: Vec<Slot>,
}

/// What is to be done with a sequence.
enum Turn {
    /// Do it: for the first time, or inside of another one.
    Work,
    Record,
    Replay,
}

impl Graphs {
    fn turn(&mut self, sequence: Sequence) -> Turn {
        if self.recording {
            return Turn::Work;
        }
        match self.known.iter().find(|(known, _)| *known == sequence) {
            None => {
                self.known.push((sequence, None));
                Turn::Work
            }
            Some((_, None)) => Turn::Record,
            Some((_, Some(_))) => Turn::Replay,
        }
    }

    /// Whether anything is recorded.
    fn any(&self) -> bool {
        self.known.iter().any(|(_, recording)| recording.is_some())
    }

    fn get(&self, sequence: Sequence) -> Option<&Recording> {
        self.known.iter().find(|(known, _)| *known == sequence)?.1.as_ref()
    }

    /// Remembers that the sequence under way writes a slot.
    pub fn writes(&mut self, slot: Slot) {
        if self.recording && !self.written.contains(&slot) {
            self.written.push(slot);
        }
    }

    fn keep(&mut self, sequence: Sequence, graph: Graph) {
        let graph = Recording { graph, written: std::mem::take(&mut self.written) };
        if let Some((_, kept)) = self.known.iter_mut().find(|(known, _)| *known == sequence) {
            *kept = Some(graph);
        }
    }

    pub fn clear(&mut self) {
        self.known.clear();
        self.written.clear();
    }
}

/// Does a sequence, records it or replays what was recorded.
pub(super) fn repeat<T: Real>(
    cuda: &mut Cuda<T>,
    sequence: Sequence,
    work: &mut dyn FnMut(&mut dyn Device<T>),
) {
    // Recordings read weights as they were prepared, and prepare none.
    if !cuda.graphs.borrow().recording {
        cuda.attempt(prepared::refresh);
    }
    let turn = cuda.graphs.borrow_mut().turn(sequence);
    match turn {
        Turn::Work => return work(cuda),
        Turn::Replay => {}
        Turn::Record => {
            if !cuda.graphs.borrow().any() {
                cuda.shrink();
            }
            if cuda.attempt(|cuda| begin(&cuda.gpu)).is_none() {
                return;
            }
            cuda.graphs.borrow_mut().recording = true;
            work(cuda);
            cuda.graphs.borrow_mut().recording = false;
            // A recording ends in one place.
            let joined = cuda.lanes.join_all(&cuda.gpu);
            cuda.attempt(|_| joined);
            // Also where an operation failed: the stream has to leave its recording.
            match end(&cuda.gpu) {
                Ok(_) if cuda.failure.borrow().is_some() => return,
                Ok(graph) => cuda.graphs.borrow_mut().keep(sequence, graph),
                Err(error) => {
                    cuda.attempt(|_| -> Result<()> { Err(error) });
                    return;
                }
            }
        }
    }
    cuda.attempt(|cuda| {
        let graphs = cuda.graphs.borrow();
        let Some(recording) = graphs.get(sequence) else { return Ok(()) };
        recording.graph.replay()?;
        recording.written.iter().for_each(|&slot| cuda.prepared.borrow_mut().touch(slot));
        Ok(())
    });
}

/// From here on operations are written down, not done.
fn begin(gpu: &Gpu) -> Result<()> {
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    gpu.stream.begin_capture(mode).call("cuStreamBeginCapture")
}

/// What was written down since [`begin`].
fn end(gpu: &Gpu) -> Result<Graph> {
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    gpu.stream
        .end_capture(flags)
        .call("cuStreamEndCapture")?
        .map(Graph)
        .ok_or_else(|| Error::run("a sequence of no operations cannot be repeated"))
}
