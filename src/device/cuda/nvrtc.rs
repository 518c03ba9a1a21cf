//! NVRTC, NVIDIA's compiler as a library: the nine calls that turn a source into machine code.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;

use super::libraries::{Library, Once};
use crate::error::{Error, Result};

type Program = *mut c_void;

/// The calls of an opened library.
pub struct Nvrtc {
    pub path: PathBuf,
    /// Major and minor.
    pub version: (u32, u32),
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// Machine code, and what the compiler said about it (registers and spills of each kernel).
pub struct Output {
    pub cubin: Vec<u8>,
    pub log: String,
}

impl Nvrtc {
    /// The library, opened once and never closed.
    pub fn get() -> Result<&'static Self> {
        static OPENED: Once<Nvrtc> = Once::unopened();
        OPENED.get(Self::open)
    }

    fn open() -> Result<Self> {
        let (path, library) = Library::Nvrtc.open()?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type of the field is that of the function in nvrtc.h, unchanged since CUDA 11.
                *unsafe { library.get($name) }.map_err(|error| {
                    Error::run(format!("{} is not NVRTC", path.display()))
                        .caused_by(error)
                        .hint(Library::Nvrtc.remedy())
                })?
            };
        }
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int = symbol!(b"nvrtcVersion\0");
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two integers to write to.
        unsafe { version(&mut major, &mut minor) };
        let nvrtc = Self {
            version: (major as u32, minor as u32),
            create: symbol!(b"nvrtcCreateProgram\0"),
            destroy: symbol!(b"nvrtcDestroyProgram\0"),
            compile: symbol!(b"nvrtcCompileProgram\0"),
            log_size: symbol!(b"nvrtcGetProgramLogSize\0"),
            log: symbol!(b"nvrtcGetProgramLog\0"),
            cubin_size: symbol!(b"nvrtcGetCUBINSize\0"),
            cubin: symbol!(b"nvrtcGetCUBIN\0"),
            error_string: symbol!(b"nvrtcGetErrorString\0"),
            path: path.clone(),
        };
        // The table's functions live as long as the library is open: for good.
        std::mem::forget(library);
        Ok(nvrtc)
    }

    /// Compiles `source`, which errors call `name`, with headers by name and text.
    pub fn compile(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        options: &[String],
    ) -> Result<Output> {
        let text = |text: &str| {
            CString::new(text)
                .map_err(|_| Error::run(format!("{name} holds a zero byte and cannot be compiled")))
        };
        let (source, file) = (text(source)?, text(name)?);
        let names = headers.iter().map(|(name, _)| text(name)).collect::<Result<Vec<_>>>()?;
        let texts = headers.iter().map(|(_, body)| text(body)).collect::<Result<Vec<_>>>()?;
        let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
        let pointers = |strings: &[CString]| strings.iter().map(|string| string.as_ptr()).collect::<Vec<_>>();
        let (names, texts, options) = (pointers(&names), pointers(&texts), pointers(&options));

        let mut program = std::ptr::null_mut();
        // SAFETY: strings end in zero and live until the call returns; the counts are those of the arrays.
        let code = unsafe {
            (self.create)(
                &mut program,
                source.as_ptr(),
                file.as_ptr(),
                names.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check("nvrtcCreateProgram", code)?;
        // SAFETY: as above, and the program was just made.
        let code = unsafe { (self.compile)(program, options.len() as c_int, options.as_ptr()) };
        let output = self.output(program, name, code);
        // SAFETY: destroyed once, and not used again.
        unsafe { (self.destroy)(&mut program) };
        output
    }

    fn output(&self, program: Program, name: &str, code: c_int) -> Result<Output> {
        let log = self.bytes(program, self.log_size, self.log, "nvrtcGetProgramLog")?;
        let log =
            CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default().into_owned();
        self.check("nvrtcCompileProgram", code)
            .map_err(|error| error.context(format!("{name} does not compile:\n{log}")))?;
        let cubin = self.bytes(program, self.cubin_size, self.cubin, "nvrtcGetCUBIN")?;
        Ok(Output { cubin, log })
    }

    fn bytes(
        &self,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
        call: &str,
    ) -> Result<Vec<u8>> {
        let mut len = 0;
        // SAFETY: a live program, and a number to write to.
        self.check(call, unsafe { size(program, &mut len) })?;
        let mut bytes = vec![0_u8; len];
        // SAFETY: as many bytes as the library said that it writes.
        self.check(call, unsafe { get(program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library returns a constant string for every code.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) }.to_string_lossy();
        Err(Error::run(format!("{call}: {text} ({code}), {}", self.path.display()))
            .hint("wxsim doctor says which NVRTC is used; wxsim is tested with 13.0"))
    }
}
