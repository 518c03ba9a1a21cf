//! The status page: one HTML page without scripts or anything from elsewhere. What matters stands first: whether all is
//! well, then each model with its newest map and what is measured of it, then the last cycles and files.

use std::fmt::Write as _;

use super::levels::latency;
use super::{Board, ModelBoard};
use crate::report::escape;
use crate::serve::ledger::{Cycle, CycleState, SeenFile, now};

/// What the page looks like, in the light and in the dark, on a desk and in a hand.
pub const STYLE: &str = include_str!("page.css");

/// How the service is, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Well,
    /// Nothing was forecast yet.
    New,
    /// Something was lost, and nobody has said that it matters.
    Attention,
    Alarm,
}

impl Condition {
    /// The class of the headline.
    fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::New => "new",
            Self::Attention => "attention",
            Self::Alarm => "alarm",
        }
    }

    /// Of the dot in the browser's tab.
    fn colour(self) -> &'static str {
        match self {
            Self::Well => "#18794e",
            Self::New => "#6b7280",
            Self::Attention => "#ad5700",
            Self::Alarm => "#c62a2f",
        }
    }
}

/// In one sentence.
pub fn condition(board: &Board) -> (Condition, String) {
    if board.stands_still() {
        return (Condition::Alarm, "The loop stands still".into());
    }
    if board.trouble.is_some() {
        // What is wrong may name folders.
        return (Condition::Alarm, "The service is in trouble: see its log".into());
    }
    match board.alarms.as_slice() {
        [] => {}
        [_] => return (Condition::Alarm, "1 alarm is raised".into()),
        many => return (Condition::Alarm, format!("{} alarms are raised", many.len())),
    }
    for (name, model) in &board.models {
        let wrong = model.last.as_ref().and_then(|cycle| match cycle.state {
            CycleState::Failed => Some("failed"),
            CycleState::Missing => Some("is missing"),
            CycleState::Waiting if cycle.attempts > 0 => Some("failed and is tried again"),
            _ => None,
        });
        if let Some(wrong) = wrong {
            return (Condition::Attention, format!("The last cycle of {name} {wrong}"));
        }
    }
    if board.models.values().all(|model| model.newest.is_none()) {
        return (Condition::New, "No forecast yet".into());
    }
    (Condition::Well, "All is well".into())
}

/// A dot for the tab of the browser.
pub fn icon(board: &Board) -> String {
    let colour = condition(board).0.colour();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><circle cx=\"8\" cy=\"8\" r=\"7\" fill=\"{colour}\"/></svg>"
    )
}

