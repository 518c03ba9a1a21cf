//! One step after another, in memory that does not grow with the lead time.

use super::network::{Network, Purpose};
use crate::device::{Above, Device, Real, Slot};

impl<T: Real> Network<T> {
    /// Forcings of the step to come, `[batch, rows, columns, F]`: to be written before each [`step`](Self::step).
    pub fn step_forcings(&self) -> Slot {
        self.forcings_of(self.architecture.input_frames - 1, 1)
    }

    /// Forgets what was before, passes over all frames but the last, and makes the last the state in
    /// [`predictions`](super::Slots::predictions).
    pub fn warm_up(&self, device: &mut dyn Device<T>) {
        assert!(self.purpose == Purpose::Forecast, "this network was planned to train only");
        for layer in &self.layers {
            device.zero(layer.h.at(0));
            device.zero(layer.c.at(0));
        }
        let last = self.architecture.input_frames - 1;
        for t in 0..last {
            self.pass(device, self.state_of(self.slots.frames, t, 1), self.forcings_of(t, 1));
        }
        device.copy(self.state_of(self.slots.frames, last, 1), self.slots.predictions);
    }

    /// Advances the state in [`predictions`](super::Slots::predictions) by one step.
    pub fn step(&self, device: &mut dyn Device<T>) {
        assert!(self.purpose == Purpose::Forecast, "this network was planned to train only");
        let fed = self.scratch.fed.at(0);
        device.copy(self.slots.predictions, fed);
        self.pass(device, fed, self.step_forcings());
        self.predict(device, 0, fed);
    }

    /// All layers over one frame.
    fn pass(&self, device: &mut dyn Device<T>, state: Slot, forcings: Slot) {
        self.feed(device, 0, 1, state, forcings);
        for (l, layer) in self.layers.iter().enumerate() {
            self.project(device, l, 0, 1);
            let top = l + 1 == self.layers.len();
            let above = top.then(|| Above { slot: self.head.x.at(0), halo: 0, factors: None });
            self.recur(device, l, 0, Some((layer.h.at(0), layer.c.at(0))), above);
        }
    }
}
