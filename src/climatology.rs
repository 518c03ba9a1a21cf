//! What the weather is like at a place, at a time of the year and of the day: fitted on training states, evaluated at
//! any moment.
//!
//! Two kinds. [`Harmonic`] is smooth: a mean and two annual harmonics,
//!
//! ```text
//! c(p) = m + a1 cos 2πp + b1 sin 2πp + a2 cos 4πp + b2 sin 4πp,      p = fraction of the year gone by
//! ```
//!
//! one least-squares fit for each grid point, quantity and time of day. [`Window`] is the climatology of WeatherBench 2
//! (Rasp et al. 2024, doi:10.1029/2023MS004019): for each time of day and day of the year, the mean over all years and
//! over 61 days with triangular weights. Times of day that were never seen are refused, not interpolated.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::field::{Layout, State};
use crate::time::{Calendar, ValidTime};

/// Arrays by name, `(shape, values)`: how a climatology is stored.
pub type Arrays = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Which climatology to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ClimatologyKind {
    #[default]
    #[serde(rename = "harmonic")]
    Harmonic,
    #[serde(rename = "wb2")]
    Window,
}

/// A fitted climatology.
#[derive(Debug, Clone, PartialEq)]
pub enum Climatology {
    Harmonic(Harmonic),
    Window(Window),
}

/// Mean and two annual harmonics.
#[derive(Debug, Clone, PartialEq)]
pub struct Harmonic {
    /// `[lat, lon, channel]`
    pub shape: [usize; 3],
    /// By second of the day (UTC): `[5, lat, lon, channel]`, the order of the formula; NaN where nothing was seen.
    pub coefficients: BTreeMap<u32, Vec<f32>>,
}

/// Triangular day-of-year window.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// `[lat, lon, channel]`
    pub shape: [usize; 3],
    /// Days of the longest year of the calendar.
    pub days: usize,
    /// By second of the day (UTC): `[days, lat, lon, channel]`; NaN where nothing was seen.
    pub means: BTreeMap<u32, Vec<f32>>,
}

/// Terms of the harmonic fit.
const TERMS: usize = 5;
/// Half the window of WeatherBench 2 [days]; the weights of the two end days are 0.
const HALF_WINDOW: usize = 30;
/// The smallest pivot of the normal matrix, divided by the number of states, at which a fit counts as determined. Whole
/// years give 0.5, nine months 0.23, seven months 0.11, half a year 0.02.
const SMALLEST_PIVOT: f64 = 0.15;

impl Climatology {
    pub fn kind(&self) -> ClimatologyKind {
        match self {
            Self::Harmonic(_) => ClimatologyKind::Harmonic,
            Self::Window(_) => ClimatologyKind::Window,
        }
    }

