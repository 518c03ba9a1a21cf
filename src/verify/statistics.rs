//! Sums of one forecast against the truth, kept per lead and initial time: they merge in any order, so that years of
//! forecasts stream through, in pieces if need be, and nothing but sums is ever held.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::ArrayView2;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::grid::Region;
use crate::time::{InitTime, LeadTime};

use super::regions::areas;
use super::spectrum::{Nyquist, Zonal};
use super::sums::{Fields, Geometry, Missing, Weighted};

/// What to score, and how.
#[derive(Debug, Clone)]
pub struct ScorePlan {
    pub layout: Arc<Layout>,
    /// Regions beside WeatherBench 2's.
    pub regions: Vec<Region>,
    pub missing: Missing,
    pub nyquist: Nyquist,
}

/// Compares fields on one layout.
#[derive(Debug)]
pub struct Comparer {
    plan: ScorePlan,
    geometry: Geometry,
    zonal: Option<Zonal>,
    left_out: Vec<String>,
}

/// What the fields of one quantity were.
struct ChannelComparison {
    /// Per area.
    sums: Vec<Weighted>,
    forecast_spectrum: Option<Vec<f64>>,
    truth_spectrum: Option<Vec<f64>>,
    lost_points: u64,
}

/// What one forecast state was against its analysis.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// `[channel * area]`
    sums: Vec<Weighted>,
    /// Per channel; `None` where a value is missing or the grid has no spectrum.
    forecast_spectra: Vec<Option<Vec<f64>>>,
    truth_spectra: Vec<Option<Vec<f64>>>,
    /// Points where the forecast is missing and the analysis is not.
    lost_points: u64,
}

/// A sum of spectra.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpectralSum {
    pub energy: Vec<f64>,
    pub count: u64,
}

/// The spectra of one lead, per channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LeadSpectra {
    pub forecast: Vec<SpectralSum>,
    pub truth: Vec<SpectralSum>,
}

/// All that is known of one competitor.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// `[channel * area]` per lead and initial time.
    pub(super) sums: BTreeMap<LeadTime, BTreeMap<InitTime, Box<[Weighted]>>>,
    pub(super) spectra: BTreeMap<LeadTime, LeadSpectra>,
    pub(super) lost_points: u64,
}

impl Comparer {
    pub fn new(plan: ScorePlan) -> Self {
        let (areas, left_out) = areas(&plan.layout.grid, &plan.regions);
        let geometry = Geometry::new(&plan.layout, areas);
        let zonal = Zonal::new(&plan.layout.grid, plan.nyquist);
        Self { plan, geometry, zonal, left_out }
    }

    pub fn layout(&self) -> &Arc<Layout> {
        &self.plan.layout
    }

    pub fn missing(&self) -> Missing {
        self.plan.missing
    }

