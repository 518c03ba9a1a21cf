// The head: from many units to few channels at every point, which memory bounds and not arithmetic. What comes out, and
// its gradient, is kept as it is.
//
// architectures: sm_80 sm_90a sm_100
// operations:
// hot: head_forward head_input_gradient head_weight_gradient
//
// w is [inputs, outputs]. Outputs are made FEW at a time.

#define FEW 8

// A thread a point; blockIdx.y counts its outputs by FEW. Whole vectors of inputs.
extern "C" __global__ void __launch_bounds__(256)
    head_forward(const act* x, const real* w, real* y, int inputs, int outputs, int add, i64 points) {
  extern __shared__ __align__(16) real weights[];  // [inputs, FEW]
  int first = blockIdx.y * FEW;
  for (int k = threadIdx.x; k < inputs * FEW; k += 256) {
    int o = first + k % FEW;
    weights[k] = o < outputs ? w[(k / FEW) * outputs + o] : real(0);
  }
  __syncthreads();
  i64 point = thread_index();
  if (point >= points) return;
  real sum[FEW] = {};
  const act* from = x + point * inputs;
  for (int c = 0; c < inputs; c += 8) {
    lanes<8> values = read<8>(from + c);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      lanes<FEW> row = read<FEW>(weights + (c + k) * FEW);
#pragma unroll
      for (int o = 0; o < FEW; ++o) sum[o] += values.v[k] * row.v[o];
    }
  }
#pragma unroll
  for (int o = 0; o < FEW; ++o) {
    if (first + o < outputs) {
      real* to = y + point * outputs + first + o;
      *to = add ? *to + sum[o] : sum[o];
    }
  }
}

// A thread 8 inputs of a point.
extern "C" __global__ void __launch_bounds__(256)
    head_input_gradient(const real* dy, const real* w, act* dx, int inputs, int outputs, i64 n) {
  extern __shared__ __align__(16) real weights[];  // [outputs, inputs]
  for (int k = threadIdx.x; k < inputs * outputs; k += 256) weights[k % outputs * inputs + k / outputs] = w[k];
  __syncthreads();
  i64 i = thread_index();
  if (i >= n) return;
  int vectors = inputs / 8, c = (int)(i % vectors) * 8;
  const real* from = dy + i / vectors * outputs;
  lanes<8> sum;
  for (int o = 0; o < outputs; ++o) {
    real d = from[o];
    lanes<8> column = read<8>(weights + o * inputs + c);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum.v[k] += d * column.v[k];
  }
  write<8>(dx + i / vectors * inputs + c, sum);
}

// parts[block, input, output] = sum over the block's points of x dy. A thread an input and FEW outputs (which, blockIdx.y
// says) of every `lanes`-th point.
extern "C" __global__ void __launch_bounds__(256)
    head_weight_gradient(const act* x, const real* dy, real* parts, int inputs, int outputs, i64 points, i64 share) {
  __shared__ real sums[256][FEW + 1];
  int c = threadIdx.x % inputs, lane = threadIdx.x / inputs, of = blockDim.x / inputs, first = blockIdx.y * FEW;
  int few = min(FEW, outputs - first);
  i64 from = blockIdx.x * share, end = from + share < points ? from + share : points;
  real sum[FEW] = {};
#pragma unroll 2
  for (i64 p = from + lane; p < end; p += of) {
    real value = load(x[p * inputs + c]);
    const real* d = dy + p * outputs + first;
#pragma unroll
    for (int o = 0; o < FEW; ++o) sum[o] += o < few ? value * d[o] : real(0);
  }
#pragma unroll
  for (int o = 0; o < FEW; ++o) sums[threadIdx.x][o] = sum[o];
  __syncthreads();
  if (lane > 0) return;
#pragma unroll
  for (int o = 0; o < FEW; ++o) {
    for (int k = 1; k < of; ++k) sum[o] += sums[threadIdx.x + k * inputs][o];
    if (o < few) parts[((i64)blockIdx.x * inputs + c) * outputs + first + o] = sum[o];
  }
}
