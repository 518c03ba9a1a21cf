//! Buffers and the closed list of operations on them. A device knows shapes and numbers, never a weather word.
//!
//! All arrays live in one arena; operations name them by [`Slot`]. Activations are `[image, row, column, channel]`,
//! channel innermost; where an operation reads neighbours, the rows and columns include a halo that a [`Boundary`]
//! has filled, so that every convolution is a plain "valid" stencil.
//!
//! Backward rule: gradients of parameters are *added to*, gradients of activations are *overwritten*, unless an
//! operation says otherwise.

mod arena;
mod boundary;
pub mod check;
pub mod company;
pub mod cpu;
pub mod cuda;
mod daylight;
mod elliptic;
mod flow;
mod int8;
mod jacobian;
mod leapfrog;
mod operations;
mod real;
mod sparse;
mod stored;
mod sum;
mod transport;

use std::collections::BTreeMap;
use std::ops::Range;

pub use arena::{ArenaParts, ArenaPlan, Slot};
pub use boundary::{Boundary, Channel, Edge, Edges, HaloMap, HaloPart, Stagger};
pub use company::{Beyond, Company, Seam, with_company};
pub use daylight::{Daylight, Light, Moment, light};
pub use elliptic::{Coefficients, Elliptic, Ends, Smoothing};
pub use flow::{Biharmonic, Filter, Flow, FlowOutput, FluxForm, HALO, Rates, RowMeasures, Triple};
pub use int8::{Counting, Int8Kernel};
pub use jacobian::{Jacobian, RowSmoothing};
pub use leapfrog::Leapfrog;
pub use operations::{Above, AdamW, Cell, CellGradients, LayerNorm, Loss, Picking, Placement, Readout};
pub use real::Real;
pub use sparse::Sparse;
pub use stored::{Bases, ByteOrder, Code, Decode, Plane, Scaling, StoredNumber};
pub use sum::{Image, Sum, Term};
pub use transport::{Departures, Interpolation, Lattice};

use crate::error::Result;

/// What becomes of the old content of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Write {
    Overwrite,
    Add,
}

/// What was done beside other work, from one [`hand_over`](Device::hand_over) to the next [s].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Beside {
    /// Copies to the device.
    pub copying: f64,
    /// Decoding, normalising and the like.
    pub preparing: f64,
    /// How long other work stood still for it.
    pub waiting: f64,
}

/// A stencil without padding:
/// `y[n, j, i, k] = sum over a, b, c of x[n, j + a, i + b, c] w[a, b, c, k]`.
///
/// Shapes: x `[images, rows + kernel - 1, columns + kernel - 1, inputs]`, w `[kernel, kernel, inputs, outputs]` (row of
/// the kernel first, northward), y `[images, rows, columns, outputs]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    pub images: usize,
    /// Rows of the output.
    pub rows: usize,
    /// Columns of the output.
    pub columns: usize,
    pub inputs: usize,
    pub outputs: usize,
    /// Odd.
    pub kernel: usize,
}

impl Convolution {
    pub fn x_len(&self) -> usize {
        self.images * (self.rows + self.kernel - 1) * (self.columns + self.kernel - 1) * self.inputs
    }

    pub fn w_len(&self) -> usize {
        self.kernel * self.kernel * self.inputs * self.outputs
    }

    pub fn y_len(&self) -> usize {
        self.images * self.rows * self.columns * self.outputs
    }

    /// Multiplications and additions of one pass in any of the three directions.
    pub fn flops(&self) -> f64 {
        2.0 * (self.images * self.rows * self.columns) as f64 * self.w_len() as f64
    }
}

/// A sequence of operations that is done again and again on a device, until it is allocated anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    pub name: &'static str,
    /// What tells it from others of that name: a slot of its own, and a number.
    pub of: Slot,
    pub number: usize,
}

/// The closed list. Every operation is synchronous in effect: the next one sees its result. One that fails (only a GPU's
/// can) ends the work: from then on nothing is computed and downloads give NaN, until [`finish`](Self::finish) says why.
pub trait Device<T: Real>: Send {
    /// `cpu (avx512, 2 threads)`
    fn describe(&self) -> String;

    /// The GPU that this is, for what only GPUs do with each other.
    fn cuda(&mut self) -> Option<&mut cuda::Cuda<T>> {
        None
    }

    /// Those who hold the rest of what this device holds a part of; `None` where it holds all.
    fn company(&mut self) -> &mut Option<Box<dyn Company<T>>>;

    /// Allocates the arena of `plan`, all zero. What was there before is gone.
    fn allocate(&mut self, plan: &ArenaPlan) -> Result<()>;

    /// Bytes that [`allocate`](Self::allocate) would take.
    fn bytes(&self, plan: &ArenaPlan) -> usize;

    /// Bytes that [`allocate`](Self::allocate) could take, where that is known before it is tried.
    fn room(&self) -> Option<usize> {
        None
    }

