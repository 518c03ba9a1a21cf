//! Runs an engine. States stay on the GPU: what a step gives is what the next one reads, by exchanging addresses.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DriverError};
use trtx::{CudaEngine, ExecutionContext, Runtime};

use super::copies::Copies;
use super::library::{self, failed};
use super::{Capability, EngineCard};
use crate::device::cuda::{self, Library};
use crate::error::{Context, Error, Result};
use crate::export::onnx::names;

/// An engine of one step for one forecast, on one GPU.
pub struct Engine {
    // In the order in which they have to go.
    copies: Copies,
    replays: Replays,
    context: ExecutionContext<'static>,
    _engine: CudaEngine<'static>,
    _runtime: Runtime<'static>,
    stream: Arc<CudaStream>,
    buffers: BTreeMap<String, Buffer>,
    /// Steps done: which of two buffers is read.
    turn: usize,
    /// `TensorRT for RTX 1.7.1 on NVIDIA L4`
    pub description: String,
}

// SAFETY: one thread at a time has an engine, as nothing of it can be cloned or shared; CUDA's context is bound by each call
// of cudarc, and TensorRT's objects may be used by any thread, one at a time.
unsafe impl Send for Engine {}

/// What an input is read from. With two, the other one is written by the output that becomes this input.
struct Buffer {
    output: Option<String>,
    places: Vec<CudaSlice<f32>>,
}

pub(super) fn call<T>(what: &str, result: Result<T, DriverError>) -> Result<T> {
    result.map_err(|error| {
        Error::run(format!("{what} failed on the GPU of an engine")).caused_by(error.to_string())
    })
}

impl Engine {
    /// Reads the engine `path`, which must fit `graph`, the library and the GPU.
    pub fn open(path: &Path, graph: &[u8], ordinal: usize) -> Result<Self> {
        // Without a driver, making a runtime ends the program.
        cuda::installed(Library::Driver)?;
        let card = EngineCard::load(path)?;
        let bytes = std::fs::read(path).context(|| format!("cannot read {}", path.display()))?;
        let library = library::open()?;
        let gpu = call("cuDevicePrimaryCtxRetain", CudaContext::new(ordinal))?;
        let attribute = |which| call("cuDeviceGetAttribute", gpu.attribute(which));
        let here = Capability(
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        );
        card.check(&bytes, graph, &library.name, here)
            .map_err(|error| error.context(path.display().to_string()))?;
        // SAFETY: all work is on one stream, which orders it.
        unsafe { gpu.disable_event_tracking() };
        let stream = call("cuStreamCreate", gpu.new_stream())?;

        let cannot = |error| failed(&format!("the engine {} cannot be used", path.display()), error);
        let mut runtime = Runtime::new(library::logger()?).map_err(cannot)?;
        let mut engine = runtime.deserialize_cuda_engine(&bytes).map_err(cannot)?;
        let mut replays = Replays::new(&mut engine, path).map_err(cannot)?;
        let mut context = replays.context(&mut engine).map_err(cannot)?;
        let mut buffers = BTreeMap::new();
        for binding in card.bindings.iter().filter(|binding| binding.input) {
            let mut shape = binding.shape.clone();
            shape[0] = 1;
            context
                .set_input_shape(&binding.name, &trtx::trtx_sys::Dims64::from_slice(&shape))
                .map_err(cannot)?;
            let len = shape.iter().product::<i64>() as usize;
            let output = match binding.name.as_str() {
                names::X => Some(names::Y.to_string()),
                other => Some(names::next(other))
                    .filter(|next| card.bindings.iter().any(|b| !b.input && b.name == *next)),
            };
            let places = (0..if output.is_some() { 2 } else { 1 })
                .map(|_| call("cuMemAlloc", stream.alloc_zeros::<f32>(len)))
                .collect::<Result<Vec<_>>>()?;
            buffers.insert(binding.name.clone(), Buffer { output, places });
        }
        let name = call("cuDeviceGetName", gpu.name())?;
        let description = format!("{} on {name}", library.name);
        Ok(Self {
            copies: Copies::new(&stream)?,
            replays,
            context,
            _engine: engine,
            _runtime: runtime,
            stream,
            buffers,
            turn: 0,
            description,
        })
    }

    /// Overwrites an input, or an output that will be read as one.
    pub fn set(&mut self, name: &str, values: &[f32]) -> Result<()> {
        let turn = self.turn;
        let Some(buffer) = self.buffers.get_mut(name) else {
            return Err(Error::run(format!("the engine has no input {name}")));
        };
        let count = buffer.places.len();
        let place = &mut buffer.places[turn % count];
        if place.len() != values.len() {
            return Err(Error::run(format!("{name} has {} values, not {}", place.len(), values.len())));
        }
        call("cuMemcpyHtoDAsync", self.stream.memcpy_htod(values, place))
    }

    /// What an input will be in the next step; waits for the last one.
    pub fn get(&self, name: &str) -> Result<Vec<f32>> {
        let buffer =
            self.buffers.get(name).ok_or_else(|| Error::run(format!("the engine has no input {name}")))?;
        let place = &buffer.places[self.turn % buffer.places.len()];
        let mut values = vec![0.0; place.len()];
        call("cuMemcpyDtoHAsync", self.stream.memcpy_dtoh(place, &mut values))?;
        call("cuStreamSynchronize", self.stream.synchronize())?;
        Ok(values)
    }

