//! A sparse product whose sources may be missing.

use std::sync::Arc;

/// ```text
/// y_i = sum_j w_ij x_j / sum_j w_ij        over the x_j that are finite
/// ```
///
/// NaN where less than half of the weight is left. Cheap to copy; a device keeps its own copy of the tables.
#[derive(Debug, Clone)]
pub struct Sparse(pub(super) Arc<Tables>);

#[derive(Debug)]
pub(super) struct Tables {
    /// Where the entries of each y start, and the end.
    pub starts: Vec<u32>,
    /// Of each entry: the source j, and the weight.
    pub sources: Vec<u32>,
    pub weights: Vec<f64>,
}

/// The share of the weight that has to be there.
const MINIMUM_VALID: f64 = 0.5;

impl Sparse {
    /// One list of (source, weight) for each y. `None` where there are more entries than 32 bits can count.
    pub fn new(rows: impl Iterator<Item = Vec<(u32, f64)>>) -> Option<Self> {
        let (mut starts, mut sources, mut weights) = (vec![0], Vec::new(), Vec::new());
        for row in rows {
            sources.extend(row.iter().map(|entry| entry.0));
            weights.extend(row.iter().map(|entry| entry.1));
            starts.push(u32::try_from(sources.len()).ok()?);
        }
        Some(Self(Arc::new(Tables { starts, sources, weights })))
    }

    /// How many y there are.
    pub fn len(&self) -> usize {
        self.0.starts.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `y_i`
    pub fn value(&self, i: usize, source: impl Fn(usize) -> f64) -> f64 {
        let entries = self.0.starts[i] as usize..self.0.starts[i + 1] as usize;
        let (mut sum, mut valid, mut all) = (0.0, 0.0, 0.0);
        for (&j, &weight) in self.0.sources[entries.clone()].iter().zip(&self.0.weights[entries]) {
            let x = source(j as usize);
            all += weight;
            if x.is_finite() {
                sum += weight * x;
                valid += weight;
            }
        }
        if valid > 0.0 && valid >= MINIMUM_VALID * all { sum / valid } else { f64::NAN }
    }
}
