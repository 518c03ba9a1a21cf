//! Several ranks in one process, a thread for each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::hub::{AtHub, Failure, Hub};
use super::meeting::Meeting;
use crate::error::{Error, Kind, Result, chain};

/// As much as the main thread of a program has [bytes].
const STACK: usize = 8 << 20;

/// Does `work` on a thread for each of `ranks`; gives what each rank got, in their order. What fails on one rank, a panic
/// too, ends the meeting of all: their next exchange fails, and the error is that of the rank where it began. Nobody
/// waits for another rank longer than `limit`.
pub fn run<W: Send, R: Send>(
    ranks: Vec<W>,
    limit: Duration,
    work: impl Fn(W, Box<dyn Meeting>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let hub = Hub::new(limit);
    let size = ranks.len();
    // All ranks stop together where somebody asks them to.
    let tell = |rank: usize, error: &Error| {
        if error.kind() != Kind::Interrupted {
            hub.fail(Failure::of(rank, error));
        }
    };
    let one = |rank: usize, of: W| {
        let meeting = Box::new(AtHub::new(hub.clone(), rank, size));
        let result = catch_unwind(AssertUnwindSafe(|| work(of, meeting)));
        result.unwrap_or_else(|panic| Err(panicked(&*panic))).inspect_err(|error| tell(rank, error))
    };
    let results: Vec<Result<R>> = std::thread::scope(|scope| {
        let one = &one;
        let start = |(rank, of): (usize, W)| {
            let thread = std::thread::Builder::new().name(format!("rank-{rank}")).stack_size(STACK);
            thread.spawn_scoped(scope, move || one(rank, of)).map_err(|error| {
                let error = Error::run("a thread cannot be started").caused_by(error);
                tell(rank, &error);
                error
            })
        };
        let threads: Vec<_> = ranks.into_iter().enumerate().map(start).collect();
        let end = |thread: Result<std::thread::ScopedJoinHandle<'_, Result<R>>>| {
            thread?.join().unwrap_or_else(|panic| Err(panicked(&*panic)))
        };
        threads.into_iter().map(end).collect()
    });
    let (mut found, mut errors) = (Vec::with_capacity(size), Vec::new());
    for (rank, result) in results.into_iter().enumerate() {
        match result {
            Ok(result) => found.push(result),
            Err(error) => errors.push((rank, error)),
        }
    }
    // What all say is no rank's own. Otherwise the error is taken from where it began: the others only know its text.
    let all_say = errors.len() == size && errors.iter().all(|(_, e)| chain(e) == chain(&errors[0].1));
    let culprit = hub.failure().and_then(|failure| failure.rank).filter(|_| !all_say);
    let began = errors.iter().position(|(rank, _)| Some(*rank) == culprit);
    match (errors.is_empty(), began) {
        (true, _) => Ok(found),
        (false, Some(index)) => {
            let (rank, error) = errors.swap_remove(index);
            Err(error.context(format!("rank {rank}")))
        }
        (false, None) => Err(errors.swap_remove(0).1),
    }
}

/// Does `work` on the one rank that this process is. What fails, a panic too, ends the meeting of all.
pub fn run_one<R>(meeting: Box<dyn Meeting>, work: impl FnOnce(Box<dyn Meeting>) -> Result<R>) -> Result<R> {
    let (rank, lifeline) = (meeting.rank(), meeting.lifeline());
    let result = catch_unwind(AssertUnwindSafe(|| work(meeting)));
    result.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(|error| {
        // What another rank has told keeps its words; all ranks stop together where somebody asks them to.
        if lifeline.failure().is_some() || error.kind() == Kind::Interrupted {
            return error;
        }
        lifeline.fail(&error);
        error.context(format!("rank {rank}"))
    })
}

/// Where so many threads of this process meet; each is given one, and tells the others itself should it fail.
pub fn meetings(size: usize, limit: Duration) -> Vec<Box<dyn Meeting>> {
    let hub = Hub::new(limit);
    (0..size).map(|rank| Box::new(AtHub::new(hub.clone(), rank, size)) as Box<dyn Meeting>).collect()
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref().copied());
    Error::run(format!("panicked: {}", text.unwrap_or("without a word")))
        .hint("a mistake in wxsim: please report it with the lines above")
}
