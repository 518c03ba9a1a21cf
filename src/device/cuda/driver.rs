//! The driver's calls, their errors in words, and the context and the stream that everything happens in.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::libraries::Library;
use crate::error::{Error, Result};

/// A failed call, with what can be done about it.
pub fn failed(call: &str, error: DriverError) -> Error {
    let text = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(|_| "unknown".into(), |text| text.to_string_lossy().into_owned())
    };
    let (name, sentence) = (text(error.error_name()), text(error.error_string()));
    let found = Error::run(format!("{call}: {sentence} ({name}, {})", error.0 as u32));
    use sys::CUresult as Code;
    match error.0 {
        Code::CUDA_ERROR_OUT_OF_MEMORY => {
            found.hint("choose a smaller batch, shorter rollouts or fewer hidden channels, or end what else uses the GPU")
        }
        Code::CUDA_ERROR_NO_BINARY_FOR_GPU
        | Code::CUDA_ERROR_INVALID_IMAGE
        | Code::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            found.hint("NVRTC is newer than the driver: update the driver, or install the NVRTC of its CUDA version")
        }
        Code::CUDA_ERROR_NO_DEVICE | Code::CUDA_ERROR_INVALID_DEVICE => {
            found.hint("nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES hides some")
        }
        Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH | Code::CUDA_ERROR_SYSTEM_NOT_READY => {
            found.hint("the driver was updated without a restart, or its services are down: restart the machine")
        }
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
        | Code::CUDA_ERROR_MISALIGNED_ADDRESS
        | Code::CUDA_ERROR_LAUNCH_FAILED
        | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION => {
            found.hint("a mistake in a kernel of wxsim: please report it with the output of wxsim doctor --check")
        }
        _ => found.hint("wxsim doctor --check tells a broken set-up from a mistake in wxsim"),
    }
}

/// Names the call in the error of its result.
pub trait Call<T> {
    fn call(self, name: &str) -> Result<T>;
}

impl<T> Call<T> for Result<T, DriverError> {
    fn call(self, name: &str) -> Result<T> {
        self.map_err(|error| failed(name, error))
    }
}

/// Opens the driver's library once, so that cudarc, which looks for it by name, finds this one.
pub fn open() -> Result<PathBuf> {
    static OPENED: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = &*opened {
        return Ok(path.clone());
    }
    let (path, library) = Library::Driver.open()?;
    // Open for good: cudarc keeps functions of it.
    std::mem::forget(library);
    // SAFETY: opens the library by name, nothing else. Without this check, cudarc's first call would panic.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::run(format!("{} is not found by its name", path.display()))
            .hint("add its folder to LD_LIBRARY_PATH"));
    }
    *opened = Some(path.clone());
    Ok(path)
}

/// CUDA version of the driver, major and minor.
pub fn version() -> Result<(u32, u32)> {
    open()?;
    let mut version = 0;
    // SAFETY: a number to write to.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().call("cuDriverGetVersion")?;
    Ok((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// The number of GPUs.
pub fn count() -> Result<usize> {
    open()?;
    result::init().call("cuInit")?;
    Ok(result::device::get_count().call("cuDeviceGetCount")? as usize)
}

/// One GPU as this process uses it: the primary context and a stream.
pub struct Gpu {
    pub context: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
    pub ordinal: usize,
    /// `NVIDIA H200`
    pub name: String,
    /// Compute capability.
    pub capability: (u32, u32),
}

impl Gpu {
    pub fn new(ordinal: usize) -> Result<Self> {
        let count = count()?;
        if ordinal >= count {
            let known = match count {
                0 => "there is no GPU".to_owned(),
                1 => "the only GPU is cuda:0".to_owned(),
                count => format!("the GPUs are cuda:0 to cuda:{}", count - 1),
            };
            return Err(Error::input(format!("there is no cuda:{ordinal}: {known}"))
                .hint("nvidia-smi lists the GPUs"));
        }
        let context = CudaContext::new(ordinal).call("cuDevicePrimaryCtxRetain")?;
        // SAFETY: this device orders all its work on one stream. With tracking, slices touched before a capture could
        // not be used in it.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().call("cuStreamCreate")?;
        let attribute = |which| context.attribute(which).call("cuDeviceGetAttribute");
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        );
        let name = context.name().call("cuDeviceGetName")?;
        if capability.0 < 8 {
            return Err(Error::run(format!(
                "{name} has compute capability {}.{}",
                capability.0, capability.1
            ))
            .hint("wxsim needs 8.0 (Ampere) or newer; use --device cpu"));
        }
        Ok(Self { context, stream, ordinal, name, capability })
    }

    /// What kernels are compiled for: this very card; on Hopper with the instructions that only Hopper has.
    pub fn architecture(&self) -> String {
        let (major, minor) = self.capability;
        format!("sm_{major}{minor}{}", if major == 9 { "a" } else { "" })
    }

    /// Makes the context that of this thread.
    pub fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().call("cuCtxSetCurrent")
    }

    /// The most shared memory that a block can have [bytes].
    pub fn shared_of_block(&self) -> Result<usize> {
        let most = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        Ok(self.context.attribute(most).call("cuDeviceGetAttribute")? as usize)
    }

    /// Bytes of memory that nobody has.
    pub fn free(&self) -> Result<usize> {
        self.bind()?;
        Ok(self.context.mem_get_info().call("cuMemGetInfo")?.0)
    }

    /// Waits for everything on the stream.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().call("cuStreamSynchronize")
    }
}

