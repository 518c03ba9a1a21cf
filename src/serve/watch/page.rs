//! The status page: one HTML page without scripts or anything from elsewhere.

use std::fmt::Write as _;

use super::{Board, ModelBoard};
use crate::report::escape;
use crate::serve::ledger::{Cycle, CycleState, SeenFile};

/// What the page looks like, in the light and in the dark.
pub const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
    table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}td,th{padding:.25rem .6rem;text-align:left;\
    border-bottom:1px solid #8884;vertical-align:top}th{font-weight:600}.published{color:#18794e}.failed,.alarm{color:#c62a2f}\
    .missing{color:#ad5700}img{max-width:100%}.maps{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0}\
    @media(prefers-color-scheme:dark){body{background:#111;color:#eee}.published{color:#3dd68c}.failed,.alarm{color:#ff9592}\
    .missing{color:#ffa057}}";

/// The whole page; it asks to be loaded again every half minute.
pub fn page(board: &Board) -> String {
    let mut html = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"30\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>wxsim serve</title><link rel=\"stylesheet\" href=\"style.css\"></head><body>\
         <h1>wxsim serve</h1>",
    );
    let _ = write!(
        html,
        "<p>{} cycles wait for a device, {} files are being decoded{}.</p>",
        board.queued,
        board.decoding,
        board.devices.iter().fold(String::new(), |text, (device, cycles)| {
            format!("{text}, {} computes {cycles}", escape(device))
        })
    );
    alarms(&mut html, board);
    html.push_str("<div class=\"maps\">");
    for (name, model) in board.models.iter().filter(|(_, model)| model.newest.is_some()) {
        let name = escape(name);
        let init = model.newest.as_ref().map(|cycle| escape(&cycle.init.to_string())).unwrap_or_default();
        let _ = write!(
            html,
            "<figure><figcaption>{name}, {init}</figcaption>\
             <img src=\"map/{name}.png\" alt=\"The newest forecast of {name}\"></figure>"
        );
    }
    html.push_str(
        "</div><h2>Models</h2><table><tr><th>model</th><th>latency (p99)</th><th>error rate</th>\
        <th>missing</th><th>drift</th><th>error, of the validation's</th></tr>",
    );
    board.models.iter().for_each(|(name, model)| model_row(&mut html, name, model));
    html.push_str(
        "</table><h2>Cycles</h2><table><tr><th>initial time</th><th>model</th><th>state</th>\
        <th>took</th><th>after its analysis</th><th>provider</th><th>note</th></tr>",
    );
    board.cycles.iter().for_each(|cycle| cycle_row(&mut html, cycle));
    html.push_str("</table><h2>Files</h2><table><tr><th>file</th><th>verdict</th><th>note</th></tr>");
    board.files.iter().for_each(|file| file_row(&mut html, file));
    html.push_str("</table></body></html>\n");
    html
}

fn alarms(html: &mut String, board: &Board) {
    if board.alarms.is_empty() {
        html.push_str("<p>No alarm is raised.</p>");
        return;
    }
    html.push_str("<h2>Alarms</h2><ul>");
    for alarm in &board.alarms {
        let _ = write!(html, "<li class=\"alarm\">{}</li>", escape(&alarm.text));
    }
    html.push_str("</ul>");
}

fn model_row(html: &mut String, name: &str, model: &ModelBoard) {
    let number = |value: Option<f64>, unit: &str| value.map_or("-".into(), |x| format!("{x:.3}{unit}"));
    let drift = model.drift.iter().map(|(quantity, x)| format!("{} {x:.3}", escape(quantity)));
    let drift: Vec<String> = drift.collect();
    let _ = write!(
        html,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escape(name),
        number(model.levels.latency_p99, " s"),
        number(model.levels.error_rate, ""),
        model.levels.missing,
        if drift.is_empty() { "-".into() } else { drift.join(", ") },
        number(model.skill, "")
    );
}

fn cycle_row(html: &mut String, cycle: &Cycle) {
    let seconds = |value: Option<f64>| value.map_or("-".into(), |x| format!("{x:.1} s"));
    let note = match cycle.state {
        CycleState::Published => cycle.start.as_ref(),
        _ => cycle.reason.as_ref(),
    };
    let state = cycle.state.word();
    let _ = write!(
        html,
        "<tr><td>{}</td><td>{}</td><td class=\"{state}\">{state}</td><td>{}</td><td>{}</td><td>{}</td><td>{}{}</td></tr>",
        escape(&cycle.init.to_string()),
        escape(&cycle.model),
        seconds(cycle.seconds),
        seconds(super::levels::latency(cycle)),
        escape(cycle.provider.as_deref().unwrap_or("-")),
        if cycle.late { "late, " } else { "" },
        escape(note.map_or("", String::as_str))
    );
}

fn file_row(html: &mut String, file: &SeenFile) {
    // Where the inbox lies is nobody's business.
    let name =
        std::path::Path::new(&file.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let _ = write!(
        html,
        "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
        escape(&name),
        file.verdict.word(),
        escape(file.reason.as_deref().unwrap_or_default())
    );
}
