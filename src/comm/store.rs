//! The meeting of several processes: rank 0 keeps the table ([`Hub`]) and listens, the others come by TCP. On rank 0 a
//! thread stands at the table for each of them.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::frames::Frame;
use super::hub::{AtHub, Failure, Hub, Place as Seat, ranks};
use super::launch::Place;
use super::meeting::{Bytes, Lifeline, Meeting, Parcel, group};
use crate::error::{Context, Error, Kind, Result};

/// Between two looks whether somebody has come, or something has happened.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest that the first word of a caller may take.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Meets the other processes; waits for them no longer than `limit`.
pub fn join(place: &Place, limit: Duration) -> Result<Box<dyn Meeting>> {
    if place.rank == 0 { Ok(Box::new(Server::gather(place, limit)?)) } else { come(place, limit) }
}

/// Rank 0.
struct Server {
    at_hub: AtHub,
    line: Arc<OwnLine>,
}

/// Rank 0's way to tell bad news.
struct OwnLine {
    hub: Arc<Hub>,
    herald: JoinHandle<()>,
}

/// A rank that has come.
struct Guest {
    rank: usize,
    stream: TcpStream,
    /// The same stream, to write to.
    writer: Arc<Mutex<TcpStream>>,
}

impl Server {
    /// Waits until everybody has come.
    fn gather(place: &Place, limit: Duration) -> Result<Self> {
        let deadline = Instant::now() + limit;
        // On every address of this machine: the name that others know it by may be none of its own.
        let port = place.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let port = port.ok_or_else(|| Error::input(format!("{} is no host:port", place.address)))?;
        let cannot = || format!("rank 0 cannot listen at port {port}");
        let listener = TcpListener::bind(("0.0.0.0", port)).context(cannot).map_err(|error| {
            error.hint("another job may be using it: set WXSIM_ADDRESS=HOST:PORT for all ranks")
        })?;
        listener.set_nonblocking(true).context(cannot)?;
        let mut guests: Vec<Option<Guest>> = (1..place.size).map(|_| None).collect();
        while guests.iter().any(Option::is_none) {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Some(guest) = greet(stream, place, &guests) {
                        let seat = guest.rank - 1;
                        guests[seat] = Some(guest);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                // A caller that hung up.
                Err(_) => {}
            }
            if Instant::now() > deadline && guests.iter().any(Option::is_none) {
                return Err(send_home(guests, place, limit));
            }
        }
        let hub = Hub::new(limit);
        let guests: Vec<Guest> = guests.into_iter().flatten().collect();
        let writers: Vec<_> = guests.iter().map(|guest| guest.writer.clone()).collect();
        let mut waiters = Vec::new();
        for guest in guests {
            let hub = hub.clone();
            let thread = std::thread::Builder::new().name(format!("rank-{}", guest.rank));
            waiters.push(
                thread.spawn(move || serve(guest, &hub)).context(|| "a thread cannot be started".into())?,
            );
        }
        let herald = {
            let hub = hub.clone();
            let thread = std::thread::Builder::new().name("herald".into());
            thread.spawn(move || proclaim(&hub, &writers, &waiters))
        };
        let herald = herald.context(|| "a thread cannot be started".into())?;
        Ok(Self { at_hub: AtHub::new(hub.clone(), 0, place.size), line: Arc::new(OwnLine { hub, herald }) })
    }
}

/// Who calls, if it is a rank of this job that has not come yet.
fn greet(stream: TcpStream, place: &Place, guests: &[Option<Guest>]) -> Option<Guest> {
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(FIRST_WORD)).ok()?;
    let mut reader = stream.try_clone().ok()?;
    let Ok(Frame::Hello { token, rank, size }) = Frame::read(&mut reader) else { return None };
    let refusal = if token != place.token {
        Some("rank 0 belongs to another job".to_owned())
    } else if size != place.size {
        Some(format!("rank 0 expects {} ranks", place.size))
    } else if rank == 0 || rank >= size || guests[rank - 1].is_some() {
        Some(format!("another process is rank {rank} of this job"))
    } else {
        None
    };
    if let Some(message) = refusal {
        let hint = "every rank needs a number of its own, and all the same token and size".to_owned();
        let failure = Failure { rank: None, kind: Kind::Input, message, hint: Some(hint) };
        // Whether it still listens or not, it is not one of us.
        let _ = Frame::Failed(failure).write(&mut reader);
        return None;
    }
    stream.set_read_timeout(None).ok()?;
    Some(Guest { rank, stream: reader, writer: Arc::new(Mutex::new(stream)) })
}

