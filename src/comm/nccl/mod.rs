//! Collectives of GPUs, by NCCL: over NVLink, PCIe or the network, whichever it finds best. It reads its `NCCL_` variables as the
//! user has set them; none is set here.
//!
//! Hosts meet besides ([`Meeting`]): for what is few and for the host, and for bad news. A GPU that waits for a rank which is gone
//! would wait for ever. So a thread watches over each rank: when the meeting has failed it ends what the GPU waits
//! for, and should even that not help, the process.

mod library;

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use library::{AVERAGE, Handle, SUM, Table, UniqueId, kind};

use super::host::Host;
use super::meeting::{Lifeline, Meeting, Parcel};
use super::{Communicator, Reduce};
use crate::device::cuda::Lent;
use crate::device::{Device, Real, Slot};
use crate::error::{Error, Result, chain};

/// A GPU among others.
pub struct Nccl {
    /// What hosts say to each other.
    hosts: Host,
    ring: Arc<Ring>,
    limit: Duration,
    watch: Option<JoinHandle<()>>,
}

/// The library's communicator, which the watch may end.
struct Ring {
    table: &'static Table,
    rank: usize,
    size: usize,
    state: Mutex<State>,
}

struct State {
    /// `None` before it begins and after it has ended.
    handle: Option<Open>,
    /// Since when the GPU may wait for others.
    waiting: Option<Instant>,
    over: bool,
}

struct Open(Handle);

// SAFETY: NCCL's communicators may be used by any thread, one at a time, which the lock around them sees to.
unsafe impl Send for Open {}

/// How long after bad news a rank may take to end by itself.
const GRACE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

impl Nccl {
    /// Joins the GPU of `device` to those of all ranks that meet here. None of them waits for another longer than `limit`.
    pub fn new<T: Real>(
        mut meeting: Box<dyn Meeting>,
        device: &mut dyn Device<T>,
        limit: Duration,
    ) -> Result<Self> {
        let table = Table::get()?;
        let cuda = device.cuda().ok_or_else(|| Error::run("only GPUs can exchange through NCCL"))?;
        cuda.bind()?;
        let (rank, size) = (meeting.rank(), meeting.size());
        let mut id = UniqueId([0; 128]);
        if rank == 0 {
            // SAFETY: an identifier to write to.
            table.check(unsafe { (table.unique_id)(&mut id) }, "ncclGetUniqueId")?;
        }
        let ids = meeting.exchange("start of NCCL", Parcel::ForAll(Arc::from(id.0)))?;
        id.0.copy_from_slice(&ids[0]);
        let state = State { handle: None, waiting: Some(Instant::now()), over: false };
        let ring = Arc::new(Ring { table, rank, size, state: Mutex::new(state) });
        let watch = watch(ring.clone(), meeting.lifeline(), limit)?;
        let mut nccl = Self { hosts: Host::new(meeting), ring, limit, watch: Some(watch) };
        let mut handle = std::ptr::null_mut();
        // SAFETY: a handle to write to; the context of the GPU is this thread's.
        let status = unsafe { (table.init)(&mut handle, size as c_int, id, rank as c_int) };
        table.check(status, "ncclCommInitRank")?;
        nccl.ring.lock().handle = Some(Open(handle));
        Communicator::<T>::barrier(&mut nccl)?;
        Ok(nccl)
    }

    /// Lets the library put something on the device's stream.
    fn on<T: Real>(
        &self,
        device: &mut dyn Device<T>,
        written: &[Slot],
        work: impl FnOnce(&Ring, Handle, &Lent<'_, T>) -> Result<()>,
    ) {
        // Whoever has no GPU was refused when this was made.
        let Some(cuda) = device.cuda() else { return };
        let ring = &*self.ring;
        cuda.lend(written, |lent| {
            let state = ring.lock();
            let Some(Open(handle)) = state.handle else {
                return Err(Error::run("the ranks do not meet any more"));
            };
            work(ring, handle, lent)
        });
    }
}

impl Ring {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what the GPU waits for.
    fn abort(&self, state: &mut State) {
        if let Some(Open(handle)) = state.handle.take() {
            // SAFETY: taken from its place, so that nobody else uses it. What it returns changes nothing any more.
            unsafe { (self.table.abort)(handle) };
        }
    }

