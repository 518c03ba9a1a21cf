//! Names on the timeline of a profiler: one range for each sequence of operations, as NVIDIA's tools extension has them.

use std::ffi::{CString, c_char, c_int};

use libloading::os::unix::Library as Handle;

use super::libraries::Library;

/// The extension's two functions. Without a profiler they do nothing.
pub(super) struct Ranges {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
    /// Keeps the functions where they are.
    _library: Handle,
}

impl Ranges {
    /// Where the extension is installed.
    pub fn open() -> Option<Self> {
        let (_, library) = Library::Nvtx.open().ok()?;
        // SAFETY: the types are those of the functions in nvToolsExt.h.
        let push = *unsafe { library.get(b"nvtxRangePushA\0") }.ok()?;
        // SAFETY: as above.
        let pop = *unsafe { library.get(b"nvtxRangePop\0") }.ok()?;
        Some(Self { push, pop, _library: library })
    }

    /// Does `work` in a range of this name.
    pub fn within<R>(ranges: Option<&Self>, name: &str, work: impl FnOnce() -> R) -> R {
        let Some((ranges, name)) = ranges.zip(CString::new(name).ok()) else { return work() };
        // SAFETY: the text outlives the call, which copies it.
        unsafe { (ranges.push)(name.as_ptr()) };
        let result = work();
        // SAFETY: takes nothing; ends the range that was begun on this thread.
        unsafe { (ranges.pop)() };
        result
    }
}
