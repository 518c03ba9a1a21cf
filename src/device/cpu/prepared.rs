//! Weights in the forms in which kernels read them, made once and kept until the weights change.

use super::super::{Convolution, Slot};
use super::storage::Arena;

/// A form of one convolution's weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Panels of outputs.
    Panels,
    /// Panels of inputs, the kernel turned by half a circle.
    TurnedPanels,
    /// Winograd's transform with so many points a side, panels of outputs.
    Transformed(usize),
    /// The same with panels of inputs.
    TransposedTransformed(usize),
}

#[derive(Default)]
pub(super) struct Prepared {
    entries: Vec<Entry>,
}

struct Entry {
    slot: Slot,
    form: Form,
    /// Kernel, inputs, outputs.
    shape: [usize; 3],
    version: u64,
    data: Arena<f32>,
}

impl Prepared {
    /// The `form` of the weights in `slot`, which are at `version`; `make` writes `len` numbers when they are not known yet.
    pub fn get(
        &mut self,
        slot: Slot,
        version: u64,
        form: Form,
        s: &Convolution,
        len: usize,
        make: impl FnOnce(&mut [f32]),
    ) -> &[f32] {
        let shape = [s.kernel, s.inputs, s.outputs];
        let known = self.entries.iter().position(|e| e.slot == slot && e.form == form && e.shape == shape);
        let index = match known {
            Some(index) => index,
            None => {
                // A version that no slot has: the data are still to be made.
                let data = Arena::working(len);
                self.entries.push(Entry { slot, form, shape, version: u64::MAX, data });
                self.entries.len() - 1
            }
        };
        let entry = &mut self.entries[index];
        if entry.version != version {
            make(entry.data.whole());
            entry.version = version;
        }
        entry.data.whole()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
