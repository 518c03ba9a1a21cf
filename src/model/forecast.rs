//! One step after another, in memory that does not grow with the lead time.

use std::ops::Range;

use super::keeping::{Keeper, Loan, Nobody};
use super::network::{Layer, Network, Purpose};
use super::step::Arrival;
use crate::device::{Above, Device, Real, Slot, Write};

/// What a layer carries from one step to the next, `[batch, row, column, hidden]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory<T> {
    pub h: Vec<T>,
    pub c: Vec<T>,
}

impl<T: Real> Network<T> {
    /// Forcings of the step to come, `[batch, rows, columns, F]`: to be written before each [`step`](Self::step).
    pub fn step_forcings(&self) -> Slot {
        self.forcings_of(self.architecture.input_frames - 1, 1)
    }

    /// Forgets what was before, passes over all frames but the last, and makes the last the state in
    /// [`predictions`](super::Slots::predictions).
    pub fn warm_up(&self, device: &mut dyn Device<T>) {
        self.warm_up_with(device, &mut Nobody);
    }

    /// As [`warm_up`](Self::warm_up), with weights that somebody else keeps.
    pub fn warm_up_with(&self, device: &mut dyn Device<T>, keeper: &mut dyn Keeper<T>) {
        assert!(self.purpose == Purpose::Forecast, "this network was planned to train only");
        self.round_weights(device);
        device.repeat(self.sequence("warm-up", 0), &mut |device| {
            self.pass_over_analyses(device, &mut Loan::of(keeper));
        });
    }

    fn pass_over_analyses(&self, device: &mut dyn Device<T>, loan: &mut Loan<'_, T>) {
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
            self.blocks.need(device, loan, l, Some(l + 1).filter(|&next| next < self.layers.len()));
            self.project(device, l, 0, passed, Write::Overwrite);
            for t in 0..passed {
                if t > 0 {
                    self.recur(device, l, t - 1, t, Write::Add);
                }
                let c_before = (t > 0).then(|| self.cell_state(l, t));
                self.finish(device, l, t, c_before, None, Arrival::Now);
            }
        }
        device.copy(self.state_of(self.slots.frames, passed, 1), self.slots.predictions);
    }

    /// Advances the state in [`predictions`](super::Slots::predictions) by one step.
    pub fn step(&self, device: &mut dyn Device<T>) {
        self.step_with(device, &mut Nobody);
    }

    /// As [`step`](Self::step), with weights that somebody else keeps.
    pub fn step_with(&self, device: &mut dyn Device<T>, keeper: &mut dyn Keeper<T>) {
        assert!(self.purpose == Purpose::Forecast, "this network was planned to train only");
        device.repeat(self.sequence("step", 0), &mut |device| {
            self.advance_state(device, &mut Loan::of(keeper));
        });
    }

    fn advance_state(&self, device: &mut dyn Device<T>, loan: &mut Loan<'_, T>) {
        let now = self.now();
        let fed = self.scratch.fed.at(0);
        device.copy(self.slots.predictions, fed);
        // Where all weights are there, what needs only the step before begins at once in all layers.
        let borrows = self.blocks.keeping().borrows();
        let begin = |device: &mut dyn Device<T>, l| {
            device.aside(l, &mut |device| self.recur(device, l, now, now, Write::Overwrite));
        };
        if !borrows {
            (0..self.layers.len()).for_each(|l| begin(device, l));
        }
        self.feed(device, now, 1, fed, self.step_forcings());
        for l in 0..self.layers.len() {
            self.blocks.need(device, loan, l, Some(l + 1));
            if borrows {
                begin(device, l);
            }
            device.join(l);
            self.project(device, l, now, 1, Write::Add);
            let top = l + 1 == self.layers.len();
            let above = top.then(|| Above { slot: self.head.x.at(0), halo: 0, factors: None });
            let later = self.is_shared(l) && self.waits_for_next_step(l);
            let arrival = if later { Arrival::Later } else { Arrival::Now };
            self.finish(device, l, now, Some(self.cell_state(l, now)), above, arrival);
            if later {
                device.aside(l, &mut |device| self.fetch(device, l, now));
            }
        }
        self.blocks.need(device, loan, self.layers.len(), None);
        self.predict(device, 0, fed);
    }

    /// Where the last analysis that was passed over left its h, and each step leaves it.
    fn now(&self) -> usize {
        self.architecture.input_frames.saturating_sub(2)
    }

    /// All that the next step depends on: the state in [`predictions`](super::Slots::predictions), and the layers' h and c.
    pub fn carried(&self) -> Vec<Slot> {
        let of = |(l, layer): (usize, &Layer)| [layer.h.at(self.now()), self.cell_state(l, 0)];
        std::iter::once(self.slots.predictions).chain(self.layers.iter().enumerate().flat_map(of)).collect()
    }

    /// The state and what the layers carry, from the numbers of [`carried`](Self::carried), slot behind slot.
    pub fn memories(&self, mut carried: Vec<T>) -> (Vec<T>, Vec<Memory<T>>) {
        let state = self.slots.predictions.len();
        let mut rest = &carried[state..];
        let mut next = |len: usize| {
            let (first, others) = rest.split_at(len);
            rest = others;
            first
        };
        let of = |(l, layer): (usize, &Layer)| {
            let padded = next(layer.h.at(self.now()).len());
            let h = self.inner_rows(layer).flat_map(|row| &padded[row]).copied().collect();
            Memory { h, c: next(self.cell_state(l, 0).len()).to_vec() }
        };
        let memories = self.layers.iter().enumerate().map(of).collect();
        carried.truncate(state);
        (carried, memories)
    }

    /// The inverse: the next step goes on from `state`, normalised fields, and what the layers carried there.
    pub fn remember(&self, device: &mut dyn Device<T>, state: &[T], memories: &[Memory<T>]) {
        device.upload(self.slots.predictions, state);
        for ((l, layer), memory) in self.layers.iter().enumerate().zip(memories) {
            let slot = layer.h.at(self.now());
            let mut padded = vec![T::default(); slot.len()];
            let width = layer.input.columns * layer.hidden;
            self.inner_rows(layer)
                .zip(memory.h.chunks_exact(width))
                .for_each(|(row, h)| padded[row].copy_from_slice(h));
            device.upload(slot, &padded);
            device.halo_fill(&layer.h_map, slot);
            device.upload(self.cell_state(l, 0), &memory.c);
        }
    }

    /// Where in a layer's h the rows of its interior stand.
    fn inner_rows(&self, layer: &Layer) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (halo, rows, columns, hidden) =
            (self.architecture.halo(), layer.input.rows, layer.input.columns, layer.hidden);
        let padded = columns + 2 * halo;
        let images = layer.input.images;
        (0..images * rows).map(move |row| {
            let padded_row = row / rows * (rows + 2 * halo) + row % rows + halo;
            let start = (padded_row * padded + halo) * hidden;
            start..start + columns * hidden
        })
    }
}