/// Tells those who came that others did not.
fn send_home(guests: Vec<Option<Guest>>, place: &Place, limit: Duration) -> Error {
    let missing = guests.iter().enumerate().filter(|(_, guest)| guest.is_none()).map(|(i, _)| i + 1);
    let message = format!(
        "{} of {} did not come to {} within {} s",
        ranks(missing),
        place.size,
        place.address,
        limit.as_secs_f64()
    );
    let hint = "look for what they say, and whether their machines reach that address".to_owned();
    let failure = Failure { rank: None, kind: Kind::Run, message, hint: Some(hint) };
    for guest in guests.iter().flatten() {
        // One that has gone since does not need to know.
        let _ = Frame::Failed(failure.clone()).write(&mut *lock(&guest.writer));
    }
    failure.error()
}

/// Stands at the table for a guest until it leaves.
fn serve(mut guest: Guest, hub: &Hub) {
    let gone = |text: String| {
        hub.fail(Failure {
            rank: None,
            kind: Kind::Run,
            message: format!("rank {} is gone: {text}", guest.rank),
            hint: Some("its own output may say why; the run continues with --resume".into()),
        });
    };
    if let Err(error) = Frame::Welcome.write(&mut *lock(&guest.writer)) {
        return gone(crate::error::chain(&error));
    }
    loop {
        match Frame::read(&mut guest.stream) {
            Ok(Frame::Exchange { group, round, rank, size, what, parcel }) if fits(&parcel, rank, size) => {
                let seat = Seat { group, round, ..Seat::new(rank, size) };
                // The herald tells what failed.
                let Ok(pieces) = hub.exchange(&seat, &what, parcel) else { continue };
                if let Err(error) = Frame::Pieces(pieces).write(&mut *lock(&guest.writer)) {
                    return gone(crate::error::chain(&error));
                }
            }
            Ok(Frame::Failed(failure)) => hub.fail(failure),
            Ok(Frame::Bye) => return,
            Ok(_) => return gone("it says what no rank says".into()),
            Err(error) => return gone(crate::error::chain(&error)),
        }
    }
}

/// Whether an exchange can be what it says.
fn fits(parcel: &Parcel, rank: usize, size: usize) -> bool {
    rank < size && !matches!(parcel, Parcel::ForEach(pieces) if pieces.len() != size)
}

