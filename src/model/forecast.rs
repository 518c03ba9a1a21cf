//! One step after another, in memory that does not grow with the lead time.

use super::network::{Network, Purpose};
use crate::device::{Above, Device, Real, Slot, Write};

impl<T: Real> Network<T> {
    /// Forcings of the step to come, `[batch, rows, columns, F]`: to be written before each [`step`](Self::step).
    pub fn step_forcings(&self) -> Slot {
        self.forcings_of(self.architecture.input_frames - 1, 1)
    }

    /// Forgets what was before, passes over all frames but the last, and makes the last the state in
    /// [`predictions`](super::Slots::predictions).
    pub fn warm_up(&self, device: &mut dyn Device<T>) {
        assert!(self.purpose == Purpose::Forecast, "this network was planned to train only");
        device.repeat(self.sequence("warm-up", 0), &mut |device| self.pass_over_analyses(device));
    }

    fn pass_over_analyses(&self, device: &mut dyn Device<T>) {
        let passed = self.architecture.input_frames - 1;
        if passed > 0 {
            let analyses = self.state_of(self.slots.frames, 0, passed);
            self.feed(device, 0, passed, analyses, self.forcings_of(0, passed));
        }
        for (l, layer) in self.layers.iter().enumerate() {
            if passed == 0 {
                device.zero(layer.h.at(0));
                device.zero(self.cell_state(l, 0));
                continue;
            }
            self.project(device, l, 0, passed, Write::Overwrite);
            for t in 0..passed {
                if t > 0 {
                    self.recur(device, l, t - 1, t, Write::Add);
                }
                self.finish(device, l, t, (t > 0).then(|| self.cell_state(l, t)), None);
            }
        }
        device.copy(self.state_of(self.slots.frames, passed, 1), self.slots.predictions);
    }

    /// Advances the state in [`predictions`](super::Slots::predictions) by one step.
    pub fn step(&self, device: &mut dyn Device<T>) {
        assert!(self.purpose == Purpose::Forecast, "this network was planned to train only");
        device.repeat(self.sequence("step", 0), &mut |device| self.advance_state(device));
    }

    fn advance_state(&self, device: &mut dyn Device<T>) {
        // Where the last analysis that was passed over left its h.
        let now = self.architecture.input_frames.saturating_sub(2);
        let fed = self.scratch.fed.at(0);
        device.copy(self.slots.predictions, fed);
        for l in 0..self.layers.len() {
            device.aside(l, &mut |device| self.recur(device, l, now, now, Write::Overwrite));
        }
        self.feed(device, now, 1, fed, self.step_forcings());
        for l in 0..self.layers.len() {
            device.join(l);
            self.project(device, l, now, 1, Write::Add);
            let top = l + 1 == self.layers.len();
            let above = top.then(|| Above { slot: self.head.x.at(0), halo: 0, factors: None });
            self.finish(device, l, now, Some(self.cell_state(l, now)), above);
        }
        self.predict(device, 0, fed);
    }
}
