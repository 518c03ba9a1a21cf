// The head: from many units to few channels at every point, which memory bounds and not arithmetic. What comes out, and
// its gradient, is kept as it is.
//
// architectures: sm_80 sm_90a sm_100
// operations:
// hot: head_forward head_input_gradient head_weight_gradient
// measured: NVIDIA H200, 2026-12-01, bfloat16, 720 x 1440 points, 64 inputs, 20 outputs: head_forward 130 us,
//   head_input_gradient 152 us
//
// w is [inputs, outputs]. A thread makes FEW outputs of FEW points, 8 inputs of FEW points, or 8 x FEW weights; `whole`
// says that FEW divides the outputs.

#define FEW 4

// Rows of shared weights are zero beyond the outputs.
__device__ __forceinline__ int vectors_of(int outputs) { return (outputs + FEW - 1) / FEW; }

extern "C" __global__ void __launch_bounds__(256, 3)
    head_forward(const act* x, const real* w, real* y, int inputs, int outputs, int add, int whole, i64 points) {
  extern __shared__ __align__(16) real weights[];  // [inputs, vectors * FEW]
  int vectors = vectors_of(outputs), wide = vectors * FEW;
  for (int k = threadIdx.x; k < inputs * wide; k += 256)
    weights[k] = k % wide < outputs ? w[k / wide * outputs + k % wide] : real(0);
  __syncthreads();
  i64 i = thread_index(), point = i / vectors * FEW;
  int first = (int)(i % vectors) * FEW;
  if (point >= points) return;
  int count = (int)(points - point < FEW ? points - point : FEW);
  const act* from = x + point * inputs;
  lanes<FEW> sum[FEW];
  for (int c = 0; c < inputs; c += 8) {
    lanes<8> values[FEW];
#pragma unroll
    for (int p = 0; p < FEW; ++p) values[p] = read<8>(from + min(p, count - 1) * inputs + c);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      lanes<FEW> row = read<FEW>(weights + (c + k) * wide + first);
#pragma unroll
      for (int p = 0; p < FEW; ++p)
#pragma unroll
        for (int o = 0; o < FEW; ++o) sum[p].v[o] += values[p].v[k] * row.v[o];
    }
  }
#pragma unroll
  for (int p = 0; p < FEW; ++p) {
    if (p >= count) return;
    real* to = y + (point + p) * outputs;
    if (add) sum[p] += read_some<FEW>(to, first, outputs, whole);
    write_some<FEW>(to, first, outputs, whole, sum[p]);
  }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    head_input_gradient(const real* dy, const real* w, act* dx, int inputs, int outputs, int whole, i64 points) {
  // [vectors * FEW, 2, inputs / 2]: the lower halves of all vectors of 8 inputs, then the upper ones.
  extern __shared__ __align__(16) real weights[];
  int wide = vectors_of(outputs) * FEW, half = inputs / 2;
  for (int k = threadIdx.x; k < inputs * wide; k += 256) {
    int c = k / wide, o = k % wide;
    weights[o * inputs + c / 4 % 2 * half + c / 8 * 4 + c % 4] = o < outputs ? w[c * outputs + o] : real(0);
  }
  __syncthreads();
  int vectors = inputs / 8;
  i64 i = thread_index(), point = i / vectors * FEW;
  int vector = (int)(i % vectors);
  if (point >= points) return;
  int count = (int)(points - point < FEW ? points - point : FEW);
  const real* from = dy + point * outputs;
  lanes<4> low[FEW], high[FEW];
  for (int first = 0; first < outputs; first += FEW) {
    lanes<FEW> d[FEW];
#pragma unroll
    for (int p = 0; p < FEW; ++p) d[p] = read_some<FEW>(from + min(p, count - 1) * outputs, first, outputs, whole);
#pragma unroll
    for (int o = 0; o < FEW; ++o) {
      const real* row = weights + (first + o) * inputs + vector * 4;
      lanes<4> below = read<4>(row), above = read<4>(row + half);
#pragma unroll
      for (int p = 0; p < FEW; ++p)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          low[p].v[k] += d[p].v[o] * below.v[k];
          high[p].v[k] += d[p].v[o] * above.v[k];
        }
    }
  }
#pragma unroll
  for (int p = 0; p < FEW; ++p) {
    if (p >= count) return;
    lanes<8> sum;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum.v[k] = low[p].v[k];
      sum.v[k + 4] = high[p].v[k];
    }
    write<8>(dx + (point + p) * inputs + vector * 8, sum);
  }
}

// Adds x dy of the points from, from + of, .. up to `end`, 4 at a time so that as many are on their way from memory.
template <bool WHOLE>
__device__ __forceinline__ void add_products(lanes<8> (&sum)[FEW], const act* x, const real* dy, int inputs,
                                             int outputs, int first, i64 from, i64 end, int of) {
  for (i64 p = from; p < end; p += 4 * of) {
    lanes<8> values[4];
    lanes<FEW> d[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      i64 q = p + j * of < end ? p + j * of : p;
      values[j] = read<8>(x + q * inputs);
      d[j] = read_some<FEW>(dy + q * outputs, first, outputs, WHOLE);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (p + j * of >= end) break;
#pragma unroll
      for (int o = 0; o < FEW; ++o)
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[o].v[k] += values[j].v[k] * d[j].v[o];
    }
  }
}

// parts[block, input, output] = sum over the block's points of x dy. `tiles` of weights a block, of which blockIdx.y says
// the first; a thread takes every so many points as there is room for.
extern "C" __global__ void __launch_bounds__(256, 2)
    head_weight_gradient(const act* x, const real* dy, real* parts, int inputs, int outputs, int whole, int tiles,
                         i64 points, i64 share) {
  __shared__ __align__(16) real sums[256][8];
  int vectors = vectors_of(outputs), tile = blockIdx.y * tiles + threadIdx.x % tiles;
  int lane = threadIdx.x / tiles, of = blockDim.x / tiles;
  bool works = tile < inputs / 8 * vectors;
  int c = tile / vectors * 8, first = tile % vectors * FEW;
  i64 from = blockIdx.x * share, end = from + share < points ? from + share : points;
  lanes<8> sum[FEW];
  if (works && whole) add_products<true>(sum, x + c, dy, inputs, outputs, first, from + lane, end, of);
  if (works && !whole) add_products<false>(sum, x + c, dy, inputs, outputs, first, from + lane, end, of);
#pragma unroll
  for (int o = 0; o < FEW; ++o) {
    __syncthreads();
    write<8>(sums[threadIdx.x], sum[o]);
    __syncthreads();
    if (lane > 0 || !works || first + o >= outputs) continue;
    for (int other = 1; other < of; ++other) sum[o] += read<8>(sums[threadIdx.x + other * tiles]);
#pragma unroll
    for (int k = 0; k < 8; ++k) parts[((i64)blockIdx.x * inputs + c + k) * outputs + first + o] = sum[o].v[k];
  }
}
