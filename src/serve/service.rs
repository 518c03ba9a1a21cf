//! The loop: looks what came, what falls due, what can begin; one thread, which alone writes the ledger, and others that
//! decode, compute and write files for it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use super::cycle::{Job, Served};
use super::decision::{Beginning, Decision, From, Situation};
use super::events::{Event, Listener, Standing};
use super::folders::Folders;
use super::inbox::{Arrived, Inbox};
use super::intake::{self, Decoder, Intake, Reader};
use super::ledger::{Cycle, CycleState, Field, Ledger, Made, SeenFile, Staged, Verdict, now};
use super::memory;
use super::plan::{Duplicates, ServePlan};
use super::pool::Pool;
use super::publish::Publisher;
use super::schedule::{Clock, Timetable};
use super::skill::{Check, Comparison, Score, compare};
use crate::error::{Context, Error, Kind, Result, chain};
use crate::runner::NetworkStepper;
use crate::time::{Calendar, InitTime, LeadTime, ValidTime};
use crate::verify::BootstrapPlan;

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
    workers: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// What cannot be done at the moment.
    trouble: Option<String>,
    queued: usize,
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
            workers: Vec::new(),
            stop,
            trouble: None,
            queued: 0,
            looked: None,
            checking: HashSet::new(),
            under_check: 0,
            unchecked: true,
            _lock: lock,
        };
        Ok(service)
    }

    /// Ends what a crash cut short and removes what it left behind, then serves. What is under way when it is stopped goes
    /// back to those that wait.
    pub fn run(&mut self, decoder: &Decoder, until: Until, listeners: Vec<Box<dyn Listener>>) -> Result<()> {
        self.listeners = listeners;
        self.recover()?;
        self.sweep()?;
        let (sender, messages) = unbounded();
        let (files, to_decode) = unbounded();
        let intake = self.start_intake(decoder.clone(), to_decode, sender.clone())?;
        let (checks, to_check) = unbounded();
        let checker = self.start_checking(to_check, sender.clone())?;
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
        self.workers.drain(..).chain([intake, checker]).for_each(|thread| drop(thread.join()));
        for message in messages.try_iter() {
            if let Message::Made(done) = message {
                self.made(*done)?;
            }
        }
        result
    }

    fn start_intake(
        &self,
        decoder: Decoder,
        files: Receiver<Arrived>,
        sender: Sender<Message>,
    ) -> Result<JoinHandle<()>> {
        let readers: Vec<Reader> = self
            .models
            .iter()
            .filter(|model| model.shadows.is_none())
            .map(|model| Reader { model: model.plan.name.clone(), run: model.plan.run.clone() })
            .collect();
        let (folder, stop) = (self.folders.incoming(), self.stop.clone());
        let (done, decoded) = unbounded();
        std::thread::spawn(move || {
            decoded.iter().for_each(|intake| drop(sender.send(Message::Decoded(intake))))
        });
        let work = move || intake::run(&decoder, &readers, &folder, &files, &stop, &done);
        std::thread::Builder::new()
            .name("intake".into())
            .spawn(work)
            .context(|| "cannot start a thread".into())
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
        let arrived = {
            let (ledger, decoding) = (&self.ledger, &self.decoding);
            self.inbox.look(|path, size, modified| {
                let seen = ledger.has_seen(&path.to_string_lossy(), size, modified)?;
                Ok(!seen && !decoding.contains(path))
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
            && self.pool.is_idle()
            && self.queued == 0
            && !self.inbox.expects()
            && self.under_check == 0)
    }

    fn wait(&mut self, messages: &Receiver<Message>) -> Result<()> {
        let mut pause = self.inbox.pause().min(LOOK);
        loop {
            match messages.recv_timeout(pause) {
                Ok(Message::Moved) => {}
                Ok(Message::Decoded(intake)) => self.decoded(&intake)?,
                Ok(Message::Made(done)) => self.made(*done)?,
                Ok(Message::Checked(check, scores)) => self.checked(&check, scores)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // Many files may come at once: take all that is told before looking again.
            pause = Duration::ZERO;
        }
    }

    /// Cycles that the timetable, or an analysis, asks for.
    fn plan_cycles(&mut self) -> Result<()> {
        let clock = self.clock.now();
        for model in self.models.clone() {
            let name = &model.plan.name;
            if model.shadows.is_some() {
                continue;
            }
            match &self.plan.timetable {
                Timetable::Arrival => self.plan_arrived(&model)?,
                timetable => {
                    let inits = match self.ledger.last_planned(name)? {
                        Some(last) => timetable.between(last.0.seconds, clock, MOST_CYCLES),
                        None => timetable.newest(clock).into_iter().collect(),
                    };
                    for init in inits {
                        self.ledger.plan(name, init, None)?;
                        if self.clock.since(init) > self.plan.lateness.catch_up {
                            self.miss(name, init, "the service did not run when it fell due")?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A cycle for each analysis that a forecast can start from, as if they had come one by one: what came later does not
    /// count, however long a cycle waits for its turn, so that the same files in the same order give the same forecasts.
    fn plan_arrived(&mut self, model: &Served) -> Result<()> {
        let whole = self.whole(model)?;
        let mut unplanned = BTreeSet::new();
        for (&valid, &number) in &whole {
            if self.ledger.cycle(&model.plan.name, at(valid))?.is_none() {
                unplanned.insert((number, valid));
            }
        }
        let numbers: BTreeSet<i64> = whole.values().copied().collect();
        for knows in numbers {
            // One that begins may be what another goes on from.
            while let Some(next) = self.next_arrived(model, &whole, &unplanned, knows)? {
                self.ledger.plan(&model.plan.name, at(next.1), Some(knows))?;
                unplanned.remove(&next);
            }
        }
        Ok(())
    }

    /// The first of the analyses, by number and valid time, from which a cycle can begin that knows so many files.
    fn next_arrived(
        &self,
        model: &Served,
        whole: &BTreeMap<i64, i64>,
        unplanned: &BTreeSet<(i64, i64)>,
        knows: i64,
    ) -> Result<Option<(i64, i64)>> {
        for &(number, valid) in unplanned.range(..=(knows, i64::MAX)) {
            let before = self.ledger.planned_before(&model.plan.name, at(valid))?;
            let predecessor = before.map(|init| (init, String::new()));
            if let Decision::Begin(_) = self.weigh(model, at(valid), Some(knows), predecessor, whole) {
                return Ok(Some((number, valid)));
            }
        }
        Ok(None)
    }

    /// From the first input frame to the last [s].
    fn frames_back(&self, model: &Served) -> i64 {
        model.trained.info.step.times(model.trained.info.input_frames - 1).seconds
    }

    /// The whole analyses of a model, each with the number of the file that completed it.
    fn whole(&self, model: &Served) -> Result<BTreeMap<i64, i64>> {
        self.ledger.whole(model.reads(), model.trained.info.layout.channels())
    }

    fn decide(
        &self,
        model: &Served,
        init: InitTime,
        knows: Option<i64>,
        own: Option<String>,
        whole: &BTreeMap<i64, i64>,
    ) -> Result<Decision> {
        if let Some(file) = own {
            return Ok(Decision::Begin(Beginning { from: From::Kept(init, file), corrections: Vec::new() }));
        }
        let folder = self.folders.memories(&model.plan.name);
        let is_ours =
            |(init, file): &(InitTime, String)| memory::fits(&folder.join(file), &model.trained, init.0);
        let predecessor = self.ledger.predecessor(&model.plan.name, init)?.filter(is_ours);
        Ok(self.weigh(model, init, knows, predecessor, whole))
    }

    fn weigh(
        &self,
        model: &Served,
        init: InitTime,
        knows: Option<i64>,
        predecessor: Option<(InitTime, String)>,
        whole: &BTreeMap<i64, i64>,
    ) -> Decision {
        let is_there =
            |valid: ValidTime| whole.get(&valid.seconds).is_some_and(|&n| knows.is_none_or(|most| n <= most));
        Situation {
            init,
            now: self.clock.now(),
            scheduled: !matches!(self.plan.timetable, Timetable::Arrival),
            start: model.plan.start,
            input_frames: model.trained.info.input_frames,
            step: model.trained.info.step,
            lateness: &self.plan.lateness,
            is_there: &is_there,
            predecessor,
        }
        .decide()
    }

    /// Begins what can begin, as far as there are devices free.
    fn dispatch(&mut self, sender: &Sender<Message>) -> Result<()> {
        self.workers.retain(|worker| !worker.is_finished());
        let active = self.ledger.cycles_in(&[CycleState::Running, CycleState::Publishing])?;
        let mut blocked: HashSet<String> = active.into_iter().map(|cycle| cycle.model).collect();
        let mut ready = Vec::new();
        let mut wholes: BTreeMap<String, BTreeMap<i64, i64>> = BTreeMap::new();
        for cycle in self.ledger.cycles_in(&[CycleState::Waiting])? {
            let Some(model) = self.models.iter().find(|model| model.plan.name == cycle.model).cloned() else {
                continue;
            };
            if !wholes.contains_key(&cycle.model) {
                wholes.insert(cycle.model.clone(), self.whole(&model)?);
            }
            let whole = &wholes[&cycle.model];
            match self.decide(&model, cycle.init, cycle.knows, cycle.memory.clone(), whole)? {
                Decision::Wait(_) => {}
                Decision::Miss(reason) => self.miss(&cycle.model, cycle.init, &reason)?,
                Decision::Begin(beginning) => {
                    // A warm state goes from cycle to cycle, so that one waits for the other.
                    let waits =
                        model.plan.start == super::plan::Start::Warm && !blocked.insert(cycle.model.clone());
                    if !waits {
                        ready.push((model, cycle, beginning));
                    }
                }
            }
        }
        ready.sort_by_key(|(model, ..)| -model.plan.priority);
        self.queued = ready.len();
        for (model, cycle, beginning) in ready {
            if !self.is_due(&cycle) {
                continue;
            }
            let Some(place) = self.pool.take(&model.plan.name) else { continue };
            self.queued -= 1;
            self.begin(model, &cycle, beginning, place, sender)?;
        }
        Ok(())
    }

    /// Whether the pause after a failed attempt is over. A clock that was set back does not make it longer.
    fn is_due(&self, cycle: &Cycle) -> bool {
        let left = cycle.due - now();
        left <= 0 || left > self.plan.retry.longest.as_millis() as i64 + 1000
    }

    fn begin(
        &mut self,
        model: Served,
        cycle: &Cycle,
        beginning: Beginning,
        mut place: super::pool::Place,
        sender: &Sender<Message>,
    ) -> Result<()> {
        let (name, init) = (model.plan.name.clone(), cycle.init);
        let device = place.device;
        let job = self.job(model, cycle, beginning);
        let job = match job.and_then(|job| self.ledger.begin(&name, init).map(|()| job)) {
            Ok(job) => job,
            Err(error) => {
                self.pool.give_back(device, &name, place.stepper.take());
                return Err(error);
            }
        };
        let start = job.beginning.describe(init);
        self.tell(&Event::Began { model: name.clone(), init, device: place.name.clone(), start });
        let (folders, stop, open, sender) =
            (self.folders.clone(), self.stop.clone(), self.open.clone(), sender.clone());
        let work = move || {
            let mut stepper = place.stepper.take();
            let result = compute(&job, &mut stepper, &place.name, &folders, &stop, &*open);
            let done = Done { model: name, init, device, stepper, result };
            let _ = sender.send(Message::Made(Box::new(done)));
        };
        let thread = std::thread::Builder::new().name("cycle".into()).spawn(work);
        self.workers.push(thread.context(|| "cannot start a thread".into())?);
        Ok(())
    }

    /// The cycle with all that it reads.
    fn job(&self, model: Served, cycle: &Cycle, beginning: Beginning) -> Result<Job> {
        let first = beginning.start().seconds - self.frames_back(&model);
        let mut analyses = self.ledger.fields(model.reads(), first, cycle.init.0.seconds)?;
        analyses.retain(|_, fields| fields.len() == model.trained.info.layout.channels());
        let late = !matches!(self.plan.timetable, Timetable::Arrival)
            && self.clock.since(cycle.init) > self.plan.lateness.cutoff;
        Ok(Job { model, init: cycle.init, beginning, analyses, late, attempt: cycle.attempts + 1 })
    }

    /// A thread is through with a cycle: its forecast is published, or it is tried again.
    fn made(&mut self, done: Done) -> Result<()> {
        let Done { model, init, device, stepper, result } = done;
        // A model that failed is opened anew: its device may be lost.
        self.pool.give_back(device, &model, stepper.filter(|_| result.is_ok()));
        let published = result.and_then(|(staged, made)| {
            self.ledger.intend(&model, init, &staged, &made)?;
            let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
            publisher.publish(&model, init, &staged)
        });
        match published {
            Ok(()) => {
                self.unchecked = true;
                self.ledger.forget_scores(&model, init)?;
                if let Some(cycle) = self.ledger.cycle(&model, init)? {
                    self.shadow(&cycle)?;
                    self.tell(&Event::Published(Box::new(cycle)));
                }
                self.tidy(&model)
            }
            Err(error) if error.kind() == Kind::Interrupted => {
                self.ledger.postpone(&model, init, 0, "the service was stopped")?;
                self.ledger.forgive(&model, init)
            }
            Err(error) => self.failed(&model, init, &error),
        }
    }

    fn failed(&mut self, model: &str, init: InitTime, error: &Error) -> Result<()> {
        let advice = error.advice().map(|advice| format!(" ({advice})")).unwrap_or_default();
        let mut reason = format!("{}{advice}", chain(error));
        let full = self.is_full(model);
        if full {
            reason = format!("the disk is full: {reason}");
            self.make_room(model)?;
        }
        let attempts = self.ledger.cycle(model, init)?.map_or(0, |cycle| cycle.attempts);
        let (model, retry) = (model.to_owned(), self.plan.retry);
        if !full && attempts >= retry.attempts {
            self.ledger.give_up(&model, init, CycleState::Failed, &reason)?;
            self.tell(&Event::Failed { model, init, reason, again: None });
            return Ok(());
        }
        let pause = retry.pause(attempts);
        self.ledger.postpone(&model, init, now() + pause.as_millis() as i64, &reason)?;
        if full {
            // No cycle is lost because there is no room.
            self.ledger.forgive(&model, init)?;
        }
        self.tell(&Event::Failed { model, init, reason, again: Some(pause.as_secs_f64()) });
        Ok(())
    }

    fn miss(&mut self, model: &str, init: InitTime, reason: &str) -> Result<()> {
        self.ledger.give_up(model, init, CycleState::Missing, reason)?;
        self.tell(&Event::Missing { model: model.into(), init, reason: reason.into() });
        Ok(())
    }

    /// Whether one more forecast of a model may not fit on the disk.
    fn is_full(&self, model: &str) -> bool {
        let Some(model) = self.models.iter().find(|served| served.plan.name == model) else { return false };
        let layout = &model.trained.info.layout;
        let forecast =
            (layout.grid.points() * layout.channels() * (model.steps + 1) * size_of::<f32>()) as u64;
        [&self.folders.out, &self.folders.state].into_iter().any(|folder| {
            rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < forecast + OVERHEAD)
        })
    }

    fn make_room(&mut self, model: &str) -> Result<()> {
        let Some(at_least) = self.plan.keep.at_least else { return Ok(()) };
        let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
        if let Some(file) = publisher.make_room(model, at_least)? {
            self.tell(&Event::Removed { file, full: true });
        }
        Ok(())
    }

    /// Removes forecasts, analyses and states that nobody needs any longer.
    fn tidy(&mut self, model: &str) -> Result<()> {
        let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
        for file in publisher.tidy(model, &self.plan.keep)? {
            self.tell(&Event::Removed { file, full: false });
        }
        let Some(newest) = self.ledger.published(model)?.last().map(|cycle| cycle.init) else {
            return Ok(());
        };
        let before = newest.0.seconds - self.plan.keep.analyses.seconds;
        let analyses = self.ledger.forget_fields(model, before)?;
        let memories = self.ledger.forget_memories(model, before)?;
        let of = |folder: PathBuf, files: Vec<String>| files.into_iter().map(move |file| folder.join(file));
        let gone =
            of(self.folders.analyses(model), analyses).chain(of(self.folders.memories(model), memories));
        // Where one cannot be removed now, the next start sweeps it away.
        gone.for_each(|path| drop(std::fs::remove_file(path)));
        Ok(())
    }

    /// A file is decoded: its fields are accepted, and the file is dealt with for good.
    fn decoded(&mut self, intake: &Intake) -> Result<()> {
        let settled = self.settle(intake);
        self.decoding.remove(&intake.arrived.path);
        // What was not moved is not needed.
        let _ = std::fs::remove_dir_all(&intake.folder);
        settled
    }

    fn settle(&mut self, intake: &Intake) -> Result<()> {
        let Arrived { path, size, modified, complete } = &intake.arrived;
        let source = path.to_string_lossy().into_owned();
        let number = self.ledger.last_number()? + 1;
        let (mut brought, mut accepted) = (Vec::new(), Vec::new());
        let (mut refusals, mut known) = (Vec::new(), Vec::new());
        for (model, found) in &intake.found {
            let dates = match found {
                Ok(dates) => dates,
                Err(reason) => {
                    refusals.push(format!("{model}: {reason}"));
                    continue;
                }
            };
            for date in dates {
                refusals.extend(date.refusal.iter().map(|reason| format!("{model}: {reason}")));
                let Some(file) = &date.file else { continue };
                let stored = format!("{}.{number}.safetensors", date.valid.file_stamp());
                let mut fields = Vec::new();
                for (quantity, digest) in &date.fields {
                    let before = self.ledger.field(model, date.valid.seconds, quantity)?;
                    match before {
                        Some(before) if before.digest == *digest => {
                            known.push(format!("{quantity} at {} is known", date.valid));
                        }
                        Some(before) if self.plan.inbox.duplicates == Duplicates::First => {
                            known.push(format!(
                                "{quantity} at {} came with other values from {}",
                                date.valid, before.source
                            ))
                        }
                        _ => fields.push(Field {
                            quantity: quantity.clone(),
                            stored: stored.clone(),
                            digest: digest.clone(),
                            source: source.clone(),
                            complete: *complete,
                            number,
                        }),
                    }
                }
                if fields.is_empty() {
                    continue;
                }
                let to = self.folders.analyses(model).join(&stored);
                std::fs::rename(intake.folder.join(model).join(file), &to)
                    .context(|| format!("cannot keep {}", to.display()))?;
                accepted.push((model.clone(), date.valid, fields.len()));
                brought.extend(fields.into_iter().map(|field| (model.clone(), date.valid.seconds, field)));
            }
        }
        let (verdict, reasons) = match (accepted.is_empty(), refusals.is_empty()) {
            (false, _) => (Verdict::Accepted, &refusals),
            (true, false) => (Verdict::Rejected, &refusals),
            (true, true) => (Verdict::Duplicate, &known),
        };
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        let settled = now();
        let file =
            SeenFile { path: source.clone(), size: *size, modified: *modified, verdict, reason, settled };
        self.ledger.settle(&file, &brought)?;
        self.unchecked = true;
        let reason = file.reason.unwrap_or_else(|| "it holds no date".into());
        match verdict {
            Verdict::Accepted => {
                let seconds = (settled - complete).max(0) as f64 / 1000.0;
                for (model, valid, fields) in accepted {
                    self.tell(&Event::Accepted { model, valid, fields, source: source.clone(), seconds });
                }
                if !refusals.is_empty() {
                    self.tell(&Event::Rejected { source: format!("a part of {source}"), reason });
                }
            }
            Verdict::Rejected => self.tell(&Event::Rejected { source, reason }),
            Verdict::Duplicate => self.tell(&Event::Duplicate { source, reason }),
        }
        if self.plan.inbox.removes && verdict != Verdict::Rejected {
            std::fs::remove_file(path).context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(())
    }

    /// Past forecasts whose truth has come are held against it.
    fn check_past(&mut self, checks: &Sender<Check>) -> Result<()> {
        for model in self.models.clone() {
            let name = &model.plan.name;
            let (whole, scored) = (self.whole(&model)?, self.ledger.scored(name)?);
            let Some((&newest, _)) = whole.last_key_value() else { continue };
            for cycle in self.ledger.published(name)? {
                let (Some(file), init) = (&cycle.file, cycle.init.0.seconds) else { continue };
                for lead in 1..=model.steps {
                    let valid = init + model.trained.info.step.times(lead).seconds;
                    let key = (name.clone(), init, lead);
                    if valid > newest {
                        break;
                    }
                    if !whole.contains_key(&valid)
                        || scored.contains(&(init, lead))
                        || self.checking.contains(&key)
                    {
                        continue;
                    }
                    let truth =
                        self.ledger.fields(model.reads(), valid, valid)?.remove(&valid).unwrap_or_default();
                    let truth_of = model.reads().to_owned();
                    let (file, init) = (file.clone(), cycle.init);
                    self.checking.insert(key);
                    self.under_check += 1;
                    let _ = checks.send(Check { model: model.clone(), init, lead, file, truth, truth_of });
                }
            }
        }
        Ok(())
    }

    fn checked(&mut self, check: &Check, scores: Result<Vec<Score>>) -> Result<()> {
        self.under_check -= 1;
        let name = check.model.plan.name.clone();
        match scores {
            // One that cannot be checked is not tried again before the next start.
            Err(error) => {
                self.tell(&Event::Note(format!(
                    "{name}: {} cannot be checked: {}",
                    check.init,
                    chain(&error)
                )));
            }
            Ok(scores) => {
                self.ledger.add_scores(&scores)?;
                self.checking.remove(&(name, check.init.0.seconds, check.lead));
                self.judge()?;
            }
        }
        Ok(())
    }

    /// A canary makes a share of the cycles too.
    fn shadow(&mut self, cycle: &Cycle) -> Result<()> {
        let Some(canary) = &self.plan.canary else { return Ok(()) };
        let shadow = self.models.iter().find(|model| model.shadows.as_ref() == Some(&cycle.model));
        let Some(shadow) = shadow.map(|model| model.plan.name.clone()) else { return Ok(()) };
        if canary.takes(self.ledger.published(&cycle.model)?.len().saturating_sub(1)) {
            self.ledger.plan(&shadow, cycle.init, cycle.knows)?;
        }
        Ok(())
    }

    /// Promotes or rejects the canary as soon as the interval of the paired differences says so.
    fn judge(&mut self) -> Result<()> {
        let (Some(plan), Some(at)) =
            (self.plan.canary.clone(), self.models.iter().position(|model| model.shadows.is_some()))
        else {
            return Ok(());
        };
        let canary = self.models[at].clone();
        let of = |name: &str| self.ledger.scores(name, usize::MAX >> 1);
        let bootstrap = BootstrapPlan { block: plan.block, ..BootstrapPlan::default() };
        let (promoted, reason) = match compare(&of(&plan.of)?, &of(&canary.plan.name)?, &bootstrap) {
            Comparison::Known { pairs, difference, low, high } if high < 0.0 || low > 0.0 => {
                let what = if high < 0.0 { "smaller" } else { "larger" };
                let (difference, low, high) =
                    (difference.abs(), low.abs().min(high.abs()), low.abs().max(high.abs()));
                let text = format!(
                    "its squared error is {what} by {difference:.4} ({low:.4} to {high:.4}) over {pairs} forecasts"
                );
                (what == "smaller", text)
            }
            Comparison::Known { pairs, .. } | Comparison::Open { pairs } if pairs >= plan.most => {
                (false, format!("{pairs} forecasts show no clear difference"))
            }
            _ => return Ok(()),
        };
        let Some(served) = self.models.iter_mut().find(|model| model.plan.name == plan.of) else {
            return Ok(());
        };
        let configured = self.plan.models.iter().find(|model| model.name == plan.of).map(|model| &model.run);
        let configured = configured.unwrap_or(&served.plan.run).clone();
        self.ledger.judge(&plan.of, &plan.run, &configured, promoted, &reason)?;
        if promoted {
            served.plan.run = canary.plan.run.clone();
            served.trained = canary.trained.clone();
            served.latitude_weights = canary.latitude_weights;
            self.pool.forget(&plan.of);
        }
        self.models.remove(at);
        for cycle in self.ledger.cycles_in(&[CycleState::Waiting])? {
            if cycle.model == canary.plan.name {
                self.ledger.give_up(
                    &cycle.model,
                    cycle.init,
                    CycleState::Missing,
                    "the canary has been judged",
                )?;
            }
        }
        let canary = plan.run.display().to_string();
        self.tell(&Event::Judged { model: plan.of, canary, promoted, reason });
        Ok(())
    }

    /// Ends what was being published when the service was killed, and lets what was being made be made again.
    fn recover(&mut self) -> Result<()> {
        for cycle in self.ledger.cycles_in(&[CycleState::Running, CycleState::Publishing])? {
            let (model, init) = (cycle.model.as_str(), cycle.init);
            let mut done = false;
            if let Some(staged) = self.ledger.intended(model, init)? {
                let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
                done = publisher.recover(model, init, &staged)?;
            }
            match self.ledger.cycle(model, init)? {
                Some(cycle) if done => self.tell(&Event::Published(Box::new(cycle))),
                _ => {
                    self.ledger.postpone(model, init, 0, "the service was killed")?;
                    self.ledger.forgive(model, init)?;
                }
            }
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
        let clock = self.clock.now();
        let age: Option<LeadTime> = self.plan.timetable.newest(clock).map(|init| self.clock.since(init));
        let devices = self.pool.load();
        let standing = Standing {
            ledger: &self.ledger,
            queued: self.queued,
            devices: &devices,
            decoding: self.decoding.len(),
            age,
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

fn at(seconds: i64) -> InitTime {
    InitTime(ValidTime::new(seconds, Calendar::Standard))
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
