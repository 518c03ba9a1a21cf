//! Moving numbers, and passes over whole slots.

use cudarc::driver::{CudaStream, result};

use super::super::{Real, Slot};
use super::Cuda;
use super::compile::Numbers;
use super::driver::Call;
use super::memory::check_disjoint;
use super::modules::Grid;
use crate::error::Result;

/// The most blocks that a sum is split into. A sum's order depends on its length alone.
const MOST_PARTS: usize = 1024;

pub(super) fn upload<T: Real>(cuda: &Cuda<T>, to: Slot, values: &[T]) -> Result<()> {
    assert_eq!(to.len(), values.len(), "what is uploaded fits its slot");
    cuda.not_recording("upload");
    if to.is_activation() && cuda.numbers.is_narrow() {
        let bits: Vec<u16> = values.iter().map(|value| narrow(cuda.numbers, *value)).collect();
        return to_gpu(cuda, cuda.arena.address(to), &bits);
    }
    to_gpu(cuda, cuda.arena.address(to), values)
}

/// The slot at `address` is as long as the values.
fn to_gpu<T: Real, V>(cuda: &Cuda<T>, address: u64, values: &[V]) -> Result<()> {
    // SAFETY: the slot lies inside the arena and is as long as the values (both checked); the driver has copied pageable
    // memory when the call returns.
    unsafe { result::memcpy_htod_async(address, values, cuda.gpu.stream.cu_stream()) }
        .call("cuMemcpyHtoDAsync")
}

pub(super) fn download<T: Real>(cuda: &Cuda<T>, from: Slot, values: &mut [T]) -> Result<()> {
    assert_eq!(from.len(), values.len(), "what is downloaded fits its slot");
    cuda.not_recording("download");
    if from.is_activation() && cuda.numbers.is_narrow() {
        let mut bits = vec![0_u16; values.len()];
        to_host(cuda, cuda.arena.address(from), &mut bits)?;
        for (value, bits) in values.iter_mut().zip(bits) {
            *value = T::of(wide(cuda.numbers, bits));
        }
        return Ok(());
    }
    to_host(cuda, cuda.arena.address(from), values)
}

/// The slot at `address` is as long as the values.
fn to_host<T: Real, V>(cuda: &Cuda<T>, address: u64, values: &mut [V]) -> Result<()> {
    // SAFETY: as in `to_gpu`; the values are borrowed until the stream has been waited for.
    unsafe { result::memcpy_dtoh_async(values, address, cuda.gpu.stream.cu_stream()) }
        .call("cuMemcpyDtoHAsync")?;
    cuda.gpu.synchronize()
}

/// A number as 16 bits of an activation.
fn narrow<T: Real>(numbers: Numbers, value: T) -> u16 {
    match numbers {
        Numbers::Fp16 => half::f16::from_f64(value.wide()).to_bits(),
        _ => half::bf16::from_f64(value.wide()).to_bits(),
    }
}

/// A number of a slot from its bytes, little-endian like every host of a GPU.
pub(super) fn number<T: Real>(cuda: &Cuda<T>, slot: Slot, bytes: &[u8]) -> T {
    match *bytes {
        [a, b] if slot.is_activation() => T::of(wide(cuda.numbers, u16::from_le_bytes([a, b]))),
        [a, b, c, d] => T::of(f32::from_le_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => T::of(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        _ => T::of(f64::NAN),
    }
}

fn wide(numbers: Numbers, bits: u16) -> f64 {
    match numbers {
        Numbers::Fp16 => half::f16::from_bits(bits).to_f64(),
        _ => half::bf16::from_bits(bits).to_f64(),
    }
}

pub(super) fn zero<T: Real>(cuda: &Cuda<T>, slot: Slot) -> Result<()> {
    if slot.is_empty() {
        return Ok(());
    }
    let bytes = slot.len() * cuda.arena.size_of(slot);
    // SAFETY: the slot lies inside the arena (checked). Zero bytes are the number 0.
    unsafe { result::memset_d8_async(cuda.arena.address(slot), 0, bytes, cuda.gpu.stream.cu_stream()) }
        .call("cuMemsetD8Async")
}

pub(super) fn copy<T: Real>(cuda: &Cuda<T>, from: Slot, to: Slot) -> Result<()> {
    assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
    assert_eq!(from.is_activation(), to.is_activation(), "a copy is of one kind of number");
    check_disjoint(&[from], &[to]);
    if from.is_empty() {
        return Ok(());
    }
    let (source, target) = (cuda.arena.address(from), cuda.arena.address(to));
    copy_bytes(target, source, from.len() * cuda.arena.size_of(from), &cuda.gpu.stream)
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
    cuda.not_recording("sum_of_squares");
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
