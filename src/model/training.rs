//! Forward and backward over analyses and predictions, every activation kept, or gates of predictions computed again.
//!
//! What can be taken out of the recurrence is: `Wx * x` of all analyses is one convolution per layer, and so are its
//! data gradient and, over all steps, every weight gradient. Only `Wh * h` and its data gradient go step by step.

use super::int8::Kernel;
use super::keeping::{Keeper, Keeping, Listener, Loan, Nobody};
use super::network::{Layer, Network};
use super::step::Arrival;
use crate::device::{Above, CellGradients, Convolution, Device, Placement, Real, Slot, Write, company};

impl<T: Real> Network<T> {
    /// Makes the first `leads` predictions from frames, statics, forcings and the sampling shares.
    pub fn forward(&self, device: &mut dyn Device<T>, leads: usize) {
        self.forward_with(device, leads, &mut Nobody);
    }

    /// As [`forward`](Self::forward), with weights that somebody else keeps.
    pub fn forward_with(&self, device: &mut dyn Device<T>, leads: usize, keeper: &mut dyn Keeper<T>) {
        let steps = self.check(leads);
        self.round_weights(device);
        device.repeat(self.sequence("forward", leads), &mut |device| {
            self.forward_over(device, steps, &mut Loan::of(keeper));
        });
    }

    fn forward_over(&self, device: &mut dyn Device<T>, steps: usize, loan: &mut Loan<'_, T>) {
        let head = self.layers.len();
        let frames = self.architecture.input_frames;
        let analyses = self.state_of(self.slots.frames, 0, frames);
        self.feed(device, 0, frames, analyses, self.forcings_of(0, frames));
        for l in 0..self.layers.len() {
            self.blocks.need(device, loan, l, Some(l + 1));
            self.project(device, l, 0, frames, Write::Overwrite);
            for t in 0..frames {
                if t > 0 {
                    self.recur(device, l, t - 1, t, Write::Add);
                }
                let later = t + 1 == frames && self.waits_for_next_step(l);
                self.advance(device, l, t, if later { Arrival::Later } else { Arrival::Now });
            }
            self.look_ahead(device, l, frames, steps);
            if let Some(next) = self.behind_dropout(l) {
                device.halo_fill(&next.x_warm_map, next.x.span(0, frames));
            }
        }
        self.blocks.need(device, loan, head, (frames < steps).then_some(0));
        self.predict(device, 0, self.state_of(self.slots.frames, frames - 1, 1));
        for t in frames..steps {
            let fed = self.scratch.fed.at(t - frames);
            let truth = self.state_of(self.slots.frames, t, 1);
            let prediction = self.state_of(self.slots.predictions, t - frames, 1);
            device.mix(self.sampling_of(t), truth, prediction, fed);
            self.feed(device, t, 1, fed, self.forcings_of(t, 1));
            for l in 0..self.layers.len() {
                device.join(l);
                let next = if l + 1 < head { Some(l + 1) } else { (t + 1 < steps).then_some(0) };
                self.blocks.need(device, loan, l, next);
                self.project(device, l, t, 1, Write::Add);
                let later = self.waits_for_next_step(l);
                self.advance(device, l, t, if later { Arrival::Later } else { Arrival::Now });
                self.look_ahead(device, l, t + 1, steps);
                if let Some(next) = self.behind_dropout(l) {
                    device.halo_fill(&next.x_map, next.x.at(t));
                }
            }
            self.predict(device, t + 1 - frames, fed);
        }
    }

    /// From the gradient of the first `leads` predictions (as [`forward`](Self::forward) made them): adds to the
    /// gradients of all parameters. Overwrites the gates, and adds to each prediction's gradient what comes back
    /// through the steps that it was fed to.
    pub fn backward(&self, device: &mut dyn Device<T>, leads: usize) {
        let steps = self.check(leads);
        device.repeat(self.sequence("backward", leads), &mut |device| {
            self.backward_over(device, steps, leads, &mut Loan::of(&mut Nobody));
        });
    }

