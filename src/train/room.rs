//! Whether a training fits into its device, asked before anything is read or allocated.

use crate::error::{Error, Result};

/// Refuses a training of `batch` samples on each of `ranks` devices that needs more bytes than there is room for, and says what
/// would fit; `needed` tells the bytes for a number of samples.
pub(super) fn check(
    device: &str,
    room: Option<usize>,
    batch: usize,
    ranks: usize,
    needed: impl Fn(usize) -> Result<usize>,
) -> Result<()> {
    let (Some(room), bytes) = (room, needed(batch)?) else { return Ok(()) };
    if bytes <= room {
        return Ok(());
    }
    let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
    let error = Error::input(format!(
        "this training needs {} MiB, and {} MiB are free on {device}",
        mebibytes(bytes),
        mebibytes(room)
    ));
    // Memory grows with the batch, so that halving finds the largest that fits.
    let (mut fits, mut fails) = (0, batch);
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        if needed(middle)? <= room { fits = middle } else { fails = middle }
    }
    Err(error.hint(match fits {
        0 => "not even train.batch = 1 fits: set train.recompute = true, shorten train.rollout, or take fewer \
              model.hidden channels or a larger model.patch"
            .into(),
        fits => format!(
            "train.batch = {} fits; with train.accumulate = {} an update sees as many samples; longer rollouts need less \
             with train.recompute = true",
            fits * ranks,
            batch.div_ceil(fits)
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 MiB, and 100 for each sample.
    fn needed(batch: usize) -> Result<usize> {
        Ok((10 + 100 * batch) << 20)
    }

    #[test]
    fn what_does_not_fit_is_told_what_would() {
        assert!(check("gpu", None, 16, 1, needed).is_ok());
        assert!(check("gpu", Some(1610 << 20), 16, 1, needed).is_ok());
        let error = check("gpu", Some(1609 << 20), 16, 1, needed).unwrap_err();
        assert_eq!(error.to_string(), "this training needs 1610 MiB, and 1609 MiB are free on gpu");
        let hint = |room: usize| {
            check("gpu", Some(room << 20), 16, 1, needed).unwrap_err().advice().unwrap().to_owned()
        };
        let end = "an update sees as many samples; longer rollouts need less with train.recompute = true";
        assert_eq!(hint(1609), format!("train.batch = 15 fits; with train.accumulate = 2 {end}"));
        assert_eq!(hint(410), format!("train.batch = 4 fits; with train.accumulate = 4 {end}"));
        assert_eq!(hint(110), format!("train.batch = 1 fits; with train.accumulate = 16 {end}"));
        assert!(hint(109).starts_with("not even train.batch = 1 fits"));
    }
}
