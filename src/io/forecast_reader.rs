//! Reads a forecast file: those that wxsim writes, and those of others that say their initial time as CF does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FileInfo, Reader, VariableInfo, inspect_file};
use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::time::{InitTime, LeadTime, valid_time};

/// Opens a forecast file.
pub fn open(path: &Path) -> Result<ForecastReader> {
    ForecastReader::open(path)
}

/// The forecast of one initial time, read lead by lead.
pub struct ForecastReader {
    info: FileInfo,
    reader: Reader,
    init: InitTime,
    leads: Vec<LeadTime>,
    layout: Arc<Layout>,
    /// Per channel: the index of its variable in `info`, and of its level.
    channels: Vec<(usize, usize)>,
    /// One horizontal field.
    buffer: Vec<f32>,
}

impl ForecastReader {
    /// Reads what the file holds; its fields are read by [`read`](Self::read).
    pub fn open(path: &Path) -> Result<Self> {
        let info = inspect_file(path)?;
        let shown = path.display();
        let init = info.forecast_reference_time.map(InitTime).ok_or_else(|| {
            Error::input(format!("{shown} does not say when its forecast starts"))
                .hint("a forecast file has a scalar variable with standard_name forecast_reference_time")
        })?;
        let first = info.variables.iter().find(|v| !v.times.is_empty()).ok_or_else(|| {
            Error::input(format!("{shown} holds no field that changes with time"))
                .hint("see what it holds with: wxsim inspect")
        })?;
        let mut quantities = Vec::new();
        let mut channels = Vec::new();
        for (index, variable) in info.variables.iter().enumerate().filter(|(_, v)| !v.times.is_empty()) {
            same_axes(path, first, variable)?;
            for level in 0..variable.level_count() {
                quantities.push(variable.quantity(level));
                channels.push((index, level));
            }
        }
        let leads: Vec<LeadTime> = first.times.iter().map(|valid| valid.since(init.0)).collect();
        if !leads.windows(2).all(|pair| pair[0] < pair[1]) || first.times[0].calendar != init.0.calendar {
            return Err(Error::input(format!("the valid times of {shown} do not run forward from {init}"))
                .hint("one file holds the forecast of one initial time"));
        }
        let layout = Arc::new(Layout { grid: first.grid.clone(), quantities });
        let buffer = vec![f32::NAN; layout.grid.points()];
        let reader = Reader::open(&info)?;
        Ok(Self { reader, init, leads, layout, channels, buffer, info })
    }

    pub fn path(&self) -> &PathBuf {
        &self.info.path
    }

    /// When the forecast starts.
    pub fn init(&self) -> InitTime {
        self.init
    }

    /// Increasing; in files of wxsim the first is zero, the analysis.
    pub fn leads(&self) -> &[LeadTime] {
        &self.leads
    }

    /// Channels stand in the order of the file's variables and their levels, not in that of the writer.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The state at an index of [`leads`](Self::leads).
    pub fn read(&mut self, lead: usize) -> Result<State> {
        let Some(&length) = self.leads.get(lead) else {
            return Err(Error::run(format!(
                "{} has {} lead times and number {lead} was asked for",
                self.info.path.display(),
                self.leads.len()
            )));
        };
        let mut state = State::missing(self.layout.clone(), valid_time(self.init, length));
        for (channel, &(index, level)) in self.channels.iter().enumerate() {
            self.reader.read(&self.info.variables[index], lead, level, &mut self.buffer)?;
            let field = state.values.index_axis_mut(ndarray::Axis(2), channel);
            for (value, &read) in field.into_iter().zip(&self.buffer) {
                *value = read;
            }
        }
        Ok(state)
    }
}

/// All fields of a forecast lie on one grid and one time axis.
fn same_axes(path: &Path, first: &VariableInfo, other: &VariableInfo) -> Result<()> {
    let differ = if other.times != first.times {
        "times"
    } else if !other.grid.matches(&first.grid) {
        "grids"
    } else {
        return Ok(());
    };
    Err(Error::input(format!(
        "{}: the variables '{}' and '{}' have different {differ}",
        path.display(),
        first.name,
        other.name
    ))
    .hint("split the file by variable"))
}
