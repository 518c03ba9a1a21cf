//! One strict schema for all commands: TOML tables that become the rooms' plans.
//!
//! The command line wins over the file, the file over the defaults. A key that is not known is an error which names the
//! nearest one that is.

pub mod data;
pub mod export;
pub mod forecast;
pub mod model;
pub mod parallel;
pub mod physics;
pub mod serve;
pub mod train;
pub mod verify;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result};

pub use data::{DataConfig, InputConfig};
pub use export::ExportConfig;
pub use forecast::ForecastConfig;
pub use model::ModelConfig;
pub use parallel::ParallelConfig;
pub use physics::PhysicsConfig;
pub use serve::ServeConfig;
pub use train::{LossConfig, TrainConfig};
pub use verify::VerifyConfig;

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub data: DataConfig,
    pub input: InputConfig,
    pub model: ModelConfig,
    pub train: TrainConfig,
    pub loss: LossConfig,
    pub forecast: ForecastConfig,
    pub verify: VerifyConfig,
    pub physics: PhysicsConfig,
    pub export: ExportConfig,
    pub parallel: ParallelConfig,
    pub serve: ServeConfig,
}

/// Settings given on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Overrides {
    /// Change a setting, as in `--set train.batch=8`; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Config {
    /// Reads a file and applies the command line's settings.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::input(format!("the configuration {} cannot be read", path.display())).caused_by(error)
        })?;
        Self::from_text(&text, overrides).context(|| path.display().to_string())
    }

    /// As [`load`](Self::load), from a text.
    pub fn from_text(text: &str, overrides: &Overrides) -> Result<Self> {
        let mut table: toml::Table =
            toml::from_str(text).map_err(|error| Error::input("this is not TOML").caused_by(error))?;
        for setting in &overrides.set {
            apply(&mut table, setting)?;
        }
        serde_path_to_error::deserialize(toml::Value::Table(table)).map_err(|error| explain(&error))
    }

    /// The resolved settings, to be printed and kept with a run.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::run("the configuration cannot be written").caused_by(error))
    }
}

/// Sets `a.b.c=value` in a table; the value is TOML, or a bare string.
fn apply(table: &mut toml::Table, setting: &str) -> Result<()> {
    let (key, value) = setting.split_once('=').ok_or_else(|| {
        Error::input(format!("'{setting}' is not a setting")).hint("write --set train.batch=8")
    })?;
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| toml::Value::String(value.to_string()));
    let mut path: Vec<&str> = key.trim().split('.').collect();
    let last = path
        .pop()
        .filter(|last| !last.is_empty())
        .ok_or_else(|| Error::input(format!("'{setting}' names no key")).hint("write --set train.batch=8"))?;
    let mut inner = table;
    for part in path {
        inner = inner
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| Error::input(format!("'{part}' in '{key}' is a value, not a table")))?;
    }
    inner.insert(last.to_string(), value);
    Ok(())
}

/// Says where in the file the error is, and for an unknown key which known one is nearest.
fn explain(error: &serde_path_to_error::Error<toml::de::Error>) -> Error {
    let path = error.path().to_string();
    let message = error.inner().message().to_string();
    let place = if path == "." { String::new() } else { format!("{path}: ") };
    let plain = Error::input(format!("{place}{message}"));
    let Some((unknown, known)) = unknown_field(&message) else {
        return plain;
    };
    let nearest = known.iter().min_by_key(|candidate| edit_distance(unknown, candidate));
    let mut text = format!("there is no setting '{}'", if path == "." { unknown } else { &path });
    if !text.contains(unknown) {
        text = format!("there is no setting '{path}.{unknown}'");
    }
    match nearest {
        Some(nearest) => {
            Error::input(text).hint(format!("the nearest is '{nearest}'; all of them: {}", known.join(", ")))
        }
        None => Error::input(text),
    }
}

/// The parts of serde's sentence "unknown field `x`, expected one of `a`, `b`".
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    let (unknown, rest) = rest.split_once('`')?;
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

/// Levenshtein's distance between two words.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, set: &[&str]) -> Result<Config> {
        let set = set.iter().map(|s| s.to_string()).collect();
        Config::from_text(text, &Overrides { set })
    }

    #[test]
    fn the_command_line_wins_over_the_file_over_the_default() {
        let config = load("[train]\nbatch = 4\nseed = 9", &["train.batch=8"]).unwrap();
        assert_eq!((config.train.batch, config.train.seed), (8, 9));
        assert_eq!(config.train.keep, TrainConfig::default().keep);
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one() {
        for (text, set) in [("[train]\nbach = 4", vec![]), ("", vec!["train.bach=4"])] {
            let error = load(text, &set).unwrap_err();
            assert!(error.to_string().contains("train.bach"), "{error}");
            assert!(error.advice().unwrap().contains("the nearest is 'batch'"), "{:?}", error.advice());
        }
        let error = load("[trian]\nbatch = 4", &[]).unwrap_err();
        assert!(error.advice().unwrap().contains("'train'"), "{error}");
    }

    #[test]
    fn a_wrong_type_names_its_place() {
        let error = load("[train]\nbatch = \"many\"", &[]).unwrap_err();
        assert!(error.to_string().starts_with("train.batch: "), "{error}");
    }

    #[test]
    fn the_resolved_configuration_reads_back_as_itself() {
        let config = load("[train]\nbatch = 4", &[]).unwrap();
        assert_eq!(load(&config.to_toml().unwrap(), &[]).unwrap(), config);
    }

    #[test]
    fn settings_that_are_none_are_refused() {
        for setting in ["train", "=3", "train.=3", "train.batch.size=3"] {
            assert!(load("[train]\nbatch = 4", &[setting]).is_err(), "{setting}");
        }
    }
}