    /// How the device does, in its own words, what it can do in several ways that round differently.
    fn choices(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Does in these ways what it did so when it told [`choices`](Self::choices).
    fn choose(&mut self, _choices: &BTreeMap<String, String>) {}

    /// Does `work`, which asks for the same operations whenever the sequence is the same. So a device may write down what
    /// was asked for, and the next time do it without asking: all that changes must lie in slots, and nothing is
    /// uploaded, downloaded or waited for. Work inside of other work belongs to that.
    fn repeat(&mut self, sequence: Sequence, work: &mut dyn FnMut(&mut dyn Device<T>));

    /// Does `work` at the side: it sees all that was asked for before, and what comes next may be done at the same time. It
    /// is seen after [`join`](Self::join) of the same lane, or where the sequence that it belongs to ends; until then
    /// nothing may write what it reads, nor touch what it writes. Lanes are numbered as the caller likes.
    fn aside(&mut self, lane: usize, work: &mut dyn FnMut(&mut dyn Device<T>));
    /// What was done at the side on this lane can be used.
    fn join(&mut self, lane: usize);

    /// Waits until everything is done but what goes on beside it, and tells what failed since it was last called.
    fn finish(&self) -> Result<()> {
        Ok(())
    }

    fn upload(&mut self, to: Slot, values: &[T]);
    fn download(&self, from: Slot, values: &mut [T]);
    /// Starts to copy slots, as they are now, to the host beside other work. One copy is under way at a time: it is asked for
    /// before the next is started.
    fn start_copy(&mut self, slots: &[Slot]);
    /// The numbers of the copy that was started, slot behind slot, told once; `None` where nobody waits and it is under way or
    /// could not be started. An error where it is lost.
    fn copied(&mut self, wait: bool) -> Result<Option<Vec<T>>>;
    /// As [`upload`](Self::upload), beside other work: see [`hand_over`](Self::hand_over).
    fn stage(&mut self, to: Slot, values: &[T]);
    /// Beside other work.
    fn decode(&mut self, decode: &Decode<'_>);
    /// Beside other work.
    fn daylight(&mut self, daylight: &Daylight<'_>);
    /// Waits for what was made beside other work, copies it from where it was made to where it is used, and lets what
    /// comes next be made in the same place. Until then nothing else may touch these slots. An empty list: it is used
    /// where it was made.
    fn hand_over(&mut self, copies: &[(Slot, Slot)]);
    /// How long the last batch that was handed over took; asked after [`finish`](Self::finish) it does not wait. `None`
    /// on a device that does one thing after the other.
    fn beside(&self) -> Option<Beside> {
        None
    }

    fn zero(&mut self, slot: Slot);
    fn copy(&mut self, from: Slot, to: Slot);

    /// Fills the halo cells of x; rows of a [`Seam`] come from the [`company`](Self::company), here and wherever a halo is
    /// filled.
    fn halo_fill(&mut self, map: &HaloMap, x: Slot);
    /// The transpose of [`halo_fill`](Self::halo_fill): adds the halo cells of dx to the cells they were copied from, and
    /// sets them to zero.
    fn halo_adjoint(&mut self, map: &HaloMap, dx: Slot);

    fn convolve(&mut self, shape: &Convolution, x: Slot, w: Slot, y: Slot, write: Write);
    /// Overwrites all of dx, halo cells included.
    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, w: Slot, dx: Slot);
    /// Adds to dw.
    fn convolve_weight_gradient(&mut self, shape: &Convolution, x: Slot, dy: Slot, dw: Slot);

    /// As [`convolve`](Self::convolve), of whole numbers: x is counted in `step`, in 8 bits, and what comes out is exact.
    fn convolve_int8(
        &mut self,
        shape: &Convolution,
        x: Slot,
        kernel: &Int8Kernel,
        step: f32,
        y: Slot,
        write: Write,
    );
    /// Rounds activations to what they are counted in.
    fn round(&mut self, counting: Counting, x: Slot);
    /// The gradient as if nothing were rounded, only cut off: sets dx to zero where x, which was rounded, is the first or the last
    /// of its numbers.
    fn round_adjoint(&mut self, counting: Counting, x: Slot, dx: Slot);
    /// Overwrites `rounded` with w `[.., outputs]`, each column counted in a step of its own, of which its largest number has
    /// `most`.
    fn round_columns(&mut self, outputs: usize, most: f32, w: Slot, rounded: Slot);

    /// Copies fields into channels of a padded image; halo cells and other channels stay.
    fn place(&mut self, placement: &Placement);
    /// Overwrites the fields with the gradient that their copies in the image (its interior) have.
    fn place_adjoint(&mut self, placement: &Placement);

    /// Overwrites c, h (`[images, rows + 2 halo, columns + 2 halo, hidden]`) with its halo as the map says, and the interior
    /// of `above`, there times its factors.
    fn cell_forward(&mut self, cell: &Cell, h: Slot, map: &HaloMap, above: Option<&Above>);
    /// The halo of h's gradient counts for the cells that the map copies; what becomes of it is left open.
    fn cell_backward(&mut self, cell: &Cell, map: &HaloMap, gradients: &CellGradients);

    fn layer_norm_forward(&mut self, norm: &LayerNorm);
    /// Adds to dbias and dgain.
    fn layer_norm_backward(&mut self, norm: &LayerNorm, dbias: Slot, dgain: Slot);
    /// Where others hold the rest of the units, each as many as are here. Overwrites moments `[points, 4, 2]`: of each gate the
    /// mean of a + bias over the units here, and the sum of the squared departures from it.
    fn layer_norm_moments(&mut self, norm: &LayerNorm, moments: Slot);
    /// As [`layer_norm_forward`](Self::layer_norm_forward), with the moments of all parts of the units,
    /// `[parts, points, 4, 2]`.
    fn layer_norm_forward_among(&mut self, norm: &LayerNorm, moments: Slot);
    /// Overwrites sums `[points, 4, 2]`: of each gate the sum over the units here of gain dy, and that of its products with the
    /// normalised values. Adds to dgain.
    fn layer_norm_sums(&mut self, norm: &LayerNorm, sums: Slot, dgain: Slot);
    /// As [`layer_norm_backward`](Self::layer_norm_backward) but for dgain, with these sums over the units of all `parts`.
    fn layer_norm_backward_among(&mut self, norm: &LayerNorm, sums: Slot, parts: usize, dbias: Slot);

    /// `mixed = share * truth + (1 - share) * prediction` with one share for each sample; where a share is 0 or 1, the
    /// other field is not looked at.
    fn mix(&mut self, share: Slot, truth: Slot, prediction: Slot, mixed: Slot);
    /// Adds `(1 - share) * dmixed` to dprediction.
    fn mix_adjoint(&mut self, share: Slot, dmixed: Slot, dprediction: Slot);

    /// Overwrites the fields; `None` is a base of zero.
    fn readout(&mut self, readout: &Readout, base: Option<Slot>, fields: Slot);
    /// Overwrites dy, adds to dbias. (The gradient of the base is dfields itself.)
    fn readout_adjoint(&mut self, readout: &Readout, dfields: Slot, dy: Slot, dbias: Slot);

    fn loss(&mut self, loss: &Loss);

    /// Overwrites parameter and moments.
    fn adamw(&mut self, step: &AdamW);
    fn sum_of_squares(&self, slot: Slot) -> f64;
    /// `x = factor * x`
    fn scale(&mut self, x: Slot, factor: f64);
    /// `x = x + weight * (target - x)`
    fn lerp(&mut self, x: Slot, target: Slot, weight: f64);
    /// `x = (1 - weight) x + weight * target` with a weight for each number; where it is 1, x is not looked at.
    fn relax(&mut self, x: Slot, target: Slot, weights: Slot);

    /// Overwrites `packed` with bfloat16 numbers, two in the place of a float32 and four in that of a float64; places that are
    /// left over hold 0.
    fn pack(&mut self, x: Slot, packed: Slot);
    /// Overwrites x with the sum, in their order, of `parts` arrays of packed numbers that are at least as long.
    fn unpack(&mut self, packed: Slot, parts: usize, x: Slot);
    fn pick(&mut self, picking: &Picking);
    /// Overwrites x with the sum, in their order, of what [`pick`](Self::pick) has picked of `parts` arrays as long as x.
    fn lay_out(&mut self, picked: Slot, keep: usize, parts: usize, x: Slot);

    /// The halos of x are filled.
    fn flow(&mut self, flow: &Flow, x: Triple, output: &FlowOutput);
    fn biharmonic(&mut self, damping: &Biharmonic);
    /// The largest rate of any cell; infinite where a number is none or a thickness is not positive.
    fn fastest_rate(&self, rates: &Rates) -> f64;

    /// Overwrites `to`, which may be `from`, with the amplitudes of rows of `columns` points: cosines of [`Ends::Periodic`] rows
    /// and behind them their sines, or one amplitude for each wave.
    fn waves_forward(&mut self, ends: Ends, columns: usize, from: Slot, to: Slot);
    /// From amplitudes to rows, in place.
    fn waves_backward(&mut self, ends: Ends, columns: usize, x: Slot);
    /// Solves an equation for the amplitudes at `places` of all rows, in place: x is `[rows, places]`.
    fn solve_waves(&mut self, elliptic: &Elliptic, places: Range<usize>, x: Slot);

    /// Overwrites `unknown` with the right side of the equation of the step.
    fn leapfrog_predict(&mut self, step: &Leapfrog);
    /// Steps with the solution in `unknown`: `before` becomes after, `now` is filtered; halos stay.
    fn leapfrog_correct(&mut self, step: &Leapfrog);

    /// Finds where the particles that arrive at the points of a lattice came from.
    fn depart(&mut self, departures: &Departures);
    /// Overwrites fields with those of other places.
    fn interpolate(&mut self, interpolation: &Interpolation);

    fn sum(&mut self, sum: &Sum);
    /// The halos of p and q are filled.
    fn jacobian(&mut self, jacobian: &Jacobian);
    fn smooth_rows(&mut self, smoothing: &RowSmoothing);
}
