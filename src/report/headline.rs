//! Who won, in words: counts over the differences that a verification found, nothing computed anew.

use crate::report::names::lead_hours;
use crate::verify::{Difference, Scores, WHOLE_GRID};

/// The competitor against one baseline, over all quantities and leads, by RMSE on the whole grid.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Duel {
    pub baseline: String,
    /// (lead in hours, change of the RMSE, whether its 95 % interval leaves out zero), per quantity and lead.
    cases: Vec<(f64, f64, bool)>,
}

impl Duel {
    pub fn total(&self) -> usize {
        self.cases.len()
    }

    pub fn better(&self) -> usize {
        self.cases.iter().filter(|c| c.1 < 0.0).count()
    }

    /// Better, with an interval below zero.
    pub fn surely_better(&self) -> usize {
        self.cases.iter().filter(|c| c.1 < 0.0 && c.2).count()
    }

    /// Worse, with an interval above zero.
    pub fn surely_worse(&self) -> usize {
        self.cases.iter().filter(|c| c.1 > 0.0 && c.2).count()
    }

    /// Where the competitor is better, in words.
    fn reach(&self) -> String {
        let (better, total) = (self.better(), self.total());
        if better == total {
            return "at every lead time".into();
        }
        if better == 0 {
            return "nowhere".into();
        }
        let first_loss = self.cases.iter().filter(|c| c.1 >= 0.0).map(|c| c.0).fold(f64::INFINITY, f64::min);
        let last_win = self.cases.iter().filter(|c| c.1 < 0.0).map(|c| c.0).fold(0.0, f64::max);
        if last_win < first_loss {
            format!("up to {}", lead_hours(last_win).trim_start_matches('+'))
        } else {
            format!("in {better} of {total} cases")
        }
    }
}

/// Whether the scores that decide are the area-weighted ones: those that are there.
pub fn weighted(scores: &Scores) -> bool {
    scores.entries.is_empty() || scores.entries.iter().any(|e| e.weighted)
}

/// An interval that leaves out zero.
pub fn is_sure(difference: &Difference) -> bool {
    matches!((difference.low, difference.high), (Some(low), Some(high)) if low > 0.0 || high < 0.0)
}

/// The first competitor against each baseline.
pub fn duels(scores: &Scores) -> Vec<Duel> {
    let Some(model) = scores.competitors.first() else { return Vec::new() };
    let mut duels: Vec<Duel> = Vec::new();
    let by_weight = weighted(scores);
    for d in &scores.differences {
        let counts = d.competitor == *model
            && matches!(d.metric.as_str(), "rmse" | "vector_rmse")
            && d.region == WHOLE_GRID
            && d.weighted == by_weight;
        let Some(value) = d.value.filter(|_| counts) else { continue };
        let case = (d.lead_hours, value, is_sure(d));
        match duels.iter_mut().find(|duel| duel.baseline == d.baseline) {
            Some(duel) => duel.cases.push(case),
            None => duels.push(Duel { baseline: d.baseline.clone(), cases: vec![case] }),
        }
    }
    duels
}

/// The verdict in one or two sentences.
pub fn verdict(scores: &Scores) -> String {
    let Some(model) = scores.competitors.first() else { return "Nothing was compared.".into() };
    let duels = duels(scores);
    if duels.is_empty() {
        return format!("{model}, on its own: there is no baseline to compare it with.");
    }
    if duels.iter().all(|d| d.better() == d.total()) {
        return match duels.len() {
            1 => format!("{model} beats {} at every lead time.", duels[0].baseline),
            _ => format!(
                "{model} beats {} at every lead time.",
                list(duels.iter().map(|d| d.baseline.as_str()))
            ),
        };
    }
    if duels.iter().all(|d| d.better() == 0) {
        return format!("{model} beats none of its baselines.");
    }
    let (mut wins, mut losses) = (Vec::new(), Vec::new());
    for duel in &duels {
        match duel.reach().as_str() {
            "nowhere" => losses.push(duel.baseline.clone()),
            reach => wins.push(format!("{} {reach}", duel.baseline)),
        }
    }
    let mut sentence = format!("{model} beats {}", list(wins.iter().map(String::as_str)));
    if !losses.is_empty() {
        sentence += &format!("; it does not beat {}", list(losses.iter().map(String::as_str)));
    }
    sentence + "."
}

/// How sure the verdict is, a sentence for each baseline; a case is one quantity at one lead time.
pub fn certainty(scores: &Scores) -> Vec<String> {
    duels(scores)
        .iter()
        .map(|d| {
            format!(
                "Against {}: lower RMSE in {} of {} cases, {} of them beyond doubt at the 95 % level; higher beyond doubt \
                 in {}.",
                d.baseline,
                d.better(),
                d.total(),
                d.surely_better(),
                d.surely_worse()
            )
        })
        .collect()
}

/// `a, b and c`
pub fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<&str> = items.collect();
    match items.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_string(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(changes: &[(&str, f64, f64)]) -> Scores {
        let differences = changes
            .iter()
            .map(|(baseline, lead_hours, value)| Difference {
                competitor: "net".into(),
                baseline: (*baseline).into(),
                quantity: "msl".into(),
                lead_hours: *lead_hours,
                region: WHOLE_GRID.into(),
                weighted: true,
                metric: "rmse".into(),
                skill: None,
                value: Some(*value),
                low: Some(value - 1.5),
                high: Some(value + 1.5),
            })
            .collect();
        Scores { competitors: vec!["net".into()], differences, ..Scores::default() }
    }

    #[test]
    fn the_verdict_says_whom_and_how_far() {
        let all = scores(&[("persistence", 24.0, -2.0), ("climatology", 24.0, -1.0)]);
        assert_eq!(verdict(&all), "net beats persistence and climatology at every lead time.");
        let some = scores(&[
            ("persistence", 24.0, -2.0),
            ("persistence", 72.0, 1.0),
            ("climatology", 24.0, -2.0),
            ("physics", 24.0, 3.0),
        ]);
        assert_eq!(
            verdict(&some),
            "net beats persistence up to 24 h and climatology at every lead time; it does not beat physics."
        );
        let sure = certainty(&some);
        assert!(
            sure[0].contains("1 of 2 cases") && sure[2].ends_with("higher beyond doubt in 1."),
            "{sure:?}"
        );
        assert_eq!(verdict(&scores(&[("physics", 24.0, 3.0)])), "net beats none of its baselines.");
        assert!(verdict(&Scores::default()).contains("Nothing"));
    }
}
