//! Makes the forecast of one cycle: while a step is computed, the one before is written.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, bounded};
use ndarray::Axis;
use sha2::{Digest, Sha256};

use super::decision::{Beginning, From};
use super::decode::Provenance;
use super::folders::Folders;
use super::ledger::{Field, Made, Staged, now};
use super::memory;
use super::plan::ModelPlan;
use super::store;
use super::stored::Arrays;
use crate::error::{Context, Error, Kind, Result};
use crate::field::State;
use crate::io::forecast_file::{ForecastFile, ForecastHead};
use crate::io::zarr::ForecastStore;
use crate::preprocess::Distribution;
use crate::runner::{Forecast, Kept, NetworkStepper, Trained};
use crate::stepper::Stepper;
use crate::time::{InitTime, ValidTime};

/// States that may wait to be written.
const QUEUE: usize = 2;

/// A model as it is served.
#[derive(Clone)]
pub struct Served {
    pub plan: ModelPlan,
    pub trained: Arc<Trained>,
    /// Of a forecast.
    pub steps: usize,
    /// Whether its validations weigh rows by their area.
    pub latitude_weights: bool,
    /// The model that it shadows, whose analyses it reads.
    pub shadows: Option<String>,
    /// How its run was told to read files, in words.
    pub data: String,
}

impl Served {
    /// The model under whose name its analyses are kept.
    pub fn reads(&self) -> &str {
        self.shadows.as_ref().unwrap_or(&self.plan.name)
    }

    /// Whether a file gives both the same fields.
    pub fn understands_as(&self, other: &Self) -> bool {
        let (own, others) = (&self.trained, &other.trained);
        self.data == other.data
            && own.info.layout == others.info.layout
            && own.normalizer.mask() == others.normalizer.mask()
    }
}

/// A cycle to be made.
#[derive(Clone)]
pub struct Job {
    pub model: Served,
    pub init: InitTime,
    pub beginning: Beginning,
    /// The fields of all analyses that it needs, by valid time.
    pub analyses: BTreeMap<i64, Vec<Field>>,
    pub late: bool,
    /// Whether the forecast is written as a Zarr store, too.
    pub zarr: bool,
    /// Which attempt this is: two of them never write the same recurrent state.
    pub attempt: u32,
}

impl Job {
    /// Computes the forecast into the staging folder. An interrupted one leaves nothing behind.
    pub fn run(
        &self,
        stepper: &mut NetworkStepper,
        folders: &Folders,
        stop: &AtomicBool,
    ) -> Result<(Staged, Made)> {
        let started = Instant::now();
        let (kept, state, mut remarks) = self.begin(stepper, folders)?;
        let head = self.head(folders)?;
        let memory = format!("{}.{}.safetensors", self.init.0.file_stamp(), self.attempt);
        let name = &self.model.plan.name;
        memory::write(&folders.memories(name).join(&memory), &kept, &self.model.trained, self.init.0)?;
        // The same way whether it was just computed or is read back: with the same bits.
        let distribution = self.distribution(&kept)?;
        let mut forecast = stepper.resume(kept, state)?;
        let start = self.beginning.describe(self.init);
        let first_lead = self.write(stepper, &mut forecast, &head, folders, stop, &start, &mut remarks)?;
        let path = Folders::staged(name, self.init);
        let zarr = match self.zarr {
            true => Some(store::seal(&folders.out.join(Folders::store(&path)))?),
            false => None,
        };
        let digest = digest(&folders.out.join(&path))?;
        let made = Made {
            input: self.analyses.values().flatten().map(|field| field.complete).max(),
            first_lead,
            seconds: started.elapsed().as_secs_f64(),
            provider: stepper.device(),
            start,
            late: self.late,
            remarks,
            distribution,
        };
        Ok((Staged { path, digest, memory: Some(memory), zarr }, made))
    }

