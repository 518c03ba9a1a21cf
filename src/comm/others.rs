//! The ranks that hold the rest of one grid, as its parts know them.

use super::Communicator;
use crate::device::{Company, Device, Real, Slot};
use crate::error::Result;

/// Ranks with neighbouring bands of rows, in their order from the first row on.
pub struct Others<T: Real> {
    bands: Box<dyn Communicator<T>>,
}

impl<T: Real> Others<T> {
    pub fn new(bands: Box<dyn Communicator<T>>) -> Self {
        Self { bands }
    }
}

impl<T: Real> Company<T> for Others<T> {
    fn swap(&mut self, device: &mut dyn Device<T>, beyond: [Option<[Slot; 2]>; 2]) {
        let own = self.bands.rank();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for (slots, other) in beyond.into_iter().zip([own.wrapping_sub(1), own + 1]) {
            if let Some([given, got]) = slots {
                sent.push((other, given));
                received.push((other, got));
            }
        }
        self.bands.exchange(device, &sent, &received);
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.bands.close()
    }
}
