//! Watches over a service: numbers, service levels, drift, skill, alarms, and a page that shows them.

mod alarms;
mod http;
mod levels;
mod metrics;
mod page;
mod picture;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use alarms::{Alarm, Say};
pub use metrics::Reading;

use alarms::Alarms;
use levels::Levels;
use metrics::Metrics;

use super::events::{Event, Listener, Standing};
use super::ledger::{Cycle, CycleState, Ledger, SeenFile};
use super::plan::WatchPlan;
use super::skill::errors;
use crate::error::Result;
use crate::preprocess::Distribution;
use crate::time::InitTime;

/// Cycles and files on the page.
const SHOWN: usize = 30;
/// A loop that has not turned for so long stands still.
const STILL: Duration = Duration::from_secs(60);

/// What a model was like at training.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    /// Of normalised values; none in runs of earlier versions.
    pub distribution: Option<Distribution>,
    /// Root mean square error of the validation by quantity and lead, in standard deviations.
    pub errors: BTreeMap<String, Vec<f64>>,
}

/// What is shown.
struct Board {
    plan: WatchPlan,
    out: PathBuf,
    /// That no reader is to know, the longest first.
    folders: Vec<String>,
    models: BTreeMap<String, ModelBoard>,
    cycles: Vec<Cycle>,
    files: Vec<SeenFile>,
    alarms: Vec<Alarm>,
    devices: Vec<(String, usize)>,
    queued: usize,
    decoding: usize,
    /// When the loop last turned.
    turned: Instant,
    trouble: Option<String>,
    metrics: Metrics,
}

impl Board {
    fn stands_still(&self) -> bool {
        self.turned.elapsed() > STILL
    }

    /// A text that does not tell where things lie: of a path, its last part is left.
    fn without_folders(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for folder in &self.folders {
            text = text.replace(&format!("{folder}/"), "");
        }
        let plain = |word: &str| {
            let quotes = word.len() - word.trim_start_matches(['\'', '"', '(']).len();
            match word[quotes..].starts_with('/') {
                true => format!("{}{}", &word[..quotes], word.rsplit('/').next().unwrap_or_default()),
                false => word.to_owned(),
            }
        };
        text.split_inclusive(' ').map(plain).collect()
    }
}

#[derive(Default)]
struct ModelBoard {
    /// The newest forecast that is there.
    newest: Option<Cycle>,
    /// The newest cycle of which something is known.
    last: Option<Cycle>,
    levels: Levels,
    /// Of the last analysis, by quantity.
    drift: BTreeMap<String, f64>,
    /// The error of past forecasts, over that of the validation.
    skill: Option<f64>,
}

/// Reads the GPUs.
pub type Read = Box<dyn Fn() -> Vec<Reading> + Send>;

/// Listens to a service.
pub struct Watch {
    plan: WatchPlan,
    references: BTreeMap<String, Reference>,
    board: Arc<Mutex<Board>>,
    alarms: Alarms,
    read: Read,
    /// Energy counters when cycles began, by model and initial time: the device, and what it had taken.
    begun: HashMap<(String, InitTime), (String, f64)>,
    /// Whether something happened since the board was last drawn up.
    stale: bool,
}

