//! Numbers on their way to other devices: in 16 bits each, or only the largest of them.

use half::bf16;

use super::super::{Picking, Real};
use super::threads::Threads;
use super::vector::Parts;

/// Numbers of one task; even.
const CHUNK: usize = 1 << 14;

/// Numbers of 16 bits in the place of one.
const fn in_one<T>() -> usize {
    size_of::<T>() / 2
}

fn narrow<T: Real>(x: T) -> u16 {
    // By way of float32 on every device.
    bf16::from_f32(x.wide() as f32).to_bits()
}

fn wide<T: Real>(bits: u16) -> T {
    T::of(bf16::from_bits(bits).to_f64())
}

/// The bytes of numbers that hold others.
fn halves<T: Real>(packed: &[T]) -> &[u16] {
    // SAFETY: a Real is a plain number without padding, aligned better than 16 bits, and any bits are a u16.
    unsafe { std::slice::from_raw_parts(packed.as_ptr().cast(), packed.len() * in_one::<T>()) }
}

pub(super) fn pack<T: Real>(threads: &Threads, x: &[T], packed: &mut [T]) {
    assert!(packed.len() * in_one::<T>() >= x.len(), "room for all numbers");
    let each = CHUNK / in_one::<T>();
    threads.chunks(packed, each, |task, packed| {
        let places = packed.len() * in_one::<T>();
        // SAFETY: as in `halves`, and any bits are a Real.
        let bits = unsafe { std::slice::from_raw_parts_mut(packed.as_mut_ptr().cast::<u16>(), places) };
        let first = (task * CHUNK).min(x.len());
        let values = &x[first..(first + places).min(x.len())];
        bits.iter_mut().zip(values).for_each(|(bits, &x)| *bits = narrow(x));
        bits[values.len()..].fill(0);
    });
}

pub(super) fn unpack<T: Real>(threads: &Threads, packed: &[T], parts: usize, x: &mut [T]) {
    assert!(parts > 0 && packed.len().is_multiple_of(parts), "parts of one length");
    let places = packed.len() / parts * in_one::<T>();
    assert!(x.len() <= places, "a place for each number");
    let bits = halves(packed);
    threads.chunks(x, CHUNK, |task, x| {
        for part in 0..parts {
            let bits = &bits[part * places + task * CHUNK..][..x.len()];
            for (x, &bits) in x.iter_mut().zip(bits) {
                let value = wide::<T>(bits);
                *x = if part == 0 { value } else { *x + value };
            }
        }
    });
}

pub(super) fn pick<T: Real>(
    threads: &Threads,
    picking: &Picking,
    x: &[T],
    residual: &mut [T],
    picked: &mut [T],
) {
    picking.check();
    let keep = picking.keep;
    let (residual, picked) = (Parts::new(residual), Parts::new(picked));
    threads.each(x.len().div_ceil(Picking::BLOCK), |task| {
        let first = task * Picking::BLOCK;
        let len = Picking::BLOCK.min(x.len() - first);
        // SAFETY: tasks have disjoint parts.
        let (residual, pairs) =
            unsafe { (residual.part(first, len), picked.part(2 * keep * task, 2 * keep)) };
        pick_block(&x[first..first + len], residual, pairs);
    });
}

/// By their size alone; what is no number is larger than all.
fn key<T: Real>(x: T) -> u32 {
    (x.wide() as f32).to_bits() & (u32::MAX >> 1)
}

fn pick_block<T: Real>(x: &[T], residual: &mut [T], pairs: &mut [T]) {
    residual.iter_mut().zip(x).for_each(|(residual, &x)| *residual += x);
    let keep = pairs.len() / 2;
    // Large ones first, of equal ones the first.
    let mut order: Vec<(u32, usize)> =
        residual.iter().enumerate().map(|(place, &value)| (!key(value), place)).collect();
    let chosen = keep.min(order.len());
    if chosen < order.len() {
        order.select_nth_unstable(chosen);
    }
    let mut places: Vec<usize> = order[..chosen].iter().map(|&(_, place)| place).collect();
    places.sort_unstable();
    for (pair, &place) in pairs.chunks_exact_mut(2).zip(&places) {
        pair[0] = T::of(place as f64);
        pair[1] = std::mem::take(&mut residual[place]);
    }
    for pair in pairs.chunks_exact_mut(2).skip(places.len()) {
        pair[0] = T::of(-1.0);
        pair[1] = T::default();
    }
    residual.iter_mut().filter(|value| !value.wide().is_finite()).for_each(|value| *value = T::default());
}

pub(super) fn lay_out<T: Real>(threads: &Threads, picked: &[T], keep: usize, parts: usize, x: &mut [T]) {
    let pairs = Picking::pairs(x.len(), keep);
    assert_eq!(picked.len(), 2 * parts * pairs, "pairs of {parts} devices");
    threads.chunks(x, Picking::BLOCK, |task, x| {
        x.fill(T::default());
        for part in 0..parts {
            for pair in picked[2 * (part * pairs + task * keep)..][..2 * keep].chunks_exact(2) {
                let place = pair[0].wide();
                if place >= 0.0 {
                    x[place as usize] += pair[1];
                }
            }
        }
    });
}
