//! Networks that hold some of the units of every layer, while others hold the rest.
//!
//! A layer's convolutions read all units of the layer below and of its own, and make the gates of their own units alone. So h
//! is gathered after each cell, and its gradient, of which each has a part, is added up and scattered before each cell
//! backward. The head adds up what it makes of each part of the units. A layer normalisation needs sums over all units of a
//! point: of each part there are moments, which are gathered, and backward sums, which are added up.
//!
//! What only a layer's own next step needs is exchanged at the side, while the other layers go on.

use super::architecture::{Architecture, GATES};
use super::keeping::Keeping;
use super::network::Network;
use crate::device::{ArenaPlan, Device, HaloMap, LayerNorm, Placement, Real, Slot, with_company};
use crate::error::{Error, Result};

/// Part `number` of `of` equal parts of the units of every layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    pub number: usize,
    pub of: usize,
}

impl Units {
    pub const ALL: Self = Self { number: 0, of: 1 };

    pub fn is_all(self) -> bool {
        self.of == 1
    }

    /// How many of so many units.
    pub(super) fn own(self, hidden: usize) -> usize {
        hidden / self.of
    }
}

impl Architecture {
    /// Refuses parts that cannot be, and says how many can.
    pub fn check_units(&self, of: usize) -> Result<()> {
        let can_be = |of: usize| of > 0 && self.hidden.iter().all(|hidden| hidden.is_multiple_of(of));
        if can_be(of) {
            return Ok(());
        }
        let most = (1..of).rev().find(|&of| can_be(of)).unwrap_or(1);
        Err(Error::input(format!("{:?} hidden channels are no multiple of {of} in every layer", self.hidden))
            .hint(format!("{most} is the largest number below it that divides them")))
    }
}

/// What a network holds: which units, what of its learned arrays, and beside what else.
#[derive(Debug, Clone, Copy)]
pub struct Holding<B> {
    pub units: Units,
    pub keeping: Keeping,
    pub beside: Option<B>,
}

impl<B> Holding<B> {
    pub const ALL: Self = Self { units: Units::ALL, keeping: Keeping::Whole, beside: None };
}

/// Where what belongs to units is on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meeting {
    /// Of this network's own units.
    mine: Slot,
    /// Of all units, part by part.
    all: Slot,
}

/// Numbers of a point of a layer normalisation: two for each gate.
pub(super) const MOMENTS: usize = 2 * GATES;

impl Meeting {
    /// With room for so many numbers in all.
    pub fn plan(arena: &mut ArenaPlan, units: Units, len: usize) -> Self {
        let len = if units.is_all() { 0 } else { len };
        Self { mine: arena.slot(len / units.of), all: arena.slot(len) }
    }

    /// So many of these images, channels on their way from or to channels `first` and on of `image`.
    fn placement(map: &HaloMap, fields: Slot, channels: usize, image: Slot, first: usize) -> Placement {
        Placement {
            images: map.images,
            rows: 1,
            columns: map.cells,
            channels,
            patch: 1,
            fields,
            field_images: map.images,
            image,
            halo: 0,
            image_channels: image.len() / (map.images * map.cells),
            first_channel: first,
        }
    }
}

impl<T: Real> Network<T> {
    /// Brings images of this network's units of layer `l`, of the shape of its h, to images of all.
    pub(super) fn gather(&self, device: &mut dyn Device<T>, l: usize, own: Slot, whole: Slot) {
        let (layer, of) = (&self.layers[l], self.units.of);
        let (map, each) = (&layer.h_map, layer.hidden);
        let Meeting { mine, all } = layer.meeting;
        device.place_adjoint(&Meeting::placement(map, mine, each, own, 0));
        with_company(device, |company, device| company.gather(device, mine, all));
        for part in 0..of {
            let fields = all.part(part * own.len(), own.len());
            device.place(&Meeting::placement(map, fields, each, whole, part * each));
        }
    }

    /// The transpose: adds up what all have of the gradient of images of all units, and keeps that of this network's.
    pub(super) fn scatter(&self, device: &mut dyn Device<T>, l: usize, whole: Slot, own: Slot) {
        let (layer, of) = (&self.layers[l], self.units.of);
        let (map, each) = (&layer.h_map, layer.hidden);
        let Meeting { mine, all } = layer.meeting;
        for part in 0..of {
            let fields = all.part(part * own.len(), own.len());
            device.place_adjoint(&Meeting::placement(map, fields, each, whole, part * each));
        }
        with_company(device, |company, device| company.scatter(device, all, mine));
        device.place(&Meeting::placement(map, mine, each, own, 0));
    }

    /// Adds up what those who hold other units have of the same.
    pub(super) fn add_up(&self, device: &mut dyn Device<T>, slot: Slot) {
        if !self.units.is_all() {
            with_company(device, |company, device| company.add_up(device, slot));
        }
    }

    pub(super) fn normalise(&self, device: &mut dyn Device<T>, norm: &LayerNorm) {
        if self.units.is_all() {
            return device.layer_norm_forward(norm);
        }
        let Meeting { mine, all } = self.moments;
        device.layer_norm_moments(norm, mine);
        with_company(device, |company, device| company.gather(device, mine, all));
        device.layer_norm_forward_among(norm, all);
    }

    /// Adds to dbias and dgain.
    pub(super) fn normalise_backward(
        &self,
        device: &mut dyn Device<T>,
        norm: &LayerNorm,
        dbias: Slot,
        dgain: Slot,
    ) {
        if self.units.is_all() {
            return device.layer_norm_backward(norm, dbias, dgain);
        }
        let sums = self.moments.mine;
        device.layer_norm_sums(norm, sums, dgain);
        self.add_up(device, sums);
        device.layer_norm_backward_among(norm, sums, self.units.of, dbias);
    }
}
