//! Convolutions of whole numbers: activations are counted once, in 16 bits; weights stay in 8 and are widened as a tile loads
//! them. Sums are exact, so that every path and every device finds the same.
//!
//! AVX2 multiplies 16 pairs of 16-bit numbers at once and adds neighbours, twice what it does in float32; the VNNI of AVX-512
//! also adds to the sums, 32 at once.

use std::sync::Arc;

use super::super::int8::Weights;
use super::super::{Convolution, Counting, Int8Kernel, Real, Slot, Write};
use super::Cpu;
use super::instructions::Instructions;
use super::threads::Threads;

/// Outputs of a panel.
const PANEL: usize = 16;

/// Tasks that an operation should at least fall into.
const TASKS: usize = 16;

/// Kernels as tiles read them, and counted activations.
#[derive(Default)]
pub(super) struct Int8 {
    /// `[panel][a, b][pair of inputs][output][input]`
    packed: Vec<(Int8Kernel, Vec<i8>)>,
    counted: Vec<i16>,
}

impl Int8 {
    /// The packed form of a kernel, made when it is first met.
    fn index(&mut self, kernel: &Int8Kernel) -> usize {
        // The kept pointer keeps the kernel alive, so that no other has its address.
        let known = self.packed.iter().position(|(known, _)| Arc::ptr_eq(&known.0, &kernel.0));
        known.unwrap_or_else(|| {
            self.packed.push((kernel.clone(), pack(&kernel.0)));
            self.packed.len() - 1
        })
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

fn pack(weights: &Weights) -> Vec<i8> {
    let &Weights { kernel, inputs, outputs, ref numbers, .. } = weights;
    let (taps, pairs) = (kernel * kernel, inputs.div_ceil(2));
    let mut packed = vec![0; outputs.div_ceil(PANEL) * taps * pairs * 2 * PANEL];
    for (index, &number) in numbers.iter().enumerate() {
        let (output, input, tap) = (index % outputs, index / outputs % inputs, index / outputs / inputs);
        let group = (output / PANEL * taps + tap) * pairs + input / 2;
        packed[(group * PANEL + output % PANEL) * 2 + input % 2] = number;
    }
    packed
}

/// `y (+)= step steps[k] sum q(x) w`.
pub(super) fn convolve<T: Real>(
    cpu: &mut Cpu<T>,
    s: &Convolution,
    x: Slot,
    kernel: &Int8Kernel,
    step: f32,
    y: Slot,
    write: Write,
) {
    let weights = &*kernel.0;
    assert!((weights.kernel, weights.inputs, weights.outputs) == (s.kernel, s.inputs, s.outputs), "{s:?}");
    assert!(x.len() == s.x_len() && y.len() == s.y_len() && s.y_len() > 0, "slots of {s:?}");
    let (threads, path) = (&cpu.threads, Path::of(cpu.instructions));
    let ([x], [y]) = cpu.arena.views([x], [y]);
    let index = cpu.int8.index(kernel);
    let Int8 { packed, counted } = &mut cpu.int8;
    let padded = s.inputs.next_multiple_of(2);
    counted.resize(s.x_len() / s.inputs * padded, 0);
    count_all(threads, path, x, s.inputs, step, counted);

    let pixels = Pixels {
        numbers: counted,
        pixel: padded,
        line: (s.columns + s.kernel - 1) * padded,
        lines: s.kernel,
        pairs: s.kernel * padded / 2,
    };
    let factors: Vec<T> = weights.steps.iter().map(|of| T::of(f64::from(step * of))).collect();
    let panel_len = s.kernel * s.kernel * padded * PANEL;
    let packed = &packed[index].1;
    let row_len = s.columns * s.outputs;
    let block = (s.images * s.rows).div_ceil(TASKS);
    threads.chunks(y, block * row_len, |task, y| {
        for (panel, factors) in factors.chunks(PANEL).enumerate() {
            let w = &packed[panel * panel_len..][..panel_len];
            for (row, y) in y.chunks_exact_mut(row_len).enumerate() {
                let row = task * block + row;
                let line = row / s.rows * (s.rows + s.kernel - 1) + row % s.rows;
                for first in (0..s.columns).step_by(path.pixels()) {
                    let count = path.pixels().min(s.columns - first);
                    let sums = path.sums(&pixels, line, first, count, w);
                    for (sums, y) in
                        sums.iter().zip(y[first * s.outputs..].chunks_exact_mut(s.outputs)).take(count)
                    {
                        let y = &mut y[panel * PANEL..][..factors.len()];
                        for ((y, &factor), &sum) in y.iter_mut().zip(factors).zip(sums) {
                            let value = factor * T::of(f64::from(sum));
                            *y = if write == Write::Add { *y + value } else { value };
                        }
                    }
                }
            }
        }
    });
}

/// Counted activations `[image, row, column, channel]`, an even number of channels.
struct Pixels<'a> {
    numbers: &'a [i16],
    /// Numbers from one pixel to the next, and from one row to the next.
    pixel: usize,
    line: usize,
    /// Rows under a kernel, and pairs of numbers in each.
    lines: usize,
    pairs: usize,
}

/// The most pixels of a tile.
const MOST_PIXELS: usize = 12;

type Sums = [[i32; PANEL]; MOST_PIXELS];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Path {
    fn of(instructions: Instructions) -> Self {
        #[cfg(target_arch = "x86_64")]
        if instructions == Instructions::Avx512
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx512bw")
        {
            return Self::Vnni;
        }
        #[cfg(target_arch = "x86_64")]
        if instructions != Instructions::Portable {
            return Self::Avx2;
        }
        let _ = instructions;
        Self::Portable
    }

    /// Of a tile: as many as leave registers for the weights.
    fn pixels(self) -> usize {
        match self {
            Self::Portable => 4,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => 6,
            #[cfg(target_arch = "x86_64")]
            Self::Vnni => MOST_PIXELS,
        }
    }

    /// Sums of `count` pixels from column `first` on, whose kernels begin in row `line`, and the outputs of the panel w.
    fn sums(self, pixels: &Pixels<'_>, line: usize, first: usize, count: usize, w: &[i8]) -> Sums {
        let start = line * pixels.line + first * pixels.pixel;
        let end = start + (count - 1) * pixels.pixel + (pixels.lines - 1) * pixels.line + 2 * pixels.pairs;
        let x = &pixels.numbers[start..end];
        assert_eq!(w.len(), pixels.lines * pixels.pairs * 2 * PANEL, "a whole panel");
        match self {
            Self::Portable => portable(pixels, x, count, w),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the path was chosen where there are these instructions; x and w hold all that a tile reads (the
            // slice and the assertion above).
            Self::Avx2 => unsafe { x86::avx2(pixels, x, count, w) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Vnni => unsafe { x86::vnni(pixels, x, count, w) },
        }
    }
}

fn portable(pixels: &Pixels<'_>, x: &[i16], count: usize, w: &[i8]) -> Sums {
    let mut sums = [[0; PANEL]; MOST_PIXELS];
    for (at, w) in w.chunks_exact(2 * PANEL).enumerate() {
        let from = at / pixels.pairs * pixels.line + at % pixels.pairs * 2;
        for (pixel, sums) in sums.iter_mut().enumerate().take(count) {
            let x = &x[from + pixel * pixels.pixel..][..2];
            for (sum, w) in sums.iter_mut().zip(w.chunks_exact(2)) {
                *sum += i32::from(x[0]) * i32::from(w[0]) + i32::from(x[1]) * i32::from(w[1]);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{MOST_PIXELS, PANEL, Pixels, Sums};

    macro_rules! by_count {
        ($tile:ident, $count:expr, $arguments:tt, $($n:literal)*) => {
            match $count {
                // SAFETY: as the caller has it.
                $($n => unsafe { $tile::<$n> $arguments },)*
                _ => {}
            }
        };
    }

    /// # Safety
    /// There is AVX2; x holds what the kernels of `count` pixels read, w a whole panel.
    pub unsafe fn avx2(pixels: &Pixels<'_>, x: &[i16], count: usize, w: &[i8]) -> Sums {
        let mut sums = [[0; PANEL]; MOST_PIXELS];
        by_count!(avx2_tile, count, (pixels, x.as_ptr(), w.as_ptr(), &mut sums), 1 2 3 4 5 6);
        sums
    }

    /// # Safety
    /// As [`avx2`], with the VNNI of AVX-512.
    pub unsafe fn vnni(pixels: &Pixels<'_>, x: &[i16], count: usize, w: &[i8]) -> Sums {
        let mut sums = [[0; PANEL]; MOST_PIXELS];
        by_count!(vnni_tile, count, (pixels, x.as_ptr(), w.as_ptr(), &mut sums), 1 2 3 4 5 6 7 8 9 10 11 12);
        sums
    }

    #[target_feature(enable = "avx2")]
    unsafe fn avx2_tile<const N: usize>(
        pixels: &Pixels<'_>,
        x: *const i16,
        mut w: *const i8,
        sums: &mut Sums,
    ) {
        let mut all = [[_mm256_setzero_si256(); 2]; N];
        for line in 0..pixels.lines {
            for pair in 0..pixels.pairs {
                // SAFETY: w holds a pair of all outputs for each pair of a line, x the pairs of all pixels (the caller).
                unsafe {
                    let near = _mm256_cvtepi8_epi16(_mm_loadu_si128(w.cast()));
                    let far = _mm256_cvtepi8_epi16(_mm_loadu_si128(w.add(PANEL).cast()));
                    w = w.add(2 * PANEL);
                    let x = x.add(line * pixels.line + 2 * pair);
                    for (pixel, sum) in all.iter_mut().enumerate() {
                        let x = _mm256_set1_epi32(x.add(pixel * pixels.pixel).cast::<i32>().read_unaligned());
                        sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(x, near));
                        sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(x, far));
                    }
                }
            }
        }
        for (to, sum) in sums.iter_mut().zip(all) {
            // SAFETY: 16 sums, 8 in each vector.
            unsafe {
                _mm256_storeu_si256(to.as_mut_ptr().cast(), sum[0]);
                _mm256_storeu_si256(to.as_mut_ptr().add(PANEL / 2).cast(), sum[1]);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn vnni_tile<const N: usize>(
        pixels: &Pixels<'_>,
        x: *const i16,
        mut w: *const i8,
        sums: &mut Sums,
    ) {
        let mut all = [_mm512_setzero_si512(); N];
        for line in 0..pixels.lines {
            for pair in 0..pixels.pairs {
                // SAFETY: as in `avx2_tile`.
                unsafe {
                    let both = _mm512_cvtepi8_epi16(_mm256_loadu_si256(w.cast()));
                    w = w.add(2 * PANEL);
                    let x = x.add(line * pixels.line + 2 * pair);
                    for (pixel, sum) in all.iter_mut().enumerate() {
                        let x = _mm512_set1_epi32(x.add(pixel * pixels.pixel).cast::<i32>().read_unaligned());
                        *sum = _mm512_dpwssd_epi32(*sum, x, both);
                    }
                }
            }
        }
        for (to, sum) in sums.iter_mut().zip(all) {
            // SAFETY: 16 sums.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), sum) }
        }
    }
}

/// `q(x)` of all pixels, with a zero behind an odd number of channels.
fn count_all<T: Real>(threads: &Threads, path: Path, x: &[T], inputs: usize, step: f32, counted: &mut [i16]) {
    let padded = inputs.next_multiple_of(2);
    let pixels = counted.len() / padded;
    let block = pixels.div_ceil(TASKS);
    let step = T::of(f64::from(step));
    threads.chunks(counted, block * padded, |task, counted| {
        let x = &x[task * block * inputs..];
        match path {
            Path::Portable => count(x, inputs, step, counted),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both other paths have AVX2.
            _ => unsafe { count_with_avx2(x, inputs, step, counted) },
        }
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_with_avx2<T: Real>(x: &[T], inputs: usize, step: T, counted: &mut [i16]) {
    count(x, inputs, step, counted);
}

#[inline(always)]
fn count<T: Real>(x: &[T], inputs: usize, step: T, counted: &mut [i16]) {
    let of = |x: T| (x / step).wide().round_ties_even().clamp(-128.0, 127.0) as i16;
    for (counted, x) in counted.chunks_exact_mut(inputs.next_multiple_of(2)).zip(x.chunks_exact(inputs)) {
        counted[inputs..].fill(0);
        counted.iter_mut().zip(x).for_each(|(q, &x)| *q = of(x));
    }
}

/// `x = step q(x)`.
pub(super) fn round<T: Real>(threads: &Threads, counting: Counting, x: &mut [T]) {
    let Counting { step, most } = counting;
    let (step, most) = (T::of(f64::from(step)), f64::from(most));
    threads.chunks(x, x.len().div_ceil(TASKS).max(1), |_, x| {
        for x in x {
            *x = step * T::of((*x / step).wide().round_ties_even().clamp(-most - 1.0, most));
        }
    });
}

/// `dx = 0` where x, which was rounded, is the first or the last of its numbers.
pub(super) fn round_adjoint<T: Real>(threads: &Threads, counting: Counting, x: &[T], dx: &mut [T]) {
    let Counting { step, most } = counting;
    let step = T::of(f64::from(step));
    let ends = [-most - 1.0, most].map(|end| step * T::of(f64::from(end)));
    let len = x.len().div_ceil(TASKS).max(1);
    threads.chunks(dx, len, |task, dx| {
        for (dx, &x) in dx.iter_mut().zip(&x[task * len..]) {
            if x <= ends[0] || x >= ends[1] {
                *dx = T::default();
            }
        }
    });
}

/// Each column of w `[.., outputs]`, counted in a step of its own, whose `most` is its largest number.
pub(super) fn round_columns<T: Real>(
    threads: &Threads,
    outputs: usize,
    most: f32,
    w: &[T],
    rounded: &mut [T],
) {
    let most = T::of(f64::from(most));
    let mut steps = vec![T::default(); outputs];
    for row in w.chunks_exact(outputs) {
        for (largest, w) in steps.iter_mut().zip(row) {
            *largest = if w.abs() > *largest { w.abs() } else { *largest };
        }
    }
    // A column of zeros has any step.
    let of = |largest: T| if largest > T::default() { largest / most } else { T::of(1.0) };
    steps.iter_mut().for_each(|step| *step = of(*step));
    let (steps, most) = (&steps, most.wide());
    let len = (w.len() / outputs).div_ceil(TASKS) * outputs;
    threads.chunks(rounded, len, |task, rounded| {
        let rows = w[task * len..].chunks_exact(outputs);
        for (to, row) in rounded.chunks_exact_mut(outputs).zip(rows) {
            for ((to, &w), &step) in to.iter_mut().zip(row).zip(steps) {
                *to = step * T::of((w / step).wide().clamp(-most, most).round_ties_even());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::super::{ArenaPlan, Device};
    use super::*;

    /// Deterministic whole numbers from -127 to 127.
    fn noise(n: usize) -> i8 {
        ((n * n * 31 + n * 17) % 255) as i32 as u8 as i8
    }

    #[test]
    fn sums_are_exact_on_every_path_and_any_number_of_threads() {
        let shapes = [[1, 1, 1, 1, 1, 1], [2, 5, 7, 3, 20, 3], [1, 3, 13, 8, 33, 5], [2, 2, 25, 5, 16, 1]];
        for [images, rows, columns, inputs, outputs, kernel] in shapes {
            let s = Convolution { images, rows, columns, inputs, outputs, kernel };
            let numbers: Vec<i8> = (0..s.w_len()).map(|n| noise(n).max(-127)).collect();
            let steps: Vec<f32> = (0..outputs).map(|k| 2.0_f32.powi(-(k as i32 % 5))).collect();
            let int8 = Int8Kernel::new(kernel, inputs, outputs, numbers.clone(), steps.clone()).unwrap();
            // Beyond the ends, and between two whole numbers.
            let x: Vec<f32> = (0..s.x_len()).map(|n| f32::from(noise(7 * n + 3)) * 0.6).collect();
            let of = |x: f32| (x / 0.5).round_ties_even().clamp(-128.0, 127.0) as i64;
            let (wide, high) = (columns + kernel - 1, rows + kernel - 1);
            let expected = |n: usize| {
                let (k, i, j, image) = (
                    n % outputs,
                    n / outputs % columns,
                    n / outputs / columns % rows,
                    n / outputs / columns / rows,
                );
                let mut sum = 0;
                for (a, b, c) in (0..kernel * kernel * inputs)
                    .map(|m| (m / inputs / kernel, m / inputs % kernel, m % inputs))
                {
                    let x = x[((image * high + j + a) * wide + i + b) * inputs + c];
                    sum += of(x) * i64::from(numbers[((a * kernel + b) * inputs + c) * outputs + k]);
                }
                0.5 * steps[k] * sum as f32
            };
            for set in Instructions::ALL.into_iter().filter(|set| set.is_available()) {
                for threads in [1, 3] {
                    let mut plan = ArenaPlan::default();
                    let (from, to) = (plan.slot(s.x_len()), plan.slot(s.y_len()));
                    let device = &mut Cpu::<f32>::with_instructions(Some(threads), set).unwrap();
                    device.allocate(&plan).unwrap();
                    device.upload(from, &x);
                    device.convolve_int8(&s, from, &int8, 0.5, to, Write::Overwrite);
                    device.convolve_int8(&s, from, &int8, 0.5, to, Write::Add);
                    let mut y = vec![0.0; s.y_len()];
                    device.download(to, &mut y);
                    for (n, &y) in y.iter().enumerate() {
                        assert_eq!(y, 2.0 * expected(n), "{s:?}, {set}, {threads} threads, number {n}");
                    }
                }
            }
        }
    }

    #[test]
    fn columns_are_rounded_as_they_are_counted_for_an_export() {
        let w: Vec<f32> =
            (0..60).map(|n| f32::from(noise(n)) * if n % 3 == 0 { 0.01 } else { 1.0 }).collect();
        let mut rounded = vec![0.0; 60];
        round_columns(&Threads::new(Some(2)).unwrap(), 3, 127.0, &w, &mut rounded);
        for column in 0..3 {
            let of = |w: &[f32]| w.iter().skip(column).step_by(3).copied().collect::<Vec<f32>>();
            let step = of(&w).iter().fold(0.0_f32, |most, w| most.max(w.abs())) / 127.0;
            for (w, rounded) in of(&w).iter().zip(of(&rounded)) {
                assert_eq!(rounded, step * (w / step).round_ties_even());
            }
        }
    }
}
