//! An exported graph as a `Stepper`, run by ONNX Runtime on the processor: what other programs will see of it.

use std::sync::Arc;

use super::onnx::{Extent, names};
use super::onnxruntime::{Fed, Loaded, OnnxRuntime};
use super::trained::Trained;
use crate::error::{Error, Result};
use crate::field::State;
use crate::stepper::{Stepper, StepperInfo};

/// Forecasts with the graph of a network.
pub struct OnnxForecaster {
    trained: Arc<Trained>,
    graph: Loaded,
    extent: Extent,
}

/// A forecast under way.
pub struct Progress {
    analysis: State,
    steps: usize,
    /// What the graph gives for a lead, and is fed with; of a whole forecast, all leads one after another.
    y: Vec<f32>,
    memories: Vec<Vec<f32>>,
}

impl OnnxForecaster {
    /// `graph` are the bytes that `onnx::encode` made of the same network and extent.
    pub fn new(
        trained: Arc<Trained>,
        runtime: &OnnxRuntime,
        graph: &[u8],
        extent: Extent,
        threads: usize,
    ) -> Result<Self> {
        Ok(Self { trained, graph: runtime.load(graph, threads)?, extent })
    }

    /// `[1, hidden, row, column]`
    fn memory_shapes(&self) -> Vec<Vec<usize>> {
        let Trained { architecture, geometry, .. } = &*self.trained;
        let (rows, columns) = geometry.inner(architecture.patch);
        architecture
            .hidden
            .iter()
            .flat_map(|&hidden| [(); 2].map(|()| vec![1, hidden, rows, columns]))
            .collect()
    }

    /// The step from `x`, which belongs to the time `step` steps after the analysis (before it where negative).
    fn advance(
        &mut self,
        analysis: &State,
        step: isize,
        x: &[f32],
        memories: &mut Vec<Vec<f32>>,
    ) -> Result<Vec<f32>> {
        let trained = self.trained.clone();
        let offset = trained.info.step.times(step.unsigned_abs());
        let from = analysis.valid.after(if step < 0 { offset.negative() } else { offset });
        let until = from.after(trained.info.step);
        let (rows, columns, channels) = trained.info.layout.shape();
        let field = vec![1, rows, columns, channels];
        let forcings = trained.raw_forcings(from);
        let normals = [trained.normalizer.climatology_at(from)?, trained.normalizer.climatology_at(until)?];
        let names_of = names::memories(trained.architecture.hidden.len());
        let mut inputs: Vec<Fed<'_>> = vec![(names::X, field.clone(), x)];
        if !forcings.is_empty() {
            inputs.push((names::FORCINGS, vec![1, rows, columns, trained.architecture.forcings], &forcings));
        }
        for (name, normal) in [names::CLIMATOLOGY, names::CLIMATOLOGY_NEXT].into_iter().zip(&normals) {
            inputs.extend(normal.as_ref().map(|normal| (name, field.clone(), &normal[..])));
        }
        for ((name, shape), memory) in names_of.iter().zip(self.memory_shapes()).zip(&*memories) {
            inputs.push((name, shape, memory));
        }
        let wanted: Vec<String> = std::iter::once(names::Y.to_string())
            .chain(names_of.iter().map(|name| names::next(name)))
            .collect();
        let mut given = self.graph.run(&inputs, &wanted)?;
        let y = given.remove(0);
        *memories = given;
        Ok(y)
    }

    /// All leads of a whole forecast.
    fn whole(&mut self, analyses: &[State], leads: usize) -> Result<Vec<f32>> {
        let trained = &self.trained;
        let first = analyses.first().ok_or_else(|| Error::input("a forecast needs an analysis"))?.valid;
        let frames = analyses.len();
        let at = |step: usize| first.after(trained.info.step.times(step));
        let (rows, columns, channels) = trained.info.layout.shape();
        let series = |count: usize, channels: usize| vec![1, count, rows, columns, channels];
        let x: Vec<f32> = analyses.iter().flat_map(|state| trained.fed(state)).collect();
        let steps = frames + leads - 1;
        let forcings: Vec<f32> = (0..steps).flat_map(|step| trained.raw_forcings(at(step))).collect();
        let normals = |steps: std::ops::Range<usize>| -> Result<Vec<f32>> {
            let all: Result<Vec<_>> = steps.map(|step| trained.normalizer.climatology_at(at(step))).collect();
            Ok(all?.into_iter().flatten().flatten().collect())
        };
        let (known, ahead) = (normals(0..frames)?, normals(frames..frames + leads)?);
        let mut inputs: Vec<Fed<'_>> = vec![(names::X, series(frames, channels), &x)];
        if !forcings.is_empty() {
            inputs.push((names::FORCINGS, series(steps, trained.architecture.forcings), &forcings));
        }
        if trained.normalizer.has_climatology() {
            inputs.push((names::CLIMATOLOGY, series(frames, channels), &known));
            inputs.push((names::CLIMATOLOGY_NEXT, series(leads, channels), &ahead));
        }
        Ok(self.graph.run(&inputs, &[names::Y.to_string()])?.remove(0))
    }
}

impl Stepper for OnnxForecaster {
    type Inner = Progress;

    fn info(&self) -> &StepperInfo {
        &self.trained.info
    }

    fn start(&mut self, analyses: &[State]) -> Result<Progress> {
        self.trained.check(analyses)?;
        let (last, before) =
            analyses.split_last().ok_or_else(|| Error::input("a forecast needs an analysis"))?;
        if let Extent::Forecast(leads) = self.extent {
            let y = self.whole(analyses, leads)?;
            return Ok(Progress { analysis: last.clone(), steps: 0, y, memories: Vec::new() });
        }
        let mut memories: Vec<Vec<f32>> =
            self.memory_shapes().iter().map(|shape| vec![0.0; shape.iter().product()]).collect();
        for (frame, state) in before.iter().enumerate() {
            let step = frame as isize - before.len() as isize;
            self.advance(last, step, &self.trained.fed(state), &mut memories)?;
        }
        Ok(Progress { analysis: last.clone(), steps: 0, y: self.trained.fed(last), memories })
    }

    fn step(&mut self, progress: &mut Progress) -> Result<()> {
        match self.extent {
            Extent::Step => {
                let Progress { analysis, steps, y, memories } = progress;
                *y = self.advance(analysis, *steps as isize, y, memories)?;
            }
            Extent::Forecast(leads) if progress.steps == leads => {
                return Err(Error::input(format!("the graph holds {leads} steps and no more")));
            }
            Extent::Forecast(_) => {}
        }
        progress.steps += 1;
        Ok(())
    }

    fn observe(&self, progress: &Progress) -> Result<State> {
        let Progress { analysis, steps, y, .. } = progress;
        if *steps == 0 {
            return Ok(analysis.clone());
        }
        let lead = match self.extent {
            Extent::Step => 0,
            Extent::Forecast(_) => steps - 1,
        };
        let len = analysis.values.len();
        let valid = analysis.valid.after(self.trained.info.step.times(*steps));
        self.trained.published(y[lead * len..(lead + 1) * len].to_vec(), valid)
    }
}
