//! From a cycle that can begin to one that is published, or is tried again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use crossbeam_channel::Sender;

use super::{Done, Message, OVERHEAD, Service, compute};
use crate::error::{Context, Error, Kind, Result, chain};
use crate::serve::cycle::{Job, Served};
use crate::serve::decision::{Beginning, Decision};
use crate::serve::events::Event;
use crate::serve::ledger::{Cycle, CycleState, now};
use crate::serve::plan::Start;
use crate::serve::pool::Place;
use crate::serve::publish::Publisher;
use crate::serve::schedule::Timetable;
use crate::time::InitTime;

impl Service {
    /// Begins what can begin, as far as there are devices free.
    pub(super) fn dispatch(&mut self, sender: &Sender<Message>) -> Result<()> {
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
                    let waits = model.plan.start == Start::Warm && !blocked.insert(cycle.model.clone());
                    if !waits {
                        ready.push((model, cycle, beginning));
                    }
                }
            }
        }
        ready.sort_by_key(|(model, ..)| Reverse(model.plan.priority));
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
    pub(super) fn is_due(&self, cycle: &Cycle) -> bool {
        let left = cycle.due - now();
        left <= 0 || left > self.plan.retry.longest.as_millis() as i64 + 1000
    }

    pub(super) fn begin(
        &mut self,
        model: Served,
        cycle: &Cycle,
        beginning: Beginning,
        mut place: Place,
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
        let lost = (name.clone(), init);
        let (folders, stop, open, sender) =
            (self.folders.clone(), self.stop.clone(), self.open.clone(), sender.clone());
        let work = move || {
            let mut stepper = place.stepper.take();
            let result = compute(&job, &mut stepper, &place.name, &folders, &stop, &*open);
            let done = Done { model: name, init, device, stepper, result };
            let _ = sender.send(Message::Made(Box::new(done)));
        };
        match std::thread::Builder::new().name("cycle".into()).spawn(work) {
            Ok(thread) => self.workers.push(thread),
            Err(error) => {
                self.pool.give_back(device, &lost.0, None);
                self.stranded.push(lost);
                return Err(error).context(|| "cannot start a thread".into());
            }
        }
        Ok(())
    }

    /// The cycle with all that it reads.
    pub(super) fn job(&self, model: Served, cycle: &Cycle, beginning: Beginning) -> Result<Job> {
        let first = beginning.start().seconds - self.frames_back(&model);
        let mut analyses = self.ledger.fields(model.reads(), first, cycle.init.0.seconds)?;
        analyses.retain(|_, fields| fields.len() == model.trained.info.layout.channels());
        let late = !matches!(self.plan.timetable, Timetable::Arrival)
            && self.clock.since(cycle.init) > self.plan.lateness.cutoff;
        let (zarr, attempt) = (self.plan.zarr, cycle.attempts + 1);
        Ok(Job { model, init: cycle.init, beginning, analyses, late, zarr, attempt })
    }

    /// A thread is through with a cycle: its forecast is published, or it is tried again.
    pub(super) fn made(&mut self, done: Done) -> Result<()> {
        let Done { model, init, device, stepper, result } = done;
        // A model that failed is opened anew: its device may be lost.
        self.pool.give_back(device, &model, stepper.filter(|_| result.is_ok()));
        let published = result.and_then(|(staged, made)| {
            self.ledger.intend(&model, init, &staged, &made)?;
            let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
            publisher.publish(&model, init, &staged).inspect_err(|_| publisher.discard(&staged))
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

    pub(super) fn failed(&mut self, model: &str, init: InitTime, error: &Error) -> Result<()> {
        let advice = error.advice().map(|advice| format!(" ({advice})")).unwrap_or_default();
        let mut reason = format!("{}{advice}", chain(error));
        let full = self.is_full(model);
        if full {
            reason = format!("the disk is full ({reason})");
            self.make_room(model)?;
        }
        let attempts = self.ledger.cycle(model, init)?.map_or(0, |cycle| cycle.attempts);
        let (model, retry) = (model.to_owned(), self.plan.retry);
        // Files and settings that are wrong do not become right by themselves.
        let lasts = error.kind() == Kind::Input;
        if !full && (lasts || attempts >= retry.attempts) {
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

    pub(super) fn miss(&mut self, model: &str, init: InitTime, reason: &str) -> Result<()> {
        self.ledger.give_up(model, init, CycleState::Missing, reason)?;
        self.tell(&Event::Missing { model: model.into(), init, reason: reason.into() });
        Ok(())
    }

    /// Whether one more forecast of a model may not fit on the disk.
    pub(super) fn is_full(&self, model: &str) -> bool {
        let Some(model) = self.models.iter().find(|served| served.plan.name == model) else { return false };
        let layout = &model.trained.info.layout;
        let forecast =
            (layout.grid.points() * layout.channels() * (model.steps + 1) * size_of::<f32>()) as u64;
        let forecast = forecast * if self.plan.zarr { 2 } else { 1 };
        [&self.folders.out, &self.folders.state].into_iter().any(|folder| {
            rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail * disk.f_frsize < forecast + OVERHEAD)
        })
    }

    pub(super) fn make_room(&mut self, model: &str) -> Result<()> {
        let Some(at_least) = self.plan.keep.at_least else { return Ok(()) };
        let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
        if let Some(file) = publisher.make_room(model, at_least)? {
            self.tell(&Event::Removed { file, full: true });
        }
        Ok(())
    }

    /// Removes forecasts, analyses and states that nobody needs any longer.
    pub(super) fn tidy(&mut self, model: &str) -> Result<()> {
        let mut publisher = Publisher { folders: &self.folders, ledger: &mut self.ledger };
        for file in publisher.tidy(model, &self.plan.keep)? {
            self.tell(&Event::Removed { file, full: false });
        }
        let Some(newest) = self.ledger.published(model)?.last().map(|cycle| cycle.init) else {
            return Ok(());
        };
        let mut before = newest.0.seconds - self.plan.keep.analyses.seconds;
        // What came late may be older than that, and is still to be forecast from.
        for served in self.models.iter().filter(|served| served.plan.name == model || served.reads() == model)
        {
            let needs = self.frames_back(served).max(self.plan.lateness.bridge.seconds);
            if let Some(oldest) = self.ledger.oldest_pending(&served.plan.name)? {
                before = before.min(oldest.0.seconds - needs);
            }
        }
        let analyses = self.ledger.forget_fields(model, before)?;
        let memories = self.ledger.forget_memories(model, before)?;
        let of = |folder: PathBuf, files: Vec<String>| files.into_iter().map(move |file| folder.join(file));
        let gone =
            of(self.folders.analyses(model), analyses).chain(of(self.folders.memories(model), memories));
        // Where one cannot be removed now, the next start sweeps it away.
        gone.for_each(|path| drop(std::fs::remove_file(path)));
        Ok(())
    }
}