    /// As [`backward`](Self::backward), and calls `complete` for each stretch of the gradients as soon as nothing will be
    /// added to it any more, while the rest goes on. All stretches together are [`gradients`](Self::gradients).
    pub fn backward_by_stretches(
        &self,
        device: &mut dyn Device<T>,
        leads: usize,
        complete: &mut dyn FnMut(&mut dyn Device<T>, Slot),
    ) {
        self.backward_with(device, leads, &mut Listener(complete));
    }

    /// As [`backward`](Self::backward), with weights that somebody else keeps, who is handed the gradients of each block as
    /// soon as they are made, while the rest goes on.
    pub fn backward_with(&self, device: &mut dyn Device<T>, leads: usize, keeper: &mut dyn Keeper<T>) {
        let steps = self.check(leads);
        device.repeat(self.sequence("backward by stretches", leads), &mut |device| {
            self.backward_over(device, steps, leads, &mut Loan::of(keeper));
        });
    }

    fn backward_over(&self, device: &mut dyn Device<T>, steps: usize, leads: usize, loan: &mut Loan<'_, T>) {
        let frames = self.architecture.input_frames;
        for layer in &self.layers {
            device.zero(layer.dc);
        }
        let head = self.layers.len();
        self.blocks.need(device, loan, head, Some(head - 1));
        for t in (frames..steps).rev() {
            self.predict_backward(device, t);
            for l in (0..self.layers.len()).rev() {
                self.blocks.need(device, loan, l, Some(l.checked_sub(1).unwrap_or(head - 1)));
                self.retreat(device, l, t, steps, 0);
                // Behind what this layer has been waiting for.
                if l + 1 < head {
                    self.bring_home(device, l + 1);
                }
                if self.recomputes(t) {
                    device.aside(self.lane_of_gradients(l), &mut |device| {
                        let add = |device: &mut dyn Device<T>| self.weights_backward(device, l, t, 1);
                        self.blocks.hand_on(device, loan, l, false, add);
                    });
                }
                self.project_backward(device, l, t, 1);
            }
            self.bring_home(device, 0);
            self.fed_backward(device, t);
        }
        self.predict_backward(device, frames - 1);
        // Nothing waits for the gradients of weights.
        device.aside(head, &mut |device| {
            self.blocks.hand_on(device, loan, head, true, |device| self.head_backward(device, leads));
        });
        for l in (0..self.layers.len()).rev() {
            self.blocks.need(device, loan, l, l.checked_sub(1));
            for t in (0..frames).rev() {
                self.retreat(device, l, t, steps, t);
                if t > 0 {
                    self.bring_home(device, l);
                }
            }
            let kept = if self.recomputes(steps - 1) { frames } else { steps };
            device.aside(self.lane_of_gradients(l), &mut |device| {
                let add = |device: &mut dyn Device<T>| self.weights_backward(device, l, 0, kept);
                self.blocks.hand_on(device, loan, l, true, add);
            });
            if l > 0 {
                self.project_backward(device, l, 0, frames);
            }
        }
        (0..=head).for_each(|lane| device.join(lane));
    }

    /// Where the gradients of a layer's weights are made: all in one place where they are handed on one after the other.
    fn lane_of_gradients(&self, l: usize) -> usize {
        if self.blocks.keeping() == Keeping::Whole { l } else { self.layers.len() }
    }

    /// The number of steps that make `leads` predictions.
    fn check(&self, leads: usize) -> usize {
        assert!(self.purpose.trains(), "this network was planned to forecast only");
        assert!(
            (1..=self.lead_steps).contains(&leads),
            "planned for 1 to {} predictions, asked for {leads}",
            self.lead_steps
        );
        self.architecture.input_frames + leads - 1
    }

    /// The layer above `l`, if it reads a copy of h that dropout has thinned.
    fn behind_dropout(&self, l: usize) -> Option<&Layer> {
        self.layers[l].factors.and(self.layers.get(l + 1))
    }