    /// How a report calls it.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Harmonic(_) => "mean and two annual harmonics for each time of day",
            Self::Window(_) => {
                "mean of each day of the year and time of day over a triangular window of 61 days"
            }
        }
    }

    /// `[lat, lon, channel]`
    pub fn shape(&self) -> [usize; 3] {
        match self {
            Self::Harmonic(h) => h.shape,
            Self::Window(w) => w.shape,
        }
    }

    /// Overwrites `out`, `[lat, lon, channel]`, with the climatology at `valid`, in the units of the fit.
    pub fn evaluate(&self, valid: ValidTime, out: &mut [f32]) -> Result<()> {
        let shape = self.shape();
        let values: usize = shape.iter().product();
        if out.len() != values {
            return Err(Error::run(format!(
                "a climatology of {shape:?} = {values} values does not fit {} values",
                out.len()
            )));
        }
        match self {
            Self::Harmonic(h) => {
                let c = at_time_of_day(&h.coefficients, valid)?;
                let basis = basis(valid.year_fraction()).map(|b| b as f32);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = (1..TERMS).fold(c[i], |sum, term| sum + basis[term] * c[term * values + i]);
                }
            }
            Self::Window(w) => {
                let means = at_time_of_day(&w.means, valid)?;
                let day = (valid.day_of_year() as usize).min(w.days - 1);
                out.copy_from_slice(&means[day * values..(day + 1) * values]);
            }
        }
        Ok(())
    }

    /// The climatology of some of the channels, in the order given.
    pub fn select(&self, channels: &[usize]) -> Result<Self> {
        let [lat, lon, channel] = self.shape();
        if let Some(unknown) = channels.iter().find(|c| **c >= channel) {
            return Err(Error::run(format!(
                "a climatology of {channel} channels has none numbered {unknown}"
            )));
        }
        let shape = [lat, lon, channels.len()];
        let pick = |fields: &BTreeMap<u32, Vec<f32>>| {
            let points = |field: &[f32]| -> Vec<f32> {
                field.chunks_exact(channel).flat_map(|point| channels.iter().map(|&c| point[c])).collect()
            };
            fields.iter().map(|(&seconds, field)| (seconds, points(field))).collect()
        };
        Ok(match self {
            Self::Harmonic(h) => Self::Harmonic(Harmonic { shape, coefficients: pick(&h.coefficients) }),
            Self::Window(w) => Self::Window(Window { shape, days: w.days, means: pick(&w.means) }),
        })
    }

    /// The climatology as arrays: `seconds` (of the day) and `harmonic` or `window`, stacked in that order.
    pub fn to_arrays(&self) -> Arrays {
        let (name, leading, fields) = match self {
            Self::Harmonic(h) => ("harmonic", TERMS, &h.coefficients),
            Self::Window(w) => ("window", w.days, &w.means),
        };
        let seconds = fields.keys().map(|&s| s as f32).collect();
        let stacked = fields.values().flatten().copied().collect();
        let [lat, lon, channel] = self.shape();
        BTreeMap::from([
            ("seconds".into(), (vec![fields.len()], seconds)),
            (name.into(), (vec![fields.len(), leading, lat, lon, channel], stacked)),
        ])
    }

    /// The inverse of [`to_arrays`](Self::to_arrays).
    pub fn from_arrays(arrays: &Arrays) -> Result<Self> {
        let damaged = |what: &str| Error::input(format!("a stored climatology is damaged: {what}"));
        let (_, seconds) = arrays.get("seconds").ok_or_else(|| damaged("'seconds' is missing"))?;
        let is_harmonic = arrays.contains_key("harmonic");
        let name = if is_harmonic { "harmonic" } else { "window" };
        let (shape, stacked) =
            arrays.get(name).ok_or_else(|| damaged("there is neither 'harmonic' nor 'window'"))?;
        let &[times, leading, lat, lon, channel] = shape.as_slice() else {
            return Err(damaged(&format!("'{name}' has shape {shape:?}, expected five dimensions")));
        };
        let product = shape.iter().try_fold(1_usize, |all, &n| all.checked_mul(n));
        if times == 0 || times != seconds.len() || product != Some(stacked.len()) || product == Some(0) {
            return Err(damaged(&format!(
                "'{name}' of shape {shape:?} holds {} values for {} times of day",
                stacked.len(),
                seconds.len()
            )));
        }
        if is_harmonic && leading != TERMS {
            return Err(damaged(&format!("{leading} harmonic terms, expected {TERMS}")));
        }
        let fields = seconds.iter().map(|&s| s as u32).zip(stacked.chunks(stacked.len() / times));
        let fields = fields.map(|(s, values)| (s, values.to_vec())).collect();
        let shape = [lat, lon, channel];
        Ok(if is_harmonic {
            Self::Harmonic(Harmonic { shape, coefficients: fields })
        } else {
            Self::Window(Window { shape, days: leading, means: fields })
        })
    }
}

impl Harmonic {
    /// Numbers of the formula.
    pub const TERMS: usize = TERMS;

    /// Which of the [`coefficients`](Self::coefficients), in their order, hold at a moment, and their weights.
    pub fn combination(&self, valid: ValidTime) -> Result<(usize, [f32; TERMS])> {
        at_time_of_day(&self.coefficients, valid)?;
        let set = self.coefficients.range(..valid.date().seconds).count();
        Ok((set, basis(valid.year_fraction()).map(|b| b as f32)))
    }
}

