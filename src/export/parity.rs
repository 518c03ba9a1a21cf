//! How far an exported network is from wxsim's own forecasts, step by step.

use serde::Serialize;

use crate::error::{Error, Kind, Result};
use crate::field::State;
use crate::stepper::Stepper;
use crate::time::LeadTime;

/// The errors of one quantity at one lead, over all points and starts, in its SI unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub quantity: String,
    pub units: String,
    pub lead_hours: f64,
    pub max: f64,
    pub rms: f64,
    /// Standard deviation of the analyses, to see the errors against.
    pub spread: f64,
}

/// Sums of one quantity.
#[derive(Clone, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
    max: f64,
}

impl Row {
    /// The RMS error as a share of the spread.
    pub fn share(&self) -> f64 {
        self.rms / self.spread
    }
}

/// Forecasts `steps` steps with both from every start, and compares each lead. Rows are ordered by quantity, then by lead.
pub fn measure<A: Stepper, B: Stepper>(
    own: &mut A,
    exported: &mut B,
    starts: &[Vec<State>],
    steps: usize,
) -> Result<Vec<Row>> {
    let layout = own.info().layout.clone();
    let channels = layout.channels();
    let mut errors = vec![vec![Sums::default(); channels]; steps];
    let mut analyses = vec![Sums::default(); channels];
    for start in starts {
        for state in start {
            add(&mut analyses, state.values.iter().map(|&x| f64::from(x)));
        }
        let (mut one, mut other) = (own.start(start)?, exported.start(start)?);
        for (step, errors) in errors.iter_mut().enumerate() {
            own.step(&mut one)?;
            exported.step(&mut other)?;
            let (one, other) = (own.observe(&one)?, exported.observe(&other)?);
            if let Some(at) =
                one.values.iter().zip(&other.values).position(|(a, b)| a.is_finite() != b.is_finite())
            {
                return Err(Error::new(
                    Kind::Gate,
                    format!(
                        "{} is finite in one of the two forecasts and not in the other after {} steps",
                        layout.quantities[at % channels],
                        step + 1
                    ),
                ));
            }
            let differences =
                one.values.iter().zip(&other.values).map(|(&a, &b)| f64::from(b) - f64::from(a));
            add(errors, differences);
        }
    }
    let mut rows = Vec::with_capacity(channels * steps);
    for (channel, quantity) in layout.quantities.iter().enumerate() {
        let all = &analyses[channel];
        let spread = (all.squares / all.count - (all.sum / all.count).powi(2)).sqrt();
        for (step, errors) in errors.iter().enumerate() {
            let Sums { count, squares, max, .. } = errors[channel];
            rows.push(Row {
                quantity: quantity.to_string(),
                units: quantity.variable().map_or("", |v| v.units).into(),
                lead_hours: own.info().step.times(step + 1).hours(),
                max,
                rms: (squares / count).sqrt(),
                spread,
            });
        }
    }
    Ok(rows)
}

/// Adds the values of one state, `[lat, lon, channel]`; what is missing does not count.
fn add(sums: &mut [Sums], values: impl Iterator<Item = f64>) {
    let channels = sums.len();
    for (index, x) in values.enumerate().filter(|(_, x)| x.is_finite()) {
        let sums = &mut sums[index % channels];
        sums.count += 1.0;
        sums.sum += x;
        sums.squares += x * x;
        sums.max = sums.max.max(x.abs());
    }
}

/// Refuses errors whose RMS is more than `bound` of the spread at any lead up to `longest`. What is chaotic differs by as much
/// as it varies in the end, however small the first difference was.
pub fn judge(rows: &[Row], bound: f64, longest: LeadTime) -> Result<()> {
    let worst = rows
        .iter()
        .filter(|row| row.lead_hours <= longest.hours())
        .max_by(|a, b| a.share().total_cmp(&b.share()))
        .ok_or_else(|| Error::run("there is nothing to compare"))?;
    if worst.share() <= bound {
        return Ok(());
    }
    let Row { quantity, units, rms, spread, .. } = worst;
    let lead = LeadTime { seconds: (worst.lead_hours * 3600.0) as i64 };
    Err(Error::new(
        Kind::Gate,
        format!(
            "{quantity} at {lead} is off by {rms:.3e} {units}, {:.1e} of its spread of {spread:.3e}; the bound is {bound:.1e}",
            worst.share()
        ),
    )
    .hint("choose a higher precision, or another bound in [export]"))
}

/// The rows at a few leads, as a table to read.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:>10} {:>8} {:>11} {:>11} {:>11} {:>10}  {}\n",
        "variable", "lead [h]", "max error", "RMS error", "spread", "RMS/spread", "unit"
    );
    for of_one in rows.chunk_by(|a, b| a.quantity == b.quantity) {
        let shown = [1, 2, 4, 10, 20, 40, of_one.len()];
        for row in
            of_one.iter().enumerate().filter(|(index, _)| shown.contains(&(index + 1))).map(|(_, row)| row)
        {
            text.push_str(&format!(
                "{:>10} {:>8} {:>11.3e} {:>11.3e} {:>11.3e} {:>10.1e}  {}\n",
                row.quantity,
                row.lead_hours,
                row.max,
                row.rms,
                row.spread,
                row.share(),
                row.units
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lead_hours: f64, rms: f64) -> Row {
        Row {
            quantity: "z500".into(),
            units: "m2 s-2".into(),
            lead_hours,
            max: 2.0 * rms,
            rms,
            spread: 100.0,
        }
    }

    #[test]
    fn the_worst_lead_decides_and_is_named() {
        let rows = [row(6.0, 0.1), row(12.0, 3.0), row(18.0, 1.0)];
        let all = LeadTime::from_hours(18);
        judge(&rows, 0.03, all).unwrap();
        judge(&rows, 0.02, LeadTime::from_hours(6)).unwrap();
        let error = judge(&rows, 0.02, all).unwrap_err();
        assert_eq!(error.kind(), Kind::Gate);
        assert!(error.to_string().starts_with("z500 at 12h is off by 3.000e0 m2 s-2"), "{error}");
    }

    #[test]
    fn a_number_that_is_none_is_no_agreement() {
        assert!(judge(&[row(6.0, f64::NAN)], 1.0, LeadTime::from_hours(6)).is_err());
    }
}