    pub fn nyquist(&self) -> Nyquist {
        self.plan.nyquist
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub fn zonal(&self) -> Option<&Zonal> {
        self.zonal.as_ref()
    }

    /// Named regions that hold no point of the grid, or all of them.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// One forecast state against the analysis of the same valid time; `climatology` is `[lat, lon, channel]` at that
    /// time. A quantity that the forecast does not hold has no score; one that is not scored is left aside.
    pub fn compare(
        &self,
        forecast: &State,
        truth: &State,
        climatology: Option<&[f32]>,
    ) -> Result<Comparison> {
        let layout = &self.plan.layout;
        let places: Vec<Option<usize>> = layout
            .quantities
            .iter()
            .map(|quantity| forecast.layout.quantities.iter().position(|q| q == quantity))
            .collect();
        let fits = [
            ("forecast", forecast, places.iter().any(Option::is_some)),
            ("analysis", truth, truth.layout.quantities == layout.quantities),
        ];
        for (what, state, has_quantities) in fits {
            if !has_quantities || !state.layout.grid.matches(&layout.grid) {
                return Err(Error::input(format!(
                    "the {what} of {} has other variables or another grid than the scores: {}",
                    state.valid,
                    state.layout.grid.describe()
                )));
            }
        }
        if forecast.valid != truth.valid {
            return Err(Error::input(format!(
                "a forecast valid at {} was paired with the analysis of {}",
                forecast.valid, truth.valid
            )));
        }
        let channels: Vec<ChannelComparison> = places
            .into_par_iter()
            .enumerate()
            .map(|(channel, place)| match place {
                Some(place) => self.compare_channel(channel, forecast.channel(place), truth, climatology),
                None => ChannelComparison::absent(self.geometry.areas().len()),
            })
            .collect();
        let mut result = Comparison::default();
        for channel in channels {
            result.sums.extend(channel.sums);
            result.forecast_spectra.push(channel.forecast_spectrum);
            result.truth_spectra.push(channel.truth_spectrum);
            result.lost_points += channel.lost_points;
        }
        Ok(result)
    }

    fn compare_channel(
        &self,
        channel: usize,
        forecast: ArrayView2<'_, f32>,
        truth: &State,
        climatology: Option<&[f32]>,
    ) -> ChannelComparison {
        let f: Vec<f64> = forecast.iter().map(|&x| f64::from(x)).collect();
        let o: Vec<f64> = truth.channel(channel).iter().map(|&x| f64::from(x)).collect();
        let c: Option<Vec<f64>> = climatology.map(|values| {
            let own = values.iter().skip(channel).step_by(self.plan.layout.channels());
            own.map(|&x| f64::from(x)).collect()
        });
        let fields = Fields { forecast: &f, truth: &o, climatology: c.as_deref() };
        let spectrum = |field: &[f64]| self.zonal.as_ref().and_then(|z| z.band_mean(field));
        ChannelComparison {
            sums: self.geometry.sums(fields, self.plan.missing),
            forecast_spectrum: spectrum(&f),
            truth_spectrum: spectrum(&o),
            lost_points: f.iter().zip(&o).filter(|(f, o)| f.is_nan() && !o.is_nan()).count() as u64,
        }
    }
}

impl ChannelComparison {
    /// The forecast does not hold this quantity.
    fn absent(areas: usize) -> Self {
        Self {
            sums: vec![Weighted::ABSENT; areas],
            forecast_spectrum: None,
            truth_spectrum: None,
            lost_points: 0,
        }
    }
}

impl Statistics {
    /// Adds the forecast of one initial time at one lead; a second one of the same adds up (parts of a domain).
    pub fn add(&mut self, init: InitTime, lead: LeadTime, comparison: Comparison) {
        let part = Statistics {
            sums: BTreeMap::from([(lead, BTreeMap::from([(init, comparison.sums.into())]))]),
            spectra: BTreeMap::from([(
                lead,
                LeadSpectra {
                    forecast: comparison.forecast_spectra.into_iter().map(SpectralSum::of).collect(),
                    truth: comparison.truth_spectra.into_iter().map(SpectralSum::of).collect(),
                },
            )]),
            lost_points: comparison.lost_points,
        };
        self.merge(part);
    }

    /// Adds all that another part has seen.
    pub fn merge(&mut self, other: Statistics) {
        for (lead, by_init) in other.sums {
            let mine = self.sums.entry(lead).or_default();
            for (init, sums) in by_init {
                match mine.get_mut(&init) {
                    Some(known) => known.iter_mut().zip(sums).for_each(|(a, b)| *a += b),
                    None => {
                        mine.insert(init, sums);
                    }
                }
            }
        }
        for (lead, spectra) in other.spectra {
            let mine = self.spectra.entry(lead).or_default();
            SpectralSum::merge_all(&mut mine.forecast, spectra.forecast);
            SpectralSum::merge_all(&mut mine.truth, spectra.truth);
        }
        self.lost_points += other.lost_points;
    }

    /// Leads seen, ascending.
    pub fn leads(&self) -> impl Iterator<Item = LeadTime> {
        self.sums.keys().copied()
    }

    /// Channels that none of the forecasts held, of `channels` in `areas`.
    pub(super) fn absent_channels(&self, channels: usize, areas: usize) -> Vec<usize> {
        let fields = || self.sums.values().flat_map(BTreeMap::values);
        let absent = |&channel: &usize| fields().all(|sums| sums[channel * areas].by_point.is_absent());
        (0..channels).filter(absent).collect()
    }

    /// Whether this initial time has been added at this lead.
    pub fn has(&self, init: InitTime, lead: LeadTime) -> bool {
        self.sums.get(&lead).is_some_and(|by_init| by_init.contains_key(&init))
    }
}

impl SpectralSum {
    fn of(spectrum: Option<Vec<f64>>) -> Self {
        spectrum.map_or_else(Self::default, |energy| Self { energy, count: 1 })
    }

    fn merge_all(mine: &mut Vec<Self>, others: Vec<Self>) {
        if mine.is_empty() {
            *mine = others;
            return;
        }
        for (a, b) in mine.iter_mut().zip(others) {
            if a.count == 0 {
                *a = b;
            } else if b.count > 0 {
                a.energy.iter_mut().zip(b.energy).for_each(|(x, y)| *x += y);
                a.count += b.count;
            }
        }
    }

