//! What is not on this device because another one holds it: rows of the neighbouring bands of a grid, units of a layer.
//!
//! A device is given its [`Company`] once. From then on its operations on halos fetch the rows of a [`Seam`] there, so that
//! who asks for them need not know that the grid is cut.

use std::sync::Arc;

use super::{Device, HaloMap, HaloPart, Placement, Real, Slot};
use crate::error::{Error, Result};

/// Those who hold the rest of what this device holds a part of. All of them ask for the same, in the same order.
pub trait Company<T: Real>: Send {
    /// Swaps rows of some fields, at once, with who holds the band before the first and behind the last row, where there is
    /// one: gives the first slot, gets the second. An empty slot is none.
    fn swap(&mut self, device: &mut dyn Device<T>, fields: &[Beyond]);
    /// Gives the n-th of all who hold bands, in their order, the n-th slot, and gets another one from it.
    fn deal(&mut self, device: &mut dyn Device<T>, given: &[Slot], got: &[Slot]);
    /// Gives all who hold units of the same layers what each of them has, one behind the other.
    fn gather(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot);
    /// The transpose: part n of what all of them have, added up, for the n-th.
    fn scatter(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot);
    /// Gives all of them what the n-th has.
    fn spread(&mut self, device: &mut dyn Device<T>, slot: Slot, from: usize);
    /// Replaces what all of them have by its sum.
    fn add_up(&mut self, device: &mut dyn Device<T>, slot: Slot);
    /// Tells the others that something failed here, so that they do not wait.
    fn fail(&mut self, error: &Error);
    /// Ends together.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Rows that are given and got, before the first row and behind the last.
pub type Beyond = [Option<[Slot; 2]>; 2];

/// Where an image is cut out of a larger one: its halo rows are copies of rows that others hold, from their first to their
/// last halo column.
#[derive(Debug, Clone, PartialEq)]
pub struct Seam {
    /// Interior rows.
    rows: usize,
    width: usize,
    /// Numbers of one padded row.
    row: usize,
    /// Whether there are others before the first and behind the last row.
    beyond: [bool; 2],
    /// What of an image's own rows lies in the halos of others, as if these halos were its own.
    home: Arc<[HaloPart]>,
    /// `[give or get, before or behind, images, width, padded columns, channels]`
    room: Slot,
}

impl Seam {
    /// Of images of `rows x columns` interior cells with `width` halo cells on each side.
    pub(super) fn new(
        [rows, columns, width]: [usize; 3],
        channels: usize,
        beyond: [bool; 2],
    ) -> Option<Self> {
        if width == 0 || !beyond.contains(&true) {
            return None;
        }
        let padded = columns + 2 * width;
        let cell = |row: usize, column: usize| (row * padded + column) as u32;
        let mut copies = Vec::new();
        for row in 0..width {
            for column in 0..padded {
                if beyond[0] {
                    copies.push((cell(row, column), cell(width + row, column), false));
                }
                if beyond[1] {
                    copies.push((cell(width + rows + row, column), cell(rows + row, column), false));
                }
            }
        }
        let part = HaloPart { channels: 0..channels, odd: vec![false; channels], copies, zeros: Vec::new() };
        let row = padded * channels;
        Some(Self { rows, width, row, beyond, home: [part].into(), room: Slot::EMPTY })
    }

    /// Numbers of the room that so many images need to travel.
    pub fn room(&self, images: usize) -> usize {
        4 * images * self.width * self.row
    }

    /// With a place for rows to travel from and to, not among the activations; who never asks for gradients of a single image
    /// needs none.
    pub fn with_room(self, room: Slot) -> Self {
        Self { room, ..self }
    }

    /// Rows `first..first + width` of all images, and a slot without the others.
    fn rows(&self, images: usize, image: Slot, first: usize, fields: Slot) -> Placement {
        Placement {
            images,
            rows: 1,
            columns: 1,
            channels: self.width * self.row,
            patch: 1,
            fields,
            field_images: images,
            image,
            halo: 0,
            image_channels: (self.rows + 2 * self.width) * self.row,
            first_channel: first * self.row,
        }
    }

    /// Swaps rows that begin with `given` for those that begin with `got`, before and behind.
    fn swap<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        images: usize,
        x: Slot,
        given: [usize; 2],
        got: [usize; 2],
    ) {
        let len = images * self.width * self.row;
        let room = |way: usize, side: usize| self.room.part((2 * way + side) * len, len);
        let sides = [0, 1].into_iter().filter(|&side| self.beyond[side]);
        let mut beyond = [None; 2];
        for side in sides.clone() {
            let slots = [room(0, side), room(1, side)];
            device.place_adjoint(&self.rows(images, x, given[side], slots[0]));
            beyond[side] = Some(slots);
        }
        with_company(device, |company, device| company.swap(device, &[beyond]));
        for side in sides {
            device.place(&self.rows(images, x, got[side], room(1, side)));
        }
    }
}

/// Fetches the halo rows that others hold.
pub fn fill<T: Real>(device: &mut dyn Device<T>, map: &HaloMap, x: Slot) {
    let Some(seam) = &map.seam else { return };
    let (given, got) = ([seam.width, seam.rows], [0, seam.width + seam.rows]);
    if map.images > 1 {
        return seam.swap(device, map.images, x, given, got);
    }
    fill_together(device, &[(map, x)]);
}

/// As [`fill`], of images of which there is one each, all at once.
pub fn fill_together<T: Real>(device: &mut dyn Device<T>, fields: &[(&HaloMap, Slot)]) {
    let beyond = |(map, x): &(&HaloMap, Slot)| {
        let seam = map.seam.as_ref()?;
        // Rows of one image lie together.
        let rows = |first: usize| x.part(first * seam.row, seam.width * seam.row);
        let (given, got) = ([seam.width, seam.rows], [0, seam.width + seam.rows]);
        Some([0, 1].map(|side| seam.beyond[side].then(|| [rows(given[side]), rows(got[side])])))
    };
    let fields: Vec<Beyond> = fields.iter().filter_map(beyond).collect();
    if !fields.is_empty() {
        with_company(device, |company, device| company.swap(device, &fields));
    }
}

/// The transpose: brings the gradient of these rows to those who hold them, and adds what comes from there to where it
/// belongs.
pub fn adjoint<T: Real>(device: &mut dyn Device<T>, map: &HaloMap, dx: Slot) {
    let Some(seam) = &map.seam else { return };
    let halo = [0, seam.width + seam.rows];
    seam.swap(device, map.images, dx, halo, halo);
    device.halo_adjoint(&HaloMap { parts: seam.home.clone(), ..map.here() }, dx);
}

/// Lets a device ask its company. Who was given a part of something was given company, too.
pub fn with_company<T: Real>(
    device: &mut dyn Device<T>,
    work: impl FnOnce(&mut dyn Company<T>, &mut dyn Device<T>),
) {
    let Some(mut company) = device.company().take() else {
        panic!("what others hold, and nobody to ask");
    };
    work(&mut *company, device);
    *device.company() = Some(company);
}
