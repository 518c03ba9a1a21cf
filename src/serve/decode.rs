//! What an arriving file brings: the fields of it that a model reads, checked and decoded into one small file for each valid time.
//!
//! This runs in a process of its own (`wxsim decode-analysis`): a damaged file can take a library, and its process, down.

use std::path::Path;

use ndarray::Axis;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Kind, Result, chain};
use crate::field::State;
use crate::grid::Orientation;
use crate::io::Linear;
use crate::io::forecast_file::FileUnits;
use crate::preprocess::Catalogue;
use crate::runner::Trained;
use crate::time::{Calendar, ValidTime};

use super::stored::Arrays;

/// How far the mean of a field may lie from that of the training, and a value [standard deviations]. The mean of a region
/// hardly comes to 5, single values of rain to 100; pressure in hPa that is said to be in Pa lies beyond 100.
const STRANGEST_MEAN: f64 = 20.0;
const STRANGEST_VALUE: f64 = 1000.0;

/// What the process answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Decoded(Vec<Decoded>),
    Refused(Refusal),
}

/// Why nothing came of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: String,
    /// Whether that is no fault of the file, and may pass: a full disk, no memory.
    pub may_pass: bool,
}

impl Refusal {
    pub fn of(error: &Error) -> Self {
        let advice = error.advice().map(|advice| format!(" ({advice})")).unwrap_or_default();
        Self { reason: format!("{}{advice}", chain(error)), may_pass: error.kind() == Kind::Run }
    }
}

/// What was found for a valid time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decoded {
    pub valid: ValidTime,
    /// The file, in the folder given, that holds the fields; none when they are refused.
    pub file: Option<String>,
    /// Quantities, each with the digest of its values.
    pub fields: Vec<(String, String)>,
    /// Why the fields are refused.
    pub refusal: Option<String>,
}

/// How the fields of an analysis lay in the file that they came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    pub orientation: Orientation,
    pub units: String,
    pub factor: f64,
    pub offset: f64,
}

impl Provenance {
    pub fn file_units(&self) -> FileUnits {
        let conversion = Linear { factor: self.factor, offset: self.offset };
        FileUnits { units: self.units.clone(), conversion }
    }
}

/// Decodes all dates of a catalogue of one arrived file, for a network, into `folder`.
pub fn decode(trained: &Trained, catalogue: &Catalogue, folder: &Path) -> Result<Vec<Decoded>> {
    let expected = &trained.info.layout;
    if !catalogue.layout().grid.matches(&expected.grid) {
        return Err(Error::input(format!(
            "the network works on {}, and the file lies on {}",
            expected.grid.describe(),
            catalogue.layout().grid.describe()
        ))
        .hint("bring the file to the grid of the training, or train with [data] grid"));
    }
    if catalogue.calendar() != Calendar::Standard {
        return Err(Error::input(format!(
            "the file's dates are of the {} calendar, and clocks go by the standard one",
            catalogue.calendar().cf_name()
        )));
    }
    catalogue.times().iter().map(|&valid| decode_one(trained, catalogue, folder, valid)).collect()
}

fn decode_one(trained: &Trained, catalogue: &Catalogue, folder: &Path, valid: ValidTime) -> Result<Decoded> {
    let expected = &trained.info.layout;
    let mut decoded = Decoded { valid, file: None, fields: Vec::new(), refusal: None };
    let state = match catalogue.read(valid) {
        Ok(state) => state,
        Err(error) => {
            decoded.refusal = Some(format!("{valid}: {}", chain(&error)));
            return Ok(decoded);
        }
    };
    let units = catalogue.file_units();
    let mut arrays = Arrays::default();
    let mut given = State::missing(expected.clone(), valid);
    for (channel, quantity) in expected.quantities.iter().enumerate() {
        let Some(from) = state.layout.quantities.iter().position(|found| found == quantity) else { continue };
        let values: Vec<f32> = state.values.index_axis(Axis(2), from).iter().copied().collect();
        // A file may hold some quantities only at some of its dates.
        if values.iter().all(|value| value.is_nan()) {
            continue;
        }
        let broken = broken(trained, &state, channel, &values);
        if broken > 0 {
            decoded.refusal = Some(format!(
                "{quantity} at {valid}: {broken} of {} values are missing or not finite",
                values.len()
            ));
            return Ok(decoded);
        }
        given.values.index_axis_mut(Axis(2), channel).assign(&state.values.index_axis(Axis(2), from));
        let label = quantity.to_string();
        decoded.fields.push((label.clone(), digest(&values)));
        let FileUnits { units, conversion } = units[from].clone();
        let Linear { factor, offset } = conversion;
        let provenance = Provenance { orientation: catalogue.orientation(), units, factor, offset };
        let words = serde_json::to_string(&provenance)
            .map_err(|error| Error::run("units cannot be written").caused_by(error))?;
        arrays.words.insert(label.clone(), words);
        arrays.put(label, vec![state.layout.grid.rows(), state.layout.grid.columns()], values);
    }
    if decoded.fields.is_empty() {
        decoded.refusal = Some(format!("{valid}: no field has any value"));
        return Ok(decoded);
    }
    // An hour of the day that the network knows nothing of is no fault of the file's other dates.
    decoded.refusal = match strange(trained, &given) {
        Ok(strange) => strange.map(|strange| format!("{strange} at {valid}")),
        Err(error) => Some(format!("{valid}: {}", chain(&error))),
    };
    if decoded.refusal.is_some() {
        return Ok(decoded);
    }
    let name = format!("{}.safetensors", valid.file_stamp());
    arrays.write(&folder.join(&name))?;
    decoded.file = Some(name);
    Ok(decoded)
}

/// How many values of a channel are missing where the network needs them.
fn broken(trained: &Trained, state: &State, channel: usize, values: &[f32]) -> usize {
    let channels = trained.info.layout.channels();
    let mask = trained.normalizer.mask();
    debug_assert_eq!(values.len(), state.layout.grid.points());
    let needed = |point: usize| mask.is_none_or(|mask| mask[point * channels + channel] != 0.0);
    values.iter().enumerate().filter(|&(point, value)| !value.is_finite() && needed(point)).count()
}

/// What no weather is, of fields of which some may be missing as a whole: another unit, or damage.
fn strange(trained: &Trained, given: &State) -> Result<Option<String>> {
    let channels = given.layout.channels();
    let mut normalised = vec![0.0; given.values.len()];
    trained.normalizer.normalize(given, &mut normalised)?;
    for (channel, quantity) in given.layout.quantities.iter().enumerate() {
        let values = normalised.iter().skip(channel).step_by(channels).map(|&value| f64::from(value));
        let (mut sum, mut count, mut most) = (0.0, 0.0, 0.0_f64);
        for value in values.filter(|value| !value.is_nan()) {
            (sum, count, most) = (sum + value, count + 1.0, most.max(value.abs()));
        }
        let mean = sum / f64::max(count, 1.0);
        if mean.abs() > STRANGEST_MEAN || most > STRANGEST_VALUE {
            return Ok(Some(format!(
                "{quantity}, whose mean lies {:.0} and a value {most:.0} standard deviations from those of the training,",
                mean.abs()
            )));
        }
    }
    Ok(None)
}

fn digest(values: &[f32]) -> String {
    let mut hash = Sha256::new();
    for value in values {
        hash.update(value.to_le_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
