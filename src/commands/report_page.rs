//! What the report of a verification is made of: scores, maps of one forecast, and the curve of the training.

use std::path::Path;

use serde::Deserialize;

use crate::commands::scoring::Example;
use crate::error::{Context, Result};
use crate::io::coastlines;
use crate::report::{CurvePoint, MapSet, Report};
use crate::time::LeadTime;
use crate::verify::Scores;

/// Maps of more quantities or leads than these make a page that nobody scrolls through.
const MOST_QUANTITIES: usize = 4;
const MOST_LEADS: usize = 3;

/// The page's contents; `run` is the folder of the run, where there is one.
pub fn report(scores: &Scores, example: &Example, run: Option<&Path>) -> Result<Report> {
    let title = match run.and_then(Path::file_name) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => scores.competitors.first().cloned().unwrap_or_default(),
    };
    let mut provenance = vec![
        ("wxsim".into(), env!("CARGO_PKG_VERSION").into()),
        ("command".into(), std::env::args().collect::<Vec<String>>().join(" ")),
        (
            "maps".into(),
            format!(
                "the forecast from {}, the middle one of the test span, whatever it was like",
                example.init
            ),
        ),
    ];
    if let Some(run) = run {
        provenance.extend(facts(run));
    }
    Ok(Report {
        title,
        scores: scores.clone(),
        maps: maps(example),
        curve: run.map(curve).transpose()?.unwrap_or_default(),
        provenance,
        coastlines: coastlines::rings()?,
    })
}

/// Maps of the first, the middle and the last lead.
fn maps(example: &Example) -> Vec<MapSet> {
    let last = example.states.len().saturating_sub(1);
    let mut chosen = vec![0, last / 2, last];
    chosen.dedup();
    let chosen: Vec<_> = chosen.into_iter().take(MOST_LEADS).filter_map(|i| example.states.get(i)).collect();
    let Some((_, first, _)) = chosen.first() else { return Vec::new() };
    let layout = &first.layout;
    let mut maps = Vec::new();
    for (channel, quantity) in layout.quantities.iter().enumerate().take(MOST_QUANTITIES) {
        for (lead, forecast, truth) in &chosen {
            // The forecast may hold fewer quantities than the analysis.
            let Some(there) = truth.layout.quantities.iter().position(|q| q == quantity) else { continue };
            maps.push(MapSet {
                quantity: quantity.clone(),
                units: quantity.variable().map_or_else(String::new, |v| v.units.to_string()),
                grid: layout.grid.clone(),
                init: example.init,
                lead: LeadTime { seconds: lead.seconds },
                forecast: forecast.channel(channel).iter().copied().collect(),
                truth: truth.channel(there).iter().copied().collect(),
            });
        }
    }
    maps
}

/// A line of `metrics.jsonl`, as far as a picture needs it.
#[derive(Deserialize)]
struct Line {
    step: u64,
    kind: String,
    #[serde(default)]
    loss: Option<f64>,
    #[serde(default)]
    learning_rate: Option<f64>,
}

/// The curve of a training; empty for a run that kept none. A line that does not read (the last one of a run that is
/// still being written) is left out.
fn curve(run: &Path) -> Result<Vec<CurvePoint>> {
    let path = run.join("metrics.jsonl");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    Ok(lines
        .map(|line| CurvePoint {
            step: line.step,
            validation: line.kind == "validation",
            loss: line.loss,
            learning_rate: line.learning_rate,
        })
        .collect())
}

/// The plain facts of `run.json`.
fn facts(run: &Path) -> Vec<(String, String)> {
    let mut facts = vec![("run".into(), run.display().to_string())];
    let text = std::fs::read_to_string(run.join("run.json")).unwrap_or_default();
    if let Ok(serde_json::Value::Object(table)) = serde_json::from_str(&text) {
        for (name, value) in table {
            match value {
                serde_json::Value::String(text) => facts.push((name, text)),
                serde_json::Value::Number(number) => facts.push((name, number.to_string())),
                _ => {}
            }
        }
    }
    facts
}