fn at_time_of_day(fields: &BTreeMap<u32, Vec<f32>>, valid: ValidTime) -> Result<&[f32]> {
    fields.get(&valid.date().seconds).map(Vec::as_slice).ok_or_else(|| {
        let clock = |s: &u32| format!("{:02}:{:02}", s / 3600, s / 60 % 60);
        let seen: Vec<String> = fields.keys().map(clock).collect();
        Error::input(format!(
            "the climatology has nothing for {valid}: it was fitted on data at {} UTC",
            seen.join(", ")
        ))
        .hint("fit it on training data that hold this time of day")
    })
}

/// The functions of the harmonic fit at a fraction of the year.
fn basis(phase: f64) -> [f64; TERMS] {
    let (s1, c1) = (TAU * phase).sin_cos();
    let (s2, c2) = (2.0 * TAU * phase).sin_cos();
    [1.0, c1, s1, c2, s2]
}

/// Fits a climatology in one pass over states, in the order of time. Memory does not grow with their number.
pub struct ClimatologyFit {
    layout: Arc<Layout>,
    kind: ClimatologyKind,
    values: usize,
    harmonic: BTreeMap<u32, HarmonicSums>,
    window: BTreeMap<u32, WindowSums>,
}

type Matrix = [[f64; TERMS]; TERMS];

/// Normal equations of one time of day, in float64.
struct HarmonicSums {
    states: usize,
    /// Of all states.
    normal: Matrix,
    /// Right-hand sides, `[lat, lon, channel]`.
    moments: Vec<[f64; TERMS]>,
    /// For each value, one more than its index in `absent`; 0 where nothing is missing. Empty until something is.
    absent_index: Vec<u32>,
    /// What the states that are missing at a value have added to `normal`, and how many they are.
    absent: Vec<(usize, Matrix)>,
}

/// Sums of one time of day for each day of the year.
struct WindowSums {
    /// Sum and count, `[lat, lon, channel]` for each day; empty for a day never seen.
    days: Vec<Vec<(f64, u32)>>,
    /// The last 365th day: in a common year it fills day 366 too.
    pending: Option<(i32, Vec<f32>)>,
}

impl ClimatologyFit {
    pub fn new(layout: Arc<Layout>, kind: ClimatologyKind) -> Self {
        let values = layout.grid.points() * layout.channels();
        Self { layout, kind, values, harmonic: BTreeMap::new(), window: BTreeMap::new() }
    }

    /// Adds a state; missing values are left out point by point.
    pub fn add(&mut self, state: &State) -> Result<()> {
        match state.values.as_slice() {
            Some(values) => self.add_values(state.valid, values),
            None => self.add_values(state.valid, &state.values.iter().copied().collect::<Vec<f32>>()),
        }
    }

    /// Adds the values of a state, `[lat, lon, channel]`.
    pub fn add_values(&mut self, valid: ValidTime, values: &[f32]) -> Result<()> {
        if values.len() != self.values {
            return Err(Error::run(format!(
                "a climatology of {} values cannot take a state of {} values ({valid})",
                self.values,
                values.len()
            )));
        }
        let seconds = valid.date().seconds;
        match self.kind {
            ClimatologyKind::Harmonic => self
                .harmonic
                .entry(seconds)
                .or_insert_with(|| HarmonicSums::new(values.len()))
                .add(basis(valid.year_fraction()), values),
            ClimatologyKind::Window => self
                .window
                .entry(seconds)
                .or_insert_with(|| WindowSums::new(longest_year(valid.calendar)))
                .add(valid, values),
        }
        Ok(())
    }