/// Waits until the guests have left, and tells them what failed before.
fn proclaim(hub: &Hub, writers: &[Arc<Mutex<TcpStream>>], waiters: &[JoinHandle<()>]) {
    while !waiters.iter().all(JoinHandle::is_finished) {
        if let Some(failure) = hub.failure() {
            for writer in writers {
                // Who has gone needs no news.
                let _ = Frame::Failed(failure.clone()).write(&mut *lock(writer));
            }
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

fn lock(writer: &Mutex<TcpStream>) -> MutexGuard<'_, TcpStream> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meeting for Server {
    fn rank(&self) -> usize {
        self.at_hub.rank()
    }

    fn size(&self) -> usize {
        self.at_hub.size()
    }

    fn exchange(&mut self, what: &str, parcel: Parcel) -> Result<Vec<Bytes>> {
        self.at_hub.exchange(what, parcel)
    }

    fn split(&mut self, colour: usize) -> Result<Box<dyn Meeting>> {
        self.at_hub.split(colour)
    }

    fn lifeline(&self) -> Arc<dyn Lifeline> {
        self.line.clone()
    }
}

impl Lifeline for OwnLine {
    fn fail(&self, error: &Error) {
        self.hub.fail(Failure::of(0, error));
    }

    fn failure(&self) -> Option<Error> {
        self.hub.failure().map(|failure| failure.error())
    }
}

impl Drop for OwnLine {
    fn drop(&mut self) {
        // This process must not end before its guests have what they came for, be it bad news.
        let start = Instant::now();
        while !self.herald.is_finished() && start.elapsed() < FIRST_WORD {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Comes to rank 0.
fn come(place: &Place, limit: Duration) -> Result<Box<dyn Meeting>> {
    let deadline = Instant::now() + limit;
    let stream = loop {
        let found = place.address.to_socket_addrs().and_then(|mut addresses| {
            let address = addresses.find(|address| address.is_ipv4());
            address.ok_or_else(|| std::io::Error::other("the name has no IPv4 address"))
        });
        // It may not be there yet, nor its name.
        match found.and_then(|address| TcpStream::connect_timeout(&address, FIRST_WORD)) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > deadline => {
                return Err(Error::run(format!(
                    "rank 0 did not answer at {} within {} s",
                    place.address,
                    limit.as_secs_f64()
                ))
                .caused_by(error)
                .hint("look for what rank 0 says; WXSIM_ADDRESS=HOST:PORT names another place to meet"));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    };
    let cannot = || format!("the connection to rank 0 at {}", place.address);
    stream.set_nodelay(true).context(cannot)?;
    let mut reader = stream.try_clone().context(cannot)?;
    let hello = Frame::Hello { token: place.token.clone(), rank: place.rank, size: place.size };
    hello.write(&mut &stream)?;
    // Rank 0 waits for others until its own limit.
    reader.set_read_timeout(Some(2 * limit + FIRST_WORD)).context(cannot)?;
    match Frame::read(&mut reader).context(cannot)? {
        Frame::Welcome => {}
        Frame::Failed(failure) => return Err(failure.error()),
        _ => return Err(Error::run("rank 0 says what no rank says")),
    }
    reader.set_read_timeout(None).context(cannot)?;
    let failure = Arc::new(Mutex::new(None));
    let line = Arc::new(Line { rank: place.rank, writer: Mutex::new(stream), failure: failure.clone() });
    let (sender, pieces) = channel();
    let listen = move || {
        loop {
            match Frame::read(&mut reader) {
                Ok(Frame::Pieces(pieces)) => {
                    if sender.send(pieces).is_err() {
                        return;
                    }
                }
                Ok(Frame::Failed(reason)) => return note(&failure, reason),
                _ => {
                    let message = "rank 0 is gone".to_owned();
                    let hint = Some("its own output may say why; the run continues with --resume".into());
                    return note(&failure, Failure { rank: None, kind: Kind::Run, message, hint });
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("meeting".into());
    thread.spawn(listen).context(|| "a thread cannot be started".into())?;
    Ok(Box::new(Client {
        line,
        pieces: Arc::new(Mutex::new(pieces)),
        seat: Seat::new(place.rank, place.size),
    }))
}

/// Any other rank, in the group of all or in a smaller one.
struct Client {
    line: Arc<Line>,
    /// Of this rank's exchanges, in order; all its groups use it in turn.
    pieces: Arc<Mutex<Receiver<Vec<Bytes>>>>,
    seat: Seat,
}

/// The connection to rank 0.
struct Line {
    rank: usize,
    writer: Mutex<TcpStream>,
    failure: Arc<Mutex<Option<Failure>>>,
}

/// The first reason stays.
fn note(place: &Mutex<Option<Failure>>, failure: Failure) {
    place.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
}

impl Lifeline for Line {
    fn fail(&self, error: &Error) {
        let failure = Failure::of(self.rank, error);
        // Where rank 0 is gone, that is what is noted next.
        let _ = Frame::Failed(failure.clone()).write(&mut *lock(&self.writer));
        note(&self.failure, failure);
    }

    fn failure(&self) -> Option<Error> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(Failure::error)
    }
}

impl Meeting for Client {
    fn rank(&self) -> usize {
        self.seat.rank
    }

    fn size(&self) -> usize {
        self.seat.size
    }

    fn exchange(&mut self, what: &str, parcel: Parcel) -> Result<Vec<Bytes>> {
        if let Some(error) = self.line.failure() {
            return Err(error);
        }
        let Seat { group, round, rank, size, .. } = self.seat.clone();
        self.seat.round += 1;
        let sent = Frame::Exchange { group, round, rank, size, what: what.to_owned(), parcel };
        let sent = sent.write(&mut *lock(&self.line.writer));
        // When the line has ended, nothing comes any more, and there is a reason.
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match (pieces, sent, self.line.failure()) {
            (Ok(pieces), ..) => Ok(pieces),
            (Err(_), _, Some(error)) => Err(error),
            (Err(_), sent, None) => {
                sent?;
                Err(Error::run("the connection to rank 0 has ended"))
            }
        }
    }

    fn split(&mut self, colour: usize) -> Result<Box<dyn Meeting>> {
        let (rank, size) = group(self, colour)?;
        let seat = self.seat.within(colour, rank, size);
        Ok(Box::new(Self { line: self.line.clone(), pieces: self.pieces.clone(), seat }))
    }

    fn lifeline(&self) -> Arc<dyn Lifeline> {
        self.line.clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Rank 0 may have gone before.
        let _ = Frame::Bye.write(&mut *lock(&self.writer));
    }
}

#[cfg(test)]
mod tests;
