//! The calls of NCCL that collectives need.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::device::cuda::{Library, Numbers, Once, Stream};
use crate::error::{Error, Result};

/// A communicator of the library.
pub type Handle = *mut c_void;

/// What ranks find each other by.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId(pub [u8; 128]);

/// `ncclDataType_t`
pub fn kind(numbers: Numbers) -> c_int {
    match numbers {
        Numbers::Fp16 => 6,
        Numbers::Single => 7,
        Numbers::Double => 8,
        Numbers::Bf16 => 9,
    }
}

/// `ncclRedOp_t`
pub const SUM: c_int = 0;
pub const AVERAGE: c_int = 4;

type Status = c_int;
type Address = *mut c_void;

/// The functions of an opened library.
pub struct Table {
    pub unique_id: unsafe extern "C" fn(*mut UniqueId) -> Status,
    pub init: unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int) -> Status,
    pub abort: unsafe extern "C" fn(Handle) -> Status,
    pub finalize: unsafe extern "C" fn(Handle) -> Status,
    pub destroy: unsafe extern "C" fn(Handle) -> Status,
    pub group_start: unsafe extern "C" fn() -> Status,
    pub group_end: unsafe extern "C" fn() -> Status,
    pub all_reduce: unsafe extern "C" fn(Address, Address, usize, c_int, c_int, Handle, Stream) -> Status,
    pub reduce_scatter: unsafe extern "C" fn(Address, Address, usize, c_int, c_int, Handle, Stream) -> Status,
    pub all_gather: unsafe extern "C" fn(Address, Address, usize, c_int, Handle, Stream) -> Status,
    pub broadcast: unsafe extern "C" fn(Address, Address, usize, c_int, c_int, Handle, Stream) -> Status,
    pub send: unsafe extern "C" fn(Address, usize, c_int, c_int, Handle, Stream) -> Status,
    pub receive: unsafe extern "C" fn(Address, usize, c_int, c_int, Handle, Stream) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    last_error: unsafe extern "C" fn(Handle) -> *const c_char,
}

impl Table {
    /// The library, opened once and never closed.
    pub fn get() -> Result<&'static Self> {
        static OPENED: Once<Table> = Once::unopened();
        OPENED.get(Self::open)
    }

    fn open() -> Result<Self> {
        let (path, library) = Library::Nccl.open()?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field is that of the function in nccl.h, unchanged since NCCL 2.14.
                *unsafe { library.get($name) }.map_err(|error| {
                    Error::run(format!("{} is not NCCL 2.14 or newer", path.display()))
                        .caused_by(error)
                        .hint(Library::Nccl.remedy())
                })?
            };
        }
        let table = Self {
            unique_id: symbol!(b"ncclGetUniqueId\0"),
            init: symbol!(b"ncclCommInitRank\0"),
            abort: symbol!(b"ncclCommAbort\0"),
            finalize: symbol!(b"ncclCommFinalize\0"),
            destroy: symbol!(b"ncclCommDestroy\0"),
            group_start: symbol!(b"ncclGroupStart\0"),
            group_end: symbol!(b"ncclGroupEnd\0"),
            all_reduce: symbol!(b"ncclAllReduce\0"),
            reduce_scatter: symbol!(b"ncclReduceScatter\0"),
            all_gather: symbol!(b"ncclAllGather\0"),
            broadcast: symbol!(b"ncclBroadcast\0"),
            send: symbol!(b"ncclSend\0"),
            receive: symbol!(b"ncclRecv\0"),
            error_string: symbol!(b"ncclGetErrorString\0"),
            last_error: symbol!(b"ncclGetLastError\0"),
        };
        // The table's functions live as long as the library is open: for good.
        std::mem::forget(library);
        Ok(table)
    }

    /// The error of a status that is not success.
    pub fn check(&self, status: Status, call: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: returns a static string for any number.
        let name = unsafe { CStr::from_ptr((self.error_string)(status)) }.to_string_lossy().into_owned();
        // SAFETY: without a communicator it gives the last error of the process, a string of the library.
        let last = unsafe { (self.last_error)(std::ptr::null_mut()) };
        let text = match last.is_null() {
            true => String::new(),
            // SAFETY: not null, ends in zero; copied at once.
            false => unsafe { CStr::from_ptr(last) }.to_string_lossy().trim().to_owned(),
        };
        let colon = if text.is_empty() { "" } else { ": " };
        Err(Error::run(format!("{call}: {name}{colon}{text}"))
            .hint("NCCL_DEBUG=INFO lets the library say what it does"))
    }
}