    /// Shares of truth in what step `t` is fed.
    fn sampling_of(&self, t: usize) -> Slot {
        self.slots.sampling.part((t - self.architecture.input_frames) * self.batch, self.batch)
    }

    /// Begins step `t` of layer `l`, if there is one, while the layers above are busy with the step before.
    fn look_ahead(&self, device: &mut dyn Device<T>, l: usize, t: usize, steps: usize) {
        if t < steps {
            device.aside(l, &mut |device| {
                if self.waits_for_next_step(l) {
                    self.fetch(device, l, t - 1);
                }
                self.recur(device, l, t - 1, t, Write::Overwrite);
            });
        }
    }

    fn advance(&self, device: &mut dyn Device<T>, l: usize, t: usize, arrival: Arrival) {
        let layer = &self.layers[l];
        let c_before = (t > 0).then(|| self.cell_state(l, t - 1));
        let above = if l + 1 == self.layers.len() {
            let lead = (t + 1).checked_sub(self.architecture.input_frames);
            lead.map(|lead| Above { slot: self.head.x.at(lead), halo: 0, factors: layer.factors })
        } else {
            self.behind_dropout(l).map(|next| Above {
                slot: next.x.at(t),
                halo: self.architecture.halo(),
                factors: layer.factors,
            })
        };
        self.finish(device, l, t, c_before, above, arrival);
    }

    /// Gradient of the prediction that step `t` makes, back to the top layer.
    fn predict_backward(&self, device: &mut dyn Device<T>, t: usize) {
        let head = &self.head;
        let lead = t + 1 - self.architecture.input_frames;
        let gradient = self.state_of(self.slots.prediction_gradients, lead, 1);
        device.readout_adjoint(&head.readout, gradient, head.dy.at(lead), self.gradients.head_bias);
        device.convolve_input_gradient(&head.shape, head.dy.at(lead), self.weights.head, head.dx);
        self.round_backward(device, Kernel::Head, head.x.at(lead), head.dx);
    }

    /// The cell of layer `l` at step `t` of `steps`, backward; `entry` says where the layer above left the gradient of
    /// what it read.
    fn retreat(&self, device: &mut dyn Device<T>, l: usize, t: usize, steps: usize, entry: usize) {
        let layer = &self.layers[l];
        let (weights, gradients) = (&self.weights.layers[l], &self.gradients.layers[l]);
        let recurrent = t + 1 < steps;
        if recurrent {
            device.join(l);
        }
        if self.recomputes(t) {
            // What reads the gates of the step behind.
            device.join(self.lane_of_gradients(l));
            // In the order of the forward pass: with the same bits.
            self.recur(device, l, t - 1, t, Write::Overwrite);
            self.project(device, l, t, 1, Write::Add);
            self.advance(device, l, t, Arrival::Before);
        }
        let above = match (self.layers.get(l + 1), layer.own) {
            (Some(next), own) => Some(Above {
                slot: own.map_or(next.dx.at(entry), |own| {
                    self.scatter(device, l, next.dx.at(entry), own.dabove);
                    device.halo_adjoint(&layer.h_map, own.dabove);
                    own.dabove
                }),
                halo: self.architecture.halo(),
                factors: layer.factors,
            }),
            (None, _) if t + 1 < self.architecture.input_frames => None,
            (None, _) => Some(Above { slot: self.head.dx, halo: 0, factors: layer.factors }),
        };
        let cell = self.cell(l, t, (t > 0).then(|| layer.c.at(t - 1)));
        let gradients_of_cell = CellGradients {
            h: recurrent.then(|| layer.own.map_or(layer.dh, |own| own.dh)),
            above,
            c: layer.dc,
            bias: gradients.bias,
            peepholes: gradients.peephole,
        };
        device.cell_backward(&cell, &layer.h_map_here, &gradients_of_cell);
        if let (Some(norm), Some(gradients)) = (self.norm(l, t), gradients.norm) {
            self.normalise_backward(device, &norm, gradients.bias, gradients.gain);
        }
        // What the step before will need, while the layers below are busy with this one.
        if t > 0 {
            device.aside(l, &mut |device| {
                device.convolve_input_gradient(&layer.recurrent, layer.gates.at(t), weights.hidden, layer.dh);
                self.round_backward(device, Kernel::Hidden(l), layer.h.at(t - 1), layer.dh);
            });
        }
    }