    /// Solves; an error when the states do not cover the year.
    pub fn finish(self) -> Result<Climatology> {
        let (rows, columns, channels) = self.layout.shape();
        let shape = [rows, columns, channels];
        if self.harmonic.is_empty() && self.window.is_empty() {
            return Err(Error::input("a climatology needs training states, and there are none"));
        }
        let uncovered = |seconds: &u32| {
            Error::input(format!(
                "the training states at {:02}:{:02} UTC do not cover the year: no climatology can be fitted on them",
                seconds / 3600,
                seconds / 60 % 60
            ))
            .hint("train on whole years, or set anomalies = false")
        };
        match self.kind {
            ClimatologyKind::Harmonic => {
                let mut coefficients = BTreeMap::new();
                for (seconds, sums) in self.harmonic {
                    let solved = sums.solve().ok_or_else(|| uncovered(&seconds))?;
                    coefficients.insert(seconds, solved);
                }
                Ok(Climatology::Harmonic(Harmonic { shape, coefficients }))
            }
            ClimatologyKind::Window => {
                let (mut days, mut means) = (0, BTreeMap::new());
                for (seconds, mut sums) in self.window {
                    sums.flush();
                    days = sums.days.len();
                    let smooth = sums.smooth(self.values).ok_or_else(|| uncovered(&seconds))?;
                    means.insert(seconds, smooth);
                }
                Ok(Climatology::Window(Window { shape, days, means }))
            }
        }
    }
}

impl HarmonicSums {
    fn new(values: usize) -> Self {
        Self {
            states: 0,
            normal: [[0.0; TERMS]; TERMS],
            moments: vec![[0.0; TERMS]; values],
            absent_index: Vec::new(),
            absent: Vec::new(),
        }
    }

    fn add(&mut self, basis: [f64; TERMS], values: &[f32]) {
        self.states += 1;
        add_outer(&mut self.normal, &basis);
        for (i, (&value, moments)) in values.iter().zip(&mut self.moments).enumerate() {
            if value.is_finite() {
                let value = f64::from(value);
                moments.iter_mut().zip(basis).for_each(|(m, b)| *m += b * value);
                continue;
            }
            if self.absent_index.is_empty() {
                self.absent_index = vec![0; values.len()];
            }
            if self.absent_index[i] == 0 {
                self.absent.push((0, [[0.0; TERMS]; TERMS]));
                self.absent_index[i] = self.absent.len() as u32;
            }
            let (count, matrix) = &mut self.absent[self.absent_index[i] as usize - 1];
            *count += 1;
            add_outer(matrix, &basis);
        }
    }

    /// `[5, lat, lon, channel]`, or nothing when the states as a whole leave the harmonics undetermined. A point that
    /// is missing for part of the year (sea ice) keeps as many harmonics as its values determine, at least the mean.
    fn solve(&self) -> Option<Vec<f32>> {
        let values = self.moments.len();
        let whole = Cholesky::factor(&self.normal, self.states).filter(|c| c.terms == TERMS)?;
        let mut coefficients = vec![f32::NAN; TERMS * values];
        for (i, moments) in self.moments.iter().enumerate() {
            let solution = match self.absent_index.get(i).copied().unwrap_or(0) {
                0 => whole.solve(moments),
                index => {
                    let (count, missing) = &self.absent[index as usize - 1];
                    let mut normal = self.normal;
                    for (row, missing) in normal.iter_mut().zip(missing) {
                        row.iter_mut().zip(missing).for_each(|(a, m)| *a -= m);
                    }
                    match Cholesky::factor(&normal, self.states - count) {
                        Some(factor) => factor.solve(moments),
                        None => continue,
                    }
                }
            };
            for (term, x) in solution.into_iter().enumerate() {
                coefficients[term * values + i] = x as f32;
            }
        }
        Some(coefficients)
    }
}

fn add_outer(matrix: &mut Matrix, basis: &[f64; TERMS]) {
    for (row, a) in matrix.iter_mut().zip(basis) {
        row.iter_mut().zip(basis).for_each(|(m, b)| *m += a * b);
    }
}

/// Lower triangular factor of the leading `terms` of a normal matrix: 5, 3 or 1, as many as are determined.
struct Cholesky {
    terms: usize,
    lower: Matrix,
}

