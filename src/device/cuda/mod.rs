//! An NVIDIA GPU as a device: one arena, one stream, kernels compiled when the program first meets the card.
//!
//! To add an operation: write its kernel in a file of `kernels/` (its header lists architectures, operations and hot
//! kernels), name the file in `sources`, launch it in a function `fn name(cuda: &Cuda<T>, ..) -> Result<()>` of a file
//! here, and call that in the [`Device`] implementation below. `tests/kernels.rs` compiles it without a GPU.

mod beside;
mod cell;
mod compile;
mod convolution;
mod copies;
mod cudnn;
mod driver;
mod elementary;
mod fields;
mod flow;
mod graphs;
mod halo;
mod head;
mod incoming;
mod int8;
mod launch;
mod lanes;
mod layer_norm;
mod leapfrog;
mod lent;
mod libraries;
mod links;
mod memory;
mod modules;
mod monitor;
mod nvrtc;
mod rows;
mod own;
mod prepared;
mod packed;
mod ranges;
mod sources;
mod stencils;
mod sums;
mod survey;
mod training;
mod transport;
mod waiting;
mod waves;

pub use compile::{Numbers, compile, folder as cache_folder};
pub use driver::count;
pub use lent::Lent;
pub use libraries::{Library, Once, site_packages};
pub use links::{Reach, Wiring, wiring};
pub use monitor::{Load, Monitor};
pub use nvrtc::{Nvrtc, Output};
pub use sources::{ALL as SOURCES, Source};
pub use survey::{Card, Installed, cards, installed};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use super::{
    Above, AdamW, ArenaPlan, Beside, Biharmonic, Cell, CellGradients, Company, Convolution, Counting,
    Daylight, Decode, Departures, Device, Elliptic, Ends, Flow, FlowOutput, HaloMap, Int8Kernel,
    Interpolation, Jacobian, LayerNorm, Leapfrog, Loss, Picking, Placement, Rates, Readout, Real,
    RowSmoothing, Sequence, Slot, Sum, Triple, Write, company,
};
use crate::error::{Error, Result};
use beside::Side;
use copies::Copies;
use cudnn::{Cudnn, Storage};
use driver::Gpu;
use graphs::Graphs;
use lanes::Lanes;
use launch::Launch;
use memory::{Arena, Scratch};
use modules::Modules;
use prepared::Prepared;
use ranges::Ranges;

/// How exactly a GPU in single precision computes; parameters, cell states and sums are single in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compute {
    Single,
    /// Single, of whose significands convolutions read 11 bits.
    Tf32,
    /// Activations in bfloat16.
    Bf16,
    /// Activations in half precision.
    Fp16,
}

/// A stream of the driver, as other libraries take it.
pub type Stream = *mut std::ffi::c_void;

/// A GPU and its arena.
pub struct Cuda<T: Real> {
    gpu: Gpu,
    modules: Modules,
    arena: Arena,
    side: RefCell<Side>,
    copies: RefCell<Copies>,
    scratch: RefCell<Scratch>,
    halos: RefCell<halo::Tables>,
    waves: RefCell<waves::Tables>,
    prepared: RefCell<Prepared>,
    int8: RefCell<int8::Kernels>,
    /// Where there is one that suits the numbers.
    cudnn: Option<(Cudnn, Storage)>,
    graphs: RefCell<Graphs>,
    lanes: Lanes,
    ranges: Option<Ranges>,
    /// The first error since [`Device::finish`] was last called. Until then nothing more is done.
    failure: RefCell<Option<Error>>,
    numbers: Numbers,
    company: Option<Box<dyn Company<T>>>,
    element: std::marker::PhantomData<fn(T)>,
}

