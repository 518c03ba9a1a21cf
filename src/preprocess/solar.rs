//! Where the sun stands, and how much of it reaches the top of the atmosphere.
//!
//! The solar position is that of Meeus (Astronomical Algorithms, 2nd edition, 1998, chapters 25 and 28) in the form of
//! NOAA's calculator: declination to 0.01 degrees and the equation of time to a few seconds from 1900 to 2100.

use std::f64::consts::{PI, TAU};

use crate::constants::SOLAR_CONSTANT;
use crate::device::{Light, light};
use crate::grid::Grid;
use crate::time::{Calendar, LeadTime, ValidTime};

/// The sun as seen from the earth.
#[derive(Debug, Clone, Copy)]
pub struct Sun {
    /// [rad]
    pub declination: f64,
    /// Apparent minus mean solar time [rad of hour angle].
    pub equation_of_time: f64,
    /// [astronomical units]
    pub distance: f64,
}

/// Julian date of 1970-01-01T00:00.
const UNIX_EPOCH: f64 = 2_440_587.5;
/// Julian date of 2000-01-01T12:00.
const J2000: f64 = 2_451_545.0;
/// Julian date of 2001-01-01T00:00: the year on which other calendars are laid.
const YEAR_2001: f64 = 2_451_910.5;
/// The longest time for which declination, distance and equation of time are held [s].
const PIECE: i64 = 3600;

/// Days since 2000-01-01T12:00. A moment of another calendar is laid on the year 2001 by its fraction of the year.
fn days_since_2000(valid: ValidTime) -> f64 {
    match valid.calendar {
        Calendar::Standard => valid.seconds as f64 / 86_400.0 + UNIX_EPOCH - J2000,
        _ => YEAR_2001 - J2000 + valid.year_fraction() * 365.0,
    }
}

/// The sun at a moment.
pub fn sun(valid: ValidTime) -> Sun {
    let t = days_since_2000(valid) / 36_525.0;
    let mean_longitude = (280.46646 + t * (36_000.769_83 + t * 0.000_303_2)).to_radians();
    let anomaly = (357.52911 + t * (35_999.050_29 - t * 0.000_153_7)).to_radians();
    let e = 0.016_708_634 - t * (0.000_042_037 + t * 0.000_000_126_7);
    let centre = (anomaly.sin() * (1.914602 - t * (0.004_817 + t * 0.000_014))
        + (2.0 * anomaly).sin() * (0.019993 - t * 0.000_101)
        + (3.0 * anomaly).sin() * 0.000_289)
        .to_radians();
    let distance = 1.000_001_018 * (1.0 - e * e) / (1.0 + e * (anomaly + centre).cos());
    let node = (125.04 - 1934.136 * t).to_radians();
    let longitude = mean_longitude + centre - (0.00569 + 0.00478 * node.sin()).to_radians();
    let obliquity = (23.0
        + (26.0 + (21.448 - t * (46.815 + t * (0.00059 - t * 0.001813))) / 60.0) / 60.0
        + 0.00256 * node.cos())
    .to_radians();
    let y = (obliquity / 2.0).tan().powi(2);
    let equation_of_time = y * (2.0 * mean_longitude).sin() - 2.0 * e * anomaly.sin()
        + 4.0 * e * y * anomaly.sin() * (2.0 * mean_longitude).cos()
        - 0.5 * y * y * (4.0 * mean_longitude).sin()
        - 1.25 * e * e * (2.0 * anomaly).sin();
    Sun { declination: (obliquity.sin() * longitude.sin()).asin(), equation_of_time, distance }
}

/// Mean downward solar radiation at the top of the atmosphere over `(from, from + step]`, `[lat, lon]` [W m⁻²].
pub fn mean_radiation(grid: &Grid, from: ValidTime, step: LeadTime, out: &mut [f32]) {
    let sums = light(&lights(from, step), &radians(&grid.latitude), &radians(&grid.longitude));
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = sum.max(0.0) as f32;
    }
}

/// The sun over `(from, from + step]`: its position is held for an hour at most, at its middle.
pub(super) fn lights(from: ValidTime, step: LeadTime) -> Vec<Light> {
    let pieces = ((step.seconds + PIECE - 1) / PIECE).max(1);
    let length = step.seconds as f64 / pieces as f64;
    let turn = TAU * length / 86_400.0;
    let piece = |piece| {
        let start = piece as f64 * length;
        let sun = sun(from.after(LeadTime { seconds: (start + length / 2.0) as i64 }));
        let (sin_declination, cos_declination) = sun.declination.sin_cos();
        Light {
            strength: SOLAR_CONSTANT / (sun.distance * sun.distance) / turn / pieces as f64,
            sin_declination,
            cos_declination,
            start: TAU * (f64::from(from.date().seconds) + start) / 86_400.0 - PI + sun.equation_of_time,
            turn,
        }
    };
    (0..pieces).map(piece).collect()
}

