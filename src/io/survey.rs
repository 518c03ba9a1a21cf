//! Looks at the data of a file: how much is missing, and whether the values can be what they claim to be.

use serde::{Deserialize, Serialize};

use super::info::{FileInfo, Problem, Severity, VariableInfo};
use super::reader::Reader;
use crate::error::Result;
use crate::time::ValidTime;

/// What the data of one variable look like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// The file's name of the variable.
    pub variable: String,
    /// Fields that were read, of how many.
    pub read: usize,
    pub of: usize,
    /// Missing (or infinite) share of the values read, 0 to 1.
    pub missing: f64,
    /// Smallest and largest value read, in the variable's SI units; `None` when all are missing.
    pub range: Option<(f64, f64)>,
    pub mean: Option<f64>,
    /// Fields (time and level) without a single value.
    pub empty: usize,
    /// When the first of them is.
    pub first_empty: Option<ValidTime>,
    /// Fields that run the other way in latitude than their neighbours, by the index in time.
    pub flipped: Vec<ValidTime>,
}

/// How much of a file a survey reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Fields spread evenly over time and levels, for about a second of work per variable.
    Sample,
    Everything,
}

/// What a sample may inflate [bytes], and the fields that it reads even so.
const SAMPLE_BYTES: u64 = 256 << 20;
const SAMPLE_LEAST: usize = 8;

/// Reads the data of every variable that can be read.
pub fn survey(info: &FileInfo, effort: Effort) -> Result<Vec<Survey>> {
    let mut reader = Reader::open(info)?;
    info.variables.iter().filter(|v| v.refused.is_none()).map(|v| one(&mut reader, v, effort)).collect()
}

fn one(reader: &mut Reader, variable: &VariableInfo, effort: Effort) -> Result<Survey> {
    let levels = variable.level_count();
    let of = variable.time_count() * levels;
    let cost = variable.step_cost().map_or(variable.slab_bytes() as u64, |cost| cost.inflated);
    let most = match effort {
        Effort::Everything => of,
        Effort::Sample => ((SAMPLE_BYTES / cost.max(1)) as usize).max(SAMPLE_LEAST),
    };
    let read = of.min(most);
    let mut field = vec![0_f32; variable.grid.points()];
    let mut previous: Vec<Option<Vec<f32>>> = vec![None; levels];
    let mut survey = Survey {
        variable: variable.name.clone(),
        read,
        of,
        missing: 0.0,
        range: None,
        mean: None,
        empty: 0,
        first_empty: None,
        flipped: Vec::new(),
    };
    let (mut sum, mut count) = (0.0, 0_usize);
    for at in (0..read).map(|k| (k as u128 * of as u128 / read as u128) as usize) {
        let (time, level) = (at / levels, at % levels);
        reader.read(variable, time, level, &mut field)?;
        let before = count;
        for x in field.iter().filter(|x| x.is_finite()) {
            let x = f64::from(*x);
            let (low, high) = survey.range.unwrap_or((x, x));
            survey.range = Some((low.min(x), high.max(x)));
            sum += x;
            count += 1;
        }
        if count == before {
            survey.empty += 1;
            survey.first_empty = survey.first_empty.or(variable.times.get(time).copied());
        }
        match &previous[level] {
            Some(old) if is_flipped(old, &field, variable.grid.columns()) => {
                survey.flipped.extend(variable.times.get(time));
            }
            _ => previous[level] = Some(field.clone()),
        }
    }
    survey.missing = 1.0 - count as f64 / (field.len() as f64 * read as f64);
    survey.mean = (count > 0).then(|| sum / count as f64);
    Ok(survey)
}

/// Whether a field is the mirror image of an earlier one: not alike as it stands, and nearly the same upside down.
fn is_flipped(old: &[f32], new: &[f32], columns: usize) -> bool {
    let rows = old.len() / columns;
    let mirror = |i: usize| (rows - 1 - i / columns) * columns + i % columns;
    let correlation = |place: &dyn Fn(usize) -> usize| {
        let pairs = || {
            (0..old.len())
                .map(|i| (f64::from(old[i]), f64::from(new[place(i)])))
                .filter(|(a, b)| (a + b).is_finite())
        };
        let n = pairs().count() as f64;
        let (a, b) = pairs().fold((0.0, 0.0), |s, p| (s.0 + p.0 / n, s.1 + p.1 / n));
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in pairs().map(|(x, y)| (x - a, y - b)) {
            xx += x * x;
            xy += x * y;
            yy += y * y;
        }
        xy / (xx * yy).sqrt()
    };
    rows >= 8 && correlation(&|i| i) < 0.5 && correlation(&mirror) > 0.97
}

/// What is wrong with the data, as sentences.
pub fn problems(variable: &VariableInfo, survey: &Survey) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut warn = |sentence: String, remedy: &str| {
        problems.push(Problem {
            severity: Severity::Warning,
            variable: Some(variable.name.clone()),
            sentence,
            remedy: remedy.to_string(),
        });
    };
    let name = &variable.name;
    if survey.empty > 0 {
        let when = survey.first_empty.map_or(String::new(), |t| format!(", the first at {t}"));
        warn(
            format!("{} of {} fields of '{name}' hold no value at all{when}", survey.empty, survey.read),
            "leave those dates out, or set missing = \"skip\" or \"interpolate\" in [data]",
        );
    }
    if let Some(first) = survey.flipped.first() {
        warn(
            format!(
                "{} fields of '{name}' look turned upside down, the first at {first}",
                survey.flipped.len()
            ),
            "look at them (wxsim plot) and get those dates again",
        );
    }
    if let (Some(known), Some((low, high))) = (variable.known(), survey.range) {
        let (least, most) = known.plausible;
        if low < least || high > most {
            warn(
                format!(
                    "'{name}' runs from {low:.6} to {high:.6} {}, outside what {} can be ({least} to {most}): the unit or the name is wrong",
                    variable.units, known.long_name
                ),
                "say what it is in the source (unit = \"...\", rename = \"...\"), or correct the file with ncatted",
            );
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upside_down_field_is_recognised_and_a_changing_one_is_not() {
        let value =
            |i: usize| 250.0 + (i / 12) as f32 * 2.0 + ((i % 12) as f32 * 0.7 + (i / 12) as f32).sin();
        let field: Vec<f32> = (0..240).map(value).collect();
        let flipped: Vec<f32> = field.chunks(12).rev().flatten().copied().collect();
        let warmer: Vec<f32> = field.iter().map(|x| x * 1.01 + 3.0).collect();
        assert!(is_flipped(&field, &flipped, 12));
        assert!(!is_flipped(&field, &warmer, 12));
        assert!(!is_flipped(&[1.0; 240], &[2.0; 240], 12));
    }
}
