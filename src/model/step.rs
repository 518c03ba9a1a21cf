//! What every step of a network is made of, forward.

use super::int8::Kernel;
use super::network::{Network, Purpose};
use crate::device::{Above, Cell, Convolution, Device, LayerNorm, Placement, Real, Slot, Write, company};

/// Added to the variance of a layer normalisation.
pub const LAYER_NORM_EPSILON: f64 = 1e-5;

/// When what others hold of a layer's h comes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Now,
    /// When it is [fetched](Network::fetch).
    Later,
    /// It came before: only gates and c are computed again.
    Before,
}

impl<T: Real> Network<T> {
    /// Puts frames, statics and forcings of `steps` consecutive steps into the first layer's input, and fills its halo.
    pub(super) fn feed(
        &self,
        device: &mut dyn Device<T>,
        first: usize,
        steps: usize,
        state: Slot,
        forcings: Slot,
    ) {
        let (architecture, geometry) = (&self.architecture, &self.geometry);
        let layer = &self.layers[0];
        let images = steps * self.batch;
        let kinds = [
            (architecture.prognostic, state, images),
            (architecture.statics, self.slots.statics, 1),
            (architecture.forcings, forcings, images),
        ];
        let mut first_channel = 0;
        for (channels, fields, field_images) in kinds {
            if channels > 0 {
                device.place(&Placement {
                    images,
                    rows: geometry.rows,
                    columns: geometry.columns,
                    channels,
                    patch: architecture.patch,
                    fields,
                    field_images,
                    image: layer.x.span(first, steps),
                    halo: architecture.halo(),
                    image_channels: layer.input.inputs,
                    first_channel,
                });
            }
            first_channel += channels * architecture.patch_points();
        }
        let x = layer.x.span(first, steps);
        device.halo_fill(if steps == 1 { &layer.x_map } else { &layer.x_warm_map }, x);
        self.round(device, Kernel::Input(0), x);
    }

    /// `Wx * x` of `steps` consecutive steps.
    pub(super) fn project(
        &self,
        device: &mut dyn Device<T>,
        l: usize,
        first: usize,
        steps: usize,
        write: Write,
    ) {
        let layer = &self.layers[l];
        let shape = Convolution { images: steps * self.batch, ..layer.input };
        let (x, gates) = (layer.x.span(first, steps), layer.gates.span(first, steps));
        self.convolve(device, &shape, Kernel::Input(l), [x, gates], write);
    }

    /// `Wh * h` of step `t`, from the h that step `from` left.
    pub(super) fn recur(&self, device: &mut dyn Device<T>, l: usize, from: usize, t: usize, write: Write) {
        let layer = &self.layers[l];
        let slots = [layer.h.at(from), layer.gates.at(t)];
        self.convolve(device, &layer.recurrent, Kernel::Hidden(l), slots, write);
    }

    /// Whether the gates of step `t` are computed again before their backward pass.
    pub(super) fn recomputes(&self, t: usize) -> bool {
        self.purpose == Purpose::Recompute && t >= self.architecture.input_frames
    }

    /// What the cell of layer `l` reads and writes at step `t`; `before` is the cell state that it starts from.
    pub(super) fn cell(&self, l: usize, t: usize, before: Option<Slot>) -> Cell {
        let (layer, weights) = (&self.layers[l], &self.weights.layers[l]);
        Cell {
            images: self.batch,
            rows: layer.input.rows,
            columns: layer.input.columns,
            hidden: layer.hidden,
            halo: self.architecture.halo(),
            gates: layer.gates.at(t),
            keeps_gates: self.purpose.trains(),
            bias: weights.bias,
            peepholes: weights.peephole,
            c_before: before,
            c: self.cell_state(l, t),
        }
    }

    pub(super) fn norm(&self, l: usize, t: usize) -> Option<LayerNorm> {
        let layer = &self.layers[l];
        let weights = self.weights.layers[l].norm?;
        Some(LayerNorm {
            points: layer.input.images * layer.input.rows * layer.input.columns,
            hidden: layer.hidden,
            epsilon: LAYER_NORM_EPSILON,
            gates: layer.gates.at(t),
            bias: weights.bias,
            gain: weights.gain,
            normalised: layer.normalised?.at(t),
            inverse_deviation: layer.inverse_deviation?.at(t),
        })
    }

    /// The cell state of layer `l` after step `t`: there is one for each step only in training.
    pub(super) fn cell_state(&self, l: usize, t: usize) -> Slot {
        self.layers[l].c.at(if self.purpose.trains() { t } else { 0 })
    }

    /// Finishes step `t` of layer `l` after its convolutions: cell, halo of h.
    pub(super) fn finish(
        &self,
        device: &mut dyn Device<T>,
        l: usize,
        t: usize,
        c_before: Option<Slot>,
        above: Option<Above>,
        arrival: Arrival,
    ) {
        let layer = &self.layers[l];
        if let Some(norm) = self.norm(l, t) {
            self.normalise(device, &norm);
        }
        let cell = self.cell(l, t, c_before);
        if arrival == Arrival::Before {
            let h = layer.own.map_or(self.scratch.h.part(0, layer.h.at(t).len()), |own| own.h);
            return device.cell_forward(&cell, h, &layer.h_map_here, None);
        }
        if let Some(own) = layer.own {
            // Behind dropout the layer above reads something of its own, which is gathered as h is; the head reads own units.
            let read = above.filter(|_| l + 1 < self.layers.len());
            let above = read.map_or(above, |above| Some(Above { slot: own.above, ..above }));
            device.cell_forward(&cell, own.h, &layer.h_map_here, above.as_ref());
            if let Some(read) = read {
                self.gather(device, l, own.above, read.slot);
            }
        } else {
            device.cell_forward(&cell, layer.h.at(t), &layer.h_map_here, above.as_ref());
            // All that read h, and its copy above, read it so.
            let copy = above.map(|above| above.slot);
            let read = std::iter::once(layer.h.at(t)).chain(copy);
            read.for_each(|h| self.round(device, Kernel::Hidden(l), h));
        }
        if arrival == Arrival::Now {
            self.fetch(device, l, t);
        }
    }

    /// Whether others hold something of layer `l`'s h.
    pub(super) fn is_shared(&self, l: usize) -> bool {
        self.layers[l].own.is_some() || self.layers[l].h_map.seam.is_some()
    }

    /// Whether nothing but the layer's own next step reads the h of layer `l`.
    pub(super) fn waits_for_next_step(&self, l: usize) -> bool {
        l + 1 == self.layers.len() || self.layers[l].factors.is_some()
    }

    /// Brings what others hold of layer `l`'s h of step `t`.
    pub(super) fn fetch(&self, device: &mut dyn Device<T>, l: usize, t: usize) {
        let layer = &self.layers[l];
        let own = layer.own.map_or(layer.h.at(t), |own| own.h);
        company::fill(device, &layer.h_map, own);
        if layer.own.is_some() {
            self.gather(device, l, own, layer.h.at(t));
        }
    }

    /// The head for the prediction `lead` of the state `base`.
    pub(super) fn predict(&self, device: &mut dyn Device<T>, lead: usize, base: Slot) {
        let head = &self.head;
        self.convolve(device, &head.shape, Kernel::Head, [head.x.at(lead), head.y], Write::Overwrite);
        self.add_up(device, head.y);
        let base = self.architecture.residual.then_some(base);
        device.readout(&head.readout, base, self.state_of(self.slots.predictions, lead, 1));
    }
}