pub(super) fn radians(degrees: &[f64]) -> Vec<f64> {
    degrees.iter().map(|degrees| degrees.to_radians()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> ValidTime {
        ValidTime::parse(text, Calendar::Standard).unwrap()
    }

    fn daily(latitudes: &[f64], day: &str) -> Vec<f32> {
        let grid = Grid::new(latitudes.to_vec(), vec![0.0, 90.0, 213.0]).unwrap();
        let mut out = vec![0.0; grid.points()];
        mean_radiation(&grid, at(day), "1d".parse().unwrap(), &mut out);
        out.chunks(3).map(|row| (row[0] + row[1] + row[2]) / 3.0).collect()
    }

    #[test]
    fn the_position_is_that_of_the_examples_of_meeus() {
        // Example 25.a: 1992 October 13, 0 h: declination -7.78507 degrees, distance 0.99766.
        let sun = sun(at("1992-10-13"));
        assert!((sun.declination.to_degrees() + 7.78507).abs() < 0.005, "{}", sun.declination.to_degrees());
        assert!((sun.distance - 0.99766).abs() < 2e-5);
        // Example 28.a of the same moment: equation of time +13 min 42.6 s.
        let seconds = sun.equation_of_time / TAU * 86_400.0;
        assert!((seconds - 822.6).abs() < 3.0, "{seconds}");
    }

    #[test]
    fn solstices_and_equinoxes_of_2000_fall_on_their_almanac_dates() {
        // Astronomical Almanac 2000: equinoxes March 20 07:35 and September 22 17:27, solstices June 21 01:48 and
        // December 21 13:37 UT, obliquity 23.44; perihelion January 3, 0.98332; aphelion July 4, 1.01674.
        for text in ["2000-03-20T07:35", "2000-09-22T17:27"] {
            assert!(sun(at(text)).declination.to_degrees().abs() < 0.01, "{text}");
        }
        for (text, declination) in [("2000-06-21T01:48", 23.44), ("2000-12-21T13:37", -23.44)] {
            assert!((sun(at(text)).declination.to_degrees() - declination).abs() < 0.01, "{text}");
        }
        assert!((sun(at("2000-01-03T05")).distance - 0.98332).abs() < 5e-5);
        assert!((sun(at("2000-07-04T00")).distance - 1.01674).abs() < 5e-5);
    }

    #[test]
    fn daily_means_are_those_of_the_textbook() {
        // Liou 2002 (An Introduction to Atmospheric Radiation, eq. 2.2.21): S (d0/d)^2 / pi at the equator at equinox,
        // S (d0/d)^2 sin(declination) at a pole at its solstice, 0 in the polar night.
        let equinox = sun(at("2000-03-20T12"));
        let expected = SOLAR_CONSTANT / PI / equinox.distance.powi(2);
        let equator = f64::from(daily(&[0.0, 1.0], "2000-03-20")[0]);
        assert!((equator - expected).abs() < 0.1, "{equator} {expected}");
        let solstice = sun(at("2000-06-21T12"));
        let expected = SOLAR_CONSTANT * solstice.declination.sin() / solstice.distance.powi(2);
        let polar = daily(&[-90.0, -67.0, 90.0], "2000-06-21");
        assert_eq!(polar[..2], [0.0, 0.0]);
        assert!((f64::from(polar[2]) - expected).abs() < 0.1, "{} {expected}", polar[2]);
        assert!((520.0..530.0).contains(&polar[2])); // Hartmann 2016, figure 2.6: about 525 W m-2
    }

    #[test]
    fn the_year_and_the_globe_average_to_a_quarter_of_the_solar_constant() {
        // S / (4 sqrt(1 - e^2)): Berger and Loutre 1994
        let latitude: Vec<f64> = (0..36).map(|j| -87.5 + 5.0 * j as f64).collect();
        let grid = Grid::new(latitude.clone(), vec![0.0]).unwrap();
        let weights = grid.latitude_weights();
        let mut mean = 0.0;
        for day in 0..73 {
            let mut out = vec![0.0; 36];
            let from = ValidTime::new(day * 5 * 86_400 + 946_684_800, Calendar::Standard);
            mean_radiation(&grid, from, "1d".parse().unwrap(), &mut out);
            mean += out.iter().zip(&weights).map(|(x, w)| f64::from(*x) * w).sum::<f64>() / 36.0 / 73.0;
        }
        let e: f64 = 0.0167;
        let expected = SOLAR_CONSTANT / 4.0 / (1.0 - e * e).sqrt();
        // rows of 5 degrees and 73 days of 366: a tenth of a percent
        assert!((mean / expected - 1.0).abs() < 1e-3, "{mean} {expected}");
    }

    #[test]
    fn steps_of_any_length_add_up_to_the_fine_integral() {
        let grid = Grid::new(vec![-70.0, -33.0, 10.0, 55.0, 68.0], vec![5.0, 101.0, 250.5]).unwrap();
        for (from, step) in [
            ("2003-05-02T09", "6h"),
            ("2003-11-20T00", "7h"),
            ("2003-07-01T12", "1d"),
            ("2003-02-01T05:30", "90min"),
        ] {
            let (from, step): (_, LeadTime) = (at(from), step.parse().unwrap());
            let mut out = vec![0.0; grid.points()];
            mean_radiation(&grid, from, step, &mut out);
            let n = 2000;
            for (i, &value) in out.iter().enumerate() {
                let (latitude, longitude) =
                    (grid.latitude[i / 3].to_radians(), grid.longitude[i % 3].to_radians());
                let mut sum = 0.0;
                for k in 0..n {
                    let s = step.seconds as f64 * (k as f64 + 0.5) / n as f64;
                    let sun = sun(from.after(LeadTime { seconds: s as i64 }));
                    let h = TAU * (f64::from(from.date().seconds) + s) / 86_400.0 - PI
                        + sun.equation_of_time
                        + longitude;
                    let z = latitude.sin() * sun.declination.sin()
                        + latitude.cos() * sun.declination.cos() * h.cos();
                    sum += SOLAR_CONSTANT / sun.distance.powi(2) * z.max(0.0) / n as f64;
                }
                assert!((f64::from(value) - sum).abs() < 0.1, "{from} {step}: {value} {sum}");
            }
        }
    }
}