    /// How the values of its analysis are spread, as the network sees them.
    fn distribution(&self, kept: &Kept) -> Result<Option<String>> {
        if !self.beginning.has_analysis(self.init) {
            return Ok(None);
        }
        let labels = self.model.trained.info.layout.quantities.iter().map(ToString::to_string);
        let distribution = Distribution::of(&labels.collect::<Vec<String>>(), &kept.fields);
        let text = serde_json::to_string(&distribution);
        text.map(Some).map_err(|error| Error::run("a distribution cannot be written").caused_by(error))
    }

    /// The recurrent state at the initial time and the fields that belong to it, and what there is to say about them.
    fn begin(&self, stepper: &mut NetworkStepper, folders: &Folders) -> Result<(Kept, State, Vec<String>)> {
        let trained = &self.model.trained;
        let step = trained.info.step;
        let mut forecast = match &self.beginning.from {
            From::Analyses(valid) => {
                let frames = trained.info.input_frames;
                let back = |n: usize| valid.after(step.times(n).negative());
                let analyses: Result<Vec<State>> =
                    (0..frames).rev().map(|n| self.analysis(folders, back(n))).collect();
                stepper.start(&analyses?)?
            }
            From::Kept(init, file) => {
                let path = folders.memories(&self.model.plan.name).join(file);
                let (kept, state) = memory::read(&path, trained, init.0)?;
                stepper.resume(kept, state)?
            }
        };
        let mut remarks = Vec::new();
        let mut valid = self.beginning.start();
        while valid < self.init.0 {
            stepper.step(&mut forecast)?;
            valid = valid.after(step);
            if self.beginning.corrections.contains(&valid) {
                let analysis = self.analysis(folders, valid)?;
                let kept = stepper.kept(&mut forecast)?;
                let kept = stepper.corrected(kept, &analysis)?;
                remarks.extend(stepper.remarks(&forecast));
                forecast = stepper.resume(kept, analysis)?;
            }
        }
        let kept = stepper.kept(&mut forecast)?;
        let state = stepper.observe(&forecast)?;
        remarks.extend(stepper.remarks(&forecast));
        Ok((kept, state, remarks))
    }

    /// Computes and writes at the same time; when the first lead was there.
    #[allow(clippy::too_many_arguments, reason = "one call, whose parts have nothing else in common")]
    fn write(
        &self,
        stepper: &mut NetworkStepper,
        forecast: &mut Forecast,
        head: &ForecastHead,
        folders: &Folders,
        stop: &AtomicBool,
        start: &str,
        remarks: &mut Vec<String>,
    ) -> Result<i64> {
        let staging = folders.staging(&self.model.plan.name);
        let (sender, receiver) = bounded::<Message>(QUEUE);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_all(&staging, head, self.zarr, receiver));
            let mut compute = || {
                let mut first_lead = None;
                for n in 0..=self.model.steps {
                    if stop.load(Ordering::SeqCst) {
                        return Err(Error::new(Kind::Interrupted, "the service is being stopped"));
                    }
                    if n > 0 {
                        stepper.step(forecast)?;
                        first_lead.get_or_insert_with(now);
                    }
                    // The writer went first: what it says is the reason.
                    if sender.send(Message::State(stepper.observe(forecast)?)).is_err() {
                        return Ok(first_lead);
                    }
                }
                remarks.extend(stepper.remarks(forecast));
                let mut comment = format!("start: {start}");
                if self.late {
                    comment.push_str("; late: it began after the cut-off");
                }
                remarks.iter().for_each(|remark| comment = format!("{comment}; {remark}"));
                let _ = sender.send(Message::End(comment));
                Ok(first_lead)
            };
            let computed = compute();
            drop(sender);
            let written = writer.join().map_err(|_| Error::run("the writer of a forecast panicked"))?;
            let first_lead = computed?;
            written?;
            Ok(first_lead.unwrap_or_else(now))
        })
    }

    /// The whole analysis of a time, decoded when it came.
    fn analysis(&self, folders: &Folders, valid: ValidTime) -> Result<State> {
        let fields = self.analyses.get(&valid.seconds).map(Vec::as_slice).unwrap_or_default();
        read_analysis(&folders.analyses(self.model.reads()), fields, &self.model.trained, valid)
    }

    /// Rows, columns and units are those of the newest analysis.
    fn head(&self, folders: &Folders) -> Result<ForecastHead> {
        let layout = &self.model.trained.info.layout;
        let mut orientation = self.model.trained.orientation;
        let mut units = Vec::new();
        if let Some(fields) = self.analyses.values().next_back() {
            let mut words = BTreeMap::new();
            for file in fields.iter().map(|field| &field.stored) {
                words.extend(Arrays::words_of(&folders.analyses(self.model.reads()).join(file))?);
            }
            for quantity in &layout.quantities {
                let label = quantity.to_string();
                let provenance: Provenance = words
                    .get(&label)
                    .and_then(|text| serde_json::from_str(text).ok())
                    .ok_or_else(|| Error::run(format!("the units of {label} are not known")))?;
                orientation = provenance.orientation;
                units.push(provenance.file_units());
            }
        }
        Ok(ForecastHead {
            layout: layout.clone(),
            orientation,
            units,
            init: self.init,
            step: self.model.trained.info.step,
            steps: self.model.steps,
            model: self.model.trained.info.name.clone(),
            origin: self.model.trained.info.origin.clone(),
            history: command_line(),
        })
    }
}

