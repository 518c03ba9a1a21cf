//! The kernels on the GPU.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

use cudarc::driver::{CudaContext, result, sys};

use super::compile::{self, Numbers};
use super::driver::{Call, Gpu};
use super::sources::{self, Parameter};
use crate::error::{Error, Result};

/// All kernels for one GPU and one kind of numbers.
pub struct Modules {
    context: Arc<CudaContext>,
    modules: Vec<sys::CUmodule>,
    kernels: HashMap<&'static str, Kernel>,
}

// SAFETY: the driver's handles are used by one thread at a time, each of which binds the context first.
unsafe impl Send for Modules {}

impl Modules {
    /// Compiles what is not in the cache, and loads everything: nothing may be loaded while a graph is captured.
    pub fn load(gpu: &Gpu, numbers: Numbers) -> Result<Self> {
        gpu.bind()?;
        let mut loaded = Self { context: gpu.context.clone(), modules: Vec::new(), kernels: HashMap::new() };
        let most_shared = gpu.shared_of_block()?;
        for source in sources::ALL {
            let cubin = compile::cubin(source, &gpu.architecture(), numbers)?;
            // SAFETY: the image is a whole cubin, from the compiler or from a cache that checks it.
            let module =
                unsafe { result::module::load_data(cubin.as_ptr().cast()) }.call("cuModuleLoadData")?;
            loaded.modules.push(module);
            for (name, parameters) in source.kernels() {
                let symbol = CString::new(name)
                    .map_err(|_| Error::run(format!("{name:?} cannot be the name of a kernel")))?;
                // SAFETY: the module was just loaded.
                let function =
                    unsafe { result::module::get_function(module, symbol) }.call("cuModuleGetFunction")?;
                let shared = match source.text.contains("extern __shared__") {
                    true => allow_shared(function, most_shared)?,
                    false => 0,
                };
                loaded.kernels.insert(name, Kernel { function, parameters, shared });
            }
        }
        Ok(loaded)
    }

    /// A kernel by its name, with what it takes.
    pub fn kernel(&self, name: &str) -> Result<&Kernel> {
        self.kernels.get(name).ok_or_else(|| Error::run(format!("there is no kernel called {name}")))
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            for &module in &self.modules {
                // SAFETY: loaded in `load`, unloaded only here. An error is that of an earlier call.
                let _ = unsafe { result::module::unload(module) };
            }
        }
    }
}

/// A loaded kernel.
pub struct Kernel {
    pub function: sys::CUfunction,
    pub parameters: Vec<Parameter>,
    /// The most dynamic shared memory that a launch may ask for [bytes].
    pub shared: usize,
}

/// Lets a kernel use all of a block's shared memory, of which without being asked it gets 48 KiB; tells how much of that
/// its own variables leave.
fn allow_shared(function: sys::CUfunction, most: usize) -> Result<usize> {
    use sys::CUfunction_attribute::{
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as DYNAMIC,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as OWN,
    };
    // SAFETY: the function belongs to a module that was just loaded.
    let own =
        unsafe { result::function::get_function_attribute(function, OWN) }.call("cuFuncGetAttribute")?;
    let rest = most.saturating_sub(own as usize);
    // SAFETY: as above.
    unsafe { result::function::set_function_attribute(function, DYNAMIC, rest as i32) }
        .call("cuFuncSetAttribute")?;
    Ok(rest)
}

/// How many blocks of how many threads.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    pub blocks: [u32; 3],
    pub threads: u32,
    /// Dynamic shared memory [bytes].
    pub shared: u32,
}

impl Grid {
    /// Threads of a block, as the kernels of this crate are written.
    pub const THREADS: usize = 256;

    /// A thread for each of `n`.
    pub fn over(n: usize) -> Self {
        Self::blocks(n.div_ceil(Self::THREADS))
    }

    pub fn blocks(x: usize) -> Self {
        Self { blocks: [x as u32, 1, 1], threads: Self::THREADS as u32, shared: 0 }
    }

    pub fn times(self, y: usize) -> Self {
        assert!(y < 1 << 16, "at most 65535 blocks in the second dimension, not {y}");
        Self { blocks: [self.blocks[0], y as u32, 1], ..self }
    }

    /// With so many bytes of dynamic shared memory.
    pub fn shared(self, bytes: usize) -> Self {
        Self { shared: bytes as u32, ..self }
    }
}
