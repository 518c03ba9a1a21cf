//! The numbers a device computes with, and their elementary functions in a form that compilers turn into vector code.

use std::sync::Arc;

use super::cpu::{Fourier, fourier};

/// `f32` for work, `f64` to check gradients.
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
    /// The complex Fourier transform of `length` numbers.
    fn fourier(length: usize) -> Arc<dyn Fourier<Self>>;

    /// `1 / (1 + exp(-x))`
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let one = Self::of(1.0);
        one / (one + (-self).exp())
    }
}

impl Real for f64 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn exp(self) -> Self {
        self.exp()
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        self.tanh()
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }
    fn fourier(length: usize) -> Arc<dyn Fourier<Self>> {
        fourier(length)
    }
}

/// [`exp`](Real::exp) and [`tanh`](Real::tanh) are polynomials with a relative error below 2e-7 and 4e-7; they keep NaN.
impl Real for f32 {
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        exp(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        tanh(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }
    fn fourier(length: usize) -> Arc<dyn Fourier<Self>> {
        fourier(length)
    }
}

/// Comparisons with NaN are false, so that NaN passes (`f32::clamp` does too, but not as vector code).
#[inline(always)]
fn limit(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

/// `exp(x) = 2^n exp(r)`, `x = n ln 2 + r`, `|r| <= ln 2 / 2`, with the polynomial of Moshier's Cephes (1992).
/// Beyond [-87, 88] as at the limits.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding it rounds to a whole number, which then stands in the lowest bits.
    const SHIFT: f32 = 12_582_912.0; // 1.5 * 2^23
    // ln 2 in two parts; n times the first is exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -0.000_212_194_44;
    let x = limit(x, -87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1] {
        p = p * r + c;
    }
    let fraction = p * (r * r) + r + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    fraction * power
}

/// Rational minimax approximation `x P(x^2) / Q(x^2)` on [-7.9, 7.9], beyond it +-1 to float32 accuracy; the
/// coefficients are those of the Eigen library (`ptanh_float`).
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let x = limit(x, -7.905_311, 7.905_311);
    let x2 = x * x;
    let mut p = -2.760_768_5e-16;
    for c in [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619_4e-4, 4.893_524_6e-3] {
        p = p * x2 + c;
    }
    let mut q = 1.198_258_4e-6;
    for c in [1.185_347e-4, 2.268_434_6e-3, 4.893_525e-3] {
        q = q * x2 + c;
    }
    x * p / q
}

#[cfg(test)]
mod tests {
    use super::Real;

    #[test]
    fn float32_functions_are_within_a_few_units_in_the_last_place() {
        let (mut worst_exp, mut worst_tanh, mut worst_sigmoid) = (0.0_f64, 0.0_f64, 0.0_f64);
        for i in -200_000..=200_000 {
            let x = i as f32 * 4.3e-4;
            let relative = |value: f32, truth: f64| (f64::from(value) - truth).abs() / truth.abs();
            let wide = f64::from(x);
            worst_exp = worst_exp.max(relative(Real::exp(x), wide.exp()));
            worst_sigmoid = worst_sigmoid.max(relative(x.sigmoid(), 1.0 / (1.0 + (-wide).exp())));
            if i != 0 {
                worst_tanh = worst_tanh.max(relative(Real::tanh(x), wide.tanh()));
            }
        }
        println!("exp {worst_exp:.2e}, tanh {worst_tanh:.2e}, sigmoid {worst_sigmoid:.2e}");
        // One unit in the last place is 1.2e-7; the sigmoid adds two roundings to exp.
        assert!(worst_exp < 2e-7 && worst_tanh < 4e-7 && worst_sigmoid < 4e-7);
        assert!(Real::exp(f32::NAN).is_nan() && Real::tanh(f32::NAN).is_nan() && f32::NAN.sigmoid().is_nan());
        assert_eq!((Real::tanh(50.0_f32), Real::tanh(0.0_f32), Real::exp(0.0_f32)), (1.0, 0.0, 1.0));
        assert!((-200.0_f32).sigmoid() < 1e-37 && 200.0_f32.sigmoid() == 1.0);
    }
}
