//! The charts of a report: scores by lead, spectra, training.

use std::fmt::Write as _;

use crate::report::CurvePoint;
use crate::report::chart::{Axis, Chart, Point, Series, class, mark};
use crate::report::headline::weighted;
use crate::report::html::escape;
use crate::report::names::lead_hours;
use crate::report::scale::readable;
use crate::report::tables::{distinct, leads};
use crate::report::words::scored_name;
use crate::verify::{Difference, Score, Scores, WHOLE_GRID};

/// The metrics that have a chart: (name, title, value that is always on the axis).
const CHARTED: [(&str, &str, &[f64]); 6] = [
    ("rmse", "RMSE", &[0.0]),
    ("vector_rmse", "RMSE of the wind vector", &[0.0]),
    ("acc", "Anomaly correlation", &[1.0]),
    ("bias", "Bias", &[0.0]),
    ("mae", "MAE", &[0.0]),
    ("s1", "S1 score", &[0.0]),
];

/// For each quantity: its scores against lead time for all competitors, and the differences to the baselines.
pub fn by_lead(scores: &Scores) -> String {
    let by_weight = weighted(scores);
    let entries: Vec<&Score> =
        scores.entries.iter().filter(|e| e.region == WHOLE_GRID && e.weighted == by_weight).collect();
    if entries.is_empty() {
        return String::new();
    }
    let how = if by_weight { "Area-weighted" } else { "Unweighted" };
    let mut html = format!("<p>{how}, over the whole grid; the shaded bands are 95 % intervals.</p>");
    html.push_str(&legend(&scores.competitors));
    for quantity in distinct(entries.iter().map(|e| &e.quantity)) {
        let mine: Vec<&Score> = entries.iter().copied().filter(|e| e.quantity == *quantity).collect();
        let _ = write!(html, "<h3>{}</h3><div class=\"charts\">", escape(&scored_name(quantity)));
        for (metric, title, also) in CHARTED {
            let of_metric: Vec<&Score> = mine.iter().copied().filter(|e| e.metric == metric).collect();
            if of_metric.is_empty() {
                continue;
            }
            html.push_str(&score_chart(&scores.competitors, &of_metric, title, also).svg());
            if matches!(metric, "rmse" | "vector_rmse") {
                html.push_str(&difference_chart(scores, quantity, metric, by_weight));
            }
        }
        html.push_str("</div>");
    }
    html
}

