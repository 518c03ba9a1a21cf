//! The end of a verification: from the statistics of all competitors to [`Scores`].

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::field::Layout;
use crate::time::{InitTime, LeadTime};

use super::bootstrap::{BootstrapPlan, FEWEST_BLOCKS, Resampler};
use super::metrics::{Metric, Outcome, SCALAR, Series};
use super::scores::{Difference, Score, Scores, Spectrum};
use super::spectrum::{BAND, Nyquist, RADIUS};
use super::statistics::{Comparer, Statistics};
use super::sums::{Missing, Sums};

/// One forecast in a comparison.
#[derive(Debug, Clone)]
pub struct Competitor {
    pub name: String,
    pub role: Role,
    pub statistics: Statistics,
}

/// Whether a competitor is judged, or judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Model,
    Baseline,
}

/// What the scores have to say of themselves.
#[derive(Debug, Clone, Default)]
pub struct Headline {
    /// Which climatology, fitted on which period; `None` when there is none (then there is no anomaly correlation).
    pub climatology: Option<String>,
    pub test_span: String,
    /// What a reader has to know besides what the scores themselves tell.
    pub notes: Vec<String>,
}

/// One quantity, or a wind of two.
struct Subject {
    label: String,
    units: String,
    channels: Vec<usize>,
}

/// One piece of work: everything about one subject, lead, area and weighting.
struct Task<'a> {
    subject: &'a Subject,
    lead: LeadTime,
    inits: &'a [InitTime],
    resampler: Option<&'a Resampler>,
    area: usize,
    weighted: bool,
}

/// Computes every score of every competitor on the initial times that all have, lead by lead.
pub fn summarise(
    comparer: &Comparer,
    competitors: &[Competitor],
    bootstrap: &BootstrapPlan,
    headline: &Headline,
) -> Result<Scores> {
    bootstrap.validate()?;
    let mut names = BTreeSet::new();
    if let Some(twin) = competitors.iter().find(|c| !names.insert(&c.name)) {
        return Err(Error::input(format!("two competitors are called '{}'", twin.name)));
    }
    let mut notes = headline.notes.clone();
    let common = common_times(competitors)?;
    let resamplers: BTreeMap<LeadTime, Option<Resampler>> = common
        .iter()
        .map(|(&lead, inits)| {
            let seconds: Vec<i64> = inits.iter().map(|i| i.0.seconds).collect();
            (lead, bootstrap.draw(&seconds))
        })
        .collect();
    let subjects = subjects(comparer.layout());
    let areas = comparer.geometry().areas();
    let mut tasks = Vec::new();
    for (&lead, inits) in &common {
        for subject in &subjects {
            for area in 0..areas.len() {
                for weighted in [true, false] {
                    let resampler = resamplers[&lead].as_ref();
                    tasks.push(Task { subject, lead, inits, resampler, area, weighted });
                }
            }
        }
    }
    let results: Vec<(Vec<Score>, Vec<Difference>)> =
        tasks.par_iter().map(|task| task.run(comparer, competitors, headline)).collect();
    let (entries, differences): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    note_all(&mut notes, comparer, competitors, bootstrap, &resamplers);
    Ok(Scores {
        competitors: competitors.iter().map(|c| c.name.clone()).collect(),
        climatology: headline.climatology.clone().unwrap_or_default(),
        initial_times: common.values().next().map_or(0, Vec::len),
        test_span: headline.test_span.clone(),
        regions: areas.iter().map(|a| a.name.clone()).collect(),
        entries: entries.into_iter().flatten().collect(),
        differences: differences.into_iter().flatten().collect(),
        spectra: spectra(comparer, competitors, &common),
        notes,
    })
}

