//! Memory of the host that copies go to and come from while the program does something else, and the moments that streams
//! and the program wait for.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result, sys};

use super::driver::{Call, Gpu, failed};
use crate::error::Result;

/// Pinned memory, cached as usual: filling write-combined memory takes twice as long.
pub(super) struct Pinned {
    context: Arc<CudaContext>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory, like a Vec of bytes would.
unsafe impl Send for Pinned {}

impl Pinned {
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        gpu.bind()?;
        // SAFETY: the context is bound, and the size is not zero.
        let start = unsafe { result::malloc_host(bytes.max(1), 0) }.call("cuMemHostAlloc")?.cast::<u8>();
        // SAFETY: `bytes` bytes were just allocated; from here on they are initialised.
        unsafe { start.write_bytes(0, bytes) };
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        Ok(Self { context: gpu.context.clone(), start, bytes })
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated and initialised in `new`, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated in `new`, freed only here; copies from it have been waited for. An error is that of an
            // earlier call.
            let _ = unsafe { result::free_host(self.start.as_ptr().cast::<c_void>()) };
        }
    }
}

/// A moment of a stream.
pub(super) struct Event {
    context: Arc<CudaContext>,
    event: sys::CUevent,
}

// SAFETY: a handle of the driver, which may be used from any thread whose context is bound.
unsafe impl Send for Event {}

impl Event {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        gpu.bind()?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).call("cuEventCreate")?;
        Ok(Self { context: gpu.context.clone(), event })
    }

    pub fn record(&self, stream: &CudaStream) -> Result<()> {
        // SAFETY: event and stream are alive, and of one context.
        unsafe { result::event::record(self.event, stream.cu_stream()) }.call("cuEventRecord")
    }

    /// What comes on the stream from here on waits for this moment; for nothing where it was never recorded.
    pub fn delays(&self, stream: &CudaStream) -> Result<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: as in `record`.
        unsafe { result::stream::wait_event(stream.cu_stream(), self.event, flags) }.call("cuStreamWaitEvent")
    }

    pub fn wait(&self) -> Result<()> {
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.event) }.call("cuEventSynchronize")
    }

    /// Whether it has come; also where it was never recorded.
    pub fn has_come(&self) -> Result<bool> {
        self.context.bind_to_thread().call("cuCtxSetCurrent")?;
        // SAFETY: the event is alive.
        match unsafe { result::event::query(self.event) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(failed("cuEventQuery", error)),
        }
    }

    /// [s]
    pub fn since(&self, earlier: &Event) -> Result<f64> {
        // SAFETY: both events are alive and have been recorded with times.
        let milliseconds =
            unsafe { result::event::elapsed(earlier.event, self.event) }.call("cuEventElapsedTime")?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: created in `new`, destroyed only here. An error is that of an earlier call.
            let _ = unsafe { result::event::destroy(self.event) };
        }
    }
}
