//! A communicator that exchanges nothing and remembers what it was asked for, and when.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::Clock;
use crate::comm::{Communicator, Reduce};
use crate::device::{Device, Slot};
use crate::error::{Error, Result};

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
        /// Cards from the first to the last of those that take part.
        span: usize,
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

/// One of some cards, which pretends that there are others.
pub struct Wiretap {
    rank: usize,
    size: usize,
    span: usize,
    /// Sizes and spans of the groups that it is going to be split into.
    groups: VecDeque<(usize, usize)>,
    clock: Clock,
    activation: f64,
    overheard: Overheard,
}

/// Bytes of a number that is kept as it is.
const EACH: f64 = 4.0;

impl Wiretap {
    /// Listens to a card of a mesh of `[data, domain]` cards, counted with the domain first, whose work `clock` counts and who keeps
    /// activations in so many bytes. If it is split, then into bands of rows; it has one between others if there is one.
    pub fn new([data, domain]: [usize; 2], clock: Clock, activation: f64) -> Self {
        let (rank, size, overheard) = (usize::from(domain > 2), data * domain, Overheard::default());
        Self { rank, size, span: size, groups: [(domain, domain)].into(), clock, activation, overheard }
    }

    pub fn overheard(&self) -> Overheard {
        self.overheard.clone()
    }

    /// Of so many bytes.
    fn transfer(&self, sent: f64, steps: f64) {
        if self.size > 1 {
            let (at, waits, span) = (self.clock.seconds(), !self.clock.is_aside(), self.span);
            self.overheard.add(Event::Transfer { at, sent, steps, waits, span });
        }
    }

    fn bytes(&self, slot: Slot) -> f64 {
        slot.len() as f64 * if slot.is_activation() { self.activation } else { EACH }
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
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&mut self, _: &mut dyn Device<f32>, slot: Slot, _: Reduce) {
        let share = 2.0 * self.others() / self.size as f64;
        self.transfer(share * self.bytes(slot), 2.0 * self.others());
    }

    fn reduce_scatter(&mut self, _: &mut dyn Device<f32>, _: Slot, to: Slot, _: Reduce) {
        self.transfer(self.others() * self.bytes(to), self.others());
    }

    fn all_gather(&mut self, _: &mut dyn Device<f32>, from: Slot, _: Slot) {
        self.transfer(self.others() * self.bytes(from), self.others());
    }

    fn all_to_all(&mut self, _: &mut dyn Device<f32>, from: Slot, _: Slot) {
        self.transfer(self.others() / self.size as f64 * self.bytes(from), 1.0);
    }

    fn broadcast(&mut self, _: &mut dyn Device<f32>, slot: Slot, _: usize) {
        self.transfer(self.bytes(slot), self.others());
    }

    fn exchange(&mut self, _: &mut dyn Device<f32>, sent: &[(usize, Slot)], _: &[(usize, Slot)]) {
        self.transfer(sent.iter().map(|(_, slot)| self.bytes(*slot)).sum(), 1.0);
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

    fn split(&mut self, _: &mut dyn Device<f32>, _: usize) -> Result<Box<dyn Communicator<f32>>> {
        let group = self.groups.pop_front();
        let (size, span) = group.ok_or_else(|| Error::run("a mesh is split once for each of its axes"))?;
        let (clock, overheard) = (self.clock.clone(), self.overheard.clone());
        let (rank, activation) = (self.rank, self.activation);
        Ok(Box::new(Self { rank, size, span, groups: VecDeque::new(), clock, activation, overheard }))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
