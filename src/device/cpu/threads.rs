//! Splitting an operation over threads.

use crate::error::{Error, Result};
use rayon::prelude::*;

/// A pool of its own, or this thread alone.
pub(super) struct Threads {
    pool: Option<rayon::ThreadPool>,
}

impl Threads {
    /// `None`: as many as this process may run at once.
    pub fn new(count: Option<usize>) -> Result<Self> {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        let count = count.unwrap_or(available).max(1);
        if count == 1 {
            return Ok(Self { pool: None });
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|i| format!("cpu-{i}"))
            .build()
            .map_err(|error| Error::run(format!("{count} threads cannot be started")).caused_by(error))?;
        Ok(Self { pool: Some(pool) })
    }

    pub fn count(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Calls `task(i)` for every `i` below `tasks`, in any order, at once on all threads.
    pub fn each(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        self.spread(tasks, &task);
    }

    /// Calls `task(i, chunk i)` for consecutive chunks of `len` elements of `values`, the last perhaps shorter.
    pub fn chunks<T: Send>(&self, values: &mut [T], len: usize, task: impl Fn(usize, &mut [T]) + Sync) {
        self.spread_chunks(values, len, &task);
    }

    // What follows is compiled once, not once for every operation: that was a tenth of the crate's build.

    fn spread(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        match &self.pool {
            Some(pool) if tasks > 1 => {
                pool.install(|| (0..tasks).into_par_iter().with_max_len(1).for_each(task));
            }
            _ => (0..tasks).for_each(task),
        }
    }

    fn spread_chunks<T: Send>(&self, values: &mut [T], len: usize, task: &(dyn Fn(usize, &mut [T]) + Sync)) {
        match &self.pool {
            Some(pool) if values.len() > len => pool.install(|| {
                values.par_chunks_mut(len).with_max_len(1).enumerate().for_each(|(i, chunk)| task(i, chunk));
            }),
            _ => values.chunks_mut(len).enumerate().for_each(|(i, chunk)| task(i, chunk)),
        }
    }
}

/// An array into which tasks write disjoint parts.
#[derive(Clone, Copy)]
pub(super) struct Shared(pub *mut f32);

// SAFETY: only an address; whoever writes through it says why nobody else writes there.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The address of element `index`, which must lie inside the array.
    pub fn at(self, index: usize) -> *mut f32 {
        self.0.wrapping_add(index)
    }
}

/// Calls `work` with `len` numbers of this thread's own, whose content is what some earlier task left.
pub(super) fn with_scratch<R>(len: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local! {
        static SCRATCH: std::cell::Cell<Vec<f32>> = const { std::cell::Cell::new(Vec::new()) };
    }
    /// Numbers in a cache line.
    const LINE: usize = 16;
    SCRATCH.with(|cell| {
        // Taken, not borrowed: a nested call would get a new one.
        let mut scratch = cell.take();
        if scratch.len() < len + LINE {
            scratch.resize(len + LINE, 0.0);
        }
        let skip = scratch.as_ptr().align_offset(4 * LINE).min(LINE);
        let result = work(&mut scratch[skip..skip + len]);
        cell.set(scratch);
        result
    })
}
