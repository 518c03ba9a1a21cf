//! Fields that place and time alone decide: the light of a distant source on a turning sphere, and what changes along a
//! row only.

use super::Slot;

/// A stretch of time in which the sphere turns by `turn`; the source stands still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Light {
    /// Of the light on a plane that faces the source, times the share of all the time that this stretch is, divided
    /// by `turn`.
    pub strength: f64,
    /// Of the source's angle above the equator.
    pub sin_declination: f64,
    pub cos_declination: f64,
    /// Hour angle of the source at longitude 0 and the beginning [rad].
    pub start: f64,
    /// [rad]; less than a whole turn.
    pub turn: f64,
}

/// What one image is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// `[columns, channels]`: what is the same in all rows.
    pub by_column: Vec<f32>,
    /// As many for each image.
    pub lights: Vec<Light>,
    /// Column i of the result is column `i + turn` of the grid.
    pub turn: u32,
}

/// ```text
/// light = sum of strength * integral over h of max(0, sin φ sin δ + cos φ cos δ cos h)
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Daylight<'a> {
    /// Of the rows [rad].
    pub latitudes: &'a [f64],
    /// Of the columns [rad].
    pub longitudes: &'a [f64],
    pub channels: usize,
    /// The channel that holds the light, if any does.
    pub light: Option<usize>,
    /// What the light is counted in.
    pub unit: f32,
    pub moments: &'a [Moment],
    /// `[moments, rows, columns, channels]`, overwritten.
    pub fields: Slot,
}

impl Daylight<'_> {
    pub(super) fn check(&self) {
        let (rows, columns) = (self.latitudes.len(), self.longitudes.len());
        let field = rows * columns * self.channels;
        assert_eq!(self.fields.len(), self.moments.len() * field, "a field for each moment");
        assert!(self.light.is_none_or(|light| light < self.channels), "the light has a channel");
        for moment in self.moments {
            assert_eq!(moment.by_column.len(), columns * self.channels, "numbers for each column");
            assert_eq!(moment.lights.len(), self.moments[0].lights.len(), "as many lights for each moment");
            assert!((moment.turn as usize) < columns.max(1), "less than a whole turn");
        }
    }
}

/// The light at each point, `[rows, columns]`. The integral is analytic between rise and set.
pub fn light(lights: &[Light], latitudes: &[f64], longitudes: &[f64]) -> Vec<f64> {
    use std::f64::consts::{PI, TAU};
    let columns = longitudes.len();
    let mut sums = vec![0.0_f64; latitudes.len() * columns];
    for light in lights {
        let turn = light.turn;
        // Hour angle at the start of the piece, in [-pi, pi), and the sines at its start and end.
        let angles: Vec<(f64, f64, f64)> = longitudes
            .iter()
            .map(|longitude| {
                let h = (light.start + longitude + PI).rem_euclid(TAU) - PI;
                (h, h.sin(), (h + turn).sin())
            })
            .collect();
        for (latitude, row) in latitudes.iter().zip(sums.chunks_mut(columns.max(1))) {
            let (sin_latitude, cos_latitude) = latitude.sin_cos();
            let (a, b) = (sin_latitude * light.sin_declination, cos_latitude * light.cos_declination);
            // Half a day: 0 where the source does not rise, pi where it does not set.
            let half = (-a / b.max(1e-12)).clamp(-1.0, 1.0).acos();
            let sin_half = half.sin();
            for (sum, &(h, sin_start, sin_end)) in row.iter_mut().zip(&angles) {
                let mut seen = 0.0;
                // The stretch may reach into the next day's rise (a turn later); it is shorter than a turn.
                for noon in [0.0, TAU] {
                    let (rise, set) = (noon - half, noon + half);
                    let (begin, sin_begin) = if h > rise { (h, sin_start) } else { (rise, -sin_half) };
                    let (end, sin_stop) = if h + turn < set { (h + turn, sin_end) } else { (set, sin_half) };
                    if end > begin {
                        seen += a * (end - begin) + b * (sin_stop - sin_begin);
                    }
                }
                *sum += light.strength * seen;
            }
        }
    }
    sums
}
