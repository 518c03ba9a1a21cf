//! Maps of forecast, truth and error for a page, as PNG inside it.

use std::fmt::Write as _;

use crate::error::{Error, Result};
use crate::report::MapSet;
use crate::report::encode::small_png;
use crate::report::html::{base64, escape};
use crate::report::map::{Field, Map, Shading, draw, usual_contours};
use crate::report::names::{capitalised, lead_hours, moment, quantity_name};
use crate::report::scale::{Scale, Sense};
use crate::report::view::Line;
use crate::time::valid_time;

/// Pixels of a map's width; the page shows it at about six tenths of that, so that it is sharp on any screen.
const WIDTH: usize = 600;

/// All map sets, those of one quantity under one heading and in one colour scale.
pub fn maps(sets: &[MapSet], coastlines: &[Line]) -> Result<String> {
    let mut html = String::new();
    let mut done: Vec<&crate::variable::Quantity> = Vec::new();
    for first in sets {
        if done.contains(&&first.quantity) {
            continue;
        }
        done.push(&first.quantity);
        let family: Vec<&MapSet> = sets.iter().filter(|s| s.quantity == first.quantity).collect();
        for set in &family {
            check(set)?;
        }
        let values = family.iter().flat_map(|s| s.forecast.iter().chain(&s.truth)).copied();
        let scale = Scale::fit(&first.quantity, &first.units, Sense::Value, values);
        let errors: Vec<Vec<f32>> = family.iter().map(|s| difference(s)).collect();
        let error_scale =
            Scale::fit(&first.quantity, &first.units, Sense::Difference, errors.iter().flatten().copied());
        let name = capitalised(&quantity_name(&first.quantity, None));
        let _ = write!(
            html,
            "<h3>{}</h3><p>Forecast from {}. Forecast and truth share their colours; the error is forecast minus truth.</p>",
            escape(&name),
            escape(&moment(first.init.0))
        );
        for (set, error) in family.iter().zip(&errors) {
            let lead = lead_hours(set.lead.hours());
            let valid = moment(valid_time(set.init, set.lead));
            let _ = write!(
                html,
                "<h4>{} <span>valid {}</span></h4><div class=\"maps\">",
                escape(&lead),
                escape(&valid)
            );
            let panels = [
                ("Forecast", set.forecast.as_slice(), &scale),
                ("Truth", set.truth.as_slice(), &scale),
                ("Error", error.as_slice(), &error_scale),
            ];
            for (panel, values, scale) in panels {
                let picture = draw(&Map {
                    title: String::new(),
                    notes: Vec::new(),
                    field: Field { grid: &set.grid, values },
                    scale,
                    shading: Shading::Bands,
                    contours: match panel {
                        "Error" => Vec::new(),
                        _ => usual_contours(&set.quantity, scale),
                    },
                    coastlines,
                    width: WIDTH,
                    text: WIDTH as f64 / 26.0,
                });
                let _ = write!(
                    html,
                    "<figure><figcaption>{panel}</figcaption><img width=\"{}\" height=\"{}\" alt=\"{panel} of {}, {}\" \
                     src=\"data:image/png;base64,{}\"></figure>",
                    picture.width / 2,
                    picture.height / 2,
                    escape(&name),
                    escape(&lead),
                    base64(&small_png(&picture)?)
                );
            }
            html.push_str("</div>");
        }
    }
    Ok(html)
}

fn difference(set: &MapSet) -> Vec<f32> {
    set.forecast.iter().zip(&set.truth).map(|(f, t)| f - t).collect()
}

fn check(set: &MapSet) -> Result<()> {
    let points = set.grid.points();
    if set.forecast.len() == points && set.truth.len() == points {
        return Ok(());
    }
    Err(Error::run(format!(
        "maps of {}: the grid has {points} points, the forecast {} and the truth {}",
        set.quantity,
        set.forecast.len(),
        set.truth.len()
    )))
}
