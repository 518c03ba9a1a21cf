//! The scores that fit on a terminal: RMSE by quantity, lead and baseline, with skill and interval.

use std::fmt::Write as _;

use crate::verify::{Difference, Scores, WHOLE_GRID};

/// One line per quantity, lead, competitor and baseline, over the whole grid.
pub fn table(scores: &Scores, weighted: bool) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "RMSE, {}, test span {}, {} initial times; 95 % intervals of the difference\n",
        if weighted { "weighted by area" } else { "unweighted" },
        scores.test_span,
        scores.initial_times
    );
    let wanted = |d: &&Difference| {
        d.region == WHOLE_GRID
            && d.weighted == weighted
            && matches!(d.metric.as_str(), "rmse" | "vector_rmse")
    };
    let mut rows = vec![
        ["variable", "lead", "forecast", "RMSE", "baseline", "RMSE", "skill", "difference", ""]
            .map(String::from),
    ];
    for d in scores.differences.iter().filter(wanted) {
        let value = |name: &str| {
            scores.find(name, &d.quantity, &d.metric, d.lead_hours, weighted).and_then(|e| e.value)
        };
        let better = match (d.low, d.high) {
            (_, Some(high)) if high < 0.0 => "better",
            (Some(low), _) if low > 0.0 => "worse",
            _ => "",
        };
        let interval = match (d.low, d.high) {
            (Some(low), Some(high)) => format!(" [{}, {}]", digits(Some(low)), digits(Some(high))),
            _ => String::new(),
        };
        rows.push([
            d.quantity.clone(),
            lead(d.lead_hours),
            d.competitor.clone(),
            digits(value(&d.competitor)),
            d.baseline.clone(),
            digits(value(&d.baseline)),
            d.skill.map_or("-".into(), |s| format!("{s:.3}")),
            digits(d.value) + &interval,
            better.into(),
        ]);
    }
    if rows.len() == 1 {
        rows.clear();
        rows.push(["variable", "lead", "forecast", "RMSE", "", "", "", "", ""].map(String::from));
        let wanted = |m: &str| matches!(m, "rmse" | "vector_rmse");
        let entries = scores.entries.iter().filter(|e| e.region == WHOLE_GRID && e.weighted == weighted);
        for e in entries.filter(|e| wanted(&e.metric)) {
            let mut row = std::array::from_fn(|_| String::new());
            row[0] = e.quantity.clone();
            row[1] = lead(e.lead_hours);
            row[2] = e.competitor.clone();
            row[3] = digits(e.value);
            rows.push(row);
        }
    }
    align(&rows, &mut text);
    for note in &scores.notes {
        let _ = writeln!(text, "{}{note}", if note == &scores.notes[0] { "\n" } else { "" });
    }
    if !scores.climatology.is_empty() {
        let _ = writeln!(text, "climatology: {}", scores.climatology);
    }
    text
}

/// Four significant digits.
fn digits(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".into() };
    let size = value.abs().max(1e-300).log10().floor();
    match size as i32 {
        3.. => format!("{value:.0}"),
        size @ -3..3 => format!("{value:.*}", (3 - size) as usize),
        _ => format!("{value:.3e}"),
    }
}

fn lead(hours: f64) -> String {
    if hours % 24.0 == 0.0 { format!("{}d", hours / 24.0) } else { format!("{hours}h") }
}

/// Columns as wide as they need to be; numbers to the right.
fn align(rows: &[[String; 9]], text: &mut String) {
    let widths: [usize; 9] =
        std::array::from_fn(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0));
    for row in rows {
        let mut line = String::new();
        for (c, (cell, width)) in row.iter().zip(widths).enumerate() {
            let _ = match c {
                1 | 3 | 5 | 6 => write!(line, "{cell:>width$}  "),
                _ => write!(line, "{cell:<width$}  "),
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Score;

    #[test]
    fn a_row_has_both_errors_the_skill_and_the_interval() {
        let score = |competitor: &str, value| Score {
            competitor: competitor.into(),
            quantity: "z500".into(),
            units: "m2 s-2".into(),
            lead_hours: 24.0,
            region: WHOLE_GRID.into(),
            weighted: false,
            metric: "rmse".into(),
            value: Some(value),
            low: None,
            high: None,
            initial_times: 803,
        };
        let scores = Scores {
            entries: vec![score("convlstm", 521.04), score("persistence", 702.4)],
            differences: vec![Difference {
                competitor: "convlstm".into(),
                baseline: "persistence".into(),
                quantity: "z500".into(),
                lead_hours: 24.0,
                region: WHOLE_GRID.into(),
                weighted: false,
                metric: "rmse".into(),
                skill: Some(0.4497),
                value: Some(-181.36),
                low: Some(-200.0),
                high: Some(-160.0),
            }],
            ..Scores::default()
        };
        let text = table(&scores, false);
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        let expected = "z500 1d convlstm 521.0 persistence 702.4 0.450 -181.4 [-200.0, -160.0] better";
        assert_eq!(row.join(" "), expected);
        assert_eq!(table(&scores, true).lines().filter(|l| l.contains("z500")).count(), 0);
    }

    #[test]
    fn numbers_keep_four_digits() {
        for (value, text) in
            [(2.1337, "2.134"), (-0.01234, "-0.01234"), (12_345.6, "12346"), (1e-9, "1.000e-9")]
        {
            assert_eq!(digits(Some(value)), text);
        }
    }
}
