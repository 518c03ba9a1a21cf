//! Chooses the kernel for a convolution: by number type, instructions and shape, never by the number of threads.

use super::super::{Convolution, Real, Slot, Write};
use super::prepared::Form;
use super::winograd::{self, Tiling};
use super::{Cpu, direct, naive};
use std::any::TypeId;

/// `y (+)= conv(x, w)`.
pub(super) fn forward<T: Real>(cpu: &mut Cpu<T>, s: &Convolution, x: Slot, w: Slot, y: Slot, write: Write) {
    check(s, x, w, y);
    let (threads, set, version) = (&cpu.threads, cpu.instructions, cpu.arena.version(w));
    let ([x, w_values], [y]) = cpu.arena.views([x, w], [y]);
    if !is_single::<T>() {
        return naive::forward(threads, s, x, w_values, y, write);
    }
    let (x, w_values, y) = (single(x), single(w_values), single_mut(y));
    if s.inputs >= 16
        && let Some(tiling) = Tiling::of(s)
    {
        let len = winograd::transformed_len(set, &tiling, s.inputs, s.outputs);
        let u = cpu.prepared.get(w, version, Form::Transformed(tiling.side()), s, len, |to| {
            winograd::transform_weights(threads, set, s, &tiling, w_values, to);
        });
        return winograd::forward(threads, set, s, &tiling, (x, u), y, write, &mut cpu.workspace);
    }
    let len = direct::packed_len(set, s.outputs, s.kernel * s.kernel * s.inputs);
    let packed = cpu.prepared.get(w, version, Form::Panels, s, len, |to| direct::pack(set, s, w_values, to));
    direct::forward(threads, set, s, x, packed, y, write);
}

/// `dx = transpose of conv(., w) applied to dy`.
pub(super) fn input_gradient<T: Real>(cpu: &mut Cpu<T>, s: &Convolution, dy: Slot, w: Slot, dx: Slot) {
    check(s, dx, w, dy);
    let (threads, set, version) = (&cpu.threads, cpu.instructions, cpu.arena.version(w));
    let ([dy, w_values], [dx]) = cpu.arena.views([dy, w], [dx]);
    if !is_single::<T>() {
        return naive::input_gradient(threads, s, dy, w_values, dx);
    }
    let (dy, w_values, dx) = (single(dy), single(w_values), single_mut(dx));
    if let Some(tiling) = Tiling::of(s) {
        let len = winograd::transformed_len(set, &tiling, s.outputs, s.inputs);
        let u = cpu.prepared.get(w, version, Form::TransposedTransformed(tiling.side()), s, len, |to| {
            winograd::transform_weights_transposed(threads, set, s, &tiling, w_values, to);
        });
        return winograd::input_gradient(threads, set, s, &tiling, (dy, u), dx, &mut cpu.workspace);
    }
    let len = direct::packed_len(set, s.inputs, s.kernel * s.kernel * s.outputs);
    let packed = cpu.prepared.get(w, version, Form::TurnedPanels, s, len, |to| {
        direct::pack_turned(threads, set, s, w_values, to);
    });
    direct::input_gradient(threads, set, s, dy, packed, dx);
}

/// `dw += transpose of conv(x, .) applied to dy`.
pub(super) fn weight_gradient<T: Real>(cpu: &mut Cpu<T>, s: &Convolution, x: Slot, dy: Slot, dw: Slot) {
    check(s, x, dw, dy);
    let (threads, set) = (&cpu.threads, cpu.instructions);
    let ([x, dy], [dw]) = cpu.arena.views([x, dy], [dw]);
    if !is_single::<T>() {
        return naive::weight_gradient(threads, s, x, dy, dw);
    }
    if s.inputs >= 16
        && let Some(tiling) = Tiling::of(s)
    {
        let (x, dy, dw) = (single(x), single(dy), single_mut(dw));
        return winograd::weight_gradient(threads, set, s, &tiling, (x, dy), dw, &mut cpu.workspace);
    }
    direct::weight_gradient(threads, set, s, single(x), single(dy), single_mut(dw));
}

fn check(s: &Convolution, x: Slot, w: Slot, y: Slot) {
    assert!(s.kernel % 2 == 1, "a kernel of {} has no middle", s.kernel);
    assert!(s.y_len() > 0 && s.inputs > 0, "{s:?} is empty");
    assert_eq!(x.len(), s.x_len(), "x of {s:?}");
    assert_eq!(w.len(), s.w_len(), "w of {s:?}");
    assert_eq!(y.len(), s.y_len(), "y of {s:?}");
}

fn is_single<T: Real>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
}

fn single<T: Real>(values: &[T]) -> &[f32] {
    assert!(is_single::<T>());
    // SAFETY: T is f32.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

fn single_mut<T: Real>(values: &mut [T]) -> &mut [f32] {
    assert!(is_single::<T>());
    // SAFETY: T is f32, and the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}

#[cfg(test)]
mod tests;
