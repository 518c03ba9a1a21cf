//! Networks that hold some of the units of every layer, while others hold the rest.
//!
//! A layer's convolutions read all units of the layer below and of its own, and make the gates of their own units alone. So h
//! is gathered after each cell, and its gradient, of which each has a part, is added up and scattered before each cell
//! backward. The head adds up what it makes of each part of the units.

use super::architecture::Architecture;
use super::keeping::Keeping;
use super::network::Network;
use crate::device::{ArenaPlan, Device, HaloMap, Placement, Real, Slot, with_company};
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
        if of != 1 && self.layer_norm {
            return Err(Error::input(
                "layer normalisation needs all units of a point, which are not to be divided with it",
            )
            .hint("set model.layer_norm = false, or divide grid and samples instead"));
        }
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

/// Where units are on their way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meeting {
    /// Images of this network's own units, or of their gradient.
    mine: Slot,
    /// Of all units, part by part.
    all: Slot,
}

impl Meeting {
    /// With room for images of so many numbers in all.
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
    /// Brings images of this network's units, of the shape of `map`, to images of all.
    pub(super) fn gather(&self, device: &mut dyn Device<T>, map: &HaloMap, own: Slot, whole: Slot) {
        let (of, each) = (self.units.of, map.channels);
        let mine = self.meeting.mine.part(0, own.len());
        let all = self.meeting.all.part(0, whole.len());
        device.place_adjoint(&Meeting::placement(map, mine, each, own, 0));
        with_company(device, |company, device| company.gather(device, mine, all));
        for part in 0..of {
            let fields = all.part(part * own.len(), own.len());
            device.place(&Meeting::placement(map, fields, each, whole, part * each));
        }
    }

    /// The transpose: adds up what all have of the gradient of images of all units, and keeps that of this network's.
    pub(super) fn scatter(&self, device: &mut dyn Device<T>, map: &HaloMap, whole: Slot, own: Slot) {
        let (of, each) = (self.units.of, map.channels);
        let mine = self.meeting.mine.part(0, own.len());
        let all = self.meeting.all.part(0, whole.len());
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
}
