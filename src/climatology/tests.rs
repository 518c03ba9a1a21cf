use super::*;
use crate::constants::DAY_SECONDS;
use crate::grid::Grid;
use crate::variable::Quantity;

fn layout(columns: usize) -> Arc<Layout> {
    let longitude = (0..columns).map(|i| i as f64).collect();
    let grid = Grid::new(vec![50.0], longitude).unwrap();
    Arc::new(Layout { grid, quantities: vec![Quantity::new("t2m", None)] })
}

fn days(first: &str, count: usize) -> impl Iterator<Item = ValidTime> {
    let first = ValidTime::parse(first, Calendar::Standard).unwrap();
    (0..count as i64).map(move |d| ValidTime::new(first.seconds + d * DAY_SECONDS, first.calendar))
}

fn wave(valid: ValidTime) -> f64 {
    let p = TAU * valid.year_fraction();
    280.0 + 10.0 * p.cos() - 3.0 * p.sin() + 1.5 * (2.0 * p).cos() + 0.5 * (2.0 * p).sin()
}

fn fit(
    kind: ClimatologyKind,
    columns: usize,
    states: impl Iterator<Item = (ValidTime, Vec<f32>)>,
) -> Result<Climatology> {
    let mut fit = ClimatologyFit::new(layout(columns), kind);
    for (valid, values) in states {
        fit.add_values(valid, &values)?;
    }
    fit.finish()
}

#[test]
fn harmonics_are_found_again_beside_points_with_gaps() {
    // Point 0 whole, point 1 never seen, point 2 with every third day missing, point 3 seen in summer only.
    let states = days("2000-01-01T12", 1461).enumerate().map(|(i, valid)| {
        let x = wave(valid) as f32;
        let summer = (0.4..0.6).contains(&valid.year_fraction());
        let at = |present: bool| if present { x } else { f32::NAN };
        (valid, vec![x, f32::NAN, at(i % 3 != 0), at(summer)])
    });
    let climatology = fit(ClimatologyKind::Harmonic, 4, states).unwrap();
    for valid in days("2010-02-11T12", 400) {
        let mut out = [0.0; 4];
        climatology.evaluate(valid, &mut out).unwrap();
        // float32 coefficients of a value of 280: a few units in the last place
        assert!((f64::from(out[0]) - wave(valid)).abs() < 2e-4);
        assert!(out[1].is_nan());
        assert!((f64::from(out[2]) - wave(valid)).abs() < 2e-4);
        assert!((260.0..280.0).contains(&out[3]), "a part of the year must not be extrapolated: {}", out[3]);
    }
}

#[test]
fn a_time_of_day_never_seen_is_refused() {
    let states = days("2000-01-01T12", 731).map(|valid| (valid, vec![1.0]));
    let climatology = fit(ClimatologyKind::Harmonic, 1, states).unwrap();
    let error = climatology
        .evaluate(ValidTime::parse("2001-01-01T06", Calendar::Standard).unwrap(), &mut [0.0])
        .unwrap_err();
    assert!(error.to_string().contains("12:00"), "{error}");
}

#[test]
fn states_that_do_not_cover_the_year_are_refused() {
    for kind in [ClimatologyKind::Harmonic, ClimatologyKind::Window] {
        let states = days("2000-01-01T12", 180).map(|valid| (valid, vec![1.0]));
        assert!(fit(kind, 1, states).is_err(), "{kind:?}");
        assert!(fit(kind, 1, std::iter::empty()).is_err(), "{kind:?}");
    }
}

/// The definition of WeatherBench 2 written out: years as rows, day 366 filled, windows padded inside each year.
fn window_by_definition(series: &[(ValidTime, f32)], day: usize) -> f64 {
    let mut years: BTreeMap<i32, [f64; 366]> = BTreeMap::new();
    for (valid, value) in series {
        let row = years.entry(valid.date().year).or_insert([f64::NAN; 366]);
        row[valid.day_of_year() as usize] = f64::from(*value);
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for row in years.values_mut() {
        if row[365].is_nan() {
            row[365] = row[364];
        }
        for offset in -30..=30_i32 {
            let weight = 1.0 - f64::from(offset.abs()) / 30.0;
            let value = row[(day as i32 + offset).rem_euclid(366) as usize];
            if value.is_finite() {
                sum += weight * value;
                weights += weight;
            }
        }
    }
    sum / weights
}

#[test]
fn the_window_is_that_of_weatherbench_2_with_its_leap_day() {
    let mut series: Vec<(ValidTime, f32)> = days("2003-01-01T00", 1461 + 365)
        .map(|v| (v, (wave(v) + v.day_of_year().sin() * 5.0) as f32))
        .collect();
    series[100].1 = f32::NAN; // a gap in 2003
    series[730].1 = f32::NAN; // 2004-12-31, day 366
    let states = series.iter().map(|&(valid, x)| (valid, vec![x]));
    let climatology = fit(ClimatologyKind::Window, 1, states).unwrap();
    for day in [0, 10, 59, 200, 340, 364, 365] {
        let mut out = [0.0];
        let first = ValidTime::parse("2008-01-01T00", Calendar::Standard).unwrap();
        let valid = ValidTime::new(first.seconds + day as i64 * DAY_SECONDS, first.calendar);
        climatology.evaluate(valid, &mut out).unwrap();
        let expected = window_by_definition(&series, day);
        assert!((f64::from(out[0]) - expected).abs() < 5e-5, "day {day}: {} against {expected}", out[0]);
    }
}

#[test]
fn arrays_give_the_same_climatology_and_damaged_ones_an_error() {
    for kind in [ClimatologyKind::Harmonic, ClimatologyKind::Window] {
        let states = days("2000-01-01T06", 740).map(|valid| (valid, vec![wave(valid) as f32, 2.0]));
        let climatology = fit(kind, 2, states).unwrap();
        let mut arrays = climatology.to_arrays();
        assert_eq!(Climatology::from_arrays(&arrays).unwrap(), climatology);
        arrays.values_mut().for_each(|(_, values)| {
            values.pop();
        });
        assert!(Climatology::from_arrays(&arrays).is_err());
        assert!(Climatology::from_arrays(&Arrays::new()).is_err());
    }
}

#[test]
fn some_channels_are_the_same_as_before() {
    for kind in [ClimatologyKind::Harmonic, ClimatologyKind::Window] {
        let states = days("2000-01-01T12", 731).map(|valid| {
            let x = wave(valid) as f32;
            (valid, vec![x, 2.0 * x, 3.0 * x])
        });
        // Three columns of one channel are, to the arrays, one column of three.
        let whole = fit(kind, 3, states).unwrap();
        let arrays = whole.to_arrays().into_iter().map(|(name, (mut shape, values))| {
            if shape.len() == 5 {
                shape = vec![shape[0], shape[1], 1, 1, 3];
            }
            (name, (shape, values))
        });
        let whole = Climatology::from_arrays(&arrays.collect()).unwrap();
        let part = whole.select(&[2, 0]).unwrap();
        let valid = days("2003-07-01T12", 1).next().unwrap();
        let (mut all, mut some) = ([0.0; 3], [0.0; 2]);
        whole.evaluate(valid, &mut all).unwrap();
        part.evaluate(valid, &mut some).unwrap();
        assert_eq!(some, [all[2], all[0]]);
        assert!(whole.select(&[3]).is_err());
    }
}
