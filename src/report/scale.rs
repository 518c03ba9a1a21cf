//! From values to colours: round levels, units that people read, ticks of axes and colour bars.

use crate::report::image::Colour;
use crate::report::palette::Palette;
use crate::variable::{Behaviour, Quantity};

/// What a value is, which decides its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sense {
    /// The quantity itself.
    Value,
    /// A difference of two such values: no offset of the unit, zero in the middle.
    Difference,
}

/// How the values of a quantity are shown: `shown = value * factor + offset`.
#[derive(Debug, Clone, PartialEq)]
pub struct Units {
    pub name: String,
    pub factor: f64,
    pub offset: f64,
}

impl Units {
    /// The units people read for a known quantity; those of its file for another.
    pub fn of(quantity: &Quantity, file_units: &str, sense: Sense) -> Self {
        let (name, factor, offset) =
            quantity.variable().map_or((file_units, 1.0, 0.0), |variable| variable.display);
        let (name, offset) = match sense {
            Sense::Value => (name, offset),
            Sense::Difference if name == "degC" => ("K", 0.0),
            Sense::Difference => (name, 0.0),
        };
        Self { name: readable(name), factor, offset }
    }

    pub fn show(&self, value: f64) -> f64 {
        value * self.factor + self.offset
    }
}

/// Units as they are printed: `degC` is °C, `m2 s-2` is m² s⁻², `1` is nothing.
pub fn readable(units: &str) -> String {
    match units {
        "1" => return String::new(),
        "degC" => return "°C".into(),
        "1e-5/s" => return "10⁻⁵ s⁻¹".into(),
        _ => {}
    }
    let mut out = String::new();
    let mut raised = false;
    let mut previous = ' ';
    for c in units.chars() {
        raised =
            (raised && c.is_ascii_digit()) || (previous.is_alphabetic() && (c.is_ascii_digit() || c == '-'));
        out.push(match c {
            '-' if raised => '⁻',
            '0'..='9' if raised => {
                ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][c as usize - '0' as usize]
            }
            other => other,
        });
        raised |= c == '-' && raised;
        previous = c;
    }
    out
}

/// The levels between the colours of a map, in shown units.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// Ascending, at least two.
    pub levels: Vec<f64>,
    pub palette: Palette,
    pub units: Units,
    /// Values lie below the lowest or above the highest level.
    pub below: bool,
    pub above: bool,
}

/// Amounts of rain worth telling apart [mm].
const RAIN: [f64; 12] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0, 75.0, 100.0];

impl Scale {
    /// Round levels for these values (SI units; missing ones are NaN). Of more than a thousand values, the two
    /// thousandths at each end may lie outside the levels.
    pub fn fit(
        quantity: &Quantity,
        file_units: &str,
        sense: Sense,
        values: impl Iterator<Item = f32>,
    ) -> Self {
        let units = Units::of(quantity, file_units, sense);
        let mut shown: Vec<f64> =
            values.filter(|v| v.is_finite()).map(|v| units.show(f64::from(v))).collect();
        shown.sort_by(f64::total_cmp);
        let pick =
            |share: f64| shown.get(((shown.len().max(1) - 1) as f64 * share).round() as usize).copied();
        let (low, high) = (pick(0.002).unwrap_or(0.0), pick(0.998).unwrap_or(1.0));
        let signed = sense == Sense::Difference
            || quantity.behaviour() == Behaviour::WindComponent
            || matches!(quantity.name.as_str(), "w" | "vo");
        let (levels, palette) = if signed {
            let reach = low.abs().max(high.abs());
            let step = nice_step(2.0 * reach, 14.0, &[1.0, 2.0, 5.0]);
            let bands = (reach / step - 1e-9).ceil().max(1.0) as i64;
            ((-bands..=bands).map(|i| i as f64 * step).collect(), Palette::Diverging)
        } else if quantity.behaviour() == Behaviour::Accumulated && units.name == "mm" {
            (RAIN.to_vec(), Palette::Rain)
        } else {
            let steps: &[f64] = match quantity.name.as_str() {
                "msl" | "sp" | "z" => &[1.0, 2.0, 4.0, 8.0],
                _ => &[1.0, 2.0, 5.0],
            };
            (round_levels(low, high, 14.0, steps), Palette::Sequential)
        };
        let mut scale = Self::with_levels(levels, palette, units);
        scale.below = shown.first().is_some_and(|v| *v < scale.low()) && palette != Palette::Rain;
        scale.above = shown.last().is_some_and(|v| *v > scale.high());
        scale
    }

