//! What numbers become on their way to other devices.

use super::super::{Picking, Real, Slot};
use super::{Bench, Case, case};
use crate::error::Result;

pub(super) fn cases() -> Vec<Case> {
    vec![case!(pack), case!(unpack), case!(pick), case!(lay_out)]
}

/// Several blocks and a rest, which is smaller than what is kept of a block.
const N: usize = 3 * Picking::BLOCK + 57;
const KEEP: usize = 83;

/// What lies in a slot of packed numbers, as numbers: places of 16 bits differ from device to device.
fn pack<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let in_one = size_of::<T>() / 2;
    let [x, packed, back] = bench.slots([N, N.div_ceil(in_one), N])?;
    bench.device.pack(x, packed);
    bench.device.unpack(packed, 1, back);
    // The same 8 bits on every device.
    bench.compare(back, 0.5);
    Ok(())
}

fn unpack<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let in_one = size_of::<T>() / 2;
    let places = (N + 7).next_multiple_of(4);
    let [x, packed, sum] = bench.slots([N, 3 * places / in_one, N])?;
    for part in 0..3 {
        bench.fill(x, part as u64);
        bench.device.pack(x, packed.part(part * places / in_one, places / in_one));
    }
    bench.device.unpack(packed, 3, sum);
    bench.compare(sum, 2.0);
    Ok(())
}

/// Numbers whose sums are exact, many of them equal.
fn coarse<T: Real>(bench: &mut Bench<'_, T>, slot: Slot, seed: usize) {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 1021) as f64 / 512.0 - 1.0;
    bench.upload(slot, &(0..slot.len()).map(value).collect::<Vec<_>>());
}

fn picked<T: Real>(bench: &mut Bench<'_, T>) -> Result<[Slot; 3]> {
    let pairs = 2 * Picking::pairs(N, KEEP);
    let [x, residual, picked] = bench.slots([N, N, 2 * pairs])?;
    for part in 0..2 {
        coarse(bench, x, part);
        coarse(bench, residual, 7 + part);
        let picked = picked.part(part * pairs, pairs);
        bench.device.pick(&Picking { x, residual, picked, keep: KEEP });
    }
    Ok([x, residual, picked])
}

fn pick<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [_, residual, picked] = picked(bench)?;
    bench.compare(residual, 0.5);
    bench.compare(picked, 0.5);
    Ok(())
}

fn lay_out<T: Real>(bench: &mut Bench<'_, T>) -> Result<()> {
    let [x, _, picked] = picked(bench)?;
    bench.device.lay_out(picked, KEEP, 2, x);
    bench.compare(x, 0.5);
    Ok(())
}