/// The whole page; it asks to be loaded again every half minute.
pub fn page(board: &Board) -> String {
    let (condition, sentence) = condition(board);
    let sentence = escape(&sentence);
    let drawn = chrono::Utc::now().format("%Y-%m-%d %H:%M:%S UTC");
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"30\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{sentence} - wxsim serve</title>\
         <link rel=\"icon\" href=\"icon.svg\"><link rel=\"stylesheet\" href=\"style.css\"></head><body>\
         <header class=\"{}\"><h1>{sentence}</h1>",
        condition.word()
    );
    for alarm in &board.alarms {
        let text = escape(&board.without_folders(&alarm.text));
        let _ = write!(html, "<p>{text} (for {})</p>", age(alarm.since));
    }
    let devices = board.devices.iter().fold(String::new(), |text, (device, cycles)| {
        format!("{text} &middot; {} computes {cycles}", escape(device))
    });
    let _ = write!(
        html,
        "<p>{} waiting for a device &middot; {} files being decoded{devices} &middot; {drawn}</p></header>",
        count(board.queued, "cycle"),
        board.decoding
    );
    // One model leaves room beside it.
    html.push_str(if board.models.len() > 1 { "<main>" } else { "<main class=\"one\">" });
    html.push_str("<div class=\"models\">");
    board.models.iter().for_each(|(name, model)| card(&mut html, board, name, model));
    html.push_str(
        "</div><div class=\"lists\"><h2>Last cycles</h2><table id=\"cycles\"><thead><tr><th>initial time</th><th>model</th>\
         <th>state</th><th class=\"wide\">took</th><th>latency</th><th class=\"wide\">by</th><th class=\"wide\">note</th></tr></thead><tbody>",
    );
    board.cycles.iter().for_each(|cycle| cycle_row(&mut html, board, cycle));
    html.push_str(
        "</tbody></table><h2>Last files</h2><table id=\"files\"><thead><tr><th>file</th><th>verdict</th><th>note</th></tr></thead><tbody>",
    );
    board.files.iter().for_each(|file| file_row(&mut html, board, file));
    html.push_str("</tbody></table></div></main></body></html>\n");
    html
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A model: its newest forecast as a map, and what is measured of it beside what is allowed.
fn card(html: &mut String, board: &Board, name: &str, model: &ModelBoard) {
    let name = escape(name);
    let _ = write!(html, "<section><h2>{name}</h2>");
    let newest = match &model.newest {
        Some(cycle) => format!(
            "{}, published {}{}",
            escape(&cycle.init.to_string()),
            cycle.published.map_or("-".into(), |moment| format!("{} ago", age(moment))),
            if cycle.late { ", late" } else { "" }
        ),
        None => "no forecast yet".into(),
    };
    let _ = write!(html, "<p class=\"newest\">{newest}</p>");
    html.push_str("<dl>");
    let mut fact = |what: &str, value: String, is_bad: bool| {
        let class = if is_bad { " class=\"bad\"" } else { "" };
        let _ = write!(html, "<div><dt>{what}</dt><dd{class}>{value}</dd></div>");
    };
    let over =
        |value: Option<f64>, most: Option<f64>| value.zip(most).is_some_and(|(value, most)| value > most);
    let allowed =
        |most: Option<String>| most.map_or(String::new(), |most| format!(" <small>limit {most}</small>"));
    let plan = &board.plan;
    let last = model.newest.as_ref().and_then(latency);
    let p99 = model.levels.latency_p99;
    let most = plan.levels.latency_p99.map(|time| time.as_secs_f64());
    fact("latency: analysis to forecast", seconds(last), over(last, most));
    let most_text = most.map(|most| seconds(Some(most)));
    fact("latency of 99 in 100", format!("{}{}", seconds(p99), allowed(most_text)), over(p99, most));
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let (rate, most) = (model.levels.error_rate, plan.levels.error_rate);
    fact(
        "cycles failed",
        format!("{}{}", rate.map_or("-".into(), percent), allowed(most.map(percent))),
        over(rate, most),
    );
    let (missing, most) = (model.levels.missing, plan.levels.missing);
    let text = format!("{missing}{}", allowed(most.map(|most| most.to_string())));
    fact("cycles missing", text, most.is_some_and(|most| missing > most));
    let farthest = model.drift.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let drift = farthest.map(|(quantity, x)| format!("{x:.3} {}", escape(quantity)));
    let bound = format!("{:.2} over {} analyses", plan.drift.threshold, plan.drift.window);
    let is_alarmed = |what: &str| board.alarms.iter().any(|alarm| alarm.name == format!("{what} of {name}"));
    fact(
        "drift from training",
        format!("{}{}", drift.unwrap_or("-".into()), allowed(Some(bound))),
        is_alarmed("drift"),
    );
    let ratio = model.skill.map_or("-".into(), |x| format!("{x:.2}"));
    let most = Some(format!("{:.2}", 1.0 + plan.skill.tolerance));
    fact("error over that of the validation", format!("{ratio}{}", allowed(most)), is_alarmed("skill"));
    html.push_str("</dl>");
    if let Some(cycle) = &model.newest {
        // Another forecast has another address, so that no browser shows an old one.
        let version = escape(cycle.digest.as_deref().unwrap_or_default().get(..12).unwrap_or_default());
        let _ = write!(
            html,
            "<figure><img src=\"map/{name}.png?{version}\" alt=\"The newest forecast of {name}\" width=\"480\"></figure>"
        );
    }
    html.push_str("</section>");
}

fn seconds(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(x) if x < 100.0 => format!("{x:.1} s"),
        Some(x) if x < 6000.0 => format!("{:.0} min", x / 60.0),
        Some(x) => format!("{:.1} h", x / 3600.0),
    }
}

/// How long it is since a moment [ms since 1970]. A clock that was set back makes nothing younger than now.
fn age(moment: i64) -> String {
    let seconds = (now() - moment).max(0) / 1000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn cycle_row(html: &mut String, board: &Board, cycle: &Cycle) {
    let note = match cycle.state {
        CycleState::Published => cycle.start.as_ref(),
        _ => cycle.reason.as_ref(),
    };
    let state = cycle.state.word();
    let late = if cycle.late { "late, " } else { "" };
    let note = escape(&board.without_folders(note.map_or("", String::as_str)));
    let _ = write!(
        html,
        "<tr class=\"cycle\"><td>{}</td><td class=\"free\">{}</td><td class=\"{state}\">{state}</td><td class=\"wide\">{}</td><td>{}</td>\
         <td class=\"wide free\">{}</td><td class=\"wide free\">{late}{note}</td></tr>",
        escape(&cycle.init.to_string()),
        escape(&cycle.model),
        seconds(cycle.seconds),
        seconds(latency(cycle)),
        escape(cycle.provider.as_deref().unwrap_or("-")),
    );
}

fn file_row(html: &mut String, board: &Board, file: &SeenFile) {
    let name =
        std::path::Path::new(&file.path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let verdict = file.verdict.word();
    let _ = write!(
        html,
        "<tr><td class=\"free\">{}</td><td class=\"{verdict}\">{verdict}</td><td class=\"free\">{}</td></tr>",
        escape(&name),
        escape(&board.without_folders(file.reason.as_deref().unwrap_or_default()))
    );
}