    /// Brings the gradient of layer `l`'s h, of which all have a part, to those whose it is.
    fn bring_home(&self, device: &mut dyn Device<T>, l: usize) {
        if !self.is_shared(l) {
            return;
        }
        let layer = &self.layers[l];
        device.aside(l, &mut |device| {
            let own = layer.own.map_or(layer.dh, |own| own.dh);
            if layer.own.is_some() {
                self.scatter(device, l, layer.dh, own);
            }
            company::adjoint(device, &layer.h_map, own);
        });
    }

    /// Gradient of what layer `l` read in `steps` consecutive steps.
    fn project_backward(&self, device: &mut dyn Device<T>, l: usize, first: usize, steps: usize) {
        let layer = &self.layers[l];
        let shape = Convolution { images: steps * self.batch, ..layer.input };
        let dx = layer.dx.span(0, steps);
        device.convolve_input_gradient(
            &shape,
            layer.gates.span(first, steps),
            self.weights.layers[l].input,
            dx,
        );
        self.round_backward(device, Kernel::Input(l), layer.x.span(first, steps), dx);
        match l.checked_sub(1).map(|below| &self.layers[below]) {
            // Each step's is brought to those whose units it is about, and home from the halo there.
            Some(Layer { own: Some(_), .. }) => return,
            None => self.add_up(device, dx),
            Some(_) => {}
        }
        device.halo_adjoint(if steps == 1 { &layer.x_map } else { &layer.x_warm_map }, dx);
    }

    /// Gradient of what step `t` was fed, on to the prediction before it.
    fn fed_backward(&self, device: &mut dyn Device<T>, t: usize) {
        let (architecture, geometry) = (&self.architecture, &self.geometry);
        let layer = &self.layers[0];
        device.place_adjoint(&Placement {
            images: self.batch,
            rows: geometry.rows,
            columns: geometry.columns,
            channels: architecture.prognostic,
            patch: architecture.patch,
            fields: self.scratch.dfed,
            field_images: self.batch,
            image: layer.dx.at(0),
            halo: architecture.halo(),
            image_channels: layer.input.inputs,
            first_channel: 0,
        });
        let lead = t - architecture.input_frames;
        let gradient = |lead| self.state_of(self.slots.prediction_gradients, lead, 1);
        device.mix_adjoint(self.sampling_of(t), self.scratch.dfed, gradient(lead));
        if architecture.residual {
            device.mix_adjoint(self.sampling_of(t), gradient(lead + 1), gradient(lead));
        }
    }

    /// Gradients of the weights of layer `l` by `steps` consecutive steps.
    fn weights_backward(&self, device: &mut dyn Device<T>, l: usize, first: usize, steps: usize) {
        let (layer, gradients) = (&self.layers[l], &self.gradients.layers[l]);
        let shape = Convolution { images: steps * self.batch, ..layer.input };
        let (x, dy) = (layer.x.span(first, steps), layer.gates.span(first, steps));
        device.convolve_weight_gradient(&shape, x, dy, gradients.input);
        // The first step of all has no h before it.
        let (first, steps) = if first == 0 { (1, steps - 1) } else { (first, steps) };
        if steps > 0 {
            let shape = Convolution { images: steps * self.batch, ..layer.recurrent };
            let (h, dy) = (layer.h.span(first - 1, steps), layer.gates.span(first, steps));
            device.convolve_weight_gradient(&shape, h, dy, gradients.hidden);
        }
    }

    fn head_backward(&self, device: &mut dyn Device<T>, leads: usize) {
        let shape = Convolution { images: leads * self.batch, ..self.head.shape };
        let (x, dy) = (self.head.x.span(0, leads), self.head.dy.span(0, leads));
        device.convolve_weight_gradient(&shape, x, dy, self.gradients.head);
    }
}
