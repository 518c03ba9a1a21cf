//! What past forecasts were worth, and whether a canary is better.

use crossbeam_channel::Sender;

use super::Service;
use crate::error::{Result, chain};
use crate::serve::events::Event;
use crate::serve::ledger::{Cycle, CycleState};
use crate::serve::skill::{Check, Comparison, Score, compare};
use crate::verify::BootstrapPlan;

impl Service {
    /// Past forecasts whose truth has come are held against it.
    pub(super) fn check_past(&mut self, checks: &Sender<Check>) -> Result<()> {
        for model in self.models.clone() {
            let name = &model.plan.name;
            let (whole, published) = (self.whole(&model)?, self.ledger.published(name)?);
            let (Some((&newest, _)), Some(oldest)) = (whole.last_key_value(), published.first()) else {
                continue;
            };
            let scored = self.ledger.scored(name, oldest.init.0.seconds)?;
            for cycle in published {
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

    pub(super) fn checked(&mut self, check: &Check, scores: Result<Vec<Score>>) -> Result<()> {
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
            }
        }
        // Many may come at once, and each time all scores are compared.
        if self.under_check == 0 { self.judge() } else { Ok(()) }
    }

    /// A canary makes a share of the cycles too.
    pub(super) fn shadow(&mut self, cycle: &Cycle) -> Result<()> {
        let Some(canary) = &self.plan.canary else { return Ok(()) };
        let shadow = self.models.iter().find(|model| model.shadows.as_ref() == Some(&cycle.model));
        let Some(shadow) = shadow.map(|model| model.plan.name.clone()) else { return Ok(()) };
        if canary.takes(self.ledger.count_published(&cycle.model)?.saturating_sub(1)) {
            self.ledger.plan(&shadow, cycle.init, cycle.knows)?;
        }
        Ok(())
    }

    /// Promotes or rejects the canary as soon as the interval of the paired differences says so.
    pub(super) fn judge(&mut self) -> Result<()> {
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
        let (shadow, run) = (canary.plan.name, plan.run.display().to_string());
        self.tell(&Event::Judged { model: plan.of, shadow, canary: run, promoted, reason });
        Ok(())
    }
}
