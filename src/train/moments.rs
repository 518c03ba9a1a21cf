//! The optimiser's moments: on the device, or with the host, from where they visit the device for each update.

use std::cell::RefCell;
use std::ops::Range;

use crate::device::{AdamW, ArenaPlan, Device, Real, Slot};

/// First and second moments of AdamW of the weights that a rank updates.
pub(super) enum Moments<T: Real> {
    Device([Slot; 2]),
    /// In the host's memory; the device has room for a part of them. Every number goes to the device and back once an update.
    Host {
        kept: RefCell<[Vec<T>; 2]>,
        visiting: [Slot; 2],
    },
}

/// Numbers that visit the device at once.
const VISITING: usize = 1 << 20;

impl<T: Real> Moments<T> {
    pub fn plan(arena: &mut ArenaPlan, len: usize, offload: bool) -> Self {
        if !offload {
            return Self::Device([0; 2].map(|_| arena.slot(len)));
        }
        let kept = RefCell::new([0; 2].map(|_| vec![T::default(); len]));
        Self::Host { kept, visiting: [0; 2].map(|_| arena.slot(len.min(VISITING))) }
    }

    pub fn are_on_the_host(&self) -> bool {
        matches!(self, Self::Host { .. })
    }

    /// One step of AdamW with the moments of this range; what `step` says of them is left out.
    pub fn update(&self, device: &mut dyn Device<T>, range: Range<usize>, step: &AdamW) {
        match self {
            Self::Device([first, second]) => {
                let of = |slot: &Slot| slot.part(range.start, range.len());
                device.adamw(&AdamW { first: of(first), second: of(second), ..*step });
            }
            Self::Host { kept, visiting } => {
                let mut kept = kept.borrow_mut();
                for start in (0..range.len()).step_by(VISITING) {
                    let len = VISITING.min(range.len() - start);
                    let here = range.start + start..range.start + start + len;
                    let [first, second] = visiting.map(|slot| slot.part(0, len));
                    for (slot, kept) in [first, second].into_iter().zip(&*kept) {
                        device.upload(slot, &kept[here.clone()]);
                    }
                    let [parameter, gradient] =
                        [step.parameter, step.gradient].map(|slot| slot.part(start, len));
                    device.adamw(&AdamW { parameter, gradient, first, second, ..*step });
                    for (slot, kept) in [first, second].into_iter().zip(&mut *kept) {
                        device.download(slot, &mut kept[here.clone()]);
                    }
                }
            }
        }
    }

    /// The first (0) or second (1) moments of a range, in the order of the device.
    pub fn read(&self, device: &dyn Device<T>, which: usize, range: Range<usize>) -> Vec<T> {
        match self {
            Self::Device(slots) => {
                let mut values = vec![T::default(); range.len()];
                device.download(slots[which].part(range.start, range.len()), &mut values);
                values
            }
            Self::Host { kept, .. } => kept.borrow()[which][range].to_vec(),
        }
    }

    /// The inverse of [`read`](Self::read), from `start` on.
    pub fn write(&self, device: &mut dyn Device<T>, which: usize, start: usize, values: &[T]) {
        match self {
            Self::Device(slots) => device.upload(slots[which].part(start, values.len()), values),
            Self::Host { kept, .. } => {
                kept.borrow_mut()[which][start..start + values.len()].copy_from_slice(values);
            }
        }
    }
}
