//! Time axes in JSON as runs of equal steps: an hourly decade is one line instead of 87,000.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::time::{Calendar, ValidTime};

#[derive(Serialize, Deserialize)]
struct Runs {
    calendar: Calendar,
    runs: Vec<Run>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// For people; the numbers below say it exactly.
    from: String,
    /// Seconds since 1970-01-01T00:00.
    first: i64,
    /// [s]
    step: i64,
    count: usize,
}

/// More than any time axis has; a larger count in a document is damage.
const MOST: usize = 100_000_000;

pub fn serialize<S: Serializer>(times: &[ValidTime], serializer: S) -> Result<S::Ok, S::Error> {
    let mut runs: Vec<Run> = Vec::new();
    for t in times {
        match runs.last_mut() {
            Some(run) if run.count == 1 => {
                run.step = t.seconds - run.first;
                run.count = 2;
            }
            Some(run) if t.seconds - run.first == run.step * run.count as i64 => run.count += 1,
            _ => runs.push(Run { from: t.to_string(), first: t.seconds, step: 0, count: 1 }),
        }
    }
    let calendar = times.first().map_or(Calendar::Standard, |t| t.calendar);
    Runs { calendar, runs }.serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ValidTime>, D::Error> {
    let Runs { calendar, runs } = Runs::deserialize(deserializer)?;
    let total = runs.iter().try_fold(0_usize, |sum, run| sum.checked_add(run.count));
    if total.is_none_or(|total| total > MOST) {
        return Err(D::Error::custom("a time axis cannot be that long"));
    }
    let mut times = Vec::new();
    for run in &runs {
        for k in 0..run.count as i64 {
            let seconds = run.step.checked_mul(k).and_then(|d| d.checked_add(run.first));
            let seconds = seconds.ok_or_else(|| D::Error::custom("a time axis leaves the range of dates"))?;
            times.push(ValidTime::new(seconds, calendar));
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder(#[serde(with = "super")] Vec<ValidTime>);

    #[test]
    fn irregular_axes_survive_the_round_trip() {
        for seconds in [vec![], vec![5], vec![0, 6, 12, 18, 30, 30, 30, 10], vec![1, 2, 4, 8, 16]] {
            let times: Vec<_> = seconds.iter().map(|s| ValidTime::new(*s, Calendar::Day360)).collect();
            let text = serde_json::to_string(&Holder(times.clone())).unwrap();
            assert_eq!(serde_json::from_str::<Holder>(&text).unwrap().0, times, "{text}");
        }
    }
}