impl Watch {
    /// Answers at the address of the plan, if it has one, and gives that. Nobody is told of `folders`.
    pub fn new(
        plan: WatchPlan,
        out: PathBuf,
        folders: &[PathBuf],
        references: BTreeMap<String, Reference>,
        read: Read,
        say: Say,
    ) -> Result<(Self, Option<SocketAddr>)> {
        let mut folders: Vec<String> =
            folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
        let board = Board {
            plan: plan.clone(),
            out,
            folders,
            models: BTreeMap::new(),
            cycles: Vec::new(),
            files: Vec::new(),
            alarms: Vec::new(),
            devices: Vec::new(),
            queued: 0,
            decoding: 0,
            turned: Instant::now(),
            trouble: None,
            metrics: Metrics::new(),
        };
        let board = Arc::new(Mutex::new(board));
        let address = plan.address.map(|address| http::answer(address, board.clone())).transpose()?;
        let alarms = Alarms::new(say, plan.webhook.clone())?;
        let begun = HashMap::new();
        Ok((Self { plan, references, board, alarms, read, begun, stale: true }, address))
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges the last cycles of every model.
    fn judge(&mut self, ledger: &Ledger) -> Result<()> {
        let mut verdicts = Vec::new();
        for (name, reference) in &self.references {
            let cycles = ledger.newest(Some(name), self.plan.levels.window)?;
            let levels = Levels::of(&cycles);
            verdicts.extend(levels.breaches(name, &self.plan.levels));
            let drift = self.drift(name, reference, ledger, &mut verdicts)?;
            let skill = self.skill(name, reference, ledger, &mut verdicts)?;
            let newest = ledger.published(name)?.pop();
            let is_known = |cycle: &&Cycle| cycle.state != CycleState::Waiting || cycle.attempts > 0;
            let last = cycles.iter().find(is_known).cloned();
            let mut board = self.board();
            drift.iter().for_each(|(quantity, divergence)| board.metrics.drifts(name, quantity, *divergence));
            if let Some(ratio) = skill {
                board.metrics.skill(name, ratio);
            }
            board.models.insert(name.clone(), ModelBoard { newest, last, levels, drift, skill });
        }
        for (name, text) in verdicts {
            self.board().metrics.alarm(&name, text.is_some());
            self.alarms.set(&name, text);
        }
        Ok(())
    }

    /// The divergence of the last analysis from the training data. One day is less varied than years: an alarm is raised for
    /// what the last analyses together show.
    fn drift(
        &self,
        name: &str,
        reference: &Reference,
        ledger: &Ledger,
        verdicts: &mut Vec<(String, Option<String>)>,
    ) -> Result<BTreeMap<String, f64>> {
        let Some(trained) = &reference.distribution else { return Ok(BTreeMap::new()) };
        let last = ledger.distributions(name, self.plan.drift.window)?;
        let read: Vec<Distribution> =
            last.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        let mut together = Distribution::default();
        read.iter().for_each(|one| together.add(one));
        let far = trained.divergences(&together).into_iter().filter(|(_, x)| *x > self.plan.drift.threshold);
        let far: Vec<String> = far.map(|(quantity, x)| format!("{quantity} {x:.3}")).collect();
        let text = (!far.is_empty() && read.len() >= self.plan.drift.window).then(|| {
            format!(
                "{name}: the last {} analyses differ from the training data: {} (Jensen-Shannon divergence, threshold {})",
                read.len(),
                far.join(", "),
                self.plan.drift.threshold
            )
        });
        verdicts.push((format!("drift of {name}"), text));
        Ok(read.first().map(|one| trained.divergences(one)).unwrap_or_default())
    }

    /// The error of past forecasts over that of the validation: the mean over all quantities and leads that both know.
    fn skill(
        &self,
        name: &str,
        reference: &Reference,
        ledger: &Ledger,
        verdicts: &mut Vec<(String, Option<String>)>,
    ) -> Result<Option<f64>> {
        let found = errors(&ledger.scores(name, self.plan.skill.window)?);
        let ratios = found.iter().filter_map(|((quantity, lead), (error, count))| {
            let trained = reference.errors.get(quantity)?.get(lead.checked_sub(1)?)?;
            (*count >= self.plan.skill.least && *trained > 0.0).then(|| error / trained)
        });
        let ratios: Vec<f64> = ratios.collect();
        if ratios.is_empty() {
            return Ok(None);
        }
        let ratio = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let most = 1.0 + self.plan.skill.tolerance;
        let text = (ratio > most).then(|| {
            format!("{name}: past forecasts err {ratio:.2} times as much as those of the validation, {most:.2} is allowed")
        });
        verdicts.push((format!("skill of {name}"), text));
        Ok(Some(ratio))
    }

    /// What a device has taken since its driver was loaded [J].
    fn energy(&self, device: &str) -> Option<f64> {
        (self.read)().into_iter().find(|reading| reading.device == device)?.energy
    }
}

impl Listener for Watch {
    fn hear(&mut self, event: &Event, ledger: &Ledger) -> Result<()> {
        self.stale = true;
        self.board().metrics.hear(event);
        match event {
            Event::Began { model, init, device, .. } => {
                if let Some(energy) = self.energy(device) {
                    self.begun.insert((model.clone(), *init), (device.clone(), energy));
                }
            }
            Event::Published(cycle) => {
                let begun = self.begun.remove(&(cycle.model.clone(), cycle.init));
                let taken = begun.and_then(|(device, before)| Some(self.energy(&device)? - before));
                if let Some(taken) = taken {
                    self.board().metrics.energy(&cycle.model, taken);
                }
                self.judge(ledger)?;
            }
            Event::Failed { .. } | Event::Missing { .. } => self.judge(ledger)?,
            Event::Judged { model, shadow, promoted, .. } => {
                // Nothing comes of the shadow any more; what is served is held against the training of what serves it.
                let reference = self.references.remove(shadow);
                if let Some(reference) = reference.filter(|_| *promoted) {
                    self.references.insert(model.clone(), reference);
                }
                self.board().models.remove(shadow);
                self.alarms.forget(shadow).iter().for_each(|name| self.board().metrics.alarm(name, false));
                self.judge(ledger)?;
            }
            Event::Trouble(text) => self.board().trouble = Some(text.clone()),
            Event::Recovered => self.board().trouble = None,
            _ => {}
        }
        Ok(())
    }

