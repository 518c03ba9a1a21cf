//! Which cycles there are, and what each can begin from.

use std::collections::{BTreeMap, BTreeSet};

use super::{MOST_CYCLES, Service};
use crate::error::Result;
use crate::serve::cycle::Served;
use crate::serve::decision::{Beginning, Decision, From, Situation};
use crate::serve::events::Event;
use crate::serve::memory;
use crate::serve::schedule::{Timetable, init as at};
use crate::time::{InitTime, ValidTime};

impl Service {
    /// Cycles that the timetable, or an analysis, asks for.
    pub(super) fn plan_cycles(&mut self) -> Result<()> {
        let clock = self.clock.now();
        // Also while nothing ran.
        let was_set_back = self.latest.is_none_or(|latest| clock < latest);
        for model in self.models.clone() {
            let name = &model.plan.name;
            if model.shadows.is_some() {
                continue;
            }
            match &self.plan.timetable {
                // Without news, there is nothing to plan that was not planned before.
                Timetable::Arrival if self.news => self.plan_arrived(&model)?,
                Timetable::Arrival => {}
                timetable => {
                    let again = match was_set_back {
                        true => self.ledger.set_back(name, clock, self.plan.lateness.patience().seconds)?,
                        false => 0,
                    };
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
                    if again > 0 {
                        self.tell(&Event::Note(format!(
                            "{name}: the clock was set back: {again} cycles wait again"
                        )));
                    }
                }
            }
        }
        (self.news, self.latest) = (false, Some(clock));
        Ok(())
    }

    /// A cycle for each analysis that a forecast can start from, as if they had come one by one: what came later does not
    /// count, however long a cycle waits for its turn, so that the same files in the same order give the same forecasts.
    pub(super) fn plan_arrived(&mut self, model: &Served) -> Result<()> {
        let whole = self.whole(model)?;
        let Some((&oldest, _)) = whole.first_key_value() else { return Ok(()) };
        let planned = self.ledger.planned(&model.plan.name, oldest)?;
        let mut unplanned: BTreeSet<(i64, i64)> = whole
            .iter()
            .filter(|(valid, _)| !planned.contains(valid))
            .map(|(&valid, &number)| (number, valid))
            .collect();
        let Some(&(first, _)) = unplanned.first() else { return Ok(()) };
        let numbers: BTreeSet<i64> = whole.values().copied().filter(|&number| number >= first).collect();
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
    pub(super) fn next_arrived(
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
    pub(super) fn frames_back(&self, model: &Served) -> i64 {
        model.trained.info.step.times(model.trained.info.input_frames - 1).seconds
    }

    /// The whole analyses of a model, each with the number of the file that completed it.
    pub(super) fn whole(&self, model: &Served) -> Result<BTreeMap<i64, i64>> {
        self.ledger.whole(model.reads(), model.trained.info.layout.channels())
    }

    pub(super) fn decide(
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

    pub(super) fn weigh(
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
}
