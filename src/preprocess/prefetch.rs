//! Threads that prepare batches while the network is busy with earlier ones. Whatever their number, batches come out
//! in the order in which they were asked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::loader::Request;
use crate::error::{Context, Error, Result};

type Job<B> = (Request, Sender<Result<B>>);
/// Prepares a batch.
pub(super) type Make<B> = Arc<dyn Fn(&Request) -> Result<B> + Send + Sync>;

/// Batches on their way.
pub struct Prefetch<B> {
    make: Make<B>,
    /// `None` without threads, and when the threads are to end.
    jobs: Option<Sender<Job<B>>>,
    threads: Vec<JoinHandle<()>>,
    /// Answers to come, in order.
    coming: VecDeque<Coming<B>>,
    depth: usize,
}

enum Coming<B> {
    FromThread(Receiver<Result<B>>),
    OnDemand(Request),
}

impl<B: Send + 'static> Prefetch<B> {
    /// Memory is bounded by the batches on their way: one more than there are threads.
    pub fn new(make: Make<B>, threads: usize) -> Result<Self> {
        let mut prefetch =
            Self { make, jobs: None, threads: Vec::new(), coming: VecDeque::new(), depth: threads + 1 };
        if threads == 0 {
            return Ok(prefetch);
        }
        let (sender, receiver) = unbounded::<Job<B>>();
        prefetch.jobs = Some(sender);
        for i in 0..threads {
            let (receiver, make) = (receiver.clone(), prefetch.make.clone());
            let work = move || {
                for (request, answer) in receiver {
                    // Nobody listens any more after a seek: then the batch is not wanted.
                    let _ = answer.send(make(&request));
                }
            };
            let thread = std::thread::Builder::new().name(format!("loader-{i}")).spawn(work);
            prefetch.threads.push(thread.context(|| "starting a thread that loads data".into())?);
        }
        Ok(prefetch)
    }

    pub fn has_room(&self) -> bool {
        self.coming.len() < self.depth
    }

    pub fn ask(&mut self, request: Request) {
        let coming = match &self.jobs {
            None => Coming::OnDemand(request),
            Some(jobs) => {
                let (sender, receiver) = bounded(1);
                // Fails only when every thread has ended; taking the answer then says so.
                let _ = jobs.send((request, sender));
                Coming::FromThread(receiver)
            }
        };
        self.coming.push_back(coming);
    }

    /// The batch that was asked for first; nothing when none was.
    pub fn take(&mut self) -> Option<Result<B>> {
        Some(match self.coming.pop_front()? {
            Coming::OnDemand(request) => (self.make)(&request),
            Coming::FromThread(receiver) => receiver.recv().unwrap_or_else(|_| {
                Err(Error::run("a thread that loads data ended before its batch was ready"))
            }),
        })
    }

    /// Forgets what was asked for.
    pub fn clear(&mut self) {
        self.coming.clear();
    }
}

impl<B> Drop for Prefetch<B> {
    fn drop(&mut self) {
        self.jobs = None;
        self.coming.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
