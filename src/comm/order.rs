//! A meeting whose ranks are numbered anew.

use std::sync::Arc;

use super::meeting::{Bytes, Lifeline, Meeting, Parcel};
use crate::error::Result;

/// Ranks in another order than they were given.
struct InOrder {
    meeting: Box<dyn Meeting>,
    /// By new number, the old one.
    given: Vec<usize>,
    own: usize,
}

/// The same ranks, of which that of number `order[n]` is now number n. All ranks give the same order, which names each once.
pub fn in_order(meeting: Box<dyn Meeting>, order: &[usize]) -> Box<dyn Meeting> {
    let own = order.iter().position(|&given| given == meeting.rank());
    match own {
        Some(own) if order.iter().enumerate().any(|(new, &given)| new != given) => {
            Box::new(InOrder { meeting, given: order.to_vec(), own })
        }
        _ => meeting,
    }
}

impl Meeting for InOrder {
    fn rank(&self) -> usize {
        self.own
    }

    fn size(&self) -> usize {
        self.given.len()
    }

    fn exchange(&mut self, what: &str, parcel: Parcel) -> Result<Vec<Bytes>> {
        let parcel = match parcel {
            Parcel::ForAll(bytes) => Parcel::ForAll(bytes),
            Parcel::ForEach(pieces) => {
                let mut given = pieces.clone();
                for (piece, &old) in pieces.into_iter().zip(&self.given) {
                    given[old] = piece;
                }
                Parcel::ForEach(given)
            }
        };
        let came = self.meeting.exchange(what, parcel)?;
        Ok(self.given.iter().map(|&old| came[old].clone()).collect())
    }

    fn split(&mut self, colour: usize) -> Result<Box<dyn Meeting>> {
        let own: Bytes = Arc::from((colour as u64).to_le_bytes());
        let colours = self.exchange("order", Parcel::ForAll(own.clone()))?;
        let members: Vec<usize> =
            (0..colours.len()).filter(|&new| colours[new] == own).map(|new| self.given[new]).collect();
        let group = self.meeting.split(colour)?;
        // Within the group, old numbers are those of the members in their old order.
        let place = |old: usize| members.iter().filter(|&&other| other < old).count();
        let order: Vec<usize> = members.iter().map(|&old| place(old)).collect();
        Ok(in_order(group, &order))
    }

    fn lifeline(&self) -> Arc<dyn Lifeline> {
        self.meeting.lifeline()
    }
}