impl<T: Real> Cuda<T> {
    /// The GPU with this number. Compiles the kernels, or takes them from the cache.
    pub fn new(ordinal: usize, compute: Compute) -> Result<Self> {
        let gpu = Gpu::new(ordinal)?;
        let numbers = match compute {
            _ if size_of::<T>() == 8 => Numbers::Double,
            Compute::Single | Compute::Tf32 => Numbers::Single,
            Compute::Bf16 => Numbers::Bf16,
            Compute::Fp16 => Numbers::Fp16,
        };
        let modules = Modules::load(&gpu, numbers)?;
        // Without the library there are our own kernels.
        let storage = Storage::of(numbers, compute == Compute::Tf32);
        let cudnn = storage.and_then(|storage| Some((Cudnn::new(&gpu).ok()?, storage)));
        Ok(Self {
            side: RefCell::new(Side::new(&gpu)?),
            copies: RefCell::new(Copies::new(&gpu)?),
            lanes: Lanes::new(&gpu)?,
            gpu,
            modules,
            arena: Arena::default(),
            scratch: RefCell::default(),
            halos: RefCell::default(),
            waves: RefCell::default(),
            prepared: RefCell::default(),
            int8: RefCell::default(),
            cudnn,
            graphs: RefCell::default(),
            ranges: Ranges::open(),
            failure: RefCell::default(),
            numbers,
            company: None,
            element: std::marker::PhantomData,
        })
    }

    /// Bytes of one number that is kept as it is, and of an activation.
    fn sizes(&self) -> [usize; 2] {
        [size_of::<T>(), if self.numbers.is_narrow() { 2 } else { size_of::<T>() }]
    }

    /// Panics while a sequence is recorded: what is asked for would happen now and never again.
    fn not_recording(&self, operation: &str) {
        assert!(!self.graphs.borrow().recording, "{operation} in a sequence that is repeated");
    }

    /// What kernels are compiled for: `sm_90a`.
    pub fn architecture(&self) -> String {
        self.gpu.architecture()
    }

    fn kernel(&self, name: &'static str) -> Launch<'_, T> {
        Launch::new(self, name)
    }

    /// Memory for one operation.
    fn scratch(&self, bytes: usize) -> Result<u64> {
        self.scratch.borrow_mut().bytes(&self.gpu, bytes)
    }

    /// Gives back what operations worked in and outgrew.
    fn shrink(&mut self) {
        self.scratch.get_mut().shrink();
        self.lanes.shrink();
        if let Some((cudnn, _)) = &self.cudnn {
            cudnn.shrink();
        }
    }

    /// The library puts its work where ours goes.
    fn follow_stream(&mut self) {
        let lane = self.lanes.inside();
        self.attempt(|cuda| match &cuda.cudnn {
            Some((cudnn, _)) => cudnn.follow(&cuda.gpu, lane),
            None => Ok(()),
        });
    }

    /// Whatever was made of these numbers has to be made again.
    fn touch(&self, written: Slot) {
        self.graphs.borrow_mut().writes(written);
        self.prepared.borrow_mut().touch(written);
    }

    /// Does `work` unless something failed before, and remembers its failure.
    fn attempt<R>(&self, work: impl FnOnce(&Self) -> Result<R>) -> Option<R> {
        if self.failure.borrow().is_some() {
            return None;
        }
        match self.gpu.bind().and_then(|()| work(self)) {
            Ok(result) => Some(result),
            Err(error) => {
                *self.failure.borrow_mut() = Some(error);
                None
            }
        }
    }
}

impl<T: Real> Device<T> for Cuda<T> {
    fn describe(&self) -> String {
        let (major, minor) = self.gpu.capability;
        let numbers = match self.numbers {
            Numbers::Double => "double",
            Numbers::Single if matches!(self.cudnn, Some((_, Storage::TensorFloat32))) => "TF32",
            Numbers::Single => "single",
            Numbers::Bf16 => "bfloat16",
            Numbers::Fp16 => "half",
        };
        format!(
            "cuda:{} ({}, compute capability {major}.{minor}, {numbers} precision)",
            self.gpu.ordinal, self.gpu.name
        )
    }

    fn company(&mut self) -> &mut Option<Box<dyn Company<T>>> {
        &mut self.company
    }

    fn allocate(&mut self, plan: &ArenaPlan) -> Result<()> {
        self.gpu.bind()?;
        self.gpu.synchronize()?;
        self.side.borrow().synchronize()?;
        self.graphs.borrow_mut().clear();
        self.halos.borrow_mut().clear();
        self.waves.borrow_mut().clear();
        self.prepared = RefCell::default();
        self.int8 = RefCell::default();
        self.scratch = RefCell::default();
        self.lanes.clear();
        self.arena = Arena::default();
        self.arena = Arena::zeroed(&self.gpu, plan.parts(), self.sizes())?;
        Ok(())
    }

