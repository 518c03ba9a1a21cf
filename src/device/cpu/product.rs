//! The one inner loop of all convolutions: a matrix product whose result stays in registers.
//!
//! `y[r, k] (+)= sum over s, l of x[r x_row + s x_segment + l x_step] w[s w_segment + l w_step + k]`
//!
//! The strides make it a direct convolution (rows are pixels, a segment is a row of the kernel, its steps are kernel
//! columns and channels, which lie side by side in x), its weight gradient (rows are kernel columns and channels, the
//! sum is over pixels) or a product in Winograd's transformed space. Tiles of 6 rows by 4 vectors of 16 (AVX-512) or 2
//! vectors of 8 (AVX2) keep both multipliers busy: 24 or 12 sums in flight hide the latency of 4 cycles, and a step
//! loads 10 operands for 24 products.

use super::simd::{Kernel, Simd};

#[derive(Clone, Copy)]
pub(super) struct Product {
    /// Rows of y.
    pub rows: usize,
    /// Columns of y: at most [`panel`] of the instructions.
    pub width: usize,
    pub segments: usize,
    /// Steps of one segment.
    pub len: usize,
    pub x: *const f32,
    pub x_row: usize,
    pub x_segment: usize,
    pub x_step: usize,
    pub w: *const f32,
    pub w_segment: usize,
    pub w_step: usize,
    pub y: *mut f32,
    pub y_row: usize,
    pub add: bool,
}

/// Rows of a register tile.
const ROWS: usize = 6;

impl Kernel for Product {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller promises the pointers; a width that is no multiple of the lanes is masked.
        unsafe {
            let whole = self.width.is_multiple_of(S::LANES);
            // The portable form is compiled with masks only: it is rarely used, and compiling takes time.
            match (self.width.div_ceil(S::LANES), whole) {
                (1, true) if S::LANES > 4 => self.columns::<S, 1, false>(),
                (1, _) => self.columns::<S, 1, true>(),
                (2, true) if S::LANES > 4 => self.columns::<S, 2, false>(),
                (2, _) => self.columns::<S, 2, true>(),
                (3, true) if S::VECTORS > 2 => self.columns::<S, 3, false>(),
                (3, false) if S::VECTORS > 2 => self.columns::<S, 3, true>(),
                (4, true) if S::VECTORS > 2 => self.columns::<S, 4, false>(),
                (4, false) if S::VECTORS > 2 => self.columns::<S, 4, true>(),
                _ => panic!("a panel of {} columns", self.width),
            }
        }
    }
}

// SAFETY of the bodies: all addresses are the ones of the formula above, which the caller promises.
#[allow(unsafe_op_in_unsafe_fn)]
impl Product {
    #[inline(always)]
    unsafe fn columns<S: Simd, const V: usize, const MASKED: bool>(&self) {
        let mut row = 0;
        // One or two vectors of 32 registers leave room for twice the rows.
        if V <= 2 && S::VECTORS > 2 {
            while row + 2 * ROWS <= self.rows {
                self.tile::<S, { 2 * ROWS }, V, MASKED>(row);
                row += 2 * ROWS;
            }
        }
        while row + ROWS <= self.rows {
            self.tile::<S, ROWS, V, MASKED>(row);
            row += ROWS;
        }
        // The rest in powers of two: fewer bodies to compile than one for each rest, at nearly the same speed.
        if self.rows - row >= 4 {
            self.tile::<S, 4, V, MASKED>(row);
            row += 4;
        }
        if self.rows - row >= 2 {
            self.tile::<S, 2, V, MASKED>(row);
            row += 2;
        }
        if self.rows > row {
            self.tile::<S, 1, V, MASKED>(row);
        }
    }

    #[inline(always)]
    #[allow(clippy::pointers_in_nomem_asm_block)] // the block is empty: it reads nothing through x
    unsafe fn tile<S: Simd, const R: usize, const V: usize, const MASKED: bool>(&self, row: usize) {
        let mask = S::mask(self.width - (V - 1) * S::LANES);
        let mut sums = [[S::splat(0.0); V]; R];
        for segment in 0..self.segments {
            let mut x = self.x.add(row * self.x_row + segment * self.x_segment);
            let mut w = self.w.add(segment * self.w_segment);
            for _ in 0..self.len {
                let mut weights = [S::splat(0.0); V];
                for v in 0..V {
                    let from = w.add(v * S::LANES);
                    weights[v] =
                        if MASKED && v + 1 == V { S::load_masked(from, mask) } else { S::load(from) };
                }
                for r in 0..R {
                    let value = S::splat(*x.add(r * self.x_row));
                    for v in 0..V {
                        sums[r][v] = S::fma(value, weights[v], sums[r][v]);
                    }
                }
                x = x.add(self.x_step);
                w = w.add(self.w_step);
                // Hides from the compiler where x points: it would unroll the loop, keep common values of
                // neighbouring steps in registers that it does not have, and spill the sums.
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags));
            }
        }
        for r in 0..R {
            let y = self.y.add((row + r) * self.y_row);
            for v in 0..V {
                let to = y.add(v * S::LANES);
                if MASKED && v + 1 == V {
                    let old = if self.add { S::load_masked(to, mask) } else { S::splat(0.0) };
                    S::store_masked(to, mask, S::add(old, sums[r][v]));
                } else {
                    let old = if self.add { S::load(to) } else { S::splat(0.0) };
                    S::store(to, S::add(old, sums[r][v]));
                }
            }
        }
    }
}