/// Initial times that every competitor has, per lead that every competitor has.
fn common_times(competitors: &[Competitor]) -> Result<BTreeMap<LeadTime, Vec<InitTime>>> {
    let Some((first, others)) = competitors.split_first() else {
        return Err(Error::input("there is no forecast to score"));
    };
    let mut common = BTreeMap::new();
    for (&lead, by_init) in &first.statistics.sums {
        let inits: Vec<InitTime> = by_init
            .keys()
            .copied()
            .filter(|&init| others.iter().all(|o| o.statistics.has(init, lead)))
            .collect();
        if !inits.is_empty() {
            common.insert(lead, inits);
        }
    }
    if common.is_empty() {
        let names: Vec<&str> = competitors.iter().map(|c| c.name.as_str()).collect();
        return Err(Error::input(format!(
            "no initial time and lead is common to {} inside the test span",
            names.join(", ")
        ))
        .hint("check the dates of the forecasts against split.test, and that the truth reaches as far"));
    }
    Ok(common)
}

/// Every quantity, then every wind of which both components are there.
fn subjects(layout: &Layout) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = layout
        .quantities
        .iter()
        .enumerate()
        .map(|(channel, q)| Subject {
            label: q.to_string(),
            units: q.variable().map_or_else(String::new, |v| v.units.to_string()),
            channels: vec![channel],
        })
        .collect();
    for (channel, u) in layout.quantities.iter().enumerate() {
        let (partner, label) = match (u.name.as_str(), u.level) {
            ("u", Some(level)) => ("v", format!("wind{level}")),
            ("u", None) => ("v", "wind".to_string()),
            ("u10", _) => ("v10", "wind10".to_string()),
            _ => continue,
        };
        if let Some(v) = layout.quantities.iter().position(|q| q.name == partner && q.level == u.level) {
            subjects.push(Subject { label, units: "m s-1".into(), channels: vec![channel, v] });
        }
    }
    subjects
}

impl Task<'_> {
    fn run(
        &self,
        comparer: &Comparer,
        competitors: &[Competitor],
        headline: &Headline,
    ) -> (Vec<Score>, Vec<Difference>) {
        let area = &comparer.geometry().areas()[self.area].name;
        let metrics: &[Metric] =
            if self.subject.channels.len() == 2 { &[Metric::VectorRmse] } else { &SCALAR };
        let times: Vec<Vec<Vec<Sums>>> = competitors.iter().map(|c| self.times(c, comparer)).collect();
        let (mut scores, mut differences) = (Vec::new(), Vec::new());
        for &metric in metrics.iter().filter(|m| headline.climatology.is_some() || !m.needs_climatology()) {
            let mut outcomes: Vec<Outcome> = Vec::new();
            for (competitor, times) in competitors.iter().zip(&times) {
                let series = Series::new(metric, times, comparer.missing());
                let outcome = series.outcome(self.resampler);
                let bounds = outcome.interval();
                scores.push(Score {
                    competitor: competitor.name.clone(),
                    quantity: self.subject.label.clone(),
                    units: match metric {
                        Metric::Acc | Metric::AccPooled => "1".into(),
                        Metric::S1 => "%".into(),
                        _ => self.subject.units.clone(),
                    },
                    lead_hours: self.lead.hours(),
                    region: area.clone(),
                    weighted: self.weighted,
                    metric: metric.name().into(),
                    value: outcome.value,
                    low: bounds.map(|b| b.0),
                    high: bounds.map(|b| b.1),
                    initial_times: series.times(),
                });
                outcomes.push(outcome);
            }
            if !metric.ranks() {
                continue;
            }
            let with_role = |role| (0..competitors.len()).filter(move |&i| competitors[i].role == role);
            for model in with_role(Role::Model) {
                for baseline in with_role(Role::Baseline) {
                    let (value, bounds) = outcomes[model].minus(&outcomes[baseline]);
                    differences.push(Difference {
                        competitor: competitors[model].name.clone(),
                        baseline: competitors[baseline].name.clone(),
                        quantity: self.subject.label.clone(),
                        lead_hours: self.lead.hours(),
                        region: area.clone(),
                        weighted: self.weighted,
                        metric: metric.name().into(),
                        skill: metric
                            .has_skill()
                            .then(|| outcomes[model].skill(&outcomes[baseline]))
                            .flatten(),
                        value,
                        low: bounds.map(|b| b.0),
                        high: bounds.map(|b| b.1),
                    });
                }
            }
        }
        (scores, differences)
    }

    /// Per initial time, the sums of the subject's channels.
    fn times(&self, competitor: &Competitor, comparer: &Comparer) -> Vec<Vec<Sums>> {
        let areas = comparer.geometry().areas().len();
        let by_init = &competitor.statistics.sums[&self.lead];
        self.inits
            .iter()
            .map(|init| {
                let of = |&channel: &usize| {
                    let both = &by_init[init][channel * areas + self.area];
                    if self.weighted { both.by_area } else { both.by_point }
                };
                self.subject.channels.iter().map(of).collect()
            })
            .collect()
    }
}

