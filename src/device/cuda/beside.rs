//! Work beside other work: a second stream, pinned memory that copies start from, and the events between the streams.
//!
//! Two shelves take turns, so that the host fills one while the other is still being copied. A shelf is as large as the
//! largest batch that came by; from then on nothing is allocated.

use std::sync::Arc;

use cudarc::driver::{CudaStream, result};

use super::super::sparse::Tables;
use super::super::{Beside, Sparse};
use super::driver::{Call, Gpu, Memory};
use super::waiting::{Event, Pinned};
use crate::error::Result;

/// Where each piece of a parcel begins: more than any number or vector needs.
const ALIGNMENT: usize = 256;

/// The second stream, and all that waits on it or for it.
pub(super) struct Side {
    pub stream: Arc<CudaStream>,
    shelves: [Shelf; 2],
    /// The shelf in use, or used last.
    now: usize,
    /// Whether something was asked for since the last batch was handed over.
    open: bool,
    /// The main stream has copied what was handed over last.
    taken: Event,
    products: Vec<(Arc<Tables>, [Memory; 3])>,
}

/// What is on its way to one batch.
struct Shelf {
    boards: Vec<Board>,
    /// Around each copy, and behind the kernels that use it.
    laps: Vec<[Event; 3]>,
    lapped: usize,
    /// Everything of the batch is there; before and after the main stream waited for it.
    ready: Event,
    waited: [Event; 2],
    handed_over: bool,
}

/// Memory of the host, and as much of the GPU.
struct Board {
    host: Pinned,
    device: Memory,
    used: usize,
}

/// Bytes that travel together: put in one after the other, then sent.
pub(super) struct Parcel<'a> {
    side: &'a mut Side,
    first: usize,
    at: usize,
    end: usize,
}

impl Side {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let stream = gpu.context.new_stream().call("cuStreamCreate")?;
        let (first, second) = (Shelf::new(gpu)?, Shelf::new(gpu)?);
        let taken = Event::new(gpu)?;
        Ok(Self { stream, shelves: [first, second], now: 1, open: false, taken, products: Vec::new() })
    }

    /// Room for pieces of these sizes. The first of a batch turns to the other shelf.
    pub fn parcel(&mut self, gpu: &Gpu, sizes: impl Iterator<Item = usize>) -> Result<Parcel<'_>> {
        let bytes = sizes.map(|size| size.next_multiple_of(ALIGNMENT)).sum::<usize>().max(ALIGNMENT);
        if !self.open {
            self.open = true;
            self.now = 1 - self.now;
            self.shelves[self.now].clear()?;
            // What is made from here on may overwrite what the main stream has taken.
            self.taken.delays(&self.stream)?;
        }
        let shelf = &mut self.shelves[self.now];
        let first = shelf.take(gpu, bytes)?;
        Ok(Parcel { side: self, first, at: first, end: first + bytes })
    }

    /// Waits for everything on the second stream.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().call("cuStreamSynchronize")
    }

    /// What was sent last has been used.
    pub fn lap(&mut self, gpu: &Gpu) -> Result<()> {
        let shelf = &mut self.shelves[self.now];
        let lap = shelf.lap(gpu)?;
        lap[2].record(&self.stream)?;
        shelf.lapped += 1;
        Ok(())
    }

    /// The main stream waits for everything that was asked for, does `copies`, and frees where it was made.
    pub fn hand_over(&mut self, gpu: &Gpu, copies: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.open {
            return copies();
        }
        self.open = false;
        let shelf = &mut self.shelves[self.now];
        shelf.ready.record(&self.stream)?;
        shelf.handed_over = true;
        shelf.waited[0].record(&gpu.stream)?;
        shelf.ready.delays(&gpu.stream)?;
        shelf.waited[1].record(&gpu.stream)?;
        copies()?;
        self.taken.record(&gpu.stream)
    }

    /// Of the batch that was handed over last.
    pub fn times(&self) -> Result<Beside> {
        let shelf = &self.shelves[if self.open { 1 - self.now } else { self.now }];
        if !shelf.handed_over {
            return Ok(Beside::default());
        }
        shelf.waited[1].wait()?;
        let mut times = Beside { waiting: shelf.waited[1].since(&shelf.waited[0])?, ..Beside::default() };
        for [begin, copied, used] in &shelf.laps[..shelf.lapped] {
            times.copying += copied.since(begin)?;
            times.preparing += used.since(copied)?;
        }
        Ok(times)
    }

    /// Addresses of the starts, sources and weights of a product. Its tables are copied when it is first met.
    pub fn product(&mut self, gpu: &Gpu, product: &Sparse) -> Result<[u64; 3]> {
        // The kept pointer keeps the tables alive, so that no others have their address.
        let known = self.products.iter().position(|(tables, _)| Arc::ptr_eq(tables, &product.0));
        let index = match known {
            Some(index) => index,
            None => {
                let tables = &product.0;
                let memory = [
                    resident(gpu, &self.stream, &tables.starts)?,
                    resident(gpu, &self.stream, &tables.sources)?,
                    resident(gpu, &self.stream, &tables.weights)?,
                ];
                self.products.push((tables.clone(), memory));
                self.products.len() - 1
            }
        };
        Ok(self.products[index].1.each_ref().map(Memory::start))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Copies from pinned memory may be under way. An error is that of an earlier call, which has been reported.
        let _ = self.synchronize();
    }
}

