//! Waves along the rows of an array: the transforms under which the second difference of a row is a product.
//!
//! Two real rows at a time are the real and the imaginary part of one complex row. The transform of a row takes the
//! place of the row. Periodic rows of N points become the N/2 + 1 cosine amplitudes and behind them the (N - 1)/2 sine
//! amplitudes from k = 1; the others one amplitude for each wave. Any N will do.

use std::f64::consts::PI;
use std::sync::Arc;

use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};

use super::super::{Ends, Real};
use super::threads::Threads;
use super::vector::{Parts, lines_per_task};

/// `Z_k = sum over n of z_n exp(-2 pi i n k / N)` in place, for one N.
pub trait Fourier<T>: Send + Sync {
    /// Numbers of scratch that [`transform`](Self::transform) needs.
    fn scratch_len(&self) -> usize;
    fn transform(&self, z: &mut [Complex<T>], scratch: &mut [Complex<T>]);
}

struct Planned<T>(Arc<dyn Fft<T>>);

impl<T: FftNum> Fourier<T> for Planned<T> {
    fn scratch_len(&self) -> usize {
        self.0.get_inplace_scratch_len()
    }

    fn transform(&self, z: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        self.0.process_with_scratch(z, scratch);
    }
}

/// The transform of `length` numbers.
pub fn fourier<T: FftNum>(length: usize) -> Arc<dyn Fourier<T>> {
    Arc::new(Planned(FftPlanner::new().plan_fft_forward(length)))
}

/// The transform of rows of one length with one kind of ends, and its inverse.
pub(super) struct Waves<T: Real> {
    ends: Ends,
    columns: usize,
    fourier: Arc<dyn Fourier<T>>,
    /// `exp(-i pi k / (2 N))` of Neumann ends; else empty.
    turns: Vec<Complex<T>>,
}

impl<T: Real> Waves<T> {
    fn new(ends: Ends, columns: usize) -> Self {
        let (length, turns) = match ends {
            Ends::Periodic => (columns, 0),
            Ends::Dirichlet => (2 * (columns + 1), 0),
            Ends::Neumann => (2 * columns, columns),
        };
        let turn = |k| {
            let angle = -PI * k as f64 / (2 * columns) as f64;
            Complex::new(T::of(angle.cos()), T::of(angle.sin()))
        };
        Self { ends, columns, fourier: T::fourier(length), turns: (0..turns).map(turn).collect() }
    }

    /// Overwrites `to` with the amplitudes of the rows of `from`.
    pub fn forward(&self, threads: &Threads, from: &[T], to: &mut [T]) {
        let length = self.length();
        assert_eq!(from.len(), to.len(), "amplitudes for each row");
        self.each_pair(threads, to, |first, [a, b], z, scratch| {
            let rows = &from[first * self.columns..];
            a.copy_from_slice(&rows[..self.columns]);
            if !b.is_empty() {
                b.copy_from_slice(&rows[self.columns..][..self.columns]);
            }
            self.forward_pair(a, b, &mut z[..length], scratch);
        });
    }

    /// The same in place.
    pub fn forward_in_place(&self, threads: &Threads, x: &mut [T]) {
        self.each_pair(threads, x, |_, [a, b], z, scratch| self.forward_pair(a, b, z, scratch));
    }

    /// From amplitudes to rows, in place.
    pub fn backward(&self, threads: &Threads, x: &mut [T]) {
        self.each_pair(threads, x, |_, [a, b], z, scratch| self.backward_pair(a, b, z, scratch));
    }

    fn length(&self) -> usize {
        match self.ends {
            Ends::Periodic => self.columns,
            Ends::Dirichlet => 2 * (self.columns + 1),
            Ends::Neumann => 2 * self.columns,
        }
    }