    /// Mean spectrum; `None` when no complete field was seen.
    pub fn mean(&self) -> Option<Vec<f64>> {
        (self.count > 0).then(|| self.energy.iter().map(|e| e / self.count as f64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::time::{Calendar, ValidTime, valid_time};
    use crate::variable::Quantity;

    fn comparer() -> Comparer {
        let latitude = (0..6).map(|j| 30.0 + 5.0 * f64::from(j)).collect();
        let longitude = (0..10).map(|i| 5.0 * f64::from(i)).collect();
        let grid = Grid::new(latitude, longitude).unwrap();
        let layout = Layout { grid, quantities: vec![Quantity::parse("u500"), Quantity::parse("v500")] };
        Comparer::new(ScorePlan {
            layout: Arc::new(layout),
            regions: Vec::new(),
            missing: Missing::Propagate,
            nyquist: Nyquist::Once,
        })
    }

    fn state(comparer: &Comparer, valid: ValidTime, phase: f32) -> State {
        let mut state = State::missing(comparer.layout().clone(), valid);
        state.values.indexed_iter_mut().for_each(|((j, i, k), v)| {
            *v = (phase + j as f32 * 0.7 + i as f32 * 1.3 + k as f32).sin();
        });
        state
    }

    #[test]
    fn merging_is_associative_and_the_same_as_adding_in_one_go() {
        let comparer = comparer();
        let start = ValidTime::parse("2009-01-01", Calendar::Standard).unwrap();
        let day = LeadTime::from_hours(24);
        let part = |days: std::ops::Range<i64>| {
            let mut statistics = Statistics::default();
            for d in days {
                let init = InitTime(start.after(LeadTime::from_hours(24 * d)));
                for lead in [day, day.times(2)] {
                    let valid = valid_time(init, lead);
                    let (f, o) = (state(&comparer, valid, d as f32), state(&comparer, valid, 0.1));
                    let comparison = comparer.compare(&f, &o, Some(o.values.as_slice().unwrap())).unwrap();
                    statistics.add(init, lead, comparison);
                }
            }
            statistics
        };
        let (a, b, c) = (part(0..2), part(2..5), part(5..6));
        let mut left = a.clone();
        left.merge(b.clone());
        left.merge(c.clone());
        let mut bc = b;
        bc.merge(c);
        let mut right = a;
        right.merge(bc);
        // the sums of different initial times are never added, so they agree to the bit
        assert_eq!(left.sums, right.sums);
        assert_eq!(left.sums, part(0..6).sums);
        for (x, y) in left.spectra.values().zip(right.spectra.values()) {
            for (x, y) in x.forecast[1].energy.iter().zip(&y.forecast[1].energy) {
                // spectra are: the order of six additions shows in the last bits
                assert!((x / y - 1.0).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn fields_of_different_times_or_grids_are_not_compared() {
        let comparer = comparer();
        let time = ValidTime::parse("2009-01-01", Calendar::Standard).unwrap();
        let truth = state(&comparer, time, 0.0);
        let late = state(&comparer, time.after(LeadTime::from_hours(6)), 0.0);
        assert!(comparer.compare(&late, &truth, None).unwrap_err().to_string().contains("paired"));
        let mut layout = (**comparer.layout()).clone();
        layout.grid.latitude[0] += 1.0;
        let other = State { layout: Arc::new(layout), ..truth.clone() };
        assert!(comparer.compare(&other, &truth, None).is_err());
        let mut layout = (**comparer.layout()).clone();
        layout.quantities.truncate(1);
        let part = State { layout: Arc::new(layout), ..truth.clone() };
        assert!(comparer.compare(&truth, &part, None).is_err(), "the analysis must be whole");
    }

    #[test]
    fn a_forecast_of_some_quantities_is_scored_on_them_and_on_nothing_else() {
        let comparer = comparer();
        let time = ValidTime::parse("2009-01-01", Calendar::Standard).unwrap();
        let (whole, truth) = (state(&comparer, time, 0.3), state(&comparer, time, 0.0));
        let mut layout = (**comparer.layout()).clone();
        layout.quantities.remove(0);
        let v_alone = whole.arranged(&Arc::new(layout)).unwrap();
        let of = |forecast: &State| {
            let mut statistics = Statistics::default();
            let comparison = comparer.compare(forecast, &truth, None).unwrap();
            statistics.add(InitTime(time), LeadTime::ZERO, comparison);
            statistics
        };
        let (whole, part) = (of(&whole), of(&v_alone));
        let areas = comparer.geometry().areas().len();
        assert_eq!((whole.absent_channels(2, areas), part.absent_channels(2, areas)), (vec![], vec![0]));
        let first = |s: &Statistics| s.sums[&LeadTime::ZERO][&InitTime(time)][areas];
        assert_eq!(first(&whole).by_area.square, first(&part).by_area.square);
        assert!(part.spectra[&LeadTime::ZERO].forecast[0].mean().is_none());
    }
}
