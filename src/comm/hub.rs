//! The meeting place of the ranks of one process: a table on which each lays its parcel and from which each takes what
//! is meant for it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::meeting::{Bytes, Lifeline, Meeting, Parcel, group};
use crate::error::{Error, Kind, Result, chain};

/// The place itself, shared by all ranks and all their groups.
pub(super) struct Hub {
    table: Mutex<Table>,
    changed: Condvar,
    /// The longest that a rank waits for the others.
    limit: Duration,
}

#[derive(Default)]
struct Table {
    /// By group, and number of the exchange within it.
    rounds: HashMap<(String, u64), Round>,
    failure: Option<Failure>,
}

/// One exchange of one group.
struct Round {
    parcels: Vec<Option<(String, Parcel)>>,
    taken: usize,
}

/// Why a meeting ended.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// Whose error it is; `None` where a rank did not come.
    pub rank: Option<usize>,
    pub kind: Kind,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    /// The error of `rank`, as the others are told of it.
    pub fn of(rank: usize, error: &Error) -> Self {
        Self {
            rank: Some(rank),
            kind: error.kind(),
            message: format!("rank {rank}: {}", chain(error)),
            hint: error.advice().map(str::to_owned),
        }
    }

    pub fn error(&self) -> Error {
        let error = Error::new(self.kind, self.message.clone());
        match &self.hint {
            Some(hint) => error.hint(hint.clone()),
            None => error,
        }
    }
}

impl Hub {
    pub fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), changed: Condvar::new(), limit })
    }

    /// A rank that panicked while it held the lock has left the table whole: nothing here panics half-way.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the meeting for everybody; the first reason stays.
    pub fn fail(&self, failure: Failure) {
        self.lock().failure.get_or_insert(failure);
        self.changed.notify_all();
    }

    pub fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Lays down a parcel, waits for those of all others, and takes what is meant for `place.rank`.
    pub fn exchange(&self, place: &Place, what: &str, parcel: Parcel) -> Result<Vec<Bytes>> {
        let deadline = Instant::now() + self.limit;
        let key = (place.group.clone(), place.round);
        let mut table = self.lock();
        let round = table
            .rounds
            .entry(key.clone())
            .or_insert_with(|| Round { parcels: vec![None; place.size], taken: 0 });
        round.parcels[place.rank] = Some((what.to_owned(), parcel));
        if round.parcels.iter().all(Option::is_some) {
            self.changed.notify_all();
        }
        loop {
            if let Some(pieces) = table.take(&key, place.rank) {
                return pieces.map_err(|failure| {
                    drop(table);
                    let error = failure.error();
                    self.fail(failure);
                    error
                });
            }
            if let Some(failure) = &table.failure {
                return Err(failure.error());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let failure = table.missing(&key, what, self.limit);
                drop(table);
                let error = failure.error();
                self.fail(failure);
                return Err(error);
            }
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Table {
    /// What is meant for `rank`, if everybody has come; the last to take clears the table.
    fn take(&mut self, key: &(String, u64), rank: usize) -> Option<Result<Vec<Bytes>, Failure>> {
        let round = self.rounds.get_mut(key)?;
        let all: Option<Vec<_>> = round.parcels.iter().map(Option::as_ref).collect();
        let all = all?;
        if let Some(other) = all.iter().position(|(what, _)| *what != all[0].0) {
            let message = format!(
                "rank 0 came for {}, rank {other} for {}: a mistake in wxsim",
                all[0].0, all[other].0
            );
            return Some(Err(Failure { rank: None, kind: Kind::Run, message, hint: None }));
        }
        let pieces = all.iter().map(|(_, parcel)| parcel.piece(rank)).collect();
        round.taken += 1;
        if round.taken == round.parcels.len() {
            self.rounds.remove(key);
        }
        Some(Ok(pieces))
    }

    fn missing(&self, key: &(String, u64), what: &str, limit: Duration) -> Failure {
        let parcels = self.rounds.get(key).map(|round| round.parcels.as_slice()).unwrap_or_default();
        let missing = (0..parcels.len()).filter(|&rank| parcels[rank].is_none());
        let message = format!(
            "{} of {} did not come to {what} within {} s",
            ranks(missing),
            parcels.len(),
            limit.as_secs_f64()
        );
        let hint = "look for what they say; where they are only slow, raise parallel.time_limit".to_owned();
        Failure { rank: None, kind: Kind::Run, message, hint: Some(hint) }
    }
}

/// `rank 3`, `ranks 1, 4, 5`
pub(super) fn ranks(ranks: impl Iterator<Item = usize>) -> String {
    let names: Vec<String> = ranks.map(|rank| rank.to_string()).collect();
    format!("rank{} {}", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

/// Where in which group a rank stands, and how many exchanges it has seen there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub group: String,
    pub rank: usize,
    pub size: usize,
    pub round: u64,
    /// Groups that were split off.
    pub splits: u64,
}

impl Place {
    /// In the group of all.
    pub fn new(rank: usize, size: usize) -> Self {
        Self { group: "all".into(), rank, size, round: 0, splits: 0 }
    }

    /// In the group of a colour.
    pub fn within(&mut self, colour: usize, rank: usize, size: usize) -> Self {
        self.splits += 1;
        let group = format!("{}/{}.{colour}", self.group, self.splits);
        Self { group, rank, size, round: 0, splits: 0 }
    }
}

/// A rank among the threads of this process.
pub(super) struct AtHub {
    hub: Arc<Hub>,
    place: Place,
    /// In the group of all.
    world_rank: usize,
}

impl AtHub {
    pub fn new(hub: Arc<Hub>, rank: usize, size: usize) -> Self {
        Self { hub, place: Place::new(rank, size), world_rank: rank }
    }
}

impl Meeting for AtHub {
    fn rank(&self) -> usize {
        self.place.rank
    }

    fn size(&self) -> usize {
        self.place.size
    }

    fn exchange(&mut self, what: &str, parcel: Parcel) -> Result<Vec<Bytes>> {
        let pieces = self.hub.exchange(&self.place, what, parcel);
        self.place.round += 1;
        pieces
    }

    fn split(&mut self, colour: usize) -> Result<Box<dyn Meeting>> {
        let (rank, size) = group(self, colour)?;
        let place = self.place.within(colour, rank, size);
        Ok(Box::new(Self { hub: self.hub.clone(), place, world_rank: self.world_rank }))
    }

    fn lifeline(&self) -> Arc<dyn Lifeline> {
        Arc::new(Line { hub: self.hub.clone(), rank: self.world_rank })
    }
}

/// A rank's line to the hub.
struct Line {
    hub: Arc<Hub>,
    rank: usize,
}

impl Lifeline for Line {
    fn fail(&self, error: &Error) {
        self.hub.fail(Failure::of(self.rank, error));
    }

    fn failure(&self) -> Option<Error> {
        self.hub.failure().map(|failure| failure.error())
    }
}