    fn look(&mut self, standing: &Standing<'_>) -> Result<()> {
        if std::mem::take(&mut self.stale) {
            self.judge(standing.ledger)?;
            let (cycles, files) = (standing.ledger.newest(None, SHOWN)?, standing.ledger.files(SHOWN)?);
            let mut board = self.board();
            (board.cycles, board.files) = (cycles, files);
        }
        let (readings, alarms) = ((self.read)(), self.alarms.active());
        let mut board = self.board();
        board.metrics.stands(standing, &readings);
        board.alarms = alarms;
        board.devices = standing.devices.to_vec();
        (board.queued, board.decoding) = (standing.queued, standing.decoding);
        board.turned = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::ledger::{Made, Staged};
    use crate::serve::plan::{DriftPlan, LevelsPlan, SkillPlan};
    use crate::serve::schedule::init;
    use crate::serve::skill::Score;

    fn watch(references: &[(&str, f64)]) -> Watch {
        let plan = WatchPlan {
            address: None,
            webhook: None,
            levels: LevelsPlan { latency_p99: None, error_rate: None, missing: None, window: 10 },
            drift: DriftPlan { threshold: 0.15, window: 1 },
            skill: SkillPlan { tolerance: 0.2, least: 1, window: 10 },
        };
        let reference = |&(name, error): &(&str, f64)| {
            let errors = [("z500".to_string(), vec![error])].into();
            (name.to_string(), Reference { distribution: None, errors })
        };
        let references = references.iter().map(reference).collect();
        let folders = ["in".into(), "in/state".into()];
        Watch::new(plan, "out".into(), &folders, references, Box::new(Vec::new), Box::new(|_, _| {}))
            .unwrap()
            .0
    }

    /// Publishes a forecast whose squared error at the first lead is one.
    fn publish(ledger: &mut Ledger, hour: i64) {
        let (model, at) = ("a", init(hour * 3600));
        let staged = Staged { path: String::new(), digest: "d".into(), memory: None, zarr: None };
        let made = Made {
            input: None,
            first_lead: 0,
            seconds: 0.0,
            provider: "cpu".into(),
            start: "cold".into(),
            late: false,
            remarks: Vec::new(),
            distribution: None,
        };
        ledger.plan(model, at, None).unwrap();
        ledger.begin(model, at).unwrap();
        ledger.intend(model, at, &staged, &made).unwrap();
        ledger.publish(model, at, "a/x.nc", 1, 1, None).unwrap();
        let score = Score { model: model.into(), init: at, lead: 1, quantity: "z500".into(), square: 1.0 };
        ledger.add_scores(&[score]).unwrap();
    }

    #[test]
    fn what_is_served_is_held_against_its_own_training() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path()).unwrap();
        let mut watch = watch(&[("a", 1.0), ("a.canary.b", 0.5)]);
        let skill = |watch: &Watch, name: &str| watch.board().models.get(name).map(|model| model.skill);
        publish(&mut ledger, 0);
        watch.judge(&ledger).unwrap();
        assert_eq!(skill(&watch, "a"), Some(Some(1.0)));
        std::thread::sleep(Duration::from_millis(5));
        ledger.judge("a", "b".as_ref(), "a".as_ref(), true, "better").unwrap();
        let judged = Event::Judged {
            model: "a".into(),
            shadow: "a.canary.b".into(),
            canary: "b".into(),
            promoted: true,
            reason: "better".into(),
        };
        watch.hear(&judged, &ledger).unwrap();
        // The canary is gone, and what the run before it forecast says nothing of it.
        assert_eq!((skill(&watch, "a"), skill(&watch, "a.canary.b")), (Some(None), None));
        std::thread::sleep(Duration::from_millis(5));
        publish(&mut ledger, 6);
        watch.judge(&ledger).unwrap();
        assert_eq!(skill(&watch, "a"), Some(Some(2.0)));
    }

    #[test]
    fn nobody_is_told_where_things_lie() {
        let watch = watch(&[]);
        let board = watch.board();
        let told = |text: &str| board.without_folders(text);
        assert_eq!(told("in/state/x y.nc: cannot read (see /srv/a/log)"), "x y.nc: cannot read (see log)");
        assert_eq!(told("'/etc/a' is 3 m/s"), "'a' is 3 m/s");
    }
}