    fn bytes(&self, plan: &ArenaPlan) -> usize {
        Arena::bytes(plan.parts(), self.sizes())
    }

    fn room(&self) -> Option<usize> {
        let held = self.arena.held();
        self.attempt(|cuda| Ok(cuda.gpu.free()? + held))
    }

    fn repeat(&mut self, sequence: Sequence, work: &mut dyn FnMut(&mut dyn Device<T>)) {
        if self.failure.borrow().is_some() {
            return;
        }
        let ranges = self.ranges.take();
        Ranges::within(ranges.as_ref(), sequence.name, || graphs::repeat(self, sequence, work));
        self.ranges = ranges;
    }

    fn choices(&self) -> BTreeMap<String, String> {
        self.cudnn.as_ref().map(|(cudnn, _)| cudnn.choices()).unwrap_or_default()
    }

    fn choose(&mut self, choices: &BTreeMap<String, String>) {
        if let Some((cudnn, _)) = &self.cudnn {
            cudnn.choose(choices);
        }
    }

    fn cuda(&mut self) -> Option<&mut Cuda<T>> {
        Some(self)
    }

    fn aside(&mut self, lane: usize, work: &mut dyn FnMut(&mut dyn Device<T>)) {
        // Beside nothing but a recording; the memory to work in is the lane's in any case, so that it is there then.
        let records = self.graphs.borrow().recording;
        let entered = self.lanes.enter(lane, &mut self.gpu, &mut self.scratch, records);
        if self.attempt(|_| entered).is_none() {
            return;
        }
        self.follow_stream();
        work(self);
        self.lanes.leave(&mut self.gpu, &mut self.scratch, records);
        self.follow_stream();
    }

    fn join(&mut self, lane: usize) {
        let joined = self.lanes.join(lane, &self.gpu);
        self.attempt(|_| joined);
    }

    fn finish(&self) -> Result<()> {
        if let Some(error) = self.failure.borrow_mut().take() {
            return Err(error.context(self.describe()));
        }
        self.gpu.bind()?;
        self.gpu.synchronize().map_err(|error| error.context(self.describe()))
    }

    fn upload(&mut self, to: Slot, values: &[T]) {
        self.touch(to);
        self.attempt(|cuda| elementary::upload(cuda, to, values));
    }

    fn download(&self, from: Slot, values: &mut [T]) {
        let done = self.attempt(|cuda| elementary::download(cuda, from, values));
        if done.is_none() {
            values.fill(T::of(f64::NAN));
        }
    }

    fn start_copy(&mut self, slots: &[Slot]) {
        self.attempt(|cuda| copies::start(cuda, slots));
    }

    fn copied(&mut self, wait: bool) -> Result<Option<Vec<T>>> {
        self.gpu.bind()?;
        copies::result(self, wait).map_err(|error| error.context(self.describe()))
    }

    fn stage(&mut self, to: Slot, values: &[T]) {
        self.attempt(|cuda| incoming::stage(cuda, to, values));
    }

    fn decode(&mut self, decode: &Decode<'_>) {
        self.attempt(|cuda| incoming::decode(cuda, decode));
    }

    fn daylight(&mut self, daylight: &Daylight<'_>) {
        self.attempt(|cuda| incoming::daylight(cuda, daylight));
    }

    fn hand_over(&mut self, copies: &[(Slot, Slot)]) {
        self.attempt(|cuda| {
            let all = || copies.iter().try_for_each(|&(from, to)| elementary::copy(cuda, from, to));
            cuda.side.borrow_mut().hand_over(&cuda.gpu, all)
        });
    }

    fn beside(&self) -> Option<Beside> {
        Some(self.attempt(|cuda| cuda.side.borrow().times()).unwrap_or_default())
    }

    fn zero(&mut self, slot: Slot) {
        self.touch(slot);
        self.attempt(|cuda| elementary::zero(cuda, slot));
    }

    fn copy(&mut self, from: Slot, to: Slot) {
        self.touch(to);
        self.attempt(|cuda| elementary::copy(cuda, from, to));
    }

    fn halo_fill(&mut self, map: &HaloMap, x: Slot) {
        self.attempt(|cuda| halo::fill(cuda, map, x));
        company::fill(self, map, x);
    }

