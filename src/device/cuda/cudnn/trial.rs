//! The trial of all plans for one problem, on noise.

use std::cell::RefCell;

use cudarc::driver::sys::CUevent_flags;

use super::super::driver::{Call, Memory};
use super::super::memory::Scratch;
use super::super::modules::Grid;
use super::super::{Cuda, convolution, prepared};
use super::Cudnn;
use super::plan::{Direction, Graph, Plan, Problem, Source};
use crate::device::Real;
use crate::error::Result;

/// A plan more than this much slower than the best so far is not timed further.
const HOPELESS: f32 = 1.5;
/// Milliseconds that a run may take longer because of the host alone.
const HOST: f32 = 0.03;
/// Milliseconds that runs in a row should take together.
const ROW: f32 = 1.0;
/// Timed rows of runs of a plan.
const RUNS: usize = 5;
/// Of one source: the best of a measured list of dozens stood at the twentieth place at most.
const MOST: usize = 24;
/// Runs that must give the same bits.
const EQUAL: usize = 10;
/// A plan that needs more memory to work in than this is left out [bytes].
const WORKSPACE: usize = 1 << 28;

/// Operands, results and what is counted about them.
struct Bench<'a, T: Real> {
    cuda: &'a Cuda<T>,
    cudnn: &'a Cudnn,
    problem: &'a Problem,
    /// x, w as `[outputs, kernel, kernel, inputs]`, y.
    operands: [Memory; 3],
    /// w, or its gradient, as wxsim's own kernel has it.
    weights: Memory,
    /// Numbers of the output.
    count: usize,
    /// What wxsim's own kernel makes of the operands.
    truth: Memory,
    /// What the first run of a plan made of them.
    first: Memory,
    /// Unequal words; the largest difference, the largest number (as bits).
    counters: Memory,
    /// What plans work in.
    workspace: RefCell<Scratch>,
}

/// The fastest plan that agrees with wxsim's own kernel and with itself; `None` if that kernel is as fast.
pub fn best<T: Real>(
    cuda: &Cuda<T>,
    cudnn: &Cudnn,
    graph: &Graph,
    problem: &Problem,
) -> Result<Option<Plan>> {
    let bench = Bench::new(cuda, cudnn, problem)?;
    let own = bench.time(&|| bench.run_own())?;
    let mut sound: Vec<(f32, Plan)> = Vec::new();
    for source in Source::ALL {
        // What the fallback proposes is slow, and needed only where the others propose nothing.
        if source == Source::Fallback && !sound.is_empty() {
            break;
        }
        for plan in graph.plans(source, MOST).unwrap_or_default() {
            if plan.workspace > WORKSPACE || !bench.agrees(&plan).unwrap_or(false) {
                continue;
            }
            let fastest = sound.iter().map(|(time, _)| *time).fold(own, f32::min);
            if let Some(time) = bench.time_plan(&plan, HOPELESS * fastest)? {
                sound.push((time, plan));
            }
        }
    }
    sound.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    for (time, plan) in sound {
        if time >= own {
            break;
        }
        if bench.repeats(&plan)? {
            return Ok(Some(plan));
        }
    }
    Ok(None)
}

impl<'a, T: Real> Bench<'a, T> {
    fn new(cuda: &'a Cuda<T>, cudnn: &'a Cudnn, problem: &'a Problem) -> Result<Self> {
        let s = &problem.shape;
        let lengths = [s.x_len(), s.w_len(), s.y_len()];
        let bytes = |count: usize| count * problem.storage.bytes();
        let memory = |count: usize| Memory::zeroed(&cuda.gpu, bytes(count));
        let operands = [memory(lengths[0])?, memory(lengths[1])?, memory(lengths[2])?];
        let weights = Memory::zeroed(&cuda.gpu, lengths[1] * size_of::<T>())?;
        let count = lengths[problem.output()];
        let bench = Self {
            cuda,
            cudnn,
            problem,
            operands,
            weights,
            count,
            truth: memory(count)?,
            first: memory(count)?,
            counters: Memory::zeroed(&cuda.gpu, 12)?,
            workspace: RefCell::default(),
        };
        for (seed, (operand, &count)) in bench.operands.iter().zip(&lengths).enumerate() {
            cuda.kernel("noise").address(operand.start()).int(seed).long(count).run(Grid::over(count))?;
        }
        if problem.direction != Direction::WeightGradient {
            prepared::add_turned(
                cuda,
                bench.operands[1].start(),
                bench.weights.start(),
                prepared::Turned::new(s, s.inputs),
            )?;
        }
        bench.clear()?;
        bench.run_own()?;
        bench.keep(&bench.truth)?;
        Ok(bench)
    }

