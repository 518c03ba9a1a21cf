//! The loop: looks what came, what falls due, what can begin; one thread, which alone writes the ledger, and others that
//! decode, compute and write files for it.

mod judging;
mod making;
mod planning;
mod settling;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::cycle::{Job, Served};
use super::events::{Event, Listener, Standing};
use super::folders::Folders;
use super::inbox::{Arrived, Inbox};
use super::intake::{self, Decoder, Intake, Reader};
use super::ledger::{CycleState, Ledger, Made, Staged};
use super::plan::ServePlan;
use super::pool::Pool;
use super::publish::Publisher;
use super::schedule::Clock;
use super::skill::{Check, Score};
use crate::error::{Context, Error, Result, chain};
use crate::runner::NetworkStepper;
use crate::time::InitTime;

/// Opens a model on a device.
pub type Open = dyn Fn(&Served, &str) -> Result<NetworkStepper> + Send + Sync;

/// Cycles that may fall due while nobody looks: more than a year of hours.
const MOST_CYCLES: usize = 10_000;
/// What a file, and the ledger, take besides numbers [bytes].
const OVERHEAD: u64 = 256 << 10;
/// Between two looks of the listeners.
const LOOK: Duration = Duration::from_secs(1);

/// What the loop waits for.
enum Message {
    /// Something moved in the inbox.
    Moved,
    Decoded(Intake),
    Made(Box<Done>),
    Checked(Box<Check>, Result<Vec<Score>>),
}

/// A cycle that a thread is through with.
struct Done {
    model: String,
    init: InitTime,
    device: usize,
    stepper: Option<NetworkStepper>,
    result: Result<(Staged, Made)>,
}

pub struct Service {
    plan: ServePlan,
    models: Vec<Served>,
    folders: Folders,
    ledger: Ledger,
    clock: Clock,
    inbox: Inbox,
    pool: Pool,
    open: Arc<Open>,
    listeners: Vec<Box<dyn Listener>>,
    /// Files that are being decoded.
    decoding: HashSet<PathBuf>,
    /// Files that could not be decoded for a reason that may pass, and when they are tried again.
    postponed: HashMap<PathBuf, Instant>,
    /// How often that was, while there was room on the disk.
    tries: HashMap<PathBuf, u32>,
    /// Cycles of which the ledger could not be told what became of them.
    stranded: Vec<(String, InitTime)>,
    workers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// What cannot be done at the moment.
    trouble: Option<String>,
    queued: usize,
    /// Whether something came or was made since cycles were last planned.
    news: bool,
    /// What the clock showed when they were.
    latest: Option<i64>,
    looked: Option<Instant>,
    /// Past forecasts that are being checked, or cannot be: model, initial time, lead.
    checking: HashSet<(String, i64, usize)>,
    /// Those of them that are being checked.
    under_check: usize,
    /// Whether something came or was made that could be checked.
    unchecked: bool,
    _lock: std::fs::File,
}

/// How a service ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When it is stopped.
    Stopped,
    /// When nothing is left that could be done now.
    Done,
}

impl Service {
    /// Takes hold of the state folder.
    pub fn new(
        plan: ServePlan,
        models: Vec<Served>,
        clock: Clock,
        open: Arc<Open>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        let folders = Folders { out: plan.out.clone(), state: plan.state.clone() };
        let names: Vec<String> = models.iter().map(|model| model.plan.name.clone()).collect();
        let inbox = Inbox::new(plan.inbox.clone())?;
        folders.make(&names)?;
        let lock = lock(&folders)?;
        let ledger = Ledger::open(&folders.state)?;
        let pool = Pool::new(plan.devices.clone(), &models)?;
        let service = Self {
            plan,
            models,
            folders,
            ledger,
            clock,
            inbox,
            pool,
            open,
            listeners: Vec::new(),
            decoding: HashSet::new(),
            postponed: HashMap::new(),
            tries: HashMap::new(),
            stranded: Vec::new(),
            workers: Vec::new(),
            stop,
            trouble: None,
            queued: 0,
            news: true,
            latest: None,
            looked: None,
            checking: HashSet::new(),
            under_check: 0,
            unchecked: true,
            _lock: lock,
        };
        Ok(service)
    }