    fn halo_adjoint(&mut self, map: &HaloMap, dx: Slot) {
        company::adjoint(self, map, dx);
        self.attempt(|cuda| halo::adjoint(cuda, map, dx));
    }

    fn convolve(&mut self, shape: &Convolution, x: Slot, w: Slot, y: Slot, write: Write) {
        self.attempt(|cuda| convolution::forward(cuda, shape, x, w, y, write));
    }

    fn convolve_input_gradient(&mut self, shape: &Convolution, dy: Slot, w: Slot, dx: Slot) {
        self.attempt(|cuda| convolution::input_gradient(cuda, shape, dy, w, dx));
    }

    fn convolve_weight_gradient(&mut self, shape: &Convolution, x: Slot, dy: Slot, dw: Slot) {
        self.attempt(|cuda| convolution::weight_gradient(cuda, shape, x, dy, dw));
    }

    fn convolve_int8(
        &mut self,
        shape: &Convolution,
        x: Slot,
        kernel: &Int8Kernel,
        step: f32,
        y: Slot,
        write: Write,
    ) {
        self.attempt(|cuda| int8::convolve(cuda, shape, x, kernel, step, y, write));
    }

    fn round(&mut self, counting: Counting, x: Slot) {
        self.attempt(|cuda| int8::round(cuda, counting, x));
    }

    fn round_adjoint(&mut self, counting: Counting, x: Slot, dx: Slot) {
        self.attempt(|cuda| int8::round_adjoint(cuda, counting, x, dx));
    }

    fn round_columns(&mut self, outputs: usize, most: f32, w: Slot, rounded: Slot) {
        self.touch(rounded);
        self.attempt(|cuda| int8::round_columns(cuda, outputs, most, w, rounded));
    }

    fn place(&mut self, placement: &Placement) {
        self.attempt(|cuda| fields::place(cuda, placement));
    }

    fn place_adjoint(&mut self, placement: &Placement) {
        self.attempt(|cuda| fields::place_adjoint(cuda, placement));
    }

    fn cell_forward(&mut self, cell: &Cell, h: Slot, map: &HaloMap, above: Option<&Above>) {
        self.attempt(|cuda| cell::forward(cuda, cell, h, map, above));
        company::fill(self, map, h);
    }

    fn cell_backward(&mut self, cell: &Cell, map: &HaloMap, gradients: &CellGradients) {
        if let Some(h) = gradients.h {
            company::adjoint(self, map, h);
        }
        self.attempt(|cuda| cell::backward(cuda, cell, map, gradients));
    }

    fn layer_norm_forward(&mut self, norm: &LayerNorm) {
        self.attempt(|cuda| layer_norm::forward(cuda, norm));
    }

    fn layer_norm_backward(&mut self, norm: &LayerNorm, dbias: Slot, dgain: Slot) {
        self.attempt(|cuda| layer_norm::backward(cuda, norm, dbias, dgain));
    }

    fn layer_norm_moments(&mut self, norm: &LayerNorm, moments: Slot) {
        self.attempt(|cuda| layer_norm::moments(cuda, norm, moments));
    }

    fn layer_norm_forward_among(&mut self, norm: &LayerNorm, moments: Slot) {
        self.attempt(|cuda| layer_norm::forward_among(cuda, norm, moments));
    }

    fn layer_norm_sums(&mut self, norm: &LayerNorm, sums: Slot, dgain: Slot) {
        self.attempt(|cuda| layer_norm::sums_of_gradient(cuda, norm, sums, dgain));
    }

    fn layer_norm_backward_among(&mut self, norm: &LayerNorm, sums: Slot, parts: usize, dbias: Slot) {
        self.attempt(|cuda| layer_norm::backward_among(cuda, norm, sums, parts, dbias));
    }

    fn mix(&mut self, share: Slot, truth: Slot, prediction: Slot, mixed: Slot) {
        self.attempt(|cuda| fields::mix(cuda, share, truth, prediction, mixed));
    }

    fn mix_adjoint(&mut self, share: Slot, dmixed: Slot, dprediction: Slot) {
        self.attempt(|cuda| fields::mix_adjoint(cuda, share, dmixed, dprediction));
    }

