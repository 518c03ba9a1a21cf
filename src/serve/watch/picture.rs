//! A map of the newest forecast of a model.

use std::path::Path;

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

/// The first quantity of a forecast at its last lead, as PNG.
pub fn of_forecast(path: &Path) -> Result<Vec<u8>> {
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
