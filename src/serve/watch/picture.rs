//! A map of the newest forecast of a model.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;

use crate::error::{Error, Result};
use crate::io::{coastlines, forecast_file};
use crate::report::encode::small_png;
use crate::report::map::{Field, Map, Shading, draw, usual_contours};
use crate::report::names::{moment, quantity_name};
use crate::report::scale::{Scale, Sense};
use crate::report::view::Line;
use crate::time::valid_time;

/// [pixels]
const WIDTH: usize = 480;

/// Maps that were drawn: one for each model, with the digest of its forecast.
#[derive(Default)]
pub struct Maps(Mutex<HashMap<String, (String, Bytes)>>);

impl Maps {
    /// The map of a model's forecast, drawn where it is another one than the last time.
    pub fn of_forecast(&self, model: &str, digest: &str, path: &Path) -> Result<Bytes> {
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, map)) = maps.get(model).filter(|(known, _)| known == digest) {
            return Ok(map.clone());
        }
        let map = Bytes::from(of_forecast(path)?);
        maps.insert(model.into(), (digest.into(), map.clone()));
        Ok(map)
    }
}

/// The first quantity of a forecast at its last lead, as PNG.
fn of_forecast(path: &Path) -> Result<Vec<u8>> {
    let mut reader = forecast_file::open(path)?;
    let last = reader.leads().len().saturating_sub(1);
    let state = reader.read(last)?;
    let lead = reader.leads()[last];
    let quantity = state.layout.quantities.first();
    let quantity = quantity.ok_or_else(|| Error::run(format!("{} holds no field", path.display())))?;
    let values: Vec<f32> = state.channel(0).iter().copied().collect();
    let scale = Scale::fit(quantity, "", Sense::Value, values.iter().copied());
    let lines: Vec<Line> = coastlines::rings()?;
    let picture = draw(&Map {
        title: quantity_name(quantity, None),
        notes: vec![format!("{} from {}", moment(valid_time(reader.init(), lead)), moment(reader.init().0))],
        field: Field { grid: &state.layout.grid, values: &values },
        scale: &scale,
        shading: Shading::Bands,
        contours: usual_contours(quantity, &scale),
        coastlines: &lines,
        width: WIDTH,
        text: WIDTH as f64 / 26.0,
    });
    small_png(&picture)
}
