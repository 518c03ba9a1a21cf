//! Which validation was the best, and when there is no use in going on.

use serde::{Deserialize, Serialize};

/// The best validation so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Updates before it.
    pub step: u64,
    /// Epochs before it.
    pub epoch: usize,
    /// Mean normalised root mean square error; smaller is better.
    pub score: f64,
}

/// Remembers the best score and how long ago it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    pub best: Option<Best>,
    /// Validations since the best one that count against the patience.
    pub waited: usize,
}

/// Whether a validation only counts when it is good: before the last stage of a curriculum, a score that stands still
/// says nothing about the longer rollouts to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    Counts,
    Waits,
}

impl Stopping {
    /// Takes in a validation; true when it is the best so far. A score that is not finite never is.
    pub fn add(&mut self, candidate: Best, patience: Patience) -> bool {
        let better = candidate.score.is_finite() && self.best.is_none_or(|best| candidate.score < best.score);
        if better {
            self.best = Some(candidate);
            self.waited = 0;
        } else if patience == Patience::Counts {
            self.waited += 1;
        }
        better
    }

    pub fn is_over(&self, patience: Option<usize>) -> bool {
        patience.is_some_and(|patience| self.waited >= patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_ends_after_patience_validations_without_a_better_score() {
        let mut stopping = Stopping::default();
        let mut add = |score, patience| {
            let better = stopping.add(Best { step: 0, epoch: 0, score }, patience);
            (better, stopping.is_over(Some(2)))
        };
        assert_eq!(add(1.0, Patience::Waits), (true, false));
        for score in [1.0, 2.0, f64::NAN] {
            assert_eq!(add(score, Patience::Waits), (false, false), "stages to come keep it alive");
        }
        assert_eq!(add(1.5, Patience::Counts), (false, false));
        assert_eq!(add(0.9, Patience::Counts), (true, false));
        assert_eq!(add(0.9, Patience::Counts), (false, false));
        assert_eq!(add(f64::NAN, Patience::Counts), (false, true));
        assert!(!stopping.is_over(None));
    }
}