/// Memory of the GPU.
pub struct Memory {
    gpu: Arc<CudaContext>,
    start: sys::CUdeviceptr,
    bytes: usize,
}

impl Memory {
    /// `bytes` of memory, all zero.
    pub fn zeroed(gpu: &Gpu, bytes: usize) -> Result<Self> {
        gpu.bind()?;
        let (free, total) = gpu.context.mem_get_info().call("cuMemGetInfo")?;
        if bytes > free {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            return Err(Error::run(format!(
                "{} MiB are needed on {}, of whose {} MiB {} are free",
                mib(bytes),
                gpu.name,
                mib(total),
                mib(free)
            ))
            .hint("choose a smaller batch, shorter rollouts or fewer hidden channels, or end what else uses the GPU"));
        }
        // SAFETY: the context is bound; cuMemAlloc refuses 0 bytes, hence at least one.
        let start = unsafe { result::malloc_sync(bytes.max(1)) }.call("cuMemAlloc")?;
        let memory = Self { gpu: gpu.context.clone(), start, bytes };
        // SAFETY: all of what was just allocated; the stream is this context's.
        unsafe { result::memset_d8_async(start, 0, bytes, gpu.stream.cu_stream()) }
            .call("cuMemsetD8Async")?;
        Ok(memory)
    }

    /// Memory that holds `bytes`.
    pub fn holding(gpu: &Gpu, bytes: &[u8]) -> Result<Self> {
        let memory = Self::zeroed(gpu, bytes.len())?;
        // SAFETY: as many bytes as were allocated; the driver has copied pageable memory when the call returns.
        unsafe { result::memcpy_htod_async(memory.start, bytes, gpu.stream.cu_stream()) }
            .call("cuMemcpyHtoDAsync")?;
        Ok(memory)
    }

    /// Zeroes all of it, in the order of the stream.
    pub fn zero(&self, gpu: &Gpu) -> Result<()> {
        // SAFETY: all of this memory; the stream is of its context.
        unsafe { result::memset_d8_async(self.start, 0, self.bytes, gpu.stream.cu_stream()) }
            .call("cuMemsetD8Async")
    }

    /// Copies all of it from memory of the same size, in the order of the stream.
    pub fn copy_from(&self, gpu: &Gpu, other: &Memory) -> Result<()> {
        assert_eq!(self.bytes, other.bytes, "both ends of a copy have one size");
        // SAFETY: both ends are as long; the stream is of their context.
        unsafe { result::memcpy_dtod_async(self.start, other.start, self.bytes, gpu.stream.cu_stream()) }
            .call("cuMemcpyDtoDAsync")
    }

    /// Waits for what is on the stream and reads the first words.
    pub fn read(&self, gpu: &Gpu, words: &mut [u32]) -> Result<()> {
        assert!(size_of_val(words) <= self.bytes, "no more can be read than is there");
        // SAFETY: the destination outlives the copy, which is waited for.
        unsafe { result::memcpy_dtoh_async(words, self.start, gpu.stream.cu_stream()) }
            .call("cuMemcpyDtoHAsync")?;
        gpu.synchronize()
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.gpu.bind_to_thread().is_ok() {
            // SAFETY: allocated in `zeroed`, freed only here. cuMemFree waits for kernels that still use it. An error is
            // that of an earlier call, which has been reported.
            let _ = unsafe { result::free_sync(self.start) };
        }
    }
}