/// The whole analysis of a time, from the decoded files of its fields in `folder`.
pub fn read_analysis(folder: &Path, fields: &[Field], trained: &Trained, valid: ValidTime) -> Result<State> {
    let layout = &trained.info.layout;
    let mut state = State::missing(layout.clone(), valid);
    let mut opened: BTreeMap<&str, Arrays> = BTreeMap::new();
    for (channel, quantity) in layout.quantities.iter().enumerate() {
        let label = quantity.to_string();
        let field = fields.iter().find(|field| field.quantity == label);
        let field = field.ok_or_else(|| Error::run(format!("{label} at {valid} is no longer there")))?;
        let path = folder.join(&field.stored);
        if !opened.contains_key(field.stored.as_str()) {
            opened.insert(&field.stored, Arrays::read(&path)?);
        }
        let Some(arrays) = opened.get_mut(field.stored.as_str()) else { continue };
        let values = arrays.take(&label, layout.grid.points()).context(|| path.display().to_string())?;
        state.values.index_axis_mut(Axis(2), channel).iter_mut().zip(values).for_each(|(to, x)| *to = x);
    }
    Ok(state)
}

enum Message {
    State(State),
    /// The forecast is whole; the comment of its file.
    End(String),
}

fn write_all(staging: &Path, head: &ForecastHead, zarr: bool, states: Receiver<Message>) -> Result<()> {
    let mut file = ForecastFile::create(staging, head)?;
    let mut store = zarr.then(|| ForecastStore::create(staging, head)).transpose()?;
    for message in states {
        match message {
            Message::State(state) => {
                file.write(&state)?;
                store.iter_mut().try_for_each(|store| store.write(&state))?;
            }
            Message::End(comment) => {
                file.comment(&comment)?;
                file.finish()?;
                if let Some(mut store) = store {
                    store.comment(&comment);
                    store.finish()?;
                }
                return Ok(());
            }
        }
    }
    // Whoever computed has a reason to tell.
    Ok(())
}

/// As the forecasts tell it: who is told of alarms is a secret.
fn command_line() -> String {
    let plain = |word: String| if word.contains("webhook") { "(hidden)".into() } else { word };
    std::env::args().map(plain).collect::<Vec<String>>().join(" ")
}

/// SHA-256 of a file.
pub fn digest(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(path).context(cannot)?;
    std::io::copy(&mut file, &mut Hashing(&mut hash)).context(cannot)?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct Hashing<'a>(&'a mut Sha256);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
