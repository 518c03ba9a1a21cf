//! What the next step of an engine reads, copied to the host beside the steps that follow: set aside on the GPU first, from
//! where it travels on a stream of its own.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaSlice, CudaStream, PinnedHostSlice};

use super::engine::call;
use crate::error::{Error, Result};

pub struct Copies {
    stream: Arc<CudaStream>,
    /// Of each array, where it is set aside and where it arrives.
    pieces: Vec<(CudaSlice<f32>, PinnedHostSlice<f32>)>,
    /// The moment at which the copy under way is on the host.
    arrived: Option<CudaEvent>,
    is_under_way: bool,
}

impl Copies {
    pub fn new(beside: &CudaStream) -> Result<Self> {
        let stream = call("cuStreamCreate", beside.context().new_stream())?;
        Ok(Self { stream, pieces: Vec::new(), arrived: None, is_under_way: false })
    }

    /// Starts to copy `arrays`, always the same ones in the same order, as they are after all that is on `main`.
    pub fn start(&mut self, main: &Arc<CudaStream>, arrays: &[&CudaSlice<f32>]) -> Result<()> {
        self.is_under_way = false;
        for array in arrays.iter().skip(self.pieces.len()) {
            let aside = call("cuMemAlloc", main.alloc_zeros::<f32>(array.len()))?;
            // SAFETY: nothing is read of it before a copy has filled it.
            let host = unsafe { main.context().alloc_pinned_with_flags::<f32>(array.len(), 0) };
            self.pieces.push((aside, call("cuMemHostAlloc", host)?));
        }
        if let Some(arrived) = &self.arrived {
            call("cuStreamWaitEvent", main.wait(arrived))?;
        }
        for (array, (aside, _)) in arrays.iter().zip(&mut self.pieces) {
            call("cuMemcpyDtoDAsync", main.memcpy_dtod(*array, aside))?;
        }
        call("cuStreamWaitEvent", self.stream.join(main))?;
        for (aside, host) in &mut self.pieces {
            call("cuMemcpyDtoHAsync", self.stream.memcpy_dtoh(aside, host))?;
        }
        self.arrived = Some(call("cuEventRecord", self.stream.record_event(None))?);
        self.is_under_way = true;
        Ok(())
    }

    /// The arrays of the copy that was started, told once; `None` where nobody waits and it has not arrived.
    pub fn result(&mut self, wait: bool) -> Result<Option<Vec<Vec<f32>>>> {
        let Some(arrived) = self.arrived.as_ref().filter(|_| self.is_under_way) else {
            return if wait {
                Err(Error::run("no copy of an engine's state is under way"))
            } else {
                Ok(None)
            };
        };
        call("cuCtxSetCurrent", self.stream.context().bind_to_thread())?;
        if wait {
            call("cuEventSynchronize", arrived.synchronize())?;
        } else if !call("cuEventQuery", arrived.try_is_complete())? {
            return Ok(None);
        }
        self.is_under_way = false;
        let read =
            |(_, host): &(_, PinnedHostSlice<f32>)| Ok(call("cuEventSynchronize", host.as_slice())?.to_vec());
        self.pieces.iter().map(read).collect::<Result<Vec<_>>>().map(Some)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // What is set aside may be on its way. An error is that of an earlier call, which was told.
        let _ = self.stream.synchronize();
    }
}