    /// Sends and receives at once.
    fn together<T: Real>(
        &self,
        handle: Handle,
        lent: &Lent<'_, T>,
        sent: &[(usize, Slot)],
        received: &[(usize, Slot)],
    ) -> Result<()> {
        let table = self.table;
        // SAFETY: opens a group of calls, which is closed below whatever happens.
        table.check(unsafe { (table.group_start)() }, "ncclGroupStart")?;
        let mut result = Ok(());
        for (calls, function, name) in [(sent, table.send, "ncclSend"), (received, table.receive, "ncclRecv")]
        {
            for &(rank, slot) in calls {
                let (address, numbers) = (lent.address(slot), kind(lent.numbers(slot)));
                // SAFETY: the slot lies inside the arena (checked), and stays there until the device is allocated anew.
                let status =
                    unsafe { function(address, slot.len(), numbers, rank as c_int, handle, lent.stream()) };
                result = result.and(table.check(status, name));
            }
        }
        // SAFETY: closes the group that was opened above.
        result.and(table.check(unsafe { (table.group_end)() }, "ncclGroupEnd"))
    }
}

impl<T: Real> Communicator<T> for Nccl {
    fn rank(&self) -> usize {
        self.ring.rank
    }

    fn size(&self) -> usize {
        self.ring.size
    }

    fn all_reduce(&mut self, device: &mut dyn Device<T>, slot: Slot, how: Reduce) {
        self.on(device, &[slot], |ring, handle, lent| {
            let (address, numbers) = (lent.address(slot), kind(lent.numbers(slot)));
            let (count, stream) = (slot.len(), lent.stream());
            // SAFETY: the slot lies inside the arena (checked); in place is allowed; the library checks the rest.
            let status = unsafe {
                (ring.table.all_reduce)(address, address, count, numbers, operation(how), handle, stream)
            };
            ring.table.check(status, "ncclAllReduce")
        });
    }

    fn reduce_scatter(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot, how: Reduce) {
        assert_eq!(from.len(), to.len() * self.ring.size, "a part for each rank");
        self.on(device, &[to], |ring, handle, lent| {
            let (address, numbers) = (lent.address(from), kind(lent.numbers(from)));
            let (result, count, stream) = (lent.address(to), to.len(), lent.stream());
            // SAFETY: both slots lie inside the arena (checked) and have the lengths of the call (checked).
            let status = unsafe {
                (ring.table.reduce_scatter)(address, result, count, numbers, operation(how), handle, stream)
            };
            ring.table.check(status, "ncclReduceScatter")
        });
    }

    fn all_gather(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        assert_eq!(to.len(), from.len() * self.ring.size, "a part for each rank");
        self.on(device, &[to], |ring, handle, lent| {
            let (address, numbers) = (lent.address(from), kind(lent.numbers(from)));
            let (result, count, stream) = (lent.address(to), from.len(), lent.stream());
            // SAFETY: both slots lie inside the arena (checked) and have the lengths of the call (checked).
            let status = unsafe { (ring.table.all_gather)(address, result, count, numbers, handle, stream) };
            ring.table.check(status, "ncclAllGather")
        });
    }

    fn all_to_all(&mut self, device: &mut dyn Device<T>, from: Slot, to: Slot) {
        let size = self.ring.size;
        assert!(from.len() == to.len() && from.len().is_multiple_of(size), "a part for each rank");
        let each = from.len() / size;
        let parts =
            |slot: Slot| (0..size).map(|rank| (rank, slot.part(rank * each, each))).collect::<Vec<_>>();
        self.on(device, &[to], |ring, handle, lent| ring.together(handle, lent, &parts(from), &parts(to)));
    }