    /// Calls `work(first row, two rows, complex row, scratch)`; the second row is empty behind an odd last one.
    fn each_pair(
        &self,
        threads: &Threads,
        x: &mut [T],
        work: impl Fn(usize, [&mut [T]; 2], &mut [Complex<T>], &mut [Complex<T>]) + Sync + Send,
    ) {
        let rows = x.len() / self.columns;
        let pairs = rows.div_ceil(2);
        let each = lines_per_task(pairs);
        let zero = Complex::new(T::default(), T::default());
        let x = Parts::new(x);
        threads.each(pairs.div_ceil(each), |task| {
            let mut z = vec![zero; self.length()];
            let mut scratch = vec![zero; self.fourier.scratch_len()];
            for pair in task * each..pairs.min((task + 1) * each) {
                let len = self.columns * (rows - 2 * pair).min(2);
                // SAFETY: every pair of rows belongs to one task.
                let both = unsafe { x.part(2 * pair * self.columns, len) };
                let (a, b) = both.split_at_mut(self.columns);
                work(2 * pair, [a, b], &mut z, &mut scratch);
            }
        });
    }

    /// Amplitudes, scaled so that [`backward_pair`](Self::backward_pair) returns the row.
    fn forward_pair(&self, a: &mut [T], b: &mut [T], z: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let n = self.columns;
        let zero = T::default();
        let second = |b: &[T], i: usize| if b.is_empty() { zero } else { b[i] };
        match self.ends {
            Ends::Periodic => {
                pack(a, b, &mut z[..n]);
                self.fourier.transform(z, scratch);
                let factor = T::of(0.5 / n as f64);
                for k in 0..=n / 2 {
                    let (plus, minus) = (z[k], z[if k == 0 { 0 } else { n - k }]);
                    a[k] = factor * (plus.re + minus.re);
                    if !b.is_empty() {
                        b[k] = factor * (plus.im + minus.im);
                    }
                }
                for k in 1..=(n - 1) / 2 {
                    let (plus, minus) = (z[k], z[n - k]);
                    a[n / 2 + k] = factor * (plus.im - minus.im);
                    if !b.is_empty() {
                        b[n / 2 + k] = factor * (minus.re - plus.re);
                    }
                }
            }
            Ends::Dirichlet => {
                // Odd about the points before the first and behind the last.
                self.transform_odd(a, b, z, scratch);
                unpack_odd(a, b, z, T::of(1.0 / (n + 1) as f64));
            }
            Ends::Neumann => {
                // Even about half a point before the first and behind the last.
                for i in 0..n {
                    z[i] = Complex::new(a[i], second(b, i));
                    z[2 * n - 1 - i] = z[i];
                }
                self.fourier.transform(z, scratch);
                let factor = T::of(0.5 / n as f64);
                for (k, &turn) in self.turns.iter().enumerate() {
                    let (re, im) = times(z[k], turn);
                    a[k] = factor * re;
                    if !b.is_empty() {
                        b[k] = factor * im;
                    }
                }
            }
        }
    }

    /// The inverse transform is the transform with real and imaginary parts exchanged before and after.
    fn backward_pair(&self, a: &mut [T], b: &mut [T], z: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let n = self.columns;
        let second = |b: &[T], i: usize| if b.is_empty() { T::default() } else { b[i] };
        match self.ends {
            Ends::Periodic => {
                for k in 0..=n / 2 {
                    let sines = k > 0 && 2 * k < n;
                    let (a_re, b_re) = (a[k], second(b, k));
                    let (a_im, b_im) =
                        if sines { (a[n / 2 + k], second(b, n / 2 + k)) } else { Default::default() };
                    z[k] = Complex::new(a_im + b_re, a_re - b_im);
                    if sines {
                        z[n - k] = Complex::new(b_re - a_im, a_re + b_im);
                    }
                }
                self.fourier.transform(z, scratch);
                unpack_exchanged(a, b, &z[..n]);
            }
            Ends::Dirichlet => {
                self.transform_odd(a, b, z, scratch);
                unpack_odd(a, b, z, T::of(0.5));
            }
            Ends::Neumann => {
                z[n] = Complex::new(T::default(), T::default());
                for (k, &turn) in self.turns.iter().enumerate() {
                    let c = Complex::new(a[k], second(b, k));
                    let (re, im) = times(c, Complex::new(turn.re, -turn.im));
                    z[k] = Complex::new(im, re);
                    if k > 0 {
                        let (re, im) = times(c, turn);
                        z[2 * n - k] = Complex::new(im, re);
                    }
                }
                self.fourier.transform(z, scratch);
                unpack_exchanged(a, b, &z[..n]);
            }
        }
    }