fn spectra(
    comparer: &Comparer,
    competitors: &[Competitor],
    common: &BTreeMap<LeadTime, Vec<InitTime>>,
) -> Vec<Spectrum> {
    let Some(zonal) = comparer.zonal() else { return Vec::new() };
    let wavelength_km: Vec<f64> = zonal.wavelengths().iter().map(|w| w / 1000.0).collect();
    let mut all = Vec::new();
    for &lead in common.keys() {
        for (channel, quantity) in comparer.layout().quantities.iter().enumerate() {
            let mut push = |name: &str, energy: Option<Vec<f64>>| {
                if let Some(energy) = energy {
                    all.push(Spectrum {
                        competitor: name.into(),
                        quantity: quantity.to_string(),
                        lead_hours: lead.hours(),
                        wavelength_km: wavelength_km.clone(),
                        energy,
                    });
                }
            };
            let truth = competitors.iter().find_map(|c| c.statistics.spectra[&lead].truth[channel].mean());
            push("truth", truth);
            for competitor in competitors {
                push(&competitor.name, competitor.statistics.spectra[&lead].forecast[channel].mean());
            }
        }
    }
    all
}

fn note_all(
    notes: &mut Vec<String>,
    comparer: &Comparer,
    competitors: &[Competitor],
    bootstrap: &BootstrapPlan,
    resamplers: &BTreeMap<LeadTime, Option<Resampler>>,
) {
    notes.push(format!(
        "intervals: 95 %, moving-block bootstrap, blocks of {}, {} resamples, seed {}, on the initial times \
         common to all competitors",
        bootstrap.block, bootstrap.resamples, bootstrap.seed
    ));
    if resamplers.values().any(Option::is_none) {
        notes.push(format!(
            "no intervals at some leads: fewer than {FEWEST_BLOCKS} blocks of {} in the test span",
            bootstrap.block
        ));
    }
    if !comparer.left_out().is_empty() {
        notes.push(format!(
            "regions left out, since the grid has none or nothing but their points: {}",
            comparer.left_out().join(", ")
        ));
    }
    if comparer.zonal().is_some() {
        let periodic = comparer.layout().grid.is_periodic();
        notes.push(format!(
            "spectra: zonal, rows {} to {} degrees north and south, radius {} km, mean over rows at common \
             wavelengths{}{}",
            BAND.0,
            BAND.1,
            RADIUS / 1000.0,
            if periodic { "" } else { "; regional rows lose their straight line and get a Hann taper" },
            if comparer.nyquist() == Nyquist::Twice {
                "; the Nyquist wave counts twice (WeatherBench 2)"
            } else {
                ""
            },
        ));
    }
    let areas = comparer.geometry().areas().len();
    for competitor in competitors {
        let quantities = &comparer.layout().quantities;
        let absent = competitor.statistics.absent_channels(quantities.len(), areas);
        if !absent.is_empty() {
            let labels: Vec<String> = absent.iter().map(|&c| quantities[c].to_string()).collect();
            notes.push(format!("{} does not forecast {}", competitor.name, labels.join(", ")));
        }
        let lost = competitor.statistics.lost_points;
        if lost > 0 {
            let effect = match comparer.missing() {
                Missing::Propagate => "their scores are missing",
                Missing::Skip => "these points were dropped from its scores",
            };
            notes.push(format!(
                "{}: {lost} forecast values are missing where the analysis has one; {effect}",
                competitor.name
            ));
        }
        let undefined = undefined_correlations(&competitor.statistics);
        if undefined > 0 {
            notes.push(format!(
                "{}: the anomaly correlation is undefined (an anomaly field is zero) in {undefined} fields",
                competitor.name
            ));
        }
    }
}

