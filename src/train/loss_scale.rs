//! The factor that keeps gradients in float16 from vanishing (Micikevicius et al. 2018, arXiv:1710.03740).

use serde::{Deserialize, Serialize};

/// What gradients are multiplied by until the update: as large as they allow. Powers of two, which change no digit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossScale {
    pub factor: f64,
    /// Updates since it was changed.
    pub good: u32,
}

/// Updates after which a larger factor is tried.
const PATIENCE: u32 = 1000;
const FIRST: f64 = 65_536.0;
const LARGEST: f64 = 16_777_216.0;

impl Default for LossScale {
    fn default() -> Self {
        Self { factor: FIRST, good: 0 }
    }
}

impl LossScale {
    /// After an update whose gradient was finite.
    pub fn succeed(&mut self) {
        self.good += 1;
        if self.good >= PATIENCE && self.factor < LARGEST {
            *self = Self { factor: 2.0 * self.factor, good: 0 };
        }
    }

    /// After a gradient that was too large: whether a smaller factor may help.
    pub fn fail(&mut self) -> bool {
        let can_shrink = self.factor > 1.0;
        *self = Self { factor: (self.factor / 2.0).max(1.0), good: 0 };
        can_shrink
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_when_all_is_well_and_shrinks_at_once() {
        let mut scale = LossScale::default();
        (1..PATIENCE).for_each(|_| scale.succeed());
        assert_eq!(scale.factor, FIRST);
        scale.succeed();
        assert_eq!(scale.factor, 2.0 * FIRST);
        assert!(scale.fail());
        assert_eq!(scale, LossScale::default());
        (0..16).for_each(|_| assert!(scale.fail()));
        assert_eq!(scale.factor, 1.0);
        assert!(!scale.fail());
        (0..100 * PATIENCE).for_each(|_| scale.succeed());
        assert_eq!(scale.factor, LARGEST);
    }
}