    /// The range that the user asked for, in shown units.
    pub fn between(low: f64, high: f64, palette: Palette, units: Units) -> Self {
        let step = nice_step(high - low, 14.0, &[1.0, 2.0, 5.0]);
        let bands = ((high - low) / step).round().clamp(1.0, 64.0);
        let levels = (0..=bands as usize).map(|i| low + (high - low) * i as f64 / bands).collect();
        Self { below: true, above: true, ..Self::with_levels(levels, palette, units) }
    }

    fn with_levels(mut levels: Vec<f64>, palette: Palette, units: Units) -> Self {
        if levels.len() < 2 {
            let only = levels.first().copied().unwrap_or(0.0);
            levels = vec![only, only + 1.0];
        }
        Self { levels, palette, units, below: false, above: false }
    }

    pub fn low(&self) -> f64 {
        self.levels[0]
    }

    pub fn high(&self) -> f64 {
        self.levels[self.levels.len() - 1]
    }

    pub fn bands(&self) -> usize {
        self.levels.len() - 1
    }

    /// The colour of band `i`; -1 is below the lowest level, `bands()` above the highest.
    pub fn band_colour(&self, i: i64) -> Colour {
        let from = if self.below { -1.0 } else { 0.0 };
        let to = self.bands() as f64 - if self.above { 0.0 } else { 1.0 };
        if self.palette == Palette::Rain {
            // dry is white whatever the scale
            return self.palette.colour((i as f64 + 1.0) / (self.bands() as f64 + 1.0) * 0.92);
        }
        self.palette.colour(if to > from { (i as f64 - from) / (to - from) } else { 0.5 })
    }

    /// The colour of the band that a value (shown units) lies in.
    pub fn banded(&self, value: f64) -> Colour {
        let band = self.levels.partition_point(|level| *level <= value) as i64 - 1;
        let (first, last) = (if self.below { -1 } else { 0 }, self.bands() as i64 - i64::from(!self.above));
        let first = if self.palette == Palette::Rain { -1 } else { first };
        self.band_colour(band.clamp(first, last))
    }

    /// A colour that changes smoothly with the value (shown units).
    pub fn smooth(&self, value: f64) -> Colour {
        let above = self.levels.partition_point(|level| *level <= value).clamp(1, self.bands());
        let (a, b) = (self.levels[above - 1], self.levels[above]);
        let share = (above as f64 - 1.0 + ((value - a) / (b - a)).clamp(0.0, 1.0)) / self.bands() as f64;
        self.palette.colour(share)
    }

    /// The levels that carry a number on a colour bar which has room for `room` of them.
    pub fn labelled(&self, room: usize) -> Vec<f64> {
        let every = self.levels.len().div_ceil(room.max(2));
        let start = match self.palette {
            Palette::Diverging => (self.bands() / 2) % every, // so that zero is among them
            _ => 0,
        };
        self.levels.iter().copied().skip(start).step_by(every).collect()
    }
}

