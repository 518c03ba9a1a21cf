//! Vectors of float32 behind one face, so that a kernel is written once.
//!
//! Everything here is `#[inline(always)]` and means nothing by itself: [`dispatch`] calls a [`Kernel`] from a function
//! that is compiled for the chosen instructions, and the kernel's code is inlined into it.

use super::instructions::Instructions;

/// A loop nest over vectors.
pub(super) trait Kernel {
    type Output;

    /// # Safety
    ///
    /// The machine has the instructions of `S`, and what the kernel's pointers name is valid.
    unsafe fn run<S: Simd>(self) -> Self::Output;
}

/// Vectors of one instruction set.
///
/// # Safety
///
/// All functions: the machine has the instructions, and pointers are valid for the lanes that are touched.
#[allow(clippy::missing_safety_doc)]
pub(super) trait Simd: Copy {
    type V: Copy;
    type Mask: Copy;
    const LANES: usize;
    /// Vectors side by side in the widest register tile.
    const VECTORS: usize;

    unsafe fn splat(value: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    /// The first `lanes` lanes.
    unsafe fn mask(lanes: usize) -> Self::Mask;
    /// Zero where the mask is off, and nothing is read there.
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self::V;
    unsafe fn store_masked(to: *mut f32, mask: Self::Mask, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
}

/// # Safety
///
/// `instructions` are available and what the kernel's pointers name is valid.
pub(super) unsafe fn dispatch<K: Kernel>(instructions: Instructions, kernel: K) -> K::Output {
    // SAFETY: promised by the caller.
    unsafe {
        match instructions {
            Instructions::Portable => kernel.run::<Portable>(),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => with_avx2(kernel),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => with_avx512(kernel),
            #[cfg(not(target_arch = "x86_64"))]
            Instructions::Avx2 | Instructions::Avx512 => kernel.run::<Portable>(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn with_avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: promised by the caller of `dispatch`.
    unsafe { kernel.run::<x86::Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn with_avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: promised by the caller of `dispatch`.
    unsafe { kernel.run::<x86::Avx512>() }
}

/// Four lanes of plain arithmetic: what compilers turn into the vectors that every processor has.
#[derive(Clone, Copy)]
pub(super) struct Portable;

// SAFETY of the bodies below: they do what their names say on lanes that the caller promised.
#[allow(unsafe_op_in_unsafe_fn)]
impl Simd for Portable {
    type V = [f32; 4];
    type Mask = usize;
    const LANES: usize = 4;
    const VECTORS: usize = 2;

    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        from.cast::<[f32; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: [f32; 4]) {
        to.cast::<[f32; 4]>().write_unaligned(v);
    }
    #[inline(always)]
    unsafe fn mask(lanes: usize) -> usize {
        lanes
    }
    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: usize) -> [f32; 4] {
        std::array::from_fn(|i| if i < mask { *from.add(i) } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store_masked(to: *mut f32, mask: usize, v: [f32; 4]) {
        for (i, value) in v.into_iter().enumerate().take(mask) {
            *to.add(i) = value;
        }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    /// Rounded twice: a fused one is a call of a library function where the processor has none.
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_op_in_unsafe_fn)]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub struct Avx2;
    #[derive(Clone, Copy)]
    pub struct Avx512;

    // SAFETY of the bodies: the instructions are there and the lanes valid, as the trait demands.
    impl Simd for Avx2 {
        type V = __m256;
        type Mask = __m256i;
        const LANES: usize = 8;
        const VECTORS: usize = 2;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m256 {
            _mm256_set1_ps(value)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            _mm256_loadu_ps(from)
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m256) {
            _mm256_storeu_ps(to, v);
        }
        #[inline(always)]
        unsafe fn mask(lanes: usize) -> __m256i {
            let index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes as i32), index)
        }
        #[inline(always)]
        unsafe fn load_masked(from: *const f32, mask: __m256i) -> __m256 {
            _mm256_maskload_ps(from, mask)
        }
        #[inline(always)]
        unsafe fn store_masked(to: *mut f32, mask: __m256i, v: __m256) {
            _mm256_maskstore_ps(to, mask, v);
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn sub(a: __m256, b: __m256) -> __m256 {
            _mm256_sub_ps(a, b)
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            _mm256_mul_ps(a, b)
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
    }

    // SAFETY of the bodies: as above.
    impl Simd for Avx512 {
        type V = __m512;
        type Mask = __mmask16;
        const LANES: usize = 16;
        const VECTORS: usize = 4;

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            _mm512_set1_ps(value)
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            _mm512_loadu_ps(from)
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m512) {
            _mm512_storeu_ps(to, v);
        }
        #[inline(always)]
        unsafe fn mask(lanes: usize) -> __mmask16 {
            if lanes >= 16 { !0 } else { (1 << lanes) - 1 }
        }
        #[inline(always)]
        unsafe fn load_masked(from: *const f32, mask: __mmask16) -> __m512 {
            _mm512_maskz_loadu_ps(mask, from)
        }
        #[inline(always)]
        unsafe fn store_masked(to: *mut f32, mask: __mmask16, v: __m512) {
            _mm512_mask_storeu_ps(to, mask, v);
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn sub(a: __m512, b: __m512) -> __m512 {
            _mm512_sub_ps(a, b)
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
    }
}
