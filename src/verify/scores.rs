//! What a verification ends with: numbers with names, ready for JSON, CSV, tables and pictures.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// All scores of one verification. Every value of one lead time is computed on the same initial times, those that
/// all competitors have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Names of the forecasts compared: the model first, then the baselines.
    pub competitors: Vec<String>,
    /// Which climatology anomalies are taken from, and on which period it was fitted; empty when there is none.
    pub climatology: String,
    /// Initial times that count at the shortest lead; [`Score::initial_times`] says how many do at each lead.
    pub initial_times: usize,
    /// `2008-10-19..2011-01-01`, half open: initial and valid times lie in it.
    pub test_span: String,
    /// `all` (the whole grid) first, then those named regions that the grid touches.
    pub regions: Vec<String>,
    pub entries: Vec<Score>,
    pub differences: Vec<Difference>,
    pub spectra: Vec<Spectrum>,
    /// What a reader has to know: what was left out or is undefined, and how intervals and spectra were made.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One metric of one competitor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub competitor: String,
    /// Label of the quantity (`z500`); for `vector_rmse` the pair (`wind500`, `wind10`).
    pub quantity: String,
    /// Of the value: the quantity's own for rmse, mae, bias and vector_rmse; `1` for acc; `%` for s1.
    pub units: String,
    pub lead_hours: f64,
    pub region: String,
    /// Whether points count by their area, or all the same.
    pub weighted: bool,
    /// `rmse`, `mae`, `bias`, `acc` (mean of the daily correlations, as WeatherBench 2), `acc_pooled` (ratio of the
    /// time means, as WeatherBench-X), `s1` or `vector_rmse`.
    pub metric: String,
    /// `None` where it is undefined (a missing value, or the anomaly correlation of a forecast without anomaly).
    pub value: Option<f64>,
    /// Bounds of the 95 % interval from a moving-block bootstrap; `None` with too few initial times.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Initial times that the value is made of.
    #[serde(default)]
    pub initial_times: usize,
}

/// How a competitor differs from a baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub competitor: String,
    pub baseline: String,
    pub quantity: String,
    pub lead_hours: f64,
    pub region: String,
    pub weighted: bool,
    /// As in [`Score::metric`]; `rmse`, `mae`, `acc`, `acc_pooled`, `s1` and `vector_rmse` are compared.
    pub metric: String,
    /// 1 - (error / baseline's error), of the *mean square* error for `rmse` and `vector_rmse` (so that 1 is perfect
    /// and 0 is no better than the baseline) and of the metric itself for `mae` and `s1`; `None` for correlations.
    pub skill: Option<f64>,
    /// Competitor's metric minus the baseline's, in units of the metric: negative is better for errors.
    pub value: Option<f64>,
    /// Bounds of the 95 % interval of `value`, both forecasts resampled together.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// Zonal energy spectrum, averaged over a band of latitudes and the initial times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spectrum {
    /// Name of the competitor, or `truth`.
    pub competitor: String,
    pub quantity: String,
    pub lead_hours: f64,
    /// Decreasing.
    pub wavelength_km: Vec<f64>,
    /// Spectral density [units of the quantity squared, times m].
    pub energy: Vec<f64>,
}

impl Scores {
    /// The first entry that fits, over the whole grid.
    pub fn find(
        &self,
        competitor: &str,
        quantity: &str,
        metric: &str,
        lead_hours: f64,
        weighted: bool,
    ) -> Option<&Score> {
        self.entries.iter().find(|e| {
            e.competitor == competitor
                && e.quantity == quantity
                && e.metric == metric
                && e.region == WHOLE_GRID
                && e.weighted == weighted
                && (e.lead_hours - lead_hours).abs() < 1e-6
        })
    }

    /// One line per score and per difference, for spreadsheets; missing values are empty.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "kind,competitor,baseline,quantity,lead_hours,region,weighted,metric,units,value,low,high,skill,initial_times\n",
        );
        for e in &self.entries {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "score,{},,{},{},{},{},{},{},{},{},{},,{}",
                quoted(&e.competitor),
                quoted(&e.quantity),
                e.lead_hours,
                quoted(&e.region),
                e.weighted,
                e.metric,
                quoted(&e.units),
                number(e.value),
                number(e.low),
                number(e.high),
                e.initial_times
            );
        }
        for d in &self.differences {
            let _ = writeln!(
                text,
                "difference,{},{},{},{},{},{},{},,{},{},{},{},",
                quoted(&d.competitor),
                quoted(&d.baseline),
                quoted(&d.quantity),
                d.lead_hours,
                quoted(&d.region),
                d.weighted,
                d.metric,
                number(d.value),
                number(d.low),
                number(d.high),
                number(d.skill)
            );
        }
        text
    }
}

/// Name of the region that is the whole grid.
pub const WHOLE_GRID: &str = "all";

fn number(value: Option<f64>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_survive_json_and_every_csv_line_has_all_columns() {
        let scores = Scores {
            competitors: vec!["a, b".into(), "persistence".into()],
            regions: vec![WHOLE_GRID.into()],
            entries: vec![Score {
                competitor: "a, b".into(),
                quantity: "z500".into(),
                units: "m2 s-2".into(),
                lead_hours: 24.0,
                region: WHOLE_GRID.into(),
                weighted: true,
                metric: "rmse".into(),
                value: Some(0.1 + 0.2),
                low: None,
                high: None,
                initial_times: 3,
            }],
            differences: vec![Difference {
                competitor: "model".into(),
                baseline: "persistence".into(),
                quantity: "z500".into(),
                lead_hours: 24.0,
                region: WHOLE_GRID.into(),
                weighted: true,
                metric: "acc".into(),
                skill: None,
                value: Some(-1.0),
                low: Some(-2.0),
                high: Some(-0.5),
            }],
            ..Scores::default()
        };
        let text = serde_json::to_string(&scores).unwrap();
        assert_eq!(serde_json::from_str::<Scores>(&text).unwrap(), scores);

        let csv = scores.to_csv().replace("\"a, b\"", "a");
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(columns, [14, 14, 14]);
        assert!(scores.find("a, b", "z500", "rmse", 24.0, true).is_some());
    }
}
