//! The numbers of a report as HTML tables: the score card, and every score and difference there is.

use std::fmt::Write as _;

use crate::report::chart::figure;
use crate::report::headline::{is_sure, weighted};
use crate::report::html::escape;
use crate::report::names::lead_hours;
use crate::report::scale::readable;
use crate::report::words::{metric_name, scored_name};
use crate::verify::{Difference, Score, Scores, WHOLE_GRID};

/// The lead times that occur, ascending, in hours.
pub fn leads(hours: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut leads: Vec<f64> = hours.filter(|h| h.is_finite()).collect();
    leads.sort_by(f64::total_cmp);
    leads.dedup_by(|a, b| (*a - *b).abs() < 1e-6);
    leads
}

/// The labels that occur, in the order of their first appearance.
pub fn distinct<'a>(labels: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut seen: Vec<&String> = Vec::new();
    for label in labels {
        if !seen.contains(&label) {
            seen.push(label);
        }
    }
    seen
}

fn same_lead(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

fn header(first: &str, leads: &[f64]) -> String {
    let cells: String = leads.iter().map(|h| format!("<th scope=\"col\">{}</th>", lead_hours(*h))).collect();
    format!("<thead><tr><th scope=\"col\">{first}</th>{cells}</tr></thead>")
}

/// Change of the RMSE against each baseline in percent, coloured: blue is better.
pub fn score_card(scores: &Scores) -> String {
    let Some(model) = scores.competitors.first() else { return String::new() };
    let by_weight = weighted(scores);
    let of_interest: Vec<&Difference> = scores
        .differences
        .iter()
        .filter(|d| {
            d.competitor == *model
                && d.region == WHOLE_GRID
                && d.weighted == by_weight
                && matches!(d.metric.as_str(), "rmse" | "vector_rmse")
        })
        .collect();
    let leads = leads(of_interest.iter().map(|d| d.lead_hours));
    let mut html = String::new();
    for baseline in distinct(of_interest.iter().map(|d| &d.baseline)) {
        let _ = write!(
            html,
            "<div class=\"scroll\"><table class=\"card\"><caption>Against {}</caption>{}<tbody>",
            escape(baseline),
            header("RMSE of", &leads)
        );
        for quantity in distinct(of_interest.iter().map(|d| &d.quantity)) {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&scored_name(quantity)));
            for lead in &leads {
                let found = of_interest.iter().find(|d| {
                    d.baseline == *baseline && d.quantity == *quantity && same_lead(d.lead_hours, *lead)
                });
                html.push_str(&found.map_or("<td></td>".into(), |d| card_cell(scores, d)));
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table></div>");
    }
    html
}

fn card_cell(scores: &Scores, d: &Difference) -> String {
    let model =
        scores.find(&d.competitor, &d.quantity, &d.metric, d.lead_hours, d.weighted).and_then(|s| s.value);
    let (Some(change), Some(model)) = (d.value, model) else { return "<td>–</td>".into() };
    let percent = 100.0 * change / (model - change);
    if !percent.is_finite() {
        return "<td>–</td>".into();
    }
    let side = if change < 0.0 { "better" } else { "worse" };
    let strength = (percent.abs() / 10.0).ceil().clamp(1.0, 4.0);
    let sure = if is_sure(d) { " sure" } else { "" };
    format!(
        "<td class=\"{side}{strength}{sure}\" title=\"{}\">{:+.1} %</td>",
        escape(&interval_text(d.value, d.low, d.high)),
        percent
    )
    .replace(">-", ">−")
}

fn interval_text(value: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
    let value = value.map_or("undefined".into(), figure);
    match low.zip(high) {
        Some((low, high)) => format!("{value}, 95 % interval {} to {}", figure(low), figure(high)),
        None => value,
    }
}

/// Every score of one quantity in one region: a row for each metric and competitor, a column for each lead.
pub fn score_table(scores: &Scores, quantity: &str, region: &str) -> String {
    let entries: Vec<&Score> =
        scores.entries.iter().filter(|e| e.quantity == quantity && e.region == region).collect();
    if entries.is_empty() {
        return String::new();
    }
    let leads = leads(entries.iter().map(|e| e.lead_hours));
    let mut html =
        format!("<div class=\"scroll\"><table class=\"numbers\">{}<tbody>", header("Score", &leads));
    for metric in distinct(entries.iter().map(|e| &e.metric)) {
        for by_weight in [true, false] {
            let rows: Vec<&Score> =
                entries.iter().copied().filter(|e| e.metric == *metric && e.weighted == by_weight).collect();
            let Some(first) = rows.first() else { continue };
            let _ = write!(
                html,
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{}{}, {}</th></tr>",
                leads.len() + 1,
                escape(metric_name(metric)),
                escape(&bracketed(&first.units)),
                weighting(by_weight)
            );
            for competitor in distinct(rows.iter().map(|e| &e.competitor)) {
                let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(competitor));
                for lead in &leads {
                    let found =
                        rows.iter().find(|e| e.competitor == *competitor && same_lead(e.lead_hours, *lead));
                    let best = found.is_some_and(|e| is_best(e, &rows));
                    html.push_str(&found.map_or("<td></td>".into(), |e| cell(e.value, e.low, e.high, best)));
                }
                html.push_str("</tr>");
            }
        }
    }
    html + "</tbody></table></div>"
}

