//! cuDNN's library: the calls of its backend API that convolutions need.

use std::ffi::{CStr, c_char, c_int, c_void};

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Attribute, cudnnBackendAttributeType_t as Kind,
    cudnnBackendDescriptor_t as RawDescriptor, cudnnBackendDescriptorType_t as DescriptorKind,
    cudnnHandle_t as Handle,
};

use super::super::libraries::{Library, Once};
use crate::error::{Error, Result};

/// The functions of an opened library. A status is a plain number: a newer library may return what this crate's headers
/// do not list.
pub struct Table {
    /// 91900 for 9.19.0.
    pub version: usize,
    pub create: unsafe extern "C" fn(*mut Handle) -> c_int,
    pub destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub set_stream: unsafe extern "C" fn(Handle, *mut c_void) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    last_error: unsafe extern "C" fn(*mut c_char, usize),
    pub create_descriptor: unsafe extern "C" fn(DescriptorKind, *mut RawDescriptor) -> c_int,
    pub destroy_descriptor: unsafe extern "C" fn(RawDescriptor) -> c_int,
    pub finalize: unsafe extern "C" fn(RawDescriptor) -> c_int,
    pub set_attribute: unsafe extern "C" fn(RawDescriptor, Attribute, Kind, i64, *const c_void) -> c_int,
    pub get_attribute:
        unsafe extern "C" fn(RawDescriptor, Attribute, Kind, i64, *mut i64, *mut c_void) -> c_int,
    pub execute: unsafe extern "C" fn(Handle, RawDescriptor, RawDescriptor) -> c_int,
}

impl Table {
    /// The library, opened once and never closed.
    pub fn get() -> Result<&'static Self> {
        static OPENED: Once<Table> = Once::unopened();
        OPENED.get(Self::open)
    }

    fn open() -> Result<Self> {
        let (path, library) = Library::Cudnn.open()?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field is that of the function in cudnn_graph.h, unchanged since cuDNN 9.0.
                *unsafe { library.get($name) }.map_err(|error| {
                    Error::run(format!("{} is not cuDNN 9", path.display()))
                        .caused_by(error)
                        .hint(Library::Cudnn.remedy())
                })?
            };
        }
        let version: unsafe extern "C" fn() -> usize = symbol!(b"cudnnGetVersion\0");
        let table = Self {
            // SAFETY: no arguments, no state.
            version: unsafe { version() },
            create: symbol!(b"cudnnCreate\0"),
            destroy: symbol!(b"cudnnDestroy\0"),
            set_stream: symbol!(b"cudnnSetStream\0"),
            error_string: symbol!(b"cudnnGetErrorString\0"),
            last_error: symbol!(b"cudnnGetLastErrorString\0"),
            create_descriptor: symbol!(b"cudnnBackendCreateDescriptor\0"),
            destroy_descriptor: symbol!(b"cudnnBackendDestroyDescriptor\0"),
            finalize: symbol!(b"cudnnBackendFinalize\0"),
            set_attribute: symbol!(b"cudnnBackendSetAttribute\0"),
            get_attribute: symbol!(b"cudnnBackendGetAttribute\0"),
            execute: symbol!(b"cudnnBackendExecute\0"),
        };
        // The table's functions live as long as the library is open: for good.
        std::mem::forget(library);
        Ok(table)
    }

    /// The error of a status that is not success.
    pub fn check(&self, status: c_int, call: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: returns a static string for any number.
        let name = unsafe { CStr::from_ptr((self.error_string)(status)) }.to_string_lossy().into_owned();
        let mut text = [0_u8; 512];
        // SAFETY: writes at most the length that it is given, ending in zero.
        unsafe { (self.last_error)(text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).map(|text| text.to_string_lossy().trim().to_owned());
        let text = text.unwrap_or_default();
        Err(Error::run(format!("{call}: {name}{}{text}", if text.is_empty() { "" } else { ": " }))
            .hint("wxsim doctor says which cuDNN was found; without one, wxsim convolves by its own, slower kernels"))
    }
}