/// A copy on the GPU that stays.
fn resident<N>(gpu: &Gpu, stream: &CudaStream, numbers: &[N]) -> Result<Memory> {
    let memory = Memory::zeroed(gpu, size_of_val(numbers))?;
    // The zeros come on the other stream.
    gpu.synchronize()?;
    // SAFETY: as many bytes as were allocated; the driver has copied pageable memory when the call returns.
    unsafe { result::memcpy_htod_async(memory.start(), numbers, stream.cu_stream()) }
        .call("cuMemcpyHtoDAsync")?;
    Ok(memory)
}

impl Shelf {
    fn new(gpu: &Gpu) -> Result<Self> {
        Ok(Self {
            boards: Vec::new(),
            laps: Vec::new(),
            lapped: 0,
            ready: Event::new(gpu)?,
            waited: [Event::new(gpu)?, Event::new(gpu)?],
            handed_over: false,
        })
    }

    /// Empties it, once everything on it has been used.
    fn clear(&mut self) -> Result<()> {
        if self.handed_over {
            self.ready.wait()?;
        }
        self.handed_over = false;
        self.lapped = 0;
        // The last one has room for all that was there.
        self.boards.drain(..self.boards.len().saturating_sub(1));
        self.boards.iter_mut().for_each(|board| board.used = 0);
        Ok(())
    }

    /// Where on the last board `bytes` bytes have room.
    fn take(&mut self, gpu: &Gpu, bytes: usize) -> Result<usize> {
        let has_room = |board: &Board| board.used + bytes <= board.device.bytes();
        if !self.boards.last().is_some_and(has_room) {
            // Room for all that is on the shelf, so that it is the only one the next time. The others stay until then.
            if self.boards.iter().all(|board| board.used == 0) {
                self.boards.clear();
            }
            let all = bytes + self.boards.iter().map(|board| board.used).sum::<usize>();
            self.boards.push(Board::new(gpu, all.next_multiple_of(1 << 20))?);
        }
        let Some(board) = self.boards.last_mut() else { return Ok(0) };
        let first = board.used;
        board.used += bytes;
        Ok(first)
    }

    fn lap(&mut self, gpu: &Gpu) -> Result<&[Event; 3]> {
        if self.laps.len() == self.lapped {
            self.laps.push([Event::new(gpu)?, Event::new(gpu)?, Event::new(gpu)?]);
        }
        Ok(&self.laps[self.lapped])
    }
}

impl Board {
    fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let device = Memory::zeroed(gpu, bytes)?;
        // The zeros come on the other stream.
        gpu.synchronize()?;
        Ok(Self { host: Pinned::new(gpu, bytes)?, device, used: 0 })
    }
}

impl Parcel<'_> {
    /// Puts a piece in; gives its address on the GPU.
    ///
    /// Panics where it was not announced: that is a mistake in the operation.
    pub fn put(&mut self, piece: &[u8]) -> u64 {
        assert!(self.at + piece.len() <= self.end, "a parcel holds what was announced");
        let address = self.address(self.at);
        if let Some(board) = self.side.shelves[self.side.now].boards.last_mut() {
            board.host.bytes()[self.at..self.at + piece.len()].copy_from_slice(piece);
        }
        self.at += piece.len().next_multiple_of(ALIGNMENT);
        address
    }

    /// 4 or 8 bytes a number, as the GPU, little-endian like every host of one, reads them.
    pub fn put_numbers<N: Copy, const SIZE: usize>(
        &mut self,
        numbers: &[N],
        bytes: fn(N) -> [u8; SIZE],
    ) -> u64 {
        let bytes: Vec<u8> = numbers.iter().flat_map(|&number| bytes(number)).collect();
        self.put(&bytes)
    }

    fn address(&self, at: usize) -> u64 {
        let board = self.side.shelves[self.side.now].boards.last();
        board.map_or(0, |board| board.device.start()) + at as u64
    }

    /// Starts the copy.
    pub fn send(self, gpu: &Gpu) -> Result<()> {
        let to = self.address(self.first);
        let stream = self.side.stream.clone();
        let shelf = &mut self.side.shelves[self.side.now];
        shelf.lap(gpu)?[0].record(&stream)?;
        if let Some(board) = shelf.boards.last_mut() {
            let bytes = &board.host.bytes()[self.first..self.at];
            // SAFETY: as many bytes of the GPU lie behind `to`. The pinned bytes stay until `ready` has been waited for,
            // which comes later on this stream.
            unsafe { result::memcpy_htod_async(to, bytes, stream.cu_stream()) }.call("cuMemcpyHtoDAsync")?;
        }
        shelf.lap(gpu)?[1].record(&stream)
    }
}
