//! A transform along both sides of one tile, for all channels.

use super::line::{Data, DataAdjoint, Line, Results, ResultsAdjoint, SIDE, Taps, TapsAdjoint, Transform};
use crate::device::cpu::simd::{Kernel, Simd};
use std::mem::MaybeUninit;

/// Which matrix is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matrix {
    Data,
    DataAdjoint,
    Results,
    ResultsAdjoint,
    Taps,
    TapsAdjoint,
}

/// Pairs of points, results and taps of one side of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// 4 results of 3 taps at 6 points.
    FourOfThree,
    /// 2 results of 5 taps at 6 points.
    TwoOfFive,
    /// 4 results of 5 taps at 8 points.
    FourOfFive,
    /// 2 results of 7 taps at 8 points.
    TwoOfSeven,
}

/// One side of an array of vectors: addresses and what of it exists.
#[derive(Clone, Copy)]
pub(super) struct Place<P> {
    pub start: P,
    /// Numbers between neighbouring rows and columns.
    pub row: usize,
    pub column: usize,
    /// Rows and columns that exist; beyond them zeros are read and nothing is written.
    pub rows: usize,
    pub columns: usize,
}

#[derive(Clone, Copy)]
pub(super) struct TileTransform {
    pub matrix: Matrix,
    pub size: Size,
    pub from: Place<*const f32>,
    pub to: Place<*mut f32>,
    pub channels: usize,
    /// Adds to what is there.
    pub add: bool,
}

impl Kernel for TileTransform {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller promises the places.
        unsafe {
            match (self.size, self.matrix) {
                (Size::FourOfThree | Size::TwoOfFive, Matrix::Data) => self.channels::<S, Data<2>>(),
                (Size::FourOfFive | Size::TwoOfSeven, Matrix::Data) => self.channels::<S, Data<3>>(),
                (Size::FourOfThree | Size::TwoOfFive, Matrix::DataAdjoint) => {
                    self.channels::<S, DataAdjoint<2>>()
                }
                (Size::FourOfFive | Size::TwoOfSeven, Matrix::DataAdjoint) => {
                    self.channels::<S, DataAdjoint<3>>()
                }
                (Size::FourOfThree, Matrix::Results) => self.channels::<S, Results<2, 4>>(),
                (Size::TwoOfFive, Matrix::Results) => self.channels::<S, Results<2, 2>>(),
                (Size::FourOfFive, Matrix::Results) => self.channels::<S, Results<3, 4>>(),
                (Size::TwoOfSeven, Matrix::Results) => self.channels::<S, Results<3, 2>>(),
                (Size::FourOfThree, Matrix::ResultsAdjoint) => self.channels::<S, ResultsAdjoint<2, 4>>(),
                (Size::TwoOfFive, Matrix::ResultsAdjoint) => self.channels::<S, ResultsAdjoint<2, 2>>(),
                (Size::FourOfFive, Matrix::ResultsAdjoint) => self.channels::<S, ResultsAdjoint<3, 4>>(),
                (Size::TwoOfSeven, Matrix::ResultsAdjoint) => self.channels::<S, ResultsAdjoint<3, 2>>(),
                (Size::FourOfThree, Matrix::Taps) => self.channels::<S, Taps<2, 3>>(),
                (Size::TwoOfFive, Matrix::Taps) => self.channels::<S, Taps<2, 5>>(),
                (Size::FourOfFive, Matrix::Taps) => self.channels::<S, Taps<3, 5>>(),
                (Size::TwoOfSeven, Matrix::Taps) => self.channels::<S, Taps<3, 7>>(),
                (Size::FourOfThree, Matrix::TapsAdjoint) => self.channels::<S, TapsAdjoint<2, 3>>(),
                (Size::TwoOfFive, Matrix::TapsAdjoint) => self.channels::<S, TapsAdjoint<2, 5>>(),
                (Size::FourOfFive, Matrix::TapsAdjoint) => self.channels::<S, TapsAdjoint<3, 5>>(),
                (Size::TwoOfSeven, Matrix::TapsAdjoint) => self.channels::<S, TapsAdjoint<3, 7>>(),
            }
        }
    }
}

// SAFETY of the bodies: they touch the rows, columns and channels that the places say exist.
#[allow(unsafe_op_in_unsafe_fn)]
impl TileTransform {
    #[inline(always)]
    unsafe fn channels<S: Simd, T: Transform>(&self) {
        let whole = self.from.rows >= T::FROM
            && self.from.columns >= T::FROM
            && self.to.rows >= T::TO
            && self.to.columns >= T::TO;
        // Weights come once a step: not worth a second body.
        let full = if T::MANY && S::LANES > 4 && whole { self.channels / S::LANES * S::LANES } else { 0 };
        if T::MANY && S::LANES > 4 {
            for channel in (0..full).step_by(S::LANES) {
                self.vector::<S, T, true>(channel);
            }
        }
        for channel in (full..self.channels).step_by(S::LANES) {
            self.vector::<S, T, false>(channel);
        }
    }

    #[inline(always)]
    unsafe fn vector<S: Simd, T: Transform, const WHOLE: bool>(&self, channel: usize) {
        let mask = S::mask((self.channels - channel).min(S::LANES));
        let zero = S::splat(0.0);
        let (from, to) = (self.from.start.add(channel), self.to.start.add(channel));
        // [column][row after the first transform]
        let mut half = [const { MaybeUninit::<Line<S>>::uninit() }; SIDE];
        for (j, half) in half.iter_mut().enumerate().take(T::FROM) {
            let mut line = [zero; SIDE];
            for (i, value) in line.iter_mut().enumerate().take(T::FROM) {
                let at = from.wrapping_add(i * self.from.row + j * self.from.column);
                if WHOLE {
                    *value = S::load(at);
                } else if i < self.from.rows && j < self.from.columns {
                    *value = S::load_masked(at, mask);
                }
            }
            half.write(T::apply::<S>(line));
        }
        for i in 0..T::TO {
            let mut line = [zero; SIDE];
            for (j, value) in line.iter_mut().enumerate().take(T::FROM) {
                // Written above: columns below FROM.
                *value = half[j].assume_init_ref()[i];
            }
            let line = T::apply::<S>(line);
            for (j, &value) in line.iter().enumerate().take(T::TO) {
                let at = to.wrapping_add(i * self.to.row + j * self.to.column);
                if WHOLE {
                    S::store(at, if self.add { S::add(S::load(at), value) } else { value });
                } else if i < self.to.rows && j < self.to.columns {
                    let value = if self.add { S::add(S::load_masked(at, mask), value) } else { value };
                    S::store_masked(at, mask, value);
                }
            }
        }
    }
}