    fn readout(&mut self, readout: &Readout, base: Option<Slot>, fields: Slot) {
        self.attempt(|cuda| fields::readout(cuda, readout, base, fields));
    }

    fn readout_adjoint(&mut self, readout: &Readout, dfields: Slot, dy: Slot, dbias: Slot) {
        self.attempt(|cuda| fields::readout_adjoint(cuda, readout, dfields, dy, dbias));
    }

    fn loss(&mut self, loss: &Loss) {
        self.attempt(|cuda| training::loss(cuda, loss));
    }

    fn adamw(&mut self, step: &AdamW) {
        self.touch(step.parameter);
        self.attempt(|cuda| training::adamw(cuda, step));
    }

    fn sum_of_squares(&self, slot: Slot) -> f64 {
        self.attempt(|cuda| elementary::sum_of_squares(cuda, slot)).unwrap_or(f64::NAN)
    }

    fn scale(&mut self, x: Slot, factor: f64) {
        self.touch(x);
        self.attempt(|cuda| elementary::scale(cuda, x, factor));
    }

    fn lerp(&mut self, x: Slot, target: Slot, weight: f64) {
        self.touch(x);
        self.attempt(|cuda| elementary::lerp(cuda, x, target, weight));
    }

    fn relax(&mut self, x: Slot, target: Slot, weights: Slot) {
        self.attempt(|cuda| elementary::relax(cuda, x, target, weights));
    }

    fn pack(&mut self, x: Slot, packed: Slot) {
        self.attempt(|cuda| packed::pack(cuda, x, packed));
    }

    fn unpack(&mut self, packed: Slot, parts: usize, x: Slot) {
        self.touch(x);
        self.attempt(|cuda| packed::unpack(cuda, packed, parts, x));
    }

    fn pick(&mut self, picking: &Picking) {
        self.attempt(|cuda| packed::pick(cuda, picking));
    }

    fn lay_out(&mut self, picked: Slot, keep: usize, parts: usize, x: Slot) {
        self.attempt(|cuda| packed::lay_out(cuda, picked, keep, parts, x));
    }

    fn flow(&mut self, flow: &Flow, x: Triple, output: &FlowOutput) {
        self.attempt(|cuda| flow::flow(cuda, flow, x, output));
    }

    fn biharmonic(&mut self, damping: &Biharmonic) {
        self.attempt(|cuda| stencils::biharmonic(cuda, damping));
    }

    fn fastest_rate(&self, rates: &Rates) -> f64 {
        self.attempt(|cuda| flow::fastest_rate(cuda, rates)).unwrap_or(f64::INFINITY)
    }

    fn waves_forward(&mut self, ends: Ends, columns: usize, from: Slot, to: Slot) {
        self.attempt(|cuda| waves::forward(cuda, ends, columns, from, to));
    }

    fn waves_backward(&mut self, ends: Ends, columns: usize, x: Slot) {
        self.attempt(|cuda| waves::backward(cuda, ends, columns, x));
    }

    fn solve_waves(&mut self, elliptic: &Elliptic, places: Range<usize>, x: Slot) {
        self.attempt(|cuda| waves::solve(cuda, elliptic, places, x));
    }

    fn leapfrog_predict(&mut self, step: &Leapfrog) {
        self.attempt(|cuda| leapfrog::predict(cuda, step));
    }

    fn leapfrog_correct(&mut self, step: &Leapfrog) {
        self.attempt(|cuda| leapfrog::correct(cuda, step));
    }

    fn depart(&mut self, departures: &Departures) {
        self.attempt(|cuda| transport::depart(cuda, departures));
    }

    fn interpolate(&mut self, interpolation: &Interpolation) {
        self.attempt(|cuda| transport::interpolate(cuda, interpolation));
    }

    fn sum(&mut self, sum: &Sum) {
        self.attempt(|cuda| stencils::sum(cuda, sum));
    }

    fn jacobian(&mut self, jacobian: &Jacobian) {
        self.attempt(|cuda| stencils::jacobian(cuda, jacobian));
    }

    fn smooth_rows(&mut self, smoothing: &RowSmoothing) {
        self.attempt(|cuda| rows::smooth(cuda, smoothing));
    }
}
