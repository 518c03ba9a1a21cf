//! Winograd's transforms along one line.
//!
//! A convolution of K taps with M results is a product of polynomials of degrees K - 1 and M - 1 read backwards: take
//! both at `M + K - 1` points (0, infinity and H pairs +-p), multiply point by point, and go back. In matrix form, with
//! data d, kernel g and results y (Winograd 1980; Lavin and Gray 2016, arXiv:1509.09308):
//!
//! `y = A^T [(G g) . (B^T d)]`
//!
//! Pairs of points let even and odd powers share their sums: `V(+-p) = E +- O`. The gradients are the transposes of the
//! same matrices, so that they are the exact adjoints of the forward pass.

use crate::device::cpu::simd::Simd;

/// The points: 0, +-1, +-2 (and +-1/2), infinity. More of them would be fewer products, but rounding errors grow tenfold
/// with every further pair: relative errors of a result are about 1e-6 with 6 points, 3e-6 with 8, 3e-5 with 10.
const PAIRS: [f64; 3] = [1.0, 2.0, 0.5];

/// Most points on a line.
pub(super) const SIDE: usize = 8;

/// Numbers of one line; those beyond a transform's own number are not used.
pub(super) type Line<S> = [<S as Simd>::V; SIDE];

struct Points<const H: usize>;

impl<const H: usize> Points<H> {
    /// Coefficients of z^k in the product over all pairs of (z - p^2).
    const ALL: [f32; 4] = single(product(H, H));
    /// The same without pair i.
    const BUT: [[f32; 4]; 3] = [single(product(H, 0)), single(product(H, 1)), single(product(H, 2))];
    /// One over the product of the distances of point 0, and of +-p of pair i, from all other points.
    const INVERSE_ZERO: f32 = (1.0 / product(H, H)[0]) as f32;
    const INVERSE: [f32; 3] = [inverse_distance(H, 0), inverse_distance(H, 1), inverse_distance(H, 2)];
}

const fn product(pairs: usize, without: usize) -> [f64; 4] {
    let mut c = [1.0, 0.0, 0.0, 0.0];
    let mut i = 0;
    while i < pairs {
        if i != without {
            let z = PAIRS[i] * PAIRS[i];
            c = [-z * c[0], c[0] - z * c[1], c[1] - z * c[2], c[2] - z * c[3]];
        }
        i += 1;
    }
    c
}

const fn single(c: [f64; 4]) -> [f32; 4] {
    [c[0] as f32, c[1] as f32, c[2] as f32, c[3] as f32]
}

const fn inverse_distance(pairs: usize, i: usize) -> f32 {
    let (c, z) = (product(pairs, i), PAIRS[i] * PAIRS[i]);
    (0.5 / (z * (c[0] + z * (c[1] + z * (c[2] + z * c[3]))))) as f32
}

/// `p^power` of pair i.
const fn power(i: usize, power: usize) -> f32 {
    let mut value = 1.0;
    let mut k = 0;
    while k < power {
        value *= PAIRS[i];
        k += 1;
    }
    value as f32
}

/// A matrix applied to one line of vectors.
pub(super) trait Transform {
    /// Numbers that it reads.
    const FROM: usize;
    /// Numbers that it gives.
    const TO: usize;
    /// Applied to every tile, not only to weights.
    const MANY: bool = true;

    /// # Safety
    ///
    /// The machine has the instructions of `S`.
    unsafe fn apply<S: Simd>(line: Line<S>) -> Line<S>;
}

/// `B^T`: data to points.
pub(super) struct Data<const H: usize>;
/// `B`
pub(super) struct DataAdjoint<const H: usize>;
/// `A^T`: points to M results.
pub(super) struct Results<const H: usize, const M: usize>;
/// `A`
pub(super) struct ResultsAdjoint<const H: usize, const M: usize>;
/// `G`: K taps to points.
pub(super) struct Taps<const H: usize, const K: usize>;
/// `G^T`
pub(super) struct TapsAdjoint<const H: usize, const K: usize>;

#[inline(always)]
unsafe fn scaled<S: Simd>(factor: f32, v: S::V) -> S::V {
    // SAFETY: the caller has the instructions of S.
    unsafe { if factor == 1.0 { v } else { S::mul(S::splat(factor), v) } }
}

#[inline(always)]
unsafe fn plus<S: Simd>(sum: S::V, factor: f32, v: S::V) -> S::V {
    // SAFETY: the caller has the instructions of S.
    unsafe {
        if factor == 1.0 {
            S::add(sum, v)
        } else if factor == -1.0 {
            S::sub(sum, v)
        } else {
            S::fma(S::splat(factor), v, sum)
        }
    }
}

impl<const H: usize> Transform for Data<H> {
    const FROM: usize = 2 * H + 2;
    const TO: usize = 2 * H + 2;

    #[inline(always)]
    unsafe fn apply<S: Simd>(d: Line<S>) -> Line<S> {
        // SAFETY: the caller has the instructions of S.
        unsafe {
            let mut v = d;
            // The highest coefficient is 1.
            let (mut zero, mut infinity) = (d[2 * H], d[2 * H + 1]);
            for k in 0..H {
                zero = plus::<S>(zero, Points::<H>::ALL[k], d[2 * k]);
                infinity = plus::<S>(infinity, Points::<H>::ALL[k], d[2 * k + 1]);
            }
            v[0] = zero;
            v[2 * H + 1] = infinity;
            for i in 0..H {
                let (mut even, mut odd) = (d[2 * H], d[2 * H - 1]);
                for k in 0..H - 1 {
                    even = plus::<S>(even, Points::<H>::BUT[i][k], d[2 * k + 2]);
                    odd = plus::<S>(odd, Points::<H>::BUT[i][k], d[2 * k + 1]);
                }
                v[2 * i + 1] = plus::<S>(even, power(i, 1), odd);
                v[2 * i + 2] = plus::<S>(even, -power(i, 1), odd);
            }
            v
        }
    }
}