    /// Starts to copy inputs, as they will be in the next step, to the host beside the steps that follow: always the same ones
    /// in the same order.
    pub fn start_copy<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let turn = self.turn;
        let place = |name: &str| match self.buffers.get(name) {
            Some(buffer) => Ok(&buffer.places[turn % buffer.places.len()]),
            None => Err(Error::run(format!("the engine has no input {name}"))),
        };
        let places = names.map(place).collect::<Result<Vec<_>>>()?;
        self.copies.start(&self.stream, &places)
    }

    /// What was copied, told once; `None` where nobody waits and it has not arrived.
    pub fn copied(&mut self, wait: bool) -> Result<Option<Vec<Vec<f32>>>> {
        self.copies.result(wait)
    }

    /// One step.
    pub fn run(&mut self) -> Result<()> {
        let cannot = |error| failed("a step of the engine failed", error);
        let stream = self.stream.cu_stream().cast();
        for (name, Buffer { output, places }) in &self.buffers {
            let address =
                |turn: usize| places[turn % places.len()].device_ptr(&self.stream).0 as *mut std::ffi::c_void;
            // SAFETY: memory of the tensor's size, which lives as long as the context; written only in the order of the
            // stream.
            unsafe {
                self.context.set_input_tensor_address(name, address(self.turn)).map_err(cannot)?;
                if let Some(output) = output {
                    self.context.set_output_tensor_address(output, address(self.turn + 1)).map_err(cannot)?;
                }
            }
        }
        self.replays.step(&self.stream, self.turn, &mut || {
            // SAFETY: all addresses have just been set, and the stream lives.
            unsafe { self.context.enqueue_v3(stream) }.map_err(cannot)
        })?;
        self.turn += 1;
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // What is enqueued uses the context and the buffers. An error is that of an earlier call, which was told.
        let _ = self.stream.synchronize();
    }
}

#[cfg(feature = "tensorrt")]
use full::Replays;
#[cfg(not(feature = "tensorrt"))]
use rtx::Replays;

/// TensorRT for RTX records a step itself, and compiles its kernels on the card, which it remembers in a cache.
#[cfg(not(feature = "tensorrt"))]
mod rtx {
    use std::path::{Path, PathBuf};
    use std::rc::Rc;
    use std::sync::Arc;

    use cudarc::driver::CudaStream;
    use trtx::{CudaEngine, CudaGraphStrategy, ExecutionContext, RuntimeCache, RuntimeConfig};

    use crate::error::Result;

    pub struct Replays {
        config: Rc<RuntimeConfig<'static>>,
        cache: Arc<RuntimeCache>,
        path: PathBuf,
    }

    impl Replays {
        pub fn new(engine: &mut CudaEngine<'static>, path: &Path) -> trtx::Result<Self> {
            let mut config = engine.create_runtime_config()?;
            config.set_cuda_graph_strategy(CudaGraphStrategy::kWHOLE_GRAPH_CAPTURE)?;
            let cache = Arc::new(config.create_runtime_cache()?);
            let path = path.with_extension("cache");
            // One of another version or card is made anew.
            if let Ok(bytes) = std::fs::read(&path) {
                let _ = cache.deserialize(&bytes);
            }
            config.set_runtime_cache(cache.clone())?;
            Ok(Self { config: Rc::new(config), cache, path })
        }

        pub fn context(
            &mut self,
            engine: &mut CudaEngine<'static>,
        ) -> trtx::Result<ExecutionContext<'static>> {
            engine.create_execution_context_with_config(self.config.clone())
        }

        pub fn step(
            &mut self,
            _stream: &Arc<CudaStream>,
            _turn: usize,
            enqueue: &mut dyn FnMut() -> Result<()>,
        ) -> Result<()> {
            enqueue()
        }
    }

    impl Drop for Replays {
        fn drop(&mut self) {
            // Only time is lost without it.
            if let Ok(bytes) = self.cache.serialize() {
                let _ = std::fs::write(&self.path, bytes.as_ref());
            }
        }
    }
}

/// The full library is recorded by us: one CUDA graph for each of the two ways in which buffers are exchanged.
#[cfg(feature = "tensorrt")]
mod full {
    use std::path::Path;
    use std::sync::Arc;

    use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
    use cudarc::driver::{CudaGraph, CudaStream};
    use trtx::{CudaEngine, ExecutionContext};

    use super::call;
    use crate::error::Result;

    #[derive(Default)]
    pub struct Replays {
        graphs: [Option<CudaGraph>; 2],
    }

    impl Replays {
        pub fn new(_engine: &mut CudaEngine<'static>, _path: &Path) -> trtx::Result<Self> {
            Ok(Self::default())
        }

        pub fn context(
            &mut self,
            engine: &mut CudaEngine<'static>,
        ) -> trtx::Result<ExecutionContext<'static>> {
            engine.create_execution_context()
        }

        pub fn step(
            &mut self,
            stream: &Arc<CudaStream>,
            turn: usize,
            enqueue: &mut dyn FnMut() -> Result<()>,
        ) -> Result<()> {
            if let Some(graph) = &self.graphs[turn % 2] {
                return call("cuGraphLaunch", graph.launch());
            }
            // The first two steps are done and not recorded: TensorRT prepares itself in them.
            if turn < 2 {
                return enqueue();
            }
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            call("cuStreamBeginCapture", stream.begin_capture(mode))?;
            let enqueued = enqueue();
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            let graph = call("cuStreamEndCapture", stream.end_capture(flags))?;
            enqueued?;
            match graph {
                Some(graph) => {
                    call("cuGraphLaunch", graph.launch())?;
                    self.graphs[turn % 2] = Some(graph);
                    Ok(())
                }
                None => enqueue(),
            }
        }
    }
}
