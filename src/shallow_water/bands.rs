//! A layer of the whole globe on several devices, each of which steps a band of its rows.

use std::ops::Range;
use std::panic::resume_unwind;

use super::plan::Scheme;
use super::{Fields, Layer, ShallowWater};
use crate::device::{Device, HALO, Real};
use crate::error::{Error, Result};

/// One layer in motion, wherever its rows are.
pub struct Bands<T: Real> {
    /// From the first row on.
    models: Vec<ShallowWater<T>>,
}

impl<T: Real> Bands<T> {
    /// A band for each of `devices`, which are each other's [company](Device::company) where they are several.
    pub fn new(layer: &Layer, scheme: Scheme, dt: f64, devices: Vec<Box<dyn Device<T>>>) -> Result<Self> {
        let (rows, count) = (layer.sphere.rows, devices.len());
        // Enough beside a pole.
        let least = HALO + 1;
        if count > 1 && rows < least * count {
            return Err(Error::input(format!("{rows} rows cannot be shared by {count} devices"))
                .hint(format!("each holds at least {least}: {} are the most", (rows / least).max(1))));
        }
        let bands: Vec<Range<usize>> = (0..count).map(|n| rows * n / count..rows * (n + 1) / count).collect();
        let make = match scheme {
            Scheme::RungeKutta4 => ShallowWater::of_band,
            Scheme::SemiImplicit => ShallowWater::semi_implicit_of_band,
        };
        let one = |(own, device)| make(layer.clone(), &bands, own, dt, device);
        let models = at_once(devices.into_iter().enumerate().collect(), one);
        Ok(Self { models: models.into_iter().collect::<Result<_>>()? })
    }

    /// All on one device.
    pub fn one(model: ShallowWater<T>) -> Self {
        Self { models: vec![model] }
    }

    /// Starts from `fields` at time 0.
    pub fn start(&mut self, fields: &Fields) -> Result<()> {
        self.all(|model| model.start(fields))
    }

    /// As [`ShallowWater::advance`].
    pub fn advance(&mut self, steps: usize) -> Result<()> {
        self.all(|model| model.advance(steps))
    }

    pub fn fields(&self) -> Fields {
        let (mut u, mut v, mut h) = (Vec::new(), Vec::new(), Vec::new());
        for band in self.models.iter().map(ShallowWater::fields) {
            u.extend(band.u);
            v.extend(band.v);
            h.extend(band.h);
        }
        Fields { u, v, h }
    }

    /// Does the same with all models. Where one has failed, others may fail later because of it: the first failure counts.
    fn all(&mut self, work: impl Fn(&mut ShallowWater<T>) -> Result<()> + Sync) -> Result<()> {
        let results = at_once(self.models.iter_mut().collect(), |model| {
            work(model).map_err(|error| (model.steps(), error))
        });
        let first = results.into_iter().filter_map(Result::err).min_by_key(|(steps, _)| *steps);
        first.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// Does `work` on a thread for each item, or here where there is one.
fn at_once<W: Send, R: Send>(items: Vec<W>, work: impl Fn(W) -> R + Sync) -> Vec<R> {
    if items.len() == 1 {
        return items.into_iter().map(work).collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
