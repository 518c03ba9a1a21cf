//! Loops compiled three times, for the three sets of instructions, and parts of arrays for threads to write to.

/// Declares a function that runs its body with the given [`Instructions`](super::Instructions): the body is compiled
/// once for each set, and the compiler turns its loops into vectors of that set's width. Nothing here fuses
/// multiplication and addition, so that all three give the same bits.
macro_rules! vectorised {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident<T: Real>($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name<T: Real>(instructions: Instructions, $($argument: $type),*) $(-> $result)? {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            fn body<T: Real>($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx2")]
            fn avx2<T: Real>($($argument: $type),*) $(-> $result)? {
                body($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx512f")]
            fn avx512<T: Real>($($argument: $type),*) $(-> $result)? {
                body($($argument),*)
            }

            match instructions {
                // SAFETY: a device is made only with instructions that the machine has (`Instructions::check`).
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Instructions::Avx2 => unsafe { avx2($($argument),*) },
                _ => body($($argument),*),
            }
        }
    };
}
pub(super) use vectorised;

use std::marker::PhantomData;

/// One array of which threads write disjoint parts.
pub(super) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    array: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a mutable slice whose parts are handed out by an unsafe function.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub fn new(array: &'a mut [T]) -> Self {
        Self { start: array.as_mut_ptr(), len: array.len(), array: PhantomData }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Elements `start..start + len`.
    ///
    /// # Safety
    /// No two parts that are alive at once may overlap.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start + len <= self.len, "part {start}+{len} of {}", self.len);
        // SAFETY: in bounds; disjoint by the caller's promise; the array is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// An operation over `lines` is cut into at most this many tasks, whatever the number of threads: partial sums are
/// taken within tasks and added in the order of the tasks.
const TASKS: usize = 64;

/// Lines of one task.
pub(super) fn lines_per_task(lines: usize) -> usize {
    lines.div_ceil(TASKS).max(1)
}