    fn broadcast(&mut self, device: &mut dyn Device<T>, slot: Slot, root: usize) {
        self.on(device, &[slot], |ring, handle, lent| {
            let (address, numbers) = (lent.address(slot), kind(lent.numbers(slot)));
            let (count, root, stream) = (slot.len(), root as c_int, lent.stream());
            // SAFETY: the slot lies inside the arena (checked); in place is allowed.
            let status =
                unsafe { (ring.table.broadcast)(address, address, count, numbers, root, handle, stream) };
            ring.table.check(status, "ncclBroadcast")
        });
    }

    fn exchange(&mut self, device: &mut dyn Device<T>, sent: &[(usize, Slot)], received: &[(usize, Slot)]) {
        let written: Vec<Slot> = received.iter().map(|(_, slot)| *slot).collect();
        self.on(device, &written, |ring, handle, lent| ring.together(handle, lent, sent, received));
    }

    fn depend(&mut self) {
        self.ring.lock().waiting.get_or_insert(Instant::now());
    }

    fn total(&mut self, values: &mut [f64]) -> Result<()> {
        self.ring.lock().waiting = None;
        Communicator::<T>::total(&mut self.hosts, values)
    }

    fn tell(&mut self, words: &str) -> Result<Vec<String>> {
        self.ring.lock().waiting = None;
        Communicator::<T>::tell(&mut self.hosts, words)
    }

    fn barrier(&mut self) -> Result<()> {
        self.ring.lock().waiting = None;
        Communicator::<T>::barrier(&mut self.hosts)
    }

    fn split(&mut self, device: &mut dyn Device<T>, colour: usize) -> Result<Box<dyn Communicator<T>>> {
        let meeting = self.hosts.split_meeting(colour)?;
        Ok(Box::new(Self::new(meeting, device, self.limit)?))
    }

    fn fail(&mut self, error: &Error) {
        Communicator::<T>::fail(&mut self.hosts, error);
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        Communicator::<T>::barrier(&mut *self)?;
        let table = self.ring.table;
        let handle = self.ring.lock().handle.take();
        if let Some(Open(handle)) = handle {
            // SAFETY: taken from its place, so that nobody else uses it; all ranks have come to this.
            table.check(unsafe { (table.finalize)(handle) }, "ncclCommFinalize")?;
            // SAFETY: as above, for the last time.
            table.check(unsafe { (table.destroy)(handle) }, "ncclCommDestroy")?;
        }
        Ok(())
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        {
            let mut state = self.ring.lock();
            state.over = true;
            self.ring.abort(&mut state);
        }
        if let Some(watch) = self.watch.take() {
            // It only sleeps; a panic in it has been printed.
            let _ = watch.join();
        }
    }
}

fn operation(how: Reduce) -> c_int {
    match how {
        Reduce::Sum => SUM,
        Reduce::Mean => AVERAGE,
    }
}

/// Watches over a rank until it is over.
fn watch(ring: Arc<Ring>, lifeline: Arc<dyn Lifeline>, limit: Duration) -> Result<JoinHandle<()>> {
    let work = move || {
        let mut ended: Option<Instant> = None;
        loop {
            std::thread::sleep(PAUSE);
            // A rank that is stuck in the library holds the lock, and its time is up all the same.
            let (over, waiting) =
                ring.state.try_lock().map_or((false, None), |state| (state.over, state.waiting));
            if over {
                return;
            }
            if waiting.is_some_and(|since| since.elapsed() > limit) {
                lifeline.fail(&Error::run(format!(
                    "the GPU has waited {} s for those of other ranks",
                    limit.as_secs_f64()
                )));
            }
            let Some(error) = lifeline.failure() else { continue };
            match ended {
                None => {
                    ended = Some(Instant::now());
                    if let Ok(mut state) = ring.state.try_lock() {
                        ring.abort(&mut state);
                    }
                }
                Some(since) if since.elapsed() > GRACE => {
                    eprintln!("error: {}", chain(&error));
                    std::process::exit(1);
                }
                Some(_) => {}
            }
        }
    };
    let thread = std::thread::Builder::new().name("ranks".into()).spawn(work);
    thread.map_err(|error| Error::run("a thread cannot be started").caused_by(error))
}