impl Cholesky {
    fn factor(normal: &Matrix, states: usize) -> Option<Self> {
        if states == 0 {
            return None;
        }
        let mut lower = [[0.0; TERMS]; TERMS];
        let mut determined = 0;
        'rows: for i in 0..TERMS {
            for j in 0..=i {
                let rest = normal[i][j] - (0..j).map(|k| lower[i][k] * lower[j][k]).sum::<f64>();
                if j < i {
                    lower[i][j] = rest / lower[j][j];
                } else if rest < SMALLEST_PIVOT * states as f64 {
                    break 'rows;
                } else {
                    lower[i][i] = rest.sqrt();
                }
            }
            determined = i + 1;
        }
        // A harmonic is its cosine and its sine: one of them alone would be an arbitrary phase.
        let terms = if determined == 0 { return None } else { (determined - 1) / 2 * 2 + 1 };
        Some(Self { terms, lower })
    }

    fn solve(&self, moments: &[f64; TERMS]) -> [f64; TERMS] {
        let (n, l) = (self.terms, &self.lower);
        let mut x = [0.0; TERMS];
        for i in 0..n {
            x[i] = (moments[i] - (0..i).map(|k| l[i][k] * x[k]).sum::<f64>()) / l[i][i];
        }
        for i in (0..n).rev() {
            x[i] = (x[i] - (i + 1..n).map(|k| l[k][i] * x[k]).sum::<f64>()) / l[i][i];
        }
        x
    }
}

/// Days of the longest year.
fn longest_year(calendar: Calendar) -> usize {
    calendar.year_days(2000) as usize // a leap year in every calendar that has them
}

impl WindowSums {
    fn new(days: usize) -> Self {
        Self { days: vec![Vec::new(); days], pending: None }
    }

    /// Quirks of WeatherBench 2 that are kept: the day of the year of a leap year is used as it is, so that after
    /// February it is shifted by a day; day 366 of a common year is that year's day 365; and so is a missing value on
    /// day 366 of a leap year.
    fn add(&mut self, valid: ValidTime, values: &[f32]) {
        let (year, day) = (valid.date().year, valid.day_of_year() as usize);
        let is_leap_day = self.days.len() == 366 && day == 365;
        match self.pending.take() {
            Some((pending_year, before)) if is_leap_day && pending_year == year => {
                let filled: Vec<f32> =
                    values.iter().zip(before).map(|(&v, b)| if v.is_finite() { v } else { b }).collect();
                self.add_day(day, &filled);
            }
            Some(kept) => {
                self.pending = Some(kept);
                self.flush();
                self.add_day(day, values);
            }
            None => self.add_day(day, values),
        }
        if self.days.len() == 366 && day == 364 {
            self.pending = Some((year, values.to_vec()));
        }
    }

    /// Lets the 365th day that is kept fill day 366.
    fn flush(&mut self) {
        if let Some((_, values)) = self.pending.take() {
            self.add_day(365, &values);
        }
    }

    fn add_day(&mut self, day: usize, values: &[f32]) {
        let sums = &mut self.days[day];
        if sums.is_empty() {
            sums.resize(values.len(), (0.0, 0));
        }
        for (sum, &value) in sums.iter_mut().zip(values).filter(|(_, v)| v.is_finite()) {
            sum.0 += f64::from(value);
            sum.1 += 1;
        }
    }

    /// The weighted mean over the window, which wraps around inside the year; nothing when a day's window is empty.
    fn smooth(&self, values: usize) -> Option<Vec<f32>> {
        let days = self.days.len();
        let mut means = vec![f32::NAN; days * values];
        let mut sums = vec![(0.0, 0.0); values];
        for (day, mean) in means.chunks_mut(values.max(1)).enumerate() {
            sums.fill((0.0, 0.0));
            for offset in 1..2 * HALF_WINDOW {
                let weight = 1.0 - offset.abs_diff(HALF_WINDOW) as f64 / HALF_WINDOW as f64;
                let source = &self.days[(day + offset + days - HALF_WINDOW) % days];
                for (sum, &(value, count)) in sums.iter_mut().zip(source) {
                    sum.0 += weight * value;
                    sum.1 += weight * f64::from(count);
                }
            }
            if sums.iter().all(|s| s.1 == 0.0) {
                return None;
            }
            for (mean, sum) in mean.iter_mut().zip(&sums).filter(|(_, s)| s.1 > 0.0) {
                *mean = (sum.0 / sum.1) as f32;
            }
        }
        Some(means)
    }
}

#[cfg(test)]
mod tests;
