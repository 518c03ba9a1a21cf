//! What preparing batches has cost so far.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sums over all threads that read for one data set.
#[derive(Default)]
pub(super) struct Counters {
    bytes: AtomicU64,
    /// [ns]
    reading: AtomicU64,
    /// [ns]
    preparing: AtomicU64,
}

/// Work of the threads that load data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Effort {
    /// Fetched from files, packed and deflated as they are.
    pub bytes: u64,
    /// Reading, inflating and, where the processor does it, decoding and regridding [s].
    pub reading: f64,
    /// Filling holes, normalising and making forcings on the processor [s].
    pub preparing: f64,
}

impl Counters {
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn reading<R>(&self, work: impl FnOnce() -> R) -> R {
        timed(&self.reading, work)
    }

    pub fn preparing<R>(&self, work: impl FnOnce() -> R) -> R {
        timed(&self.preparing, work)
    }

    pub fn total(&self) -> Effort {
        let seconds = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed)).as_secs_f64();
        Effort {
            bytes: self.bytes.load(Ordering::Relaxed),
            reading: seconds(&self.reading),
            preparing: seconds(&self.preparing),
        }
    }
}

fn timed<R>(sum: &AtomicU64, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    sum.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    result
}

impl Sub for Effort {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            reading: self.reading - before.reading,
            preparing: self.preparing - before.preparing,
        }
    }
}
