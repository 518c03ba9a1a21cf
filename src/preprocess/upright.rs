//! Files whose rows run the other way than their latitudes say.

use crate::error::{Error, Result};
use crate::field::Layout;
use crate::time::ValidTime;

use super::statistics::Moments;

/// How much nearer to what is usual a turned field comes by being turned back: the ratio of the mean squares. The
/// weather of eleven years over Europe reaches 3.8 in the height of a pressure surface (and 5 in surface pressure); a
/// turned winter's day there has 6 as its median.
const NEARER: f64 = 6.0;
/// Slope of the usual field, in deviations of the anomalies, from which on weather never turns it around. Over Europe
/// heights and temperatures have 1.7 to 3.4; surface pressure has at most 1, and does turn around.
const STEEP: f64 = 1.5;

/// A field that is much nearer to what is usual when its rows run the other way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suspect {
    valid: ValidTime,
    channel: usize,
    /// How far the usual field is from itself turned: root mean square.
    slope: f64,
}

/// The suspects among the fields of one state, `[lat, lon, channel]`.
pub(super) fn suspects(layout: &Layout, valid: ValidTime, values: &[f32], usual: &[f32]) -> Vec<Suspect> {
    /// Fewer rows can be turned by chance.
    const ROWS: usize = 8;
    let (rows, columns, channels) = layout.shape();
    if rows < ROWS {
        return Vec::new();
    }
    let row = columns * channels;
    let suspect = |channel: usize| {
        let (mut upright, mut turned, mut slope, mut count) = (0.0, 0.0, 0.0, 0.0);
        for j in 0..rows {
            let mirror = (rows - 1 - j) * row;
            for i in (channel..row).step_by(channels) {
                let (here, there) = (j * row + i, mirror + i);
                let usual_here = usual[here];
                let [a, b, c] =
                    [values[here], values[there], usual[there]].map(|x| f64::from(x - usual_here));
                if (a + b + c).is_finite() {
                    upright += a * a;
                    turned += b * b;
                    slope += c * c;
                    count += 1.0;
                }
            }
        }
        (NEARER * turned < upright).then(|| Suspect { valid, channel, slope: (slope / count).sqrt() })
    };
    (0..channels).filter_map(suspect).collect()
}

/// Refuses the first suspect whose usual field is steep. Not every turned field is a suspect, but reversed rows come by
/// files, and of some days one is.
pub(super) fn refuse_turned(layout: &Layout, suspects: &[Suspect], anomalies: &[Moments]) -> Result<()> {
    let Some(turned) = suspects.iter().find(|s| s.slope > STEEP * anomalies[s.channel].deviation()) else {
        return Ok(());
    };
    Err(Error::input(format!(
        "{} at {} looks turned upside down: its rows run from north to south where they say south to north, or the \
         other way",
        layout.quantities[turned.channel], turned.valid
    ))
    .hint("look at it (wxsim plot), and correct the latitudes or get that date again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;
    use crate::time::Calendar;
    use crate::variable::Quantity;

    fn turned(values: &[f32], row: usize) -> Vec<f32> {
        values.chunks(row).rev().flatten().copied().collect()
    }

    #[test]
    fn a_turned_field_is_named_and_strange_weather_is_not_refused() {
        let axis = |n: usize, first: f64| (0..n).map(|i| first + i as f64).collect::<Vec<_>>();
        let grid = Grid::new(axis(12, 40.0), axis(9, 0.0)).unwrap();
        let layout = Layout { grid, quantities: vec![Quantity::new("msl", None), Quantity::parse("z500")] };
        // Pressure has hardly a slope, the height of a pressure surface a steep one.
        let usual: Vec<f32> =
            (0..108).flat_map(|k| [(k / 9) as f32 * 10.0, 55_000.0 - (k / 9) as f32 * 400.0]).collect();
        let noise = |k: usize| ((k * 37 % 101) as f32 - 50.0) * 12.0;
        let mut weather: Vec<f32> = usual.iter().enumerate().map(|(k, x)| x + noise(k)).collect();
        let valid = ValidTime::new(0, Calendar::Standard);
        let anomalies = [Moments { count: 100, mean: 0.0, squares: 100.0 * 350.0 * 350.0 }; 2];
        let judge =
            |values: &[f32]| refuse_turned(&layout, &suspects(&layout, valid, values, &usual), &anomalies);
        judge(&weather).unwrap();
        let error = judge(&turned(&weather, 18)).unwrap_err().to_string();
        assert!(error.starts_with("z500 at 1970-01-01T00:00Z looks turned"), "{error}");
        weather[1] = f32::NAN;
        judge(&weather).unwrap();
        assert!(judge(&turned(&weather, 18)).is_err());
        // Pressure that is exactly the usual one turned around: a suspect, and allowed.
        let reversed: Vec<f32> = turned(&usual, 18)
            .iter()
            .zip(&usual)
            .enumerate()
            .map(|(k, (a, b))| if k % 2 == 0 { *a } else { *b })
            .collect();
        assert_eq!(suspects(&layout, valid, &reversed, &usual).len(), 1);
        judge(&reversed).unwrap();
    }
}