impl<const H: usize> Transform for DataAdjoint<H> {
    const FROM: usize = 2 * H + 2;
    const TO: usize = 2 * H + 2;

    #[inline(always)]
    unsafe fn apply<S: Simd>(v: Line<S>) -> Line<S> {
        // SAFETY: the caller has the instructions of S.
        unsafe {
            let mut d = v;
            for k in 0..=H {
                d[2 * k] = scaled::<S>(Points::<H>::ALL[k], v[0]);
                d[2 * k + 1] = scaled::<S>(Points::<H>::ALL[k], v[2 * H + 1]);
            }
            for i in 0..H {
                let even = S::add(v[2 * i + 1], v[2 * i + 2]);
                let odd = scaled::<S>(power(i, 1), S::sub(v[2 * i + 1], v[2 * i + 2]));
                for k in 0..H {
                    d[2 * k + 2] = plus::<S>(d[2 * k + 2], Points::<H>::BUT[i][k], even);
                    d[2 * k + 1] = plus::<S>(d[2 * k + 1], Points::<H>::BUT[i][k], odd);
                }
            }
            d
        }
    }
}

impl<const H: usize, const M: usize> Transform for Results<H, M> {
    const FROM: usize = 2 * H + 2;
    const TO: usize = M;

    #[inline(always)]
    unsafe fn apply<S: Simd>(m: Line<S>) -> Line<S> {
        // SAFETY: the caller has the instructions of S.
        unsafe {
            let mut y = m;
            let mut sums = [[m[0]; 2]; H];
            for i in 0..H {
                sums[i] = [S::add(m[2 * i + 1], m[2 * i + 2]), S::sub(m[2 * i + 1], m[2 * i + 2])];
            }
            for j in 0..M {
                let mut sum = scaled::<S>(power(0, j), sums[0][j % 2]);
                for i in 1..H {
                    sum = plus::<S>(sum, power(i, j), sums[i][j % 2]);
                }
                if j == 0 {
                    sum = S::add(sum, m[0]);
                }
                if j == M - 1 {
                    sum = S::add(sum, m[2 * H + 1]);
                }
                y[j] = sum;
            }
            y
        }
    }
}

/// `sum over even (odd) k < N of p^k g[k]` for pair i.
#[inline(always)]
unsafe fn even_odd<S: Simd, const N: usize>(i: usize, g: &Line<S>) -> (S::V, S::V) {
    // SAFETY: the caller has the instructions of S.
    unsafe {
        let (mut even, mut odd) = (g[0], scaled::<S>(power(i, 1), g[1]));
        for k in 2..N {
            if k % 2 == 0 {
                even = plus::<S>(even, power(i, k), g[k]);
            } else {
                odd = plus::<S>(odd, power(i, k), g[k]);
            }
        }
        (even, odd)
    }
}

impl<const H: usize, const M: usize> Transform for ResultsAdjoint<H, M> {
    const FROM: usize = M;
    const TO: usize = 2 * H + 2;

    #[inline(always)]
    unsafe fn apply<S: Simd>(y: Line<S>) -> Line<S> {
        // SAFETY: the caller has the instructions of S.
        unsafe {
            let mut m = y;
            for i in 0..H {
                let (even, odd) = even_odd::<S, M>(i, &y);
                m[2 * i + 1] = S::add(even, odd);
                m[2 * i + 2] = S::sub(even, odd);
            }
            m[0] = y[0];
            m[2 * H + 1] = y[M - 1];
            m
        }
    }
}

impl<const H: usize, const K: usize> Transform for Taps<H, K> {
    const FROM: usize = K;
    const TO: usize = 2 * H + 2;
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn apply<S: Simd>(g: Line<S>) -> Line<S> {
        // SAFETY: the caller has the instructions of S.
        unsafe {
            let mut u = g;
            for i in 0..H {
                let (even, odd) = even_odd::<S, K>(i, &g);
                u[2 * i + 1] = scaled::<S>(Points::<H>::INVERSE[i], S::add(even, odd));
                u[2 * i + 2] = scaled::<S>(Points::<H>::INVERSE[i], S::sub(even, odd));
            }
            u[0] = scaled::<S>(Points::<H>::INVERSE_ZERO, g[0]);
            u[2 * H + 1] = g[K - 1];
            u
        }
    }
}

impl<const H: usize, const K: usize> Transform for TapsAdjoint<H, K> {
    const FROM: usize = 2 * H + 2;
    const TO: usize = K;
    const MANY: bool = false;

    #[inline(always)]
    unsafe fn apply<S: Simd>(u: Line<S>) -> Line<S> {
        // SAFETY: the caller has the instructions of S.
        unsafe {
            let mut g = u;
            for k in 0..K {
                let mut sum = S::splat(0.0);
                for i in 0..H {
                    let (p, m) = (u[2 * i + 1], u[2 * i + 2]);
                    let both = if k % 2 == 0 { S::add(p, m) } else { S::sub(p, m) };
                    sum = plus::<S>(sum, power(i, k) * Points::<H>::INVERSE[i], both);
                }
                if k == 0 {
                    sum = plus::<S>(sum, Points::<H>::INVERSE_ZERO, u[0]);
                }
                if k == K - 1 {
                    sum = S::add(sum, u[2 * H + 1]);
                }
                g[k] = sum;
            }
            g
        }
    }
}
