//! What becomes of a file that was decoded.

use std::time::Instant;

use super::Service;
use crate::error::{Context, Result};
use crate::serve::events::Event;
use crate::serve::inbox::Arrived;
use crate::serve::intake::Intake;
use crate::serve::ledger::{Field, SeenFile, Verdict, now};
use crate::serve::plan::Duplicates;

/// [s]
const DAY: i64 = 86_400;
/// That are told of one file.
const MOST_REASONS: usize = 5;

impl Service {
    /// A file is decoded: its fields are accepted, and the file is dealt with for good.
    pub(super) fn decoded(&mut self, intake: &Intake) -> Result<()> {
        let passing = intake.found.iter().find_map(|(_, found)| found.as_ref().err().filter(|r| r.may_pass));
        let path = &intake.arrived.path;
        let full = self.models.iter().any(|model| self.is_full(&model.plan.name));
        let tries = self.tries.remove(path).unwrap_or_default() + u32::from(!full);
        let settled = match passing.filter(|_| tries < self.plan.retry.attempts) {
            // The file may be good: it is tried again.
            Some(refusal) => {
                self.tell(&Event::Note(format!(
                    "{} is decoded again later: {}",
                    path.display(),
                    refusal.reason
                )));
                self.postponed.insert(path.clone(), Instant::now() + self.plan.retry.first);
                self.tries.insert(path.clone(), tries);
                Ok(())
            }
            None => self.settle(intake),
        };
        self.decoding.remove(&intake.arrived.path);
        // What was not moved is not needed.
        let _ = std::fs::remove_dir_all(&intake.folder);
        settled
    }

    pub(super) fn settle(&mut self, intake: &Intake) -> Result<()> {
        let Arrived { path, size, modified, complete } = &intake.arrived;
        let source = path.to_string_lossy().into_owned();
        let number = self.ledger.last_number()? + 1;
        let (mut brought, mut accepted) = (Vec::new(), Vec::new());
        let (mut refusals, mut known) = (Vec::new(), Vec::new());
        for (model, found) in &intake.found {
            let dates = match found {
                Ok(dates) => dates,
                Err(refusal) => {
                    refusals.push(format!("{model}: {}", refusal.reason));
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
        let reason = (!reasons.is_empty()).then(|| in_short(reasons));
        let settled = now();
        let file =
            SeenFile { path: source.clone(), size: *size, modified: *modified, verdict, reason, settled };
        self.ledger.settle(&file, &brought)?;
        self.unchecked = true;
        let reason = file.reason.unwrap_or_else(|| "it holds no date".into());
        match verdict {
            Verdict::Accepted => {
                let last = accepted.iter().map(|(_, valid, _)| *valid).max_by_key(|valid| valid.seconds);
                if let Some(valid) = last.filter(|valid| valid.seconds > self.clock.now() + DAY) {
                    // It is taken: the clock may be wrong.
                    self.tell(&Event::Note(format!(
                        "{source}: {valid} lies in the future; until then it is the newest analysis"
                    )));
                }
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
}

/// A file may hold a thousand dates, each wrong in the same way.
fn in_short(reasons: &[String]) -> String {
    match reasons.len().checked_sub(MOST_REASONS) {
        None | Some(0) => reasons.join("; "),
        Some(more) => format!("{}; and {more} more", reasons[..MOST_REASONS].join("; ")),
    }
}
