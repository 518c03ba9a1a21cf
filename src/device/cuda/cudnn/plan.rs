//! Execution plans of one convolution.

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as A, cudnnBackendDescriptorType_t as D, cudnnBackendHeurMode_t as Mode,
    cudnnConvolutionMode_t, cudnnDataType_t as Data, cudnnHandle_t as Handle,
};

use super::super::super::Convolution;
use super::super::compile::Numbers;
use super::descriptor::{Address, Descriptor};
use super::library::Table;
use crate::error::Result;

/// Which of the three convolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// x, w -> y
    Forward,
    /// dy, w -> dx, halo included
    InputGradient,
    /// x, dy -> dw
    WeightGradient,
}

/// How numbers are stored. Products are summed in float32 throughout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    Float32,
    /// float32, of whose factors 11 bits count.
    TensorFloat32,
    Bfloat16,
    Float16,
}

impl Storage {
    /// How a device stores its activations; none for double precision.
    pub fn of(numbers: Numbers, rounds: bool) -> Option<Self> {
        match numbers {
            Numbers::Double => None,
            Numbers::Single if rounds => Some(Self::TensorFloat32),
            Numbers::Single => Some(Self::Float32),
            Numbers::Bf16 => Some(Self::Bfloat16),
            Numbers::Fp16 => Some(Self::Float16),
        }
    }

    fn data(self) -> Data {
        match self {
            Self::Float32 | Self::TensorFloat32 => Data::CUDNN_DATA_FLOAT,
            Self::Bfloat16 => Data::CUDNN_DATA_BFLOAT16,
            Self::Float16 => Data::CUDNN_DATA_HALF,
        }
    }

    /// How far two right results may lie apart, as a share of the largest number: of outputs that are rounded to 8 or 11
    /// bits two units in the last place; else some standard deviations of a long sum, whose factors are exact or not.
    pub fn tolerance(self) -> f32 {
        match self {
            Self::Float32 => 3e-5,
            Self::TensorFloat32 | Self::Float16 => 2e-3,
            Self::Bfloat16 => 8e-3,
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Self::Float32 | Self::TensorFloat32 => 4,
            Self::Bfloat16 | Self::Float16 => 2,
        }
    }
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    pub direction: Direction,
    pub shape: Convolution,
    pub storage: Storage,
    /// Whether the output is added to.
    pub adds: bool,
}

/// The names that tensors have in a plan.
const X: i64 = 1;
const W: i64 = 2;
const Y: i64 = 3;

/// A plan that is ready to run.
pub struct Plan {
    descriptor: Descriptor,
    /// Bytes.
    pub workspace: usize,
    pub found: Found,
    // The plan refers to it.
    _configuration: Descriptor,
}

/// Where a plan stands in the answers of cuDNN's heuristics: enough to make it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub source: Source,
    pub rank: usize,
    /// Number of cuDNN's engine.
    pub engine: i64,
}

/// Heuristics that propose plans. The fallback's are slow and there for shapes that the others know nothing of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Heuristic,
    Model,
    Fallback,
}

impl Source {
    pub const ALL: [Self; 3] = [Self::Heuristic, Self::Model, Self::Fallback];

    fn mode(self) -> Mode {
        match self {
            Self::Heuristic => Mode::CUDNN_HEUR_MODE_A,
            Self::Model => Mode::CUDNN_HEUR_MODE_B,
            Self::Fallback => Mode::CUDNN_HEUR_MODE_FALLBACK,
        }
    }
}

/// One convolution as cuDNN sees it: a graph of one operation, channels innermost, no padding (the halo is there).
pub struct Graph {
    table: &'static Table,
    handle: Handle,
    graph: Descriptor,
}

