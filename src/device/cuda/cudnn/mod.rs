//! Convolutions by cuDNN, through its backend API (Chetlur et al. 2014, arXiv:1410.0759).
//!
//! The library proposes dozens of plans for a problem, of which its favourite can be several times slower than the best,
//! and some are wrong for some shapes. So every plan is held against wxsim's own kernel and timed when a problem is first
//! met, and the best that gave the same bits ten times over is remembered on disk.

mod choices;
mod descriptor;
mod library;
mod plan;
mod trial;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use cudarc::cudnn::sys::cudnnHandle_t as Handle;

use super::Cuda;
use super::compile;
use super::driver::Gpu;
use super::lanes::LANES;
use super::memory::Scratch;
use crate::device::Real;
use crate::error::{Error, Result};
use choices::{Choice, Choices};
use library::Table;
pub use plan::{Direction, Problem, Storage};
use plan::{Graph, Plan};

/// The library with a handle on one stream.
pub struct Cudnn {
    table: &'static Table,
    handle: Handle,
    choices: RefCell<Choices>,
    /// `None`: wxsim's own kernel.
    plans: RefCell<HashMap<Problem, Option<Rc<Plan>>>>,
    /// What plans work in, for the main stream and for each lane beside it.
    workspaces: RefCell<[Scratch; 1 + LANES]>,
    lane: Cell<usize>,
}

// SAFETY: a handle may be used by any one thread at a time; the device that owns this is used by one at a time, and what
// is counted by `Rc` never leaves it.
unsafe impl Send for Cudnn {}

impl Cudnn {
    pub fn new(gpu: &Gpu) -> Result<Self> {
        let table = Table::get()?;
        gpu.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle; the context is bound.
        table.check(unsafe { (table.create)(&mut handle) }, "cudnnCreate")?;
        let cudnn = Self {
            table,
            handle,
            choices: RefCell::new(Choices::read(compile::folder(), &gpu.name, table.version)),
            plans: RefCell::default(),
            workspaces: RefCell::default(),
            lane: Cell::new(0),
        };
        cudnn.follow(gpu, 0)?;
        Ok(cudnn)
    }

    /// Works on the stream of the GPU from here on, and in the memory of a lane.
    pub fn follow(&self, gpu: &Gpu, lane: usize) -> Result<()> {
        self.lane.set(lane);
        // SAFETY: a live handle and a live stream of the same context.
        let status = unsafe { (self.table.set_stream)(self.handle, gpu.stream.cu_stream().cast()) };
        self.table.check(status, "cudnnSetStream")
    }

    /// How the problems that were met are solved, in words.
    pub fn choices(&self) -> BTreeMap<String, String> {
        let choices = self.choices.borrow();
        self.plans.borrow().keys().filter_map(|problem| choices.told(problem)).collect()
    }

    /// Solves problems in these ways, whatever the cache on disk says.
    pub fn choose(&self, told: &BTreeMap<String, String>) {
        self.plans.borrow_mut().clear();
        self.choices.borrow_mut().prefer(told);
    }

    /// Whether a plan of the library is the way to solve a problem, and not wxsim's own kernel. The first time, all plans are
    /// tried, which uses scratch memory.
    pub fn solves<T: Real>(cuda: &Cuda<T>, cudnn: &Self, problem: &Problem) -> Result<bool> {
        if let Some(known) = cudnn.plans.borrow().get(problem) {
            return Ok(known.is_some());
        }
        let plan = cudnn.find(cuda, problem)?.map(Rc::new);
        let found = plan.is_some();
        cudnn.plans.borrow_mut().insert(*problem, plan);
        Ok(found)
    }

    /// Convolves with the plan of a problem that it [`solves`](Self::solves). Addresses are those of x, w and y, or of their
    /// gradients; w is `[outputs, kernel, kernel, inputs]`.
    pub fn convolve<T: Real>(
        cuda: &Cuda<T>,
        cudnn: &Self,
        problem: &Problem,
        addresses: [u64; 3],
    ) -> Result<()> {
        let plan = cudnn.plans.borrow().get(problem).cloned().flatten();
        let plan = plan.ok_or_else(|| Error::run(format!("no plan was chosen for {problem:?}")))?;
        let workspace = cudnn.workspace(&cuda.gpu, plan.workspace)?;
        plan.run(cudnn.table, cudnn.handle, addresses, workspace)
    }

    /// The plan that was chosen before, or the winner of a trial.
    fn find<T: Real>(&self, cuda: &Cuda<T>, problem: &Problem) -> Result<Option<Plan>> {
        // A problem that cuDNN cannot even describe is not an error: there is another kernel.
        let Ok(graph) = Graph::new(self.table, self.handle, problem) else { return Ok(None) };
        match self.choices.borrow().get(problem) {
            Some(Choice::Own) => return Ok(None),
            Some(Choice::Plan(found)) => {
                if let Ok(Some(plan)) = graph.again(found) {
                    return Ok(Some(plan));
                }
            }
            None => {}
        }
        let best = trial::best(cuda, self, &graph, problem)?;
        let choice = best.as_ref().map_or(Choice::Own, |plan| Choice::Plan(plan.found));
        self.choices.borrow_mut().put(problem, choice);
        Ok(best)
    }

    fn workspace(&self, gpu: &Gpu, bytes: usize) -> Result<u64> {
        self.workspaces.borrow_mut()[self.lane.get()].bytes(gpu, bytes)
    }

    /// As [`Scratch::shrink`].
    pub fn shrink(&self) {
        self.workspaces.borrow_mut().iter_mut().for_each(Scratch::shrink);
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        self.plans.get_mut().clear();
        // SAFETY: created in `new`, destroyed only here, after everything that was made with it.
        unsafe { (self.table.destroy)(self.handle) };
    }
}
