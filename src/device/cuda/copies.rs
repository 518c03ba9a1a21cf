//! Copies to the host beside other work: slots are set aside on the GPU, which takes microseconds, and travel from there
//! on a stream of their own, while the main one goes on.

use std::sync::Arc;

use cudarc::driver::{CudaStream, result};

use super::super::{Real, Slot};
use super::driver::{Call, Gpu, Memory};
use super::waiting::{Event, Pinned};
use super::{Cuda, elementary};
use crate::error::{Error, Result};

/// Where each slot begins among those set aside.
const ALIGNMENT: usize = 256;

/// The copy under way, and the memory that it and those before it use.
pub(super) struct Copies {
    stream: Arc<CudaStream>,
    /// What was set aside, and where it arrives; as large as the largest copy so far.
    room: Option<(Memory, Pinned)>,
    /// Everything is set aside.
    taken: Event,
    /// Everything is on the host.
    arrived: Event,
    /// Which slots, one behind the other; empty where nothing is under way.
    slots: Vec<Slot>,
}

impl Copies {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let stream = gpu.context.new_stream().call("cuStreamCreate")?;
        Ok(Self { stream, room: None, taken: Event::new(gpu)?, arrived: Event::new(gpu)?, slots: Vec::new() })
    }

    /// Memory of at least so many bytes on both ends.
    fn reserve(&mut self, gpu: &Gpu, bytes: usize) -> Result<()> {
        if self.room.as_ref().is_none_or(|(memory, _)| memory.bytes() < bytes) {
            // An earlier copy may still use what goes.
            self.arrived.wait()?;
            self.room = None;
            self.room = Some((Memory::zeroed(gpu, bytes)?, Pinned::new(gpu, bytes)?));
        }
        Ok(())
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // A copy to pinned memory may be under way. An error is that of an earlier call, which has been reported.
        let _ = self.stream.synchronize();
    }
}

pub(super) fn start<T: Real>(cuda: &Cuda<T>, slots: &[Slot]) -> Result<()> {
    cuda.not_recording("start_copy");
    let copies = &mut *cuda.copies.borrow_mut();
    let bytes_of = |slot: Slot| slot.len() * cuda.arena.size_of(slot);
    let all: usize = slots.iter().map(|&slot| bytes_of(slot).next_multiple_of(ALIGNMENT)).sum();
    copies.slots.clear();
    copies.reserve(&cuda.gpu, all)?;
    let Some((memory, host)) = &mut copies.room else { return Ok(()) };
    // What was set aside before has left by now, unless copies are started faster than they travel.
    copies.arrived.delays(&cuda.gpu.stream)?;
    let mut to = memory.start();
    for &slot in slots.iter().filter(|slot| !slot.is_empty()) {
        elementary::copy_bytes(to, cuda.arena.address(slot), bytes_of(slot), &cuda.gpu.stream)?;
        to += bytes_of(slot).next_multiple_of(ALIGNMENT) as u64;
    }
    copies.taken.record(&cuda.gpu.stream)?;
    copies.taken.delays(&copies.stream)?;
    let host = &mut host.bytes()[..all];
    // SAFETY: both ends have `all` bytes (reserved above), and stay until the event behind the copy has been waited for.
    unsafe { result::memcpy_dtoh_async(host, memory.start(), copies.stream.cu_stream()) }
        .call("cuMemcpyDtoHAsync")?;
    copies.arrived.record(&copies.stream)?;
    copies.slots.extend_from_slice(slots);
    Ok(())
}

pub(super) fn result<T: Real>(cuda: &Cuda<T>, wait: bool) -> Result<Option<Vec<T>>> {
    let copies = &mut *cuda.copies.borrow_mut();
    if copies.slots.is_empty() {
        return if wait { Err(Error::run("no copy to the host is under way")) } else { Ok(None) };
    }
    if wait {
        copies.arrived.wait()?;
    } else if !copies.arrived.has_come()? {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(copies.slots.iter().map(|slot| slot.len()).sum());
    let Some((_, host)) = &mut copies.room else { return Ok(Some(values)) };
    let mut bytes = &*host.bytes();
    for slot in copies.slots.drain(..) {
        let size = cuda.arena.size_of(slot);
        let (of_slot, rest) = bytes.split_at((slot.len() * size).next_multiple_of(ALIGNMENT));
        values.extend(
            of_slot.chunks_exact(size).take(slot.len()).map(|one| elementary::number(cuda, slot, one)),
        );
        bytes = rest;
    }
    Ok(Some(values))
}
