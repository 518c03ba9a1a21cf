//! Where ranks meet to hand bytes to each other.

use std::sync::Arc;

use crate::error::{Error, Result};

/// What one rank hands to another; shared, so that ranks of one process copy nothing.
pub type Bytes = Arc<[u8]>;

/// What one rank brings to an exchange.
#[derive(Debug, Clone)]
pub enum Parcel {
    /// The same for every rank.
    ForAll(Bytes),
    /// One piece for each rank.
    ForEach(Vec<Bytes>),
}

impl Parcel {
    /// The piece for `rank`.
    pub(super) fn piece(&self, rank: usize) -> Bytes {
        match self {
            Self::ForAll(bytes) => bytes.clone(),
            Self::ForEach(pieces) => pieces[rank].clone(),
        }
    }
}

/// A group of ranks that hand bytes to each other. What fails, fails for all of them and for good.
pub trait Meeting: Send {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;
    /// Gives what every rank has brought for this one, in the order of the ranks; `what` is done has to be the same for all.
    fn exchange(&mut self, what: &str, parcel: Parcel) -> Result<Vec<Bytes>>;
    /// The group of all ranks that gave the same colour, in their order.
    fn split(&mut self, colour: usize) -> Result<Box<dyn Meeting>>;
    /// What outlives this.
    fn lifeline(&self) -> Arc<dyn Lifeline>;
}

/// Bad news of a meeting, from and for any thread.
pub trait Lifeline: Send + Sync {
    /// Ends the meeting for all ranks, unless it has failed before.
    fn fail(&self, error: &Error);
    /// Why the meeting has failed.
    fn failure(&self) -> Option<Error>;
}

/// A meeting of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Meeting for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn exchange(&mut self, _: &str, parcel: Parcel) -> Result<Vec<Bytes>> {
        Ok(vec![parcel.piece(0)])
    }

    fn split(&mut self, _: usize) -> Result<Box<dyn Meeting>> {
        Ok(Box::new(Self))
    }

    fn lifeline(&self) -> Arc<dyn Lifeline> {
        Arc::new(Self)
    }
}

/// Nobody else has to know.
impl Lifeline for Alone {
    fn fail(&self, _: &Error) {}

    fn failure(&self) -> Option<Error> {
        None
    }
}

/// Rank and size within the group of those ranks of a meeting that give the same colour.
pub(super) fn group(meeting: &mut dyn Meeting, colour: usize) -> Result<(usize, usize)> {
    let own: Bytes = Arc::from((colour as u64).to_le_bytes());
    let colours = meeting.exchange("split", Parcel::ForAll(own.clone()))?;
    let before = colours[..meeting.rank()].iter().filter(|other| **other == own).count();
    Ok((before, colours.iter().filter(|other| **other == own).count()))
}