impl Graph {
    pub fn new(table: &'static Table, handle: Handle, problem: &Problem) -> Result<Self> {
        let s = &problem.shape;
        let data = problem.storage.data();
        let tensor = |name: i64, dimensions: [usize; 4]| {
            let [n, c, h, w] = dimensions.map(|d| d as i64);
            // What the channels leave sure of an address.
            let alignment =
                [16, 8, 4, 2].into_iter().find(|a| (c as usize * problem.storage.bytes()).is_multiple_of(*a));
            Descriptor::new(table, D::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
                .set(A::CUDNN_ATTR_TENSOR_DATA_TYPE, &[data])?
                .set(A::CUDNN_ATTR_TENSOR_DIMENSIONS, &[n, c, h, w])?
                .set(A::CUDNN_ATTR_TENSOR_STRIDES, &[h * w * c, 1, w * c, c])?
                .set(A::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[name])?
                .set(A::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[alignment.unwrap_or(1) as i64])?
                .finish()
        };
        let margin = s.kernel - 1;
        let x = tensor(X, [s.images, s.inputs, s.rows + margin, s.columns + margin])?;
        let w = tensor(W, [s.outputs, s.inputs, s.kernel, s.kernel])?;
        let y = tensor(Y, [s.images, s.outputs, s.rows, s.columns])?;
        let convolution = Descriptor::new(table, D::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
            .set(A::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[Data::CUDNN_DATA_FLOAT])?
            .set(A::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION])?
            .set(A::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2_i64])?
            .set(A::CUDNN_ATTR_CONVOLUTION_DILATIONS, &[1_i64, 1])?
            .set(A::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &[1_i64, 1])?
            .set(A::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &[0_i64, 0])?
            .set(A::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &[0_i64, 0])?
            .finish()?;
        let (kind, names) = match problem.direction {
            Direction::Forward => (
                D::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                [
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                ],
            ),
            Direction::InputGradient => (
                D::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                [
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                ],
            ),
            Direction::WeightGradient => (
                D::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                [
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    A::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                ],
            ),
        };
        let beta = if problem.adds { 1.0_f32 } else { 0.0 };
        let operation = Descriptor::new(table, kind)?
            .set(names[0], &[x.raw()])?
            .set(names[1], &[w.raw()])?
            .set(names[2], &[y.raw()])?
            .set(names[3], &[convolution.raw()])?
            .set(names[4], &[1.0_f32])?
            .set(names[5], &[beta])?
            .finish()?;
        let graph = Descriptor::new(table, D::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
            .set(A::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[operation.raw()])?
            .set(A::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle])?
            .finish()?;
        Ok(Self { table, handle, graph })
    }

    /// The first `most` plans that a source proposes and that can be made, in its order.
    pub fn plans(&self, source: Source, most: usize) -> Result<Vec<Plan>> {
        let proposed = self.proposed(source)?.into_iter().enumerate();
        Ok(proposed.filter_map(|(rank, one)| self.plan(source, rank, one).ok()).take(most).collect())
    }

    /// A plan that was found before, if cuDNN still proposes it there.
    pub fn again(&self, found: Found) -> Result<Option<Plan>> {
        let proposed = self.proposed(found.source)?.into_iter().nth(found.rank);
        let plan = proposed.map(|one| self.plan(found.source, found.rank, one)).transpose()?;
        Ok(plan.filter(|plan| plan.found == found))
    }

    fn proposed(&self, source: Source) -> Result<Vec<Descriptor>> {
        let heuristic = Descriptor::new(self.table, D::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
            .set(A::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[self.graph.raw()])?
            .set(A::CUDNN_ATTR_ENGINEHEUR_MODE, &[source.mode()])?
            .finish()?;
        let room = heuristic.count(A::CUDNN_ATTR_ENGINEHEUR_RESULTS)?;
        heuristic.list(A::CUDNN_ATTR_ENGINEHEUR_RESULTS, D::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, room)
    }

    fn plan(&self, source: Source, rank: usize, configuration: Descriptor) -> Result<Plan> {
        let engine =
            configuration.list(A::CUDNN_ATTR_ENGINECFG_ENGINE, D::CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)?;
        let engine = match engine.first() {
            Some(engine) => engine.number(A::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?,
            None => -1,
        };
        let descriptor = Descriptor::new(self.table, D::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .set(A::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &[configuration.raw()])?
            .set(A::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[self.handle])?
            .finish()?;
        let workspace = descriptor.number(A::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let found = Found { source, rank, engine };
        Ok(Plan { descriptor, workspace: workspace.max(0) as usize, found, _configuration: configuration })
    }
}

impl Plan {
    /// Puts the convolution on the handle's stream. Addresses: of x, w and y (of their gradients, as the direction says),
    /// and of the workspace.
    pub fn run(
        &self,
        table: &'static Table,
        handle: Handle,
        [x, w, y]: [u64; 3],
        workspace: u64,
    ) -> Result<()> {
        let pack = Descriptor::new(table, D::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(A::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &[x, w, y].map(Address))?
            .set(A::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[X, W, Y])?
            .set(A::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[Address(workspace)])?
            .finish()?;
        // SAFETY: a finished plan and pack, whose addresses hold as many numbers as the problem's shape says: the caller
        // asserts that of its slots.
        let status = unsafe { (table.execute)(handle, self.descriptor.raw(), pack.raw()) };
        table.check(status, "cudnnBackendExecute")
    }
}
