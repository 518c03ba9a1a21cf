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
pub mod cpu;

pub use arena::{ArenaPlan, Slot};
pub use boundary::{Boundary, HaloMap};

use crate::error::Result;

/// The numbers a device computes with: `f32` for work, `f64` to check gradients.
pub trait Real:
    Copy
    + Send
    + Sync
    + PartialOrd
    + Default
    + std::fmt::Debug
    + std::fmt::Display
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::MulAssign
    + 'static
{
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
    fn exp(self) -> Self;
    fn tanh(self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
}

macro_rules! real {
    ($t:ty) => {
        impl Real for $t {
            fn of(value: f64) -> Self {
                value as $t
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn tanh(self) -> Self {
                self.tanh()
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn abs(self) -> Self {
                self.abs()
            }
        }
    };
}
real!(f32);
real!(f64);

/// What becomes of the old content of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Write {
    Overwrite,
    Add,
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

/// The closed list. Every operation is synchronous in effect: the next one sees its result.
pub trait Device<T: Real>: Send {
    /// `cpu (avx512, 2 threads)`
    fn describe(&self) -> String;

    /// Allocates the arena of `plan`, all zero. What was there before is gone.
    fn allocate(&mut self, plan: &ArenaPlan) -> Result<()>;

    fn upload(&mut self, to: Slot, values: &[T]);
    fn download(&self, from: Slot, values: &mut [T]);
    fn zero(&mut self, slot: Slot);
    fn copy(&mut self, from: Slot, to: Slot);

    /// Fills the halo cells of x.
    fn halo_fill(&mut self, map: &HaloMap, x: Slot);
    /// The transpose of [`halo_fill`](Self::halo_fill): adds the halo cells of dx to the cells they were copied from, and
    /// sets them to zero.
    fn halo_adjoint(&mut self, map: &HaloMap, dx: Slot);

    fn convolve(&mut self, shape: &Convolution, x: Slot, w: Slot, y: Slot, write: Write);
    /// Overwrites all of dx, halo cells included.
    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, w: Slot, dx: Slot);
    /// Adds to dw.
    fn convolve_weight_gradient(&mut self, shape: &Convolution, x: Slot, dy: Slot, dw: Slot);
}