/// Fields, over all leads, times and quantities, whose forecast or analysis equals the climatology everywhere.
fn undefined_correlations(statistics: &Statistics) -> usize {
    let fields = statistics.sums.values().flat_map(|by_init| by_init.values()).flat_map(|sums| sums.iter());
    fields
        .filter(|s| s.by_point.anomaly_weight > 0.0)
        .filter(|s| s.by_point.forecast_anomaly == 0.0 || s.by_point.truth_anomaly == 0.0)
        .count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::field::State;
    use crate::grid::Grid;
    use crate::time::{Calendar, ValidTime, valid_time};
    use crate::variable::Quantity;
    use crate::verify::bootstrap::SplitMix;
    use crate::verify::sums::Weighted;
    use crate::verify::{ScorePlan, WHOLE_GRID};

    const DAY: LeadTime = LeadTime { seconds: 86_400 };

    fn comparer() -> Comparer {
        let latitude = (0..4).map(|j| 35.0 + 5.0 * f64::from(j)).collect();
        let longitude = (0..10).map(|i| 5.0 * f64::from(i)).collect();
        let grid = Grid::new(latitude, longitude).unwrap();
        let quantities = ["u500", "v500", "msl"].iter().map(|l| Quantity::parse(l)).collect();
        Comparer::new(ScorePlan {
            layout: Arc::new(Layout { grid, quantities }),
            regions: Vec::new(),
            missing: Missing::Propagate,
            nyquist: Nyquist::Once,
        })
    }

    /// Forecasts of noise with the given spread around a truth of noise, for the given days.
    fn competitor(
        comparer: &Comparer,
        name: &str,
        role: Role,
        spread: f32,
        days: std::ops::Range<i64>,
    ) -> Competitor {
        let start = ValidTime::parse("2009-01-01", Calendar::Standard).unwrap();
        let mut random = SplitMix(spread.to_bits().into());
        let mut noise = |values: &mut State, spread: f32| {
            values.values.mapv_inplace(|_| spread * (random.next() as f32 / u64::MAX as f32 - 0.5));
        };
        let mut statistics = Statistics::default();
        let usual = vec![0.0; comparer.layout().grid.points() * 3];
        for d in days {
            let init = InitTime(start.after(DAY.times(d as usize)));
            for lead in [DAY, DAY.times(2)] {
                let mut truth = State::missing(comparer.layout().clone(), valid_time(init, lead));
                noise(&mut truth, 1.0);
                let mut error = truth.clone();
                noise(&mut error, spread);
                let forecast = State { values: &truth.values + &error.values, ..truth.clone() };
                statistics.add(init, lead, comparer.compare(&forecast, &truth, Some(&usual)).unwrap());
            }
        }
        Competitor { name: name.into(), role, statistics }
    }

    fn headline() -> Headline {
        Headline { climatology: Some("zero".into()), test_span: "2009".into(), notes: Vec::new() }
    }

    #[test]
    fn common_times_alone_count_and_half_the_error_is_three_quarters_of_skill() {
        let comparer = comparer();
        let competitors = [
            competitor(&comparer, "model", Role::Model, 1.0, 5..100),
            competitor(&comparer, "persistence", Role::Baseline, 2.0, 0..90),
        ];
        let scores = summarise(&comparer, &competitors, &BootstrapPlan::default(), &headline()).unwrap();
        assert_eq!(scores.initial_times, 85);
        let entry = |name: &str| scores.find(name, "msl", "rmse", 24.0, true).unwrap();
        let (model, baseline) = (entry("model"), entry("persistence"));
        assert_eq!((model.initial_times, baseline.initial_times), (85, 85));
        assert!(model.low.unwrap() < model.value.unwrap() && model.value.unwrap() < model.high.unwrap());

        let difference = scores
            .differences
            .iter()
            .find(|d| d.quantity == "msl" && d.metric == "rmse" && d.region == WHOLE_GRID && d.weighted)
            .unwrap();
        assert_eq!(difference.value.unwrap(), model.value.unwrap() - baseline.value.unwrap());
        // uniform errors of width 1 and 2: variances 1/12 and 4/12; 85 x 40 values each, so within a few percent
        assert!((difference.skill.unwrap() - 0.75).abs() < 0.03, "{:?}", difference.skill);
        assert!(difference.high.unwrap() < 0.0, "clearly better");
        // the wind is the two components together
        let mean_square =
            |q: &str| scores.find("model", q, "rmse", 24.0, false).unwrap().value.unwrap().powi(2);
        let wind = scores.find("model", "wind500", "vector_rmse", 24.0, false).unwrap().value.unwrap();
        assert!((wind.powi(2) / (mean_square("u500") + mean_square("v500")) - 1.0).abs() < 1e-12);
        assert!(scores.find("model", "wind500", "rmse", 24.0, false).is_none());
        // two leads, three quantities, truth and two competitors
        assert_eq!(scores.spectra.len(), 2 * 3 * 3);
    }

    #[test]
    fn without_climatology_there_is_no_correlation_and_few_times_have_no_interval() {
        let comparer = comparer();
        let competitors = [competitor(&comparer, "model", Role::Model, 1.0, 0..7)];
        let headline = Headline { climatology: None, ..headline() };
        let scores = summarise(&comparer, &competitors, &BootstrapPlan::default(), &headline).unwrap();
        assert!(scores.entries.iter().all(|e| !e.metric.starts_with("acc") && e.low.is_none()));
        assert!(scores.notes.iter().any(|n| n.contains("no intervals")), "{:?}", scores.notes);
        assert!(scores.differences.is_empty());
    }

    #[test]
    fn what_a_competitor_does_not_forecast_is_an_empty_place_and_a_note() {
        let comparer = comparer();
        let model = competitor(&comparer, "model", Role::Model, 1.0, 0..50);
        let mut part = competitor(&comparer, "part", Role::Baseline, 2.0, 0..50);
        let areas = comparer.geometry().areas().len();
        for sums in part.statistics.sums.values_mut().flat_map(BTreeMap::values_mut) {
            sums[2 * areas..].fill(Weighted::ABSENT);
        }
        for missing in [Missing::Propagate, Missing::Skip] {
            let plan = ScorePlan {
                layout: comparer.layout().clone(),
                regions: Vec::new(),
                missing,
                nyquist: Nyquist::Once,
            };
            let both = [model.clone(), part.clone()];
            let scores =
                summarise(&Comparer::new(plan), &both, &BootstrapPlan::default(), &headline()).unwrap();
            let empty = scores.find("part", "msl", "rmse", 24.0, true).unwrap();
            assert_eq!((empty.value, empty.low, empty.initial_times), (None, None, 0));
            let difference = scores.differences.iter().find(|d| d.quantity == "msl").unwrap();
            assert_eq!((difference.value, difference.skill, difference.low), (None, None, None));
            assert!(scores.find("part", "u500", "rmse", 24.0, true).unwrap().value.is_some());
            assert!(scores.find("model", "msl", "rmse", 24.0, true).unwrap().value.is_some());
            assert!(scores.notes.contains(&"part does not forecast msl".to_string()), "{:?}", scores.notes);
        }
    }

    #[test]
    fn nothing_in_common_is_refused_and_so_are_twins() {
        let comparer = comparer();
        let model = || competitor(&comparer, "model", Role::Model, 1.0, 0..7);
        let late = competitor(&comparer, "late", Role::Model, 1.0, 20..25);
        let plan = BootstrapPlan::default();
        let refuse = |c: &[Competitor]| summarise(&comparer, c, &plan, &headline()).unwrap_err().to_string();
        assert!(refuse(&[model(), late]).contains("common to model, late"));
        assert!(refuse(&[model(), model()]).contains("two competitors"));
        assert!(refuse(&[]).contains("no forecast"));
    }
}