    fn transform_odd(&self, a: &[T], b: &[T], z: &mut [Complex<T>], scratch: &mut [Complex<T>]) {
        let n = self.columns;
        z[0] = Complex::new(T::default(), T::default());
        z[n + 1] = z[0];
        pack(a, b, &mut z[1..=n]);
        for i in 1..=n {
            z[2 * (n + 1) - i] = Complex::new(-z[i].re, -z[i].im);
        }
        self.fourier.transform(z, scratch);
    }
}

fn pack<T: Real>(a: &[T], b: &[T], z: &mut [Complex<T>]) {
    for (i, z) in z.iter_mut().enumerate() {
        *z = Complex::new(a[i], if b.is_empty() { T::default() } else { b[i] });
    }
}

fn unpack_exchanged<T: Real>(a: &mut [T], b: &mut [T], z: &[Complex<T>]) {
    a.iter_mut().zip(z).for_each(|(a, z)| *a = z.im);
    b.iter_mut().zip(z).for_each(|(b, z)| *b = z.re);
}

/// The transform of an odd real row is `-2 i` times its sine amplitudes.
fn unpack_odd<T: Real>(a: &mut [T], b: &mut [T], z: &[Complex<T>], factor: T) {
    a.iter_mut().zip(&z[1..]).for_each(|(a, z)| *a = -factor * z.im);
    b.iter_mut().zip(&z[1..]).for_each(|(b, z)| *b = factor * z.re);
}

fn times<T: Real>(x: Complex<T>, y: Complex<T>) -> (T, T) {
    (x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)
}

/// The transforms that a device has needed so far.
pub(super) struct KnownWaves<T: Real>(Vec<Arc<Waves<T>>>);

impl<T: Real> Default for KnownWaves<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Real> KnownWaves<T> {
    pub fn get(&mut self, ends: Ends, columns: usize) -> Arc<Waves<T>> {
        if let Some(known) = self.0.iter().find(|w| w.ends == ends && w.columns == columns) {
            return known.clone();
        }
        self.0.push(Arc::new(Waves::new(ends, columns)));
        self.0[self.0.len() - 1].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Amplitudes by their definition.
    fn amplitudes(ends: Ends, x: &[f64]) -> Vec<f64> {
        let n = x.len() as f64;
        let sum = |f: &dyn Fn(f64) -> f64| x.iter().enumerate().map(|(i, x)| x * f(i as f64)).sum::<f64>();
        match ends {
            Ends::Periodic => {
                let angle = 2.0 * PI / n;
                let cosines = (0..=x.len() / 2).map(|k| sum(&|i| (angle * k as f64 * i).cos()) / n);
                let sines = (1..=(x.len() - 1) / 2).map(|k| -sum(&|i| (angle * k as f64 * i).sin()) / n);
                cosines.chain(sines).collect()
            }
            Ends::Dirichlet => (1..=x.len())
                .map(|k| sum(&|i| (PI * k as f64 * (i + 1.0) / (n + 1.0)).sin()) * 2.0 / (n + 1.0))
                .collect(),
            Ends::Neumann => {
                (0..x.len()).map(|k| sum(&|i| (PI * k as f64 * (i + 0.5) / n).cos()) / n).collect()
            }
        }
    }

    #[test]
    fn rows_of_any_length_become_their_amplitudes_and_come_back() {
        let threads = Threads::new(Some(2)).unwrap();
        for ends in [Ends::Periodic, Ends::Dirichlet, Ends::Neumann] {
            for columns in [1, 2, 3, 4, 7, 12, 17, 26, 37] {
                let waves = Waves::<f64>::new(ends, columns);
                let x: Vec<f64> = (0..3 * columns).map(|i| ((i * i + 3 * i) % 17) as f64 - 8.0).collect();
                let mut y = vec![0.0; x.len()];
                waves.forward(&threads, &x, &mut y);
                for (x, y) in x.chunks(columns).zip(y.chunks(columns)) {
                    for (expected, found) in amplitudes(ends, x).iter().zip(y) {
                        assert!((expected - found).abs() < 1e-13, "{ends:?} {columns}: {expected} {found}");
                    }
                }
                waves.backward(&threads, &mut y);
                for (x, y) in x.iter().zip(&y) {
                    assert!((x - y).abs() < 1e-13, "{ends:?} {columns}");
                }
            }
        }
    }
}