/// A step of the form (one of `steps`) x 10^n that divides `span` into at most `most` parts.
pub fn nice_step(span: f64, most: f64, steps: &[f64]) -> f64 {
    if !(span.is_finite() && span > 0.0) {
        return 1.0;
    }
    let raw = span / most;
    let power = 10_f64.powf(raw.log10().floor());
    steps.iter().map(|s| s * power).find(|s| *s >= raw * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// Multiples of a nice step from at or below `low` to at or above `high`.
pub fn round_levels(low: f64, high: f64, most: f64, steps: &[f64]) -> Vec<f64> {
    let span = if high > low { high - low } else { low.abs().max(1e-9) * 0.1 };
    let step = nice_step(span, most, steps);
    let first = (low / step + 1e-9).floor() as i64;
    let last = ((high / step - 1e-9).ceil() as i64).max(first + 1);
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Multiples of a nice step within [low, high]: the ticks of an axis.
pub fn ticks(low: f64, high: f64, most: f64) -> Vec<f64> {
    let step = nice_step(high - low, most, &[1.0, 2.0, 5.0]);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).take(1000).map(|i| i as f64 * step).collect()
}

/// A number as short as the step between its neighbours allows, with a true minus sign.
pub fn tick_label(value: f64, step: f64) -> String {
    let text = if step.is_finite() && step > 0.0 && (step < 1e-4 || value.abs() >= 1e7) {
        format!("{value:.0e}").replace("e0", "")
    } else {
        let rest = |digits: i32| {
            let scaled = step * 10_f64.powi(digits);
            (scaled - scaled.round()).abs() > 1e-6 * scaled.max(1.0)
        };
        let digits = (0..5).find(|d| !rest(*d)).unwrap_or(5);
        format!("{value:.*}", digits as usize)
    };
    let unsigned = text.trim_start_matches('-');
    let zero = unsigned.chars().all(|c| matches!(c, '0' | '.'));
    if text.starts_with('-') && !zero { format!("−{unsigned}") } else { unsigned.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_levels_are_multiples_of_four_hectopascal() {
        let values = (0..2000).map(|i| 98_130.0 + 4.0 * i as f32);
        let scale = Scale::fit(&Quantity::new("msl", None), "Pa", Sense::Value, values);
        assert_eq!(scale.units.name, "hPa");
        assert!(scale.levels.iter().all(|l| (l / 4.0).fract() == 0.0), "{:?}", scale.levels);
        assert!(scale.low() <= 982.0 && scale.high() >= 1061.0);
    }

    #[test]
    fn errors_are_centred_on_zero_and_lose_the_offset_of_celsius() {
        let quantity = Quantity::new("t", Some(850.0));
        let scale = Scale::fit(&quantity, "K", Sense::Difference, [-1.0, 3.3].into_iter());
        assert_eq!(scale.units.name, "K");
        assert_eq!(scale.units.show(1.0), 1.0);
        assert_eq!(scale.low(), -scale.high());
        assert!(scale.levels.contains(&0.0) && scale.labelled(5).contains(&0.0));
        assert!(scale.banded(-0.1).brightness() > scale.banded(-3.0).brightness());
        let celsius = Units::of(&quantity, "K", Sense::Value);
        assert_eq!((celsius.name.as_str(), celsius.show(273.15)), ("°C", 0.0));
    }

    #[test]
    fn empty_constant_and_huge_fields_still_have_a_scale() {
        for values in [vec![], vec![f32::NAN], vec![5.0; 3], vec![0.0; 3], vec![-3e38, 3e38], vec![1e-30]] {
            for sense in [Sense::Value, Sense::Difference] {
                let scale = Scale::fit(&Quantity::new("x", None), "", sense, values.iter().copied());
                assert!(scale.bands() >= 1 && scale.bands() < 40, "{:?}", scale.levels);
                assert!(scale.levels.windows(2).all(|w| w[1] > w[0]));
            }
        }
    }

    #[test]
    fn ticks_are_round_and_their_labels_short() {
        assert_eq!(ticks(0.0, 1.0, 5.0).len(), 6);
        assert_eq!(tick_label(-4.0, 4.0), "−4");
        assert_eq!(tick_label(0.30000000000000004, 0.1), "0.3");
        assert_eq!(tick_label(-0.0, 0.1), "0.0");
        assert_eq!(tick_label(2.5, 2.5), "2.5");
    }

    #[test]
    fn units_are_printed_with_raised_exponents() {
        assert_eq!(readable("m2 s-2"), "m² s⁻²");
        assert_eq!(readable("kg m-2"), "kg m⁻²");
        assert_eq!(readable("hPa"), "hPa");
        assert_eq!(readable("1"), "");
    }

    #[test]
    fn a_dry_place_is_white() {
        let scale = Scale::fit(&Quantity::new("tp", None), "m", Sense::Value, [0.0, 0.012].into_iter());
        assert_eq!(scale.banded(0.0), Colour::WHITE);
        assert_ne!(scale.banded(12.0), Colour::WHITE);
    }
}
