//! What each operation beside the convolutions is told: shapes, and the slots that it reads and writes.
//!
//! A point of a `[rows, columns]` grid holds its channels together. Gates of up to 16 neighbouring units stand together
//! (`[block of units][gate i, f, g, o][unit]`, the last block perhaps narrower).

use super::Slot;

/// One LSTM cell at every point of a grid:
///
/// ```text
/// c = sigmoid(af + bf + pf.c_before) . c_before + sigmoid(ai + bi + pi.c_before) . tanh(ag + bg)
/// h = sigmoid(ao + bo + po.c) . tanh(c)
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub images: usize,
    pub rows: usize,
    pub columns: usize,
    pub hidden: usize,
    /// Halo of the recurrent h and of its gradient.
    pub halo: usize,
    /// `[images, rows, columns, 4 hidden]`. Forward: pre-activations become activated gates. Backward: activated gates
    /// become the gradient of the pre-activations.
    pub gates: Slot,
    /// Forward: whether the activated gates will be needed; otherwise what becomes of them is left open.
    pub keeps_gates: bool,
    /// `[4 hidden]` in the order of the gates' channels.
    pub bias: Slot,
    /// `[3, hidden]` of i, f, o.
    pub peepholes: Option<Slot>,
    /// `[images, rows, columns, hidden]`; `None` is zero. May be `c` itself when only forecasting.
    pub c_before: Option<Slot>,
    /// `[images, rows, columns, hidden]`
    pub c: Slot,
}

/// What reads a cell's h besides the cell's own next step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Above {
    /// `[images, rows + 2 halo, columns + 2 halo, hidden]`
    pub slot: Slot,
    pub halo: usize,
    /// `[images, hidden]`: factors of h (dropout); `None` is one.
    pub factors: Option<Slot>,
}

/// Gradients around a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CellGradients {
    /// From the next step, `[images, rows + 2 halo, columns + 2 halo, hidden]`; `None` is zero.
    pub h: Option<Slot>,
    /// From what reads h above; `None` is zero.
    pub above: Option<Above>,
    /// `[images, rows, columns, hidden]`: holds the gradient of c on entry, of c_before on return.
    pub c: Slot,
    /// `[4 hidden]`, added to.
    pub bias: Slot,
    /// `[3, hidden]`, added to.
    pub peepholes: Option<Slot>,
}

/// Normalisation of each gate over the units of one point: `y = gain (a + bias - mean) / sqrt(variance + epsilon)`.
/// (The shift is the bias of the [`Cell`] that follows.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    pub points: usize,
    pub hidden: usize,
    pub epsilon: f64,
    /// `[points, 4 hidden]`. Forward: a becomes y. Backward: the gradient of y becomes that of a.
    pub gates: Slot,
    /// `[4 hidden]`
    pub bias: Slot,
    /// `[4 hidden]`
    pub gain: Slot,
    /// `[points, 4 hidden]`: `y / gain`, written forward, read backward.
    pub normalised: Slot,
    /// `[points, 4]`: `1 / sqrt(variance + epsilon)`, written forward, read backward.
    pub inverse_deviation: Slot,
}

/// Copies fields into some channels of a padded image of patches; a point of the image holds, for each channel, the
/// `patch x patch` grid points of its patch (`[channel, sub-row, sub-column]`). Rows are padded at the end to a whole
/// number of patches by replication.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    pub images: usize,
    /// Of the fields; a multiple of `patch` columns.
    pub rows: usize,
    pub columns: usize,
    pub channels: usize,
    pub patch: usize,
    /// `[source images, rows, columns, channels]`
    pub fields: Slot,
    /// 1, to copy the same fields into every image, or `images`.
    pub field_images: usize,
    /// `[images, ceil(rows / patch) + 2 halo, columns / patch + 2 halo, image_channels]`
    pub image: Slot,
    pub halo: usize,
    pub image_channels: usize,
    /// Where in the image's channels the fields' first stands.
    pub first_channel: usize,
}

/// From the head's channels to fields: `fields = base + scale (y + bias)`, patches unfolded, padding rows dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readout {
    pub images: usize,
    /// Of the fields.
    pub rows: usize,
    pub columns: usize,
    pub channels: usize,
    pub patch: usize,
    /// `[images, ceil(rows / patch), columns / patch, channels * patch * patch]`
    pub y: Slot,
    /// `[channels * patch * patch]`
    pub bias: Slot,
    /// `[channels]`; `None` is one.
    pub scale: Option<Slot>,
}

/// Error of predictions against truth, for each lead: `value = scale * sum of w r(prediction - truth)`,
/// `w = row weight * channel weight * mask`, `r(e) = e^2`, or with a Huber width d `2 d |e| - d^2` where `|e| > d`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    pub leads: usize,
    pub images: usize,
    pub rows: usize,
    pub columns: usize,
    pub channels: usize,
    pub huber: Option<f64>,
    pub scale: f64,
    /// `[leads, images, rows, columns, channels]`
    pub prediction: Slot,
    /// As the prediction.
    pub truth: Slot,
    /// `[rows]`
    pub row_weights: Slot,
    /// `[channels]`
    pub channel_weights: Slot,
    /// `[leads]`: factor of each lead's gradient (not of its value).
    pub lead_weights: Slot,
    /// `[rows, columns, channels]`; `None` is one. Where it is zero, the truth is not looked at.
    pub mask: Option<Slot>,
    /// `[leads]`, overwritten.
    pub values: Slot,
    /// As the prediction, overwritten with `lead weight * d value / d prediction`.
    pub gradient: Option<Slot>,
}

/// One step of AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101):
///
/// ```text
/// g  = gradient scale * gradient
/// m += (1 - beta1) (g - m),   v += (1 - beta2) (g^2 - v)
/// parameter -= rate (c1 m / (sqrt(c2 v) + epsilon) + decay * parameter)
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    /// 0 for what does not decay.
    pub decay: f64,
    pub parameter: Slot,
    pub gradient: Slot,
    /// m
    pub first: Slot,
    /// v
    pub second: Slot,
    /// `[4]`: learning rate, gradient scale, `c1 = 1 / (1 - beta1^t)`, `c2 = 1 / (1 - beta2^t)`. In a buffer, so that
    /// every step is the same launch.
    pub settings: Slot,
}

/// What is given away of an array, and what is kept for later: `residual += x`; of every [`Picking::BLOCK`] numbers of it the
/// `keep` of largest size go, and become zero there. Those of equal size go in the order of their places. What is neither
/// given away nor finite is forgotten.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Picking {
    pub x: Slot,
    /// As long as x.
    pub residual: Slot,
    /// `[blocks, keep, 2]`, overwritten: place within the block and number, in the order of places; -1 and 0 where the last
    /// block has fewer than `keep` numbers.
    pub picked: Slot,
    /// At most [`Picking::BLOCK`].
    pub keep: usize,
}

impl Picking {
    pub const BLOCK: usize = 4096;

    /// Pairs that are picked of so many numbers.
    pub fn pairs(len: usize, keep: usize) -> usize {
        len.div_ceil(Self::BLOCK) * keep
    }

    pub(super) fn check(&self) {
        assert!((1..=Self::BLOCK).contains(&self.keep), "{} of {} numbers", self.keep, Self::BLOCK);
        assert_eq!(self.x.len(), self.residual.len(), "a residual for each number");
        assert_eq!(self.picked.len(), 2 * Self::pairs(self.x.len(), self.keep), "a place for each pair");
    }
}
