//! A communicator that exchanges nothing and notes on a clock what it was asked for.

use std::collections::VecDeque;

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
        /// Where the card goes on meanwhile: on which of its lanes it is done.
        lane: Option<usize>,
        /// Cards from the first to the last of those that take part.
        span: usize,
    },
    /// All that was asked for before has to be done, or all of one lane.
    Join { at: f64, lane: Option<usize> },
}

/// One of some cards, which pretends that there are others.
pub struct Wiretap {
    group: Group,
    /// Those that it is going to be split into.
    groups: VecDeque<Group>,
    clock: Clock,
    activation: f64,
}

/// Cards that meet.
#[derive(Debug, Clone, Copy)]
struct Group {
    rank: usize,
    size: usize,
    /// Cards from the first to the last of them.
    span: usize,
}

/// Bytes of a number that is kept as it is.
const EACH: f64 = 4.0;

impl Wiretap {
    /// Listens to a card of a mesh of `[data, domain, channel]` cards, counted with the channels first, whose work `clock` counts
    /// and who keeps activations in so many bytes. If it is split, then into bands of rows, parts of the units, and those
    /// that have the same part; it has one band between others if there is one.
    pub fn new([data, domain, channel]: [usize; 3], clock: Clock, activation: f64) -> Self {
        let band = usize::from(domain > 2);
        let size = data * domain * channel;
        let group = Group { rank: band * channel, size, span: size };
        let bands = Group { rank: band, size: domain, span: domain * channel };
        let units = Group { rank: 0, size: channel, span: channel };
        let replicas = Group { rank: band, size: data * domain, span: size };
        let divided = [bands, units].into_iter().filter(|group| group.size > 1);
        let groups = divided.chain((channel > 1).then_some(replicas)).collect();
        Self { group, groups, clock, activation }
    }

    /// Of so many bytes.
    fn transfer(&self, sent: f64, steps: f64) {
        if self.group.size > 1 {
            let (at, lane, span) = (self.clock.seconds(), self.clock.lane(), self.group.span);
            self.clock.note(Event::Transfer { at, sent, steps, lane, span });
        }
    }

    fn bytes(&self, slot: Slot) -> f64 {
        slot.len() as f64 * if slot.is_activation() { self.activation } else { EACH }
    }

    fn others(&self) -> f64 {
        (self.group.size - 1) as f64
    }

    fn join(&self) {
        self.clock.note(Event::Join { at: self.clock.seconds(), lane: None });
    }
}

/// Rings (Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002), but for what every pair exchanges by itself.
impl Communicator<f32> for Wiretap {
    fn rank(&self) -> usize {
        self.group.rank
    }

    fn size(&self) -> usize {
        self.group.size
    }

    fn all_reduce(&mut self, _: &mut dyn Device<f32>, slot: Slot, _: Reduce) {
        let share = 2.0 * self.others() / self.group.size as f64;
        self.transfer(share * self.bytes(slot), 2.0 * self.others());
    }

    fn reduce_scatter(&mut self, _: &mut dyn Device<f32>, _: Slot, to: Slot, _: Reduce) {
        self.transfer(self.others() * self.bytes(to), self.others());
    }

    fn all_gather(&mut self, _: &mut dyn Device<f32>, from: Slot, _: Slot) {
        self.transfer(self.others() * self.bytes(from), self.others());
    }

    fn all_to_all(&mut self, _: &mut dyn Device<f32>, from: Slot, _: Slot) {
        self.transfer(self.others() / self.group.size as f64 * self.bytes(from), 1.0);
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
        Ok(vec![words.to_owned(); self.group.size])
    }

    fn barrier(&mut self) -> Result<()> {
        self.join();
        Ok(())
    }

    fn split(&mut self, _: &mut dyn Device<f32>, _: usize) -> Result<Box<dyn Communicator<f32>>> {
        let group = self.groups.pop_front();
        let group = group.ok_or_else(|| Error::run("a mesh is split once for each of its axes"))?;
        let (clock, activation) = (self.clock.clone(), self.activation);
        Ok(Box::new(Self { group, groups: VecDeque::new(), clock, activation }))
    }

    fn fail(&mut self, _: &Error) {}

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
