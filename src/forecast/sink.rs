//! Where forecasts go.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::field::State;
use crate::io::forecast_file::{ForecastFile, ForecastHead};
use crate::io::zarr::ForecastStore;
use crate::stepper::Stepper;
use crate::time::{InitTime, LeadTime};

use super::rollout::rollout;

/// Takes the states of forecasts, one forecast after the other, in order of lead.
pub trait Sink {
    /// A forecast from this initial time begins.
    fn begin(&mut self, init: InitTime) -> Result<()>;

    /// The state at a lead; lead 0, the analysis, comes first.
    fn take(&mut self, lead: LeadTime, state: &State) -> Result<()>;

    /// The forecast is whole; `remarks` say what was special about how it was made.
    fn end(&mut self, remarks: &[String]) -> Result<()>;
}

/// Makes the forecast of every initial time and hands its states to the sink; `analyses` gives the input frames of an
/// initial time, oldest first. Nothing but the current state is held.
pub fn forecast_all<S: Stepper>(
    stepper: &mut S,
    inits: &[InitTime],
    mut analyses: impl FnMut(InitTime) -> Result<Vec<State>>,
    steps: usize,
    sink: &mut dyn Sink,
) -> Result<()> {
    for &init in inits {
        let doing = |error: Error| error.context(format!("the forecast from {init} failed"));
        let frames = analyses(init).map_err(doing)?;
        let step = stepper.info().step;
        let mut states = rollout(stepper, &frames, steps).map_err(doing)?;
        // Not before: what cannot start leaves nothing behind, no empty folder either.
        sink.begin(init)?;
        for (n, state) in states.by_ref().enumerate() {
            sink.take(step.times(n), &state.map_err(doing)?)?;
        }
        sink.end(&states.remarks())?;
    }
    Ok(())
}

/// Writes each forecast as a CF file named by its initial time.
pub struct FileSink {
    folder: PathBuf,
    /// `init` is filled in.
    head: ForecastHead,
    /// Whether each is written as a Zarr store, too.
    zarr: bool,
    current: Option<(ForecastFile, Option<ForecastStore>)>,
    written: Vec<PathBuf>,
}

impl FileSink {
    /// `head` describes every file but for its initial time.
    pub fn new(folder: &Path, head: ForecastHead) -> Self {
        Self { folder: folder.to_owned(), head, zarr: false, current: None, written: Vec::new() }
    }

    /// Writes each forecast as a Zarr store, too.
    #[must_use]
    pub fn with_stores(self, zarr: bool) -> Self {
        Self { zarr, ..self }
    }

    /// The files so far, all whole.
    pub fn written(&self) -> &[PathBuf] {
        &self.written
    }
}

impl Sink for FileSink {
    fn begin(&mut self, init: InitTime) -> Result<()> {
        self.head.init = init;
        let store = self.zarr.then(|| ForecastStore::create(&self.folder, &self.head)).transpose()?;
        self.current = Some((ForecastFile::create(&self.folder, &self.head)?, store));
        Ok(())
    }

    fn take(&mut self, _lead: LeadTime, state: &State) -> Result<()> {
        match &mut self.current {
            Some((file, store)) => {
                file.write(state)?;
                store.iter_mut().try_for_each(|store| store.write(state))
            }
            None => Err(Error::run("a state came before its forecast began")),
        }
    }

    fn end(&mut self, remarks: &[String]) -> Result<()> {
        if let Some((mut file, mut store)) = self.current.take() {
            if !remarks.is_empty() {
                file.comment(&remarks.join("; "))?;
                store.iter_mut().for_each(|store| store.comment(&remarks.join("; ")));
            }
            self.written.push(file.finish()?);
            self.written.extend(store.map(ForecastStore::finish).transpose()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::rollout::tests::{Counter, analysis};
    use crate::grid::Orientation;

    #[derive(Default)]
    struct Notebook(Vec<String>);

    impl Sink for Notebook {
        fn begin(&mut self, init: InitTime) -> Result<()> {
            self.0.push(format!("from {init}"));
            Ok(())
        }

        fn take(&mut self, lead: LeadTime, state: &State) -> Result<()> {
            self.0.push(format!("{lead} {}", state.values[[0, 0, 0]]));
            Ok(())
        }

        fn end(&mut self, _remarks: &[String]) -> Result<()> {
            self.0.push("whole".into());
            Ok(())
        }
    }

    fn inits() -> Vec<InitTime> {
        [0, 6].iter().map(|&hour| InitTime(analysis(&["msl"], hour).valid)).collect()
    }

    fn frames(init: InitTime) -> Result<Vec<State>> {
        let hour = i64::from(init.0.date().seconds) / 3600;
        Ok(vec![analysis(&["msl", "z500"], hour)])
    }

    #[test]
    fn several_initial_times_come_one_after_the_other() {
        let mut notebook = Notebook::default();
        forecast_all(&mut Counter::new(1), &inits(), frames, 1, &mut notebook).unwrap();
        let expected = [
            "from 2009-01-01T00:00Z",
            "0h 0",
            "6h 1",
            "whole",
            "from 2009-01-01T06:00Z",
            "0h 0",
            "6h 1",
            "whole",
        ];
        assert_eq!(notebook.0, expected);
    }

    #[test]
    fn a_forecast_that_fails_leaves_no_file_and_names_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut stepper = Counter::new(1);
        let head = ForecastHead {
            layout: stepper.info.layout.clone(),
            orientation: Orientation::default(),
            units: Vec::new(),
            init: inits()[0],
            step: stepper.info.step,
            steps: 2,
            model: "counter".into(),
            origin: "a test".into(),
            history: "cargo test".into(),
        };
        let mut sink = FileSink::new(folder.path(), head);
        let second_blows_up = |init: InitTime| {
            let mut frames = frames(init)?;
            if init == inits()[1] {
                frames[0].values.fill(99.5);
            }
            Ok(frames)
        };
        let error = forecast_all(&mut stepper, &inits(), second_blows_up, 2, &mut sink).unwrap_err();
        assert!(error.to_string().contains("2009-01-01T06:00Z"), "{error}");
        assert_eq!(sink.written().len(), 1);
        drop(sink);
        let files: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(files, ["20090101T0000.nc"]);
    }
}