/// Every difference of one quantity in one region.
pub fn difference_table(scores: &Scores, quantity: &str, region: &str) -> String {
    let differences: Vec<&Difference> =
        scores.differences.iter().filter(|d| d.quantity == quantity && d.region == region).collect();
    if differences.is_empty() {
        return String::new();
    }
    let leads = leads(differences.iter().map(|d| d.lead_hours));
    let mut html = format!(
        "<h4>Differences to the baselines</h4><div class=\"scroll\"><table class=\"numbers\">{}<tbody>",
        header("Score", &leads)
    );
    for metric in distinct(differences.iter().map(|d| &d.metric)) {
        for by_weight in [true, false] {
            let rows: Vec<&Difference> = differences
                .iter()
                .copied()
                .filter(|d| d.metric == *metric && d.weighted == by_weight)
                .collect();
            if rows.is_empty() {
                continue;
            }
            let _ = write!(
                html,
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{}, {}</th></tr>",
                leads.len() + 1,
                escape(metric_name(metric)),
                weighting(by_weight)
            );
            let mut pairs: Vec<(&String, &String)> = Vec::new();
            for d in &rows {
                if !pairs.contains(&(&d.competitor, &d.baseline)) {
                    pairs.push((&d.competitor, &d.baseline));
                }
            }
            for (competitor, baseline) in pairs {
                let _ =
                    write!(html, "<tr><th scope=\"row\">{} − {}</th>", escape(competitor), escape(baseline));
                for lead in &leads {
                    let found = rows.iter().find(|d| {
                        d.competitor == *competitor
                            && d.baseline == *baseline
                            && same_lead(d.lead_hours, *lead)
                    });
                    html.push_str(&found.map_or("<td></td>".into(), |d| {
                        let skill = d.skill.map_or(String::new(), |s| {
                            format!("<small>skill {}</small>", format!("{s:.3}").replace('-', "−"))
                        });
                        cell(d.value, d.low, d.high, is_sure(d)).replace("</td>", &format!("{skill}</td>"))
                    }));
                }
                html.push_str("</tr>");
            }
        }
    }
    html + "</tbody></table></div>"
}

fn weighting(weighted: bool) -> &'static str {
    if weighted { "area-weighted" } else { "all points alike" }
}

fn bracketed(units: &str) -> String {
    let units = readable(units);
    if units.is_empty() { units } else { format!(" [{units}]") }
}

fn cell(value: Option<f64>, low: Option<f64>, high: Option<f64>, strong: bool) -> String {
    let Some(value) = value else { return "<td>–</td>".into() };
    let number = if strong { format!("<b>{}</b>", figure(value)) } else { figure(value) };
    match low.zip(high) {
        Some((low, high)) => format!("<td>{number}<small>{} … {}</small></td>", figure(low), figure(high)),
        None => format!("<td>{number}</td>"),
    }
}

/// Whether no competitor has a better value of this metric at this lead.
fn is_best(score: &Score, rows: &[&Score]) -> bool {
    let rank = |value: f64| match score.metric.as_str() {
        "acc" | "acc_pooled" => -value,
        "bias" => value.abs(),
        _ => value,
    };
    let others = rows.iter().filter(|e| same_lead(e.lead_hours, score.lead_hours)).filter_map(|e| e.value);
    score.value.is_some_and(|mine| others.map(rank).all(|other| rank(mine) <= other))
}