    /// Opens the models, ends what a crash cut short and removes what it left behind, then serves. What is under way when it is stopped goes
    /// back to those that wait.
    pub fn run(&mut self, decoder: &Decoder, until: Until, listeners: Vec<Box<dyn Listener>>) -> Result<()> {
        self.listeners = listeners;
        let open = self.open.clone();
        self.pool.open(&self.models, |model, device| open(model, device))?;
        self.recover()?;
        self.sweep()?;
        let (sender, messages) = unbounded();
        let (files, to_decode) = unbounded();
        let mut threads = self.start_intake(decoder, to_decode, sender.clone())?;
        let (checks, to_check) = unbounded();
        threads.push(self.start_checking(to_check, sender.clone())?);
        let moved = sender.clone();
        // Without it, looking every so often has to do: `poll` says how often.
        let watcher = self.inbox.watch(move || drop(moved.send(Message::Moved)));
        if let Err(error) = &watcher {
            self.tell(&Event::Note(chain(error)));
        }
        let result = loop {
            if self.stop.load(Ordering::SeqCst) {
                break Ok(());
            }
            match self.turn(&files, &checks, &sender) {
                Ok(true) if until == Until::Done => break Ok(()),
                Ok(_) => self.recovered(),
                Err(error) if until == Until::Done => break Err(error),
                // A full disk, a folder that is not mounted: it may pass.
                Err(error) => self.is_in_trouble(&error),
            }
            if let Err(error) = self.wait(&messages) {
                if until == Until::Done {
                    break Err(error);
                }
                self.is_in_trouble(&error);
            }
        };
        // Threads that compute or decode see the flag.
        self.stop.store(true, Ordering::SeqCst);
        drop((files, checks, watcher));
        self.workers.drain(..).chain(threads).for_each(|thread| drop(thread.join()));
        for message in messages.try_iter() {
            if let Message::Made(done) = message {
                self.made(*done)?;
            }
        }
        result
    }

    fn start_intake(
        &self,
        decoder: &Decoder,
        files: Receiver<Arrived>,
        sender: Sender<Message>,
    ) -> Result<Vec<JoinHandle<()>>> {
        let mut readers: Vec<(&Served, Reader)> = Vec::new();
        for model in self.models.iter().filter(|model| model.shadows.is_none()) {
            let name = model.plan.name.clone();
            match readers.iter_mut().find(|(like, _)| like.understands_as(model)) {
                Some((_, reader)) => reader.models.push(name),
                None => readers.push((model, Reader { models: vec![name], run: model.plan.run.clone() })),
            }
        }
        let readers = readers.into_iter().map(|(_, reader)| reader).collect();
        let tell = move |intake| drop(sender.send(Message::Decoded(intake)));
        let (folder, at_once) = (self.folders.incoming(), self.plan.inbox.decoders);
        intake::start(decoder, readers, &folder, files, at_once, &self.stop, tell)
    }

    fn start_checking(&self, checks: Receiver<Check>, sender: Sender<Message>) -> Result<JoinHandle<()>> {
        let (folders, stop) = (self.folders.clone(), self.stop.clone());
        let work = move || {
            for check in checks.iter().take_while(|_| !stop.load(Ordering::SeqCst)) {
                let scores = check.run(&folders);
                let _ = sender.send(Message::Checked(Box::new(check), scores));
            }
        };
        std::thread::Builder::new()
            .name("checks".into())
            .spawn(work)
            .context(|| "cannot start a thread".into())
    }

    /// Whatever can be done now; whether nothing is under way and nothing could be begun.
    fn turn(
        &mut self,
        files: &Sender<Arrived>,
        checks: &Sender<Check>,
        sender: &Sender<Message>,
    ) -> Result<bool> {
        while let Some((model, init)) = self.stranded.last().cloned() {
            self.recover_cycle(&model, init)?;
            self.news = true;
            self.stranded.pop();
        }
        let now = Instant::now();
        self.postponed.retain(|_, again| *again > now);
        let arrived = {
            let (ledger, decoding, postponed) = (&self.ledger, &self.decoding, &self.postponed);
            self.inbox.look(|path, size, modified| {
                let seen = ledger.has_seen(&path.to_string_lossy(), size, modified)?;
                Ok(!seen && !decoding.contains(path) && !postponed.contains_key(path))
            })?
        };
        for arrived in arrived {
            self.decoding.insert(arrived.path.clone());
            let _ = files.send(arrived);
        }
        self.plan_cycles()?;
        self.dispatch(sender)?;
        if std::mem::take(&mut self.unchecked) {
            self.check_past(checks)?;
        }
        self.look_around()?;
        Ok(self.decoding.is_empty()
            && self.postponed.is_empty()
            && self.pool.is_idle()
            && self.queued == 0
            && !self.inbox.expects()
            && self.under_check == 0)
    }

