//! A communicator that exchanges nothing and remembers what it was asked for, and when.

use std::sync::{Arc, Mutex, PoisonError};

use super::Clock;
use crate::comm::{Communicator, Reduce};
use crate::device::{Device, Slot};
use crate::error::Result;

/// What a card asks of others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    Transfer {
        /// When, if nobody had to wait [s].
        at: f64,
        /// By each card [bytes].
        sent: f64,
        /// Messages one after the other.
        steps: f64,
        /// Whether the card does nothing else meanwhile.
        waits: bool,
    },
    /// All that was asked for before has to be done.
    Join { at: f64 },
}

/// What was overheard of one card; copies share it.
#[derive(Debug, Clone, Default)]
pub struct Overheard(Arc<Mutex<Vec<Event>>>);

impl Overheard {
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// The first of some cards, which pretends that there are others.
pub struct Wiretap {
    size: usize,
    clock: Clock,
    overheard: Overheard,
}

/// Bytes of a number.
const EACH: f64 = 4.0;

impl Wiretap {
    /// Listens to one of `size` cards, whose work `clock` counts.
    pub fn new(size: usize, clock: Clock) -> Self {
        Self { size, clock, overheard: Overheard::default() }
    }

    pub fn overheard(&self) -> Overheard {
        self.overheard.clone()
    }

    fn transfer(&self, numbers: f64, steps: f64) {
        if self.size > 1 {
            let (at, waits) = (self.clock.seconds(), !self.clock.is_aside());
            self.overheard.add(Event::Transfer { at, sent: EACH * numbers, steps, waits });
        }
    }

    fn others(&self) -> f64 {
        (self.size - 1) as f64
    }

    fn join(&self) {
        self.overheard.add(Event::Join { at: self.clock.seconds() });
    }
}

/// Rings (Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002), but for what every pair exchanges by itself.
impl Communicator<f32> for Wiretap {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&mut self, _: &mut dyn Device<f32>, slot: Slot, _: Reduce) {
        let share = 2.0 * self.others() / self.size as f64;
        self.transfer(share * slot.len() as f64, 2.0 * self.others());
    }

    fn reduce_scatter(&mut self, _: &mut dyn Device<f32>, _: Slot, to: Slot, _: Reduce) {
        self.transfer(self.others() * to.len() as f64, self.others());
    }

    fn all_gather(&mut self, _: &mut dyn Device<f32>, from: Slot, _: Slot) {
        self.transfer(self.others() * from.len() as f64, self.others());
    }

    fn all_to_all(&mut self, _: &mut dyn Device<f32>, from: Slot, _: Slot) {
        self.transfer(self.others() / self.size as f64 * from.len() as f64, 1.0);
    }

    fn broadcast(&mut self, _: &mut dyn Device<f32>, slot: Slot, _: usize) {
        self.transfer(slot.len() as f64, self.others());
    }

    fn exchange(&mut self, _: &mut dyn Device<f32>, sent: &[(usize, Slot)], _: &[(usize, Slot)]) {
        self.transfer(sent.iter().map(|(_, slot)| slot.len() as f64).sum(), 1.0);
    }

    fn depend(&mut self) {}

    fn total(&mut self, _: &mut [f64]) -> Result<()> {
        self.join();
        Ok(())
    }

    fn tell(&mut self, words: &str) -> Result<Vec<String>> {
        self.join();
        Ok(vec![words.to_owned(); self.size])
    }

    fn barrier(&mut self) -> Result<()> {
        self.join();
        Ok(())
    }

    /// Of one card more: nobody else is there to tell its colour.
    fn split(&mut self, _: &mut dyn Device<f32>, _: usize) -> Result<Box<dyn Communicator<f32>>> {
        let (clock, overheard) = (self.clock.clone(), self.overheard.clone());
        Ok(Box::new(Self { size: self.size, clock, overheard }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