fn score_chart(competitors: &[String], entries: &[&Score], title: &str, also: &[f64]) -> Chart {
    let series: Vec<Series> = competitors
        .iter()
        .enumerate()
        .map(|(style, name)| {
            let mut points: Vec<Point> = entries
                .iter()
                .filter(|e| e.competitor == *name)
                .map(|e| Point {
                    x: e.lead_hours,
                    y: e.value.unwrap_or(f64::NAN),
                    interval: e.low.zip(e.high),
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            Series { name: name.clone(), style: Some(style), points }
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let units = entries.first().map_or(String::new(), |e| readable(&e.units));
    Chart {
        title: title.into(),
        x: Axis::leads(entries.iter().map(|e| e.lead_hours)),
        y: Axis::linear(&units, series.iter().flat_map(heights), also),
        series,
        reference: (title == "Bias").then_some(0.0),
    }
}

fn heights(series: &Series) -> impl Iterator<Item = f64> {
    series.points.iter().flat_map(|p| {
        let (low, high) = p.interval.unwrap_or((p.y, p.y));
        [p.y, low, high]
    })
}

fn difference_chart(scores: &Scores, quantity: &str, metric: &str, by_weight: bool) -> String {
    let Some(model) = scores.competitors.first() else { return String::new() };
    let found: Vec<&Difference> = scores
        .differences
        .iter()
        .filter(|d| {
            d.competitor == *model
                && d.quantity == quantity
                && d.metric == metric
                && d.region == WHOLE_GRID
                && d.weighted == by_weight
        })
        .collect();
    if found.is_empty() {
        return String::new();
    }
    let series: Vec<Series> = distinct(found.iter().map(|d| &d.baseline))
        .into_iter()
        .map(|baseline| {
            let mut points: Vec<Point> = found
                .iter()
                .filter(|d| d.baseline == *baseline)
                .map(|d| Point {
                    x: d.lead_hours,
                    y: d.value.unwrap_or(f64::NAN),
                    interval: d.low.zip(d.high),
                })
                .collect();
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            // the colour that the baseline has in the other charts
            let style = scores.competitors.iter().position(|c| c == baseline).unwrap_or(7);
            Series { name: format!("{model} − {baseline}"), style: Some(style), points }
        })
        .collect();
    let units = scores
        .entries
        .iter()
        .find(|e| e.quantity == quantity && e.metric == metric)
        .map_or(String::new(), |e| readable(&e.units));
    let chart = Chart {
        title: "RMSE minus the baseline's (below 0: it wins)".into(),
        x: Axis::leads(found.iter().map(|d| d.lead_hours)),
        y: Axis::linear(&units, series.iter().flat_map(heights), &[0.0]),
        series,
        reference: Some(0.0),
    };
    chart.svg()
}

fn legend(names: &[String]) -> String {
    entries(names.iter().enumerate().map(|(i, name)| (Some(i), name.as_str())))
}

fn entries<'a>(names: impl Iterator<Item = (Option<usize>, &'a str)>) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for (style, name) in names {
        let class = class(style);
        let _ = write!(
            html,
            "<li><svg viewBox=\"0 0 30 12\" aria-hidden=\"true\"><path class=\"line {class}\" d=\"M1 6H29\"/>\
             <g class=\"mark {class}\">{}</g></svg>{}</li>",
            mark(style, 15.0, 6.0),
            escape(name)
        );
    }
    html + "</ul>"
}

/// Spectra of forecasts and truth at the first, a middle and the last lead.
pub fn spectra(scores: &Scores) -> String {
    let with_lead: Vec<_> = scores.spectra.iter().filter(|s| !s.wavelength_km.is_empty()).collect();
    if with_lead.is_empty() {
        return String::new();
    }
    let styles = scores.competitors.iter().enumerate().map(|(i, name)| (Some(i), name.as_str()));
    let present = |name: &str| with_lead.iter().any(|s| s.competitor == name);
    let mut html = String::from(
        "<p>Energy by wavelength along circles of latitude, largest waves on the left. Where a forecast's line falls \
         below the truth's, it is too smooth.</p>",
    );
    html.push_str(&entries(styles.chain([(None, "truth")]).filter(|(_, name)| present(name))));
    for quantity in distinct(with_lead.iter().map(|s| &s.quantity)) {
        let mine: Vec<_> = with_lead.iter().filter(|s| s.quantity == *quantity).collect();
        let _ = write!(html, "<h3>{}</h3><div class=\"charts\">", escape(&scored_name(quantity)));
        for lead in some_of(&leads(mine.iter().map(|s| s.lead_hours))) {
            let at_lead: Vec<_> = mine.iter().filter(|s| (s.lead_hours - lead).abs() < 1e-6).collect();
            let series: Vec<Series> = at_lead
                .iter()
                .map(|s| Series {
                    name: s.competitor.clone(),
                    style: scores.competitors.iter().position(|c| *c == s.competitor),
                    points: s
                        .wavelength_km
                        .iter()
                        .zip(&s.energy)
                        .map(|(x, y)| Point {
                            x: *x,
                            y: if *y > 0.0 { *y } else { f64::NAN },
                            interval: None,
                        })
                        .collect(),
                })
                .collect();
            let values = |pick: fn(&Point) -> f64| series.iter().flat_map(move |s| s.points.iter().map(pick));
            let mut x = Axis::logarithmic("wavelength (km)", values(|p| p.x));
            x.reversed = true;
            let y = Axis::logarithmic("energy", values(|p| p.y));
            let title = format!("Spectrum at {}", lead_hours(lead));
            html.push_str(&Chart { title, x, y, series, reference: None }.svg());
        }
        html.push_str("</div>");
    }
    html
}

/// First, middle and last.
fn some_of(leads: &[f64]) -> Vec<f64> {
    match leads {
        [] | [_] | [_, _] | [_, _, _] => leads.to_vec(),
        _ => vec![leads[0], leads[leads.len() / 2], leads[leads.len() - 1]],
    }
}

/// Loss and learning rate against updates.
pub fn training(curve: &[CurvePoint]) -> String {
    const MOST: usize = 500;
    let series = |name: &str, style: usize, value: &dyn Fn(&CurvePoint) -> Option<f64>| {
        let all: Vec<Point> = curve
            .iter()
            .filter_map(|p| value(p).map(|y| Point { x: p.step as f64, y, interval: None }))
            .collect();
        let every = all.len().div_ceil(MOST).max(1);
        Series { name: name.into(), style: Some(style), points: all.into_iter().step_by(every).collect() }
    };
    let loss = [
        series("validation loss", 0, &|p| p.loss.filter(|_| p.validation)),
        series("training loss", 6, &|p| p.loss.filter(|_| !p.validation)),
    ];
    let rate = [series("learning rate", 3, &|p| p.learning_rate.filter(|_| !p.validation))];
    let mut html = String::new();
    for (title, series, logarithmic) in
        [("Loss", loss.as_slice(), true), ("Learning rate", rate.as_slice(), false)]
    {
        let values = || series.iter().flat_map(|s| s.points.iter());
        if values().next().is_none() {
            continue;
        }
        let heights = values().map(|p| p.y);
        let y = if logarithmic { Axis::logarithmic("", heights) } else { Axis::linear("", heights, &[0.0]) };
        let x = Axis::linear("updates", values().map(|p| p.x), &[0.0]);
        let series = series.iter().filter(|s| !s.points.is_empty()).cloned().collect();
        html.push_str(&Chart { title: title.into(), x, y, series, reference: None }.svg());
    }
    if html.is_empty() {
        return html;
    }
    let names = [(Some(0), "validation loss"), (Some(6), "training loss"), (Some(3), "learning rate")];
    format!("{}<div class=\"charts\">{html}</div>", entries(names.into_iter()))
}