    fn wait(&mut self, messages: &Receiver<Message>) -> Result<()> {
        let mut pause = self.inbox.pause().min(LOOK);
        loop {
            let message = messages.recv_timeout(pause);
            self.news |= !matches!(message, Ok(Message::Moved) | Err(_));
            match message {
                Ok(Message::Moved) => {}
                Ok(Message::Decoded(intake)) => self.decoded(&intake)?,
                Ok(Message::Made(done)) => {
                    let cycle = (done.model.clone(), done.init);
                    if let Err(error) = self.made(*done) {
                        self.stranded.push(cycle);
                        return Err(error);
                    }
                }
                Ok(Message::Checked(check, scores)) => self.checked(&check, scores)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // Many files may come at once: take all that is told before looking again.
            pause = Duration::ZERO;
        }
    }

    /// Ends what was being published when the service was killed, and lets what was being made be made again.
    fn recover(&mut self) -> Result<()> {
        for cycle in self.ledger.cycles_in(&[CycleState::Running, CycleState::Publishing])? {
            self.recover_cycle(&cycle.model, cycle.init)?;
        }
        Ok(())
    }

    fn recover_cycle(&mut self, model: &str, init: InitTime) -> Result<()> {
        let mut done = false;
        if let Some(staged) = self.ledger.intended(model, init)? {
            let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
            done = publisher.recover(model, init, &staged)?;
        }
        match self.ledger.cycle(model, init)? {
            Some(cycle) if done => self.tell(&Event::Published(Box::new(cycle))),
            Some(cycle) if [CycleState::Running, CycleState::Publishing].contains(&cycle.state) => {
                self.ledger.postpone(model, init, 0, "it was cut short")?;
                self.ledger.forgive(model, init)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes what a killed service left behind.
    fn sweep(&mut self) -> Result<()> {
        let (stored, memories) = (self.ledger.stored()?, self.ledger.memories()?);
        Folders::sweep(&self.folders.incoming(), |_| false)?;
        for model in &self.models {
            let name = &model.plan.name;
            Folders::sweep(&self.folders.staging(name), |_| false)?;
            Folders::sweep(&self.folders.analyses(name), |file| stored.contains(file))?;
            Folders::sweep(&self.folders.memories(name), |file| memories.contains(file))?;
        }
        Ok(())
    }

    fn look_around(&mut self) -> Result<()> {
        if self.looked.is_some_and(|then| then.elapsed() < LOOK) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let devices = self.pool.load();
        let standing = Standing {
            ledger: &self.ledger,
            queued: self.queued,
            devices: &devices,
            decoding: self.decoding.len(),
        };
        self.listeners.iter_mut().try_for_each(|listener| listener.look(&standing))
    }

    fn tell(&mut self, event: &Event) {
        for listener in &mut self.listeners {
            if let Err(error) = listener.hear(event, &self.ledger) {
                eprintln!("error: {}", chain(&error));
            }
        }
    }

    /// Told once, not at every turn.
    fn is_in_trouble(&mut self, error: &Error) {
        let advice = error.advice().map(|advice| format!(" ({advice})")).unwrap_or_default();
        let reason = format!("{}{advice}", chain(error));
        if self.trouble.as_ref() != Some(&reason) {
            self.tell(&Event::Trouble(reason.clone()));
            self.trouble = Some(reason);
        }
    }

    fn recovered(&mut self) {
        if self.trouble.take().is_some() {
            self.tell(&Event::Recovered);
        }
    }
}

/// Opens the model where it is not open yet, and makes the forecast. A panic is an attempt that failed.
fn compute(
    job: &Job,
    stepper: &mut Option<NetworkStepper>,
    device: &str,
    folders: &Folders,
    stop: &AtomicBool,
    open: &Open,
) -> Result<(Staged, Made)> {
    let work = std::panic::AssertUnwindSafe(|| {
        let mut opened = match stepper.take() {
            Some(stepper) => stepper,
            None => open(&job.model, device)?,
        };
        let made = job.run(&mut opened, folders, stop)?;
        *stepper = Some(opened);
        Ok(made)
    });
    std::panic::catch_unwind(work).unwrap_or_else(|_| Err(Error::run("making the forecast panicked")))
}

/// One service for a state folder.
fn lock(folders: &Folders) -> Result<std::fs::File> {
    let path = folders.state.join("lock");
    let file = std::fs::File::create(&path).context(|| format!("cannot make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(Error::input(format!("another service works in {}", folders.state.display()))
                .hint("stop it, or name another serve.state"))
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).context(|| format!("cannot lock {}", path.display()))
        }
    }
}
