//! Moving numbers, and passes over whole slots.

use cudarc::driver::{CudaStream, result};

use super::super::{Real, Slot};
use super::Cuda;
use super::driver::Call;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// The most blocks that a sum is split into. A sum's order depends on its length alone.
const MOST_PARTS: usize = 1024;

pub(super) fn upload<T: Real>(cuda: &Cuda<T>, to: Slot, values: &[T]) -> Result<()> {
    assert_eq!(to.len(), values.len(), "what is uploaded fits its slot");
    // SAFETY: the slot lies inside the arena (checked) and is as long as the values; the driver has copied pageable
    // memory when the call returns.
    unsafe { result::memcpy_htod_async(cuda.arena.address::<T>(to), values, cuda.gpu.stream.cu_stream()) }
        .call("cuMemcpyHtoDAsync")
}

pub(super) fn download<T: Real>(cuda: &Cuda<T>, from: Slot, values: &mut [T]) -> Result<()> {
    assert_eq!(from.len(), values.len(), "what is downloaded fits its slot");
    // SAFETY: as in `upload`; the values are borrowed until the stream has been waited for.
    unsafe { result::memcpy_dtoh_async(values, cuda.arena.address::<T>(from), cuda.gpu.stream.cu_stream()) }
        .call("cuMemcpyDtoHAsync")?;
    cuda.gpu.synchronize()
}

pub(super) fn zero<T: Real>(cuda: &Cuda<T>, slot: Slot) -> Result<()> {
    if slot.is_empty() {
        return Ok(());
    }
    let bytes = slot.len() * size_of::<T>();
    // SAFETY: the slot lies inside the arena (checked). Zero bytes are the number 0.
    unsafe { result::memset_d8_async(cuda.arena.address::<T>(slot), 0, bytes, cuda.gpu.stream.cu_stream()) }
        .call("cuMemsetD8Async")
}

pub(super) fn copy<T: Real>(cuda: &Cuda<T>, from: Slot, to: Slot) -> Result<()> {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    check_disjoint(&[from], &[to]);
    if from.is_empty() {
        return Ok(());
    }
    let (source, target) = (cuda.arena.address::<T>(from), cuda.arena.address::<T>(to));
    copy_bytes(target, source, from.len() * size_of::<T>(), &cuda.gpu.stream)
}

/// Inside the GPU; both addresses have as many bytes behind them.
pub(super) fn copy_bytes(target: u64, source: u64, bytes: usize, stream: &CudaStream) -> Result<()> {
    // SAFETY: callers have both from slots inside the arena (checked) or from memory that they allocated.
    unsafe { result::memcpy_dtod_async(target, source, bytes, stream.cu_stream()) }.call("cuMemcpyDtoDAsync")
}

pub(super) fn scale<T: Real>(cuda: &Cuda<T>, x: Slot, factor: f64) -> Result<()> {
    let n = x.len();
    cuda.kernel("scale").slot(x).real(factor).long(n).run(Grid::over(n))
}

pub(super) fn lerp<T: Real>(cuda: &Cuda<T>, x: Slot, target: Slot, weight: f64) -> Result<()> {
    let n = x.len();
    assert_eq!(n, target.len(), "what is moved is as long as where it goes");
    check_disjoint(&[target], &[x]);
    cuda.kernel("lerp").slot(x).slot(target).real(weight).long(n).run(Grid::over(n))
}

pub(super) fn relax<T: Real>(cuda: &Cuda<T>, x: Slot, target: Slot, weights: Slot) -> Result<()> {
    let n = x.len();
    assert!(target.len() == n && weights.len() == n, "a target and a weight for each number");
    check_disjoint(&[target, weights], &[x]);
    cuda.kernel("relax").slot(x).slot(target).slot(weights).long(n).run(Grid::over(n))
}

pub(super) fn sum_of_squares<T: Real>(cuda: &Cuda<T>, x: Slot) -> Result<f64> {
    let n = x.len();
    let parts = n.div_ceil(4 * Grid::THREADS).clamp(1, MOST_PARTS);
    let sum = cuda.scratch((1 + parts) * size_of::<f64>())?;
    let first = sum + size_of::<f64>() as u64;
    cuda.kernel("sum_of_squares_parts").slot(x).address(first).long(n).run(Grid::blocks(parts))?;
    cuda.kernel("sum_of_parts").address(first).address(sum).int(parts).run(Grid::blocks(1))?;
    number_at(cuda, sum)
}

/// Waits for a number in double precision that kernels have put into scratch memory.
pub(super) fn number_at<T: Real>(cuda: &Cuda<T>, address: u64) -> Result<f64> {
    let mut values = [0.0_f64];
    // SAFETY: the callers' scratch memory of this context; the value is borrowed until it is there.
    unsafe { result::memcpy_dtoh_async(&mut values, address, cuda.gpu.stream.cu_stream()) }
        .call("cuMemcpyDtoHAsync")?;
    cuda.gpu.synchronize()?;
    Ok(values[0])
}
