//! The page: one HTML file without scripts or anything from outside, in light and dark and on paper.

use std::fmt::Write as _;

use crate::error::Result;
use crate::report::headline::{certainty, verdict, weighted};
use crate::report::words::MEANINGS;
use crate::report::{Report, charts, figures, tables};
use crate::verify::{Scores, WHOLE_GRID};

/// Text as it may stand in HTML, also inside quoted attributes. Control characters, which no HTML may hold, go.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Bytes as base64 (RFC 4648, section 4), for data URIs.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |all, b| all << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let six = (bits >> (18 - 6 * place)) & 63;
            out.push(if place > group.len() { '=' } else { char::from(LETTERS[six as usize]) });
        }
    }
    out
}

/// The whole page.
pub fn page(report: &Report) -> Result<String> {
    let scores = &report.scores;
    let title = escape(&report.title);
    let sections = [
        ("card", "Score card", card_section(scores)),
        ("leads", "Scores by lead time", charts::by_lead(scores)),
        ("maps", "Maps", figures::maps(&report.maps, &report.coastlines)?),
        ("spectra", "Energy spectra", charts::spectra(scores)),
        ("training", "Training", charts::training(&report.curve)),
        ("numbers", "All numbers", numbers_section(scores)),
        ("reading", "How to read this", reading_section(scores)),
        ("provenance", "Where it comes from", provenance_section(report)),
    ];
    let sections: Vec<_> = sections.into_iter().filter(|s| !s.2.is_empty()).collect();
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title><style>{}</style></head>\n<body><header>",
        include_str!("report.css")
    );
    let _ = write!(
        html,
        "<p class=\"kicker\">Forecast verification</p><h1>{title}</h1><p class=\"verdict\">{}</p>",
        escape(&verdict(scores))
    );
    facts(&mut html, scores);
    html.push_str("<nav>");
    for (id, name, _) in &sections {
        let _ = write!(html, "<a href=\"#{id}\">{name}</a>");
    }
    html.push_str("</nav></header>\n<main>");
    for (id, name, body) in &sections {
        let _ = write!(html, "\n<section id=\"{id}\"><h2>{name}</h2>{body}</section>");
    }
    let _ = write!(html, "\n</main>\n<footer>wxsim {}</footer></body></html>\n", env!("CARGO_PKG_VERSION"));
    Ok(html)
}

/// What was compared, in a row of small boxes.
fn facts(html: &mut String, scores: &Scores) {
    let leads = tables::leads(scores.entries.iter().map(|e| e.lead_hours));
    let reach = leads.last().map(|h| crate::report::names::lead_hours(*h).replace('+', ""));
    let climatology =
        if scores.climatology.is_empty() { "none".to_string() } else { scores.climatology.clone() };
    let baselines = scores.competitors.get(1..).unwrap_or_default().join(", ");
    let items = [
        ("Test span", scores.test_span.replace("..", " to before ")),
        ("Initial times", scores.initial_times.to_string()),
        ("Lead times", reach.map_or(String::new(), |r| format!("{}, up to {r}", leads.len()))),
        ("Compared with", baselines),
        ("Anomalies from", climatology),
    ];
    html.push_str("<dl class=\"facts\">");
    for (name, value) in items.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    }
    html.push_str("</dl>");
}

fn card_section(scores: &Scores) -> String {
    let card = tables::score_card(scores);
    if card.is_empty() {
        return card;
    }
    let how = if weighted(scores) { "area-weighted" } else { "unweighted" };
    let mut html = format!(
        "<p>Change of the {how} RMSE against each baseline, over the whole grid. \
         <span class=\"key better3\">Blue</span> is a smaller error than the baseline's, \
         <span class=\"key worse3\">red</span> a larger one; <b>bold and underlined</b> where the 95 % interval leaves out zero.</p>{card}\
         <p>Counted over all cases, a case being one quantity at one lead time:</p><ul class=\"plain\">"
    );
    for sentence in certainty(scores) {
        let _ = write!(html, "<li>{}</li>", escape(&sentence));
    }
    html + "</ul>"
}

fn numbers_section(scores: &Scores) -> String {
    let mut html = String::new();
    for quantity in tables::distinct(scores.entries.iter().map(|e| &e.quantity)) {
        let name = crate::report::words::scored_name(quantity);
        for region in tables::distinct(scores.entries.iter().map(|e| &e.region)) {
            let table = tables::score_table(scores, quantity, region);
            if table.is_empty() {
                continue;
            }
            let place = if region == WHOLE_GRID { "whole grid" } else { region.as_str() };
            let _ = write!(
                html,
                "<details><summary>{} <span>{}</span></summary>{table}{}</details>",
                escape(&name),
                escape(place),
                tables::difference_table(scores, quantity, region)
            );
        }
    }
    if html.is_empty() {
        return html;
    }
    format!(
        "<p>Values with their 95 % intervals in small print; the best of each column in bold, and differences whose \
         interval leaves out zero. The same numbers, with all digits, are in <code>scores.json</code> and \
         <code>scores.csv</code> beside this page.</p>{html}"
    )
}

fn reading_section(scores: &Scores) -> String {
    let mut html = String::from("<dl class=\"words\">");
    for (name, meaning) in MEANINGS {
        let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(meaning));
    }
    html.push_str("</dl>");
    if !scores.notes.is_empty() {
        html.push_str("<h3>Notes on this verification</h3><ul class=\"plain\">");
        for note in &scores.notes {
            let _ = write!(html, "<li>{}</li>", escape(note));
        }
        html.push_str("</ul>");
    }
    html
}

fn provenance_section(report: &Report) -> String {
    let mut html = String::new();
    for (name, value) in &report.provenance {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value));
    }
    if html.is_empty() { html } else { format!("<dl class=\"provenance\">{html}</dl>") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_vectors_of_the_standard() {
        // RFC 4648, section 10
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn escaped_text_can_neither_open_a_tag_nor_leave_an_attribute() {
        assert_eq!(escape("<a href='x' b=\"&\">\0"), "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt; ");
    }
}