    fn run_own(&self) -> Result<()> {
        convolution::own_turned(self.cuda, self.problem, self.addresses(), self.weights.start())
    }

    fn addresses(&self) -> [u64; 3] {
        [0, 1, 2].map(|n: usize| self.operands[n].start())
    }

    fn output(&self) -> &Memory {
        &self.operands[self.problem.output()]
    }

    /// Sets the output to zero, so that plans that add find the same.
    fn clear(&self) -> Result<()> {
        self.output().zero(&self.cuda.gpu)
    }

    /// Copies the output.
    fn keep(&self, to: &Memory) -> Result<()> {
        to.copy_from(&self.cuda.gpu, self.output())
    }

    fn run(&self, plan: &Plan) -> Result<()> {
        let workspace = self.workspace.borrow_mut().bytes(&self.cuda.gpu, plan.workspace)?;
        plan.run(self.cudnn.table, self.cudnn.handle, self.addresses(), workspace)
    }

    /// Whether a plan's result is that of wxsim's own kernel.
    fn agrees(&self, plan: &Plan) -> Result<bool> {
        self.clear()?;
        self.run(plan)?;
        self.counters.zero(&self.cuda.gpu)?;
        let (output, truth) = (self.output().start(), self.truth.start());
        self.cuda
            .kernel("largest_difference")
            .address(output)
            .address(truth)
            .address(self.counters.start())
            .long(self.count)
            .run(Grid::over(self.count))?;
        let [_, difference, largest] = self.counted()?.map(f32::from_bits);
        Ok(difference <= self.problem.storage.tolerance() * largest)
    }

    /// Whether a plan gives the same bits every time.
    fn repeats(&self, plan: &Plan) -> Result<bool> {
        for n in 0..EQUAL {
            self.clear()?;
            self.run(plan)?;
            if n == 0 {
                self.keep(&self.first)?;
                continue;
            }
            self.counters.zero(&self.cuda.gpu)?;
            let bytes = self.count * self.problem.storage.bytes();
            self.cuda
                .kernel("unequal_halves")
                .address(self.output().start())
                .address(self.first.start())
                .address(self.counters.start())
                .long(bytes / 2)
                .run(Grid::over(bytes / 2))?;
            if self.counted()?[0] != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn counted(&self) -> Result<[u32; 3]> {
        let mut words = [0_u32; 3];
        self.counters.read(&self.cuda.gpu, &mut words)?;
        Ok(words)
    }

    /// Median milliseconds of a plan; `None` if the first run alone shows that it takes more than `hopeless`.
    fn time_plan(&self, plan: &Plan, hopeless: f32) -> Result<Option<f32>> {
        let run = || self.run(plan);
        // A single run also waits for the host, which is forgiven.
        if self.once(&run, 1)? > hopeless + HOST {
            return Ok(None);
        }
        self.time(&run).map(Some)
    }

    fn time(&self, run: &dyn Fn() -> Result<()>) -> Result<f32> {
        // So many in a row that the host is ahead of the GPU.
        let count = (ROW / self.once(run, 1)?).clamp(1.0, 16.0) as usize;
        let mut times = (0..RUNS).map(|_| self.once(run, count)).collect::<Result<Vec<f32>>>()?;
        times.sort_by(f32::total_cmp);
        Ok(times[RUNS / 2])
    }

    /// Milliseconds of one of `count` runs in a row.
    fn once(&self, run: &dyn Fn() -> Result<()>, count: usize) -> Result<f32> {
        let gpu = &self.cuda.gpu;
        let event = || gpu.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).call("cuEventRecord");
        let begin = event()?;
        (0..count).try_for_each(|_| run())?;
        let end = event()?;
        gpu.synchronize()?;
        Ok(begin.elapsed_ms(&end).call("cuEventElapsedTime")? / count as f32)
    }
}

impl Problem {
    /// Which of x, w and y is written.
    fn output(&self) -> usize {
        match self.direction {
            Direction::InputGradient => 0,
            Direction::WeightGradient => 1,
            Direction::Forward => 2,
        }
    }
}
