//! The ranks that hold the rest of one grid and of its layers, as a device knows them.

use super::{Communicator, Reduce};
use crate::device::{Beyond, Company, Device, Real, Slot};
use crate::error::{Error, Result};

/// Groups of ranks that this one belongs to.
#[derive(Default)]
pub struct Others<T: Real> {
    /// Of neighbouring bands, in their order from the first row on.
    bands: Option<Box<dyn Communicator<T>>>,
    /// Of neighbouring units, in their order.
    units: Option<Box<dyn Communicator<T>>>,
}

impl<T: Real> Others<T> {
    /// A group is `None` where nothing is divided.
    pub fn new(bands: Option<Box<dyn Communicator<T>>>, units: Option<Box<dyn Communicator<T>>>) -> Self {
        Self { bands, units }
    }

    fn bands(&mut self) -> &mut dyn Communicator<T> {
        self.bands.as_deref_mut().expect("who shares rows was given their group")
    }

    fn units(&mut self) -> &mut dyn Communicator<T> {
        self.units.as_deref_mut().expect("who shares units was given their group")
    }
}

impl<T: Real> Company<T> for Others<T> {
    fn swap(&mut self, device: &mut dyn Device<T>, fields: &[Beyond]) {
        let bands = self.bands();
        let own = bands.rank();
        let others = [own.wrapping_sub(1), own + 1];
        let of = |which: usize| {
            let slots = fields.iter().flat_map(|beyond| beyond.iter().zip(others));
            let slots = slots.filter_map(|(slots, other)| Some((other, slots.as_ref()?[which])));
            slots.filter(|(_, slot)| !slot.is_empty()).collect::<Vec<_>>()
        };
        bands.exchange(device, &of(0), &of(1));
    }

    fn deal(&mut self, device: &mut dyn Device<T>, given: &[Slot], got: &[Slot]) {
        let of = |slots: &[Slot]| -> Vec<(usize, Slot)> {
            slots.iter().copied().enumerate().filter(|(_, slot)| !slot.is_empty()).collect()
        };
        self.bands().exchange(device, &of(given), &of(got));
    }

    fn gather(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        self.units().all_gather(device, from, to);
    }

    fn scatter(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        self.units().reduce_scatter(device, from, to, Reduce::Sum);
    }

    fn spread(&mut self, device: &mut dyn Device<T>, slot: Slot, from: usize) {
        self.units().broadcast(device, slot, from);
    }

    fn add_up(&mut self, device: &mut dyn Device<T>, slot: Slot) {
        self.units().all_reduce(device, slot, Reduce::Sum);
    }

    fn fail(&mut self, error: &Error) {
        [&mut self.bands, &mut self.units].into_iter().flatten().for_each(|group| group.fail(error));
    }

    fn close(self: Box<Self>) -> Result<()> {
        [self.bands, self.units].into_iter().flatten().try_for_each(|group| group.close())
    }
}
