// How fast the fastest thing in a flow happens: what a time step is held against.
//
// architectures: sm_80 sm_90a sm_100
// operations: fastest_rate
// hot: rate_parts

#define HALO 2

// Over a block of 256 threads; the result is in thread 0.
__device__ __forceinline__ real block_largest(real x) {
  __shared__ real warps[8];
  for (int offset = 16; offset > 0; offset >>= 1) x = max(x, __shfl_down_sync(0xffffffffu, x, offset));
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < 8; ++warp) x = max(x, warps[warp]);
  }
  return x;
}

// A block a row: see Rates. Comparisons with NaN are false, so that what is no number is infinite.
extern "C" __global__ void __launch_bounds__(256)
    rate_parts(const real* u, const real* v, const real* h, const real* factors, real* parts, int columns, real depth,
               real infinity) {
  const i64 start = (i64)(blockIdx.x + HALO) * (columns + 2 * HALO) + HALO;
  const real *of = factors + 3 * blockIdx.x, by_u = of[0], by_v = of[1], by_root = of[2];
  real largest = 0;
  for (int i = threadIdx.x; i < columns; i += 256) {
    const real thickness = h[start + i] + depth;
    const real root = sqrt(max(thickness, real(0)));
    const real rate = fabs(u[start + i]) * by_u + fabs(v[start + i]) * by_v + root * by_root;
    largest = max(largest, thickness > 0 && rate < infinity ? rate : infinity);
  }
  largest = block_largest(largest);
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

// One block.
extern "C" __global__ void __launch_bounds__(256) rate_of_parts(const real* parts, double* all, int n) {
  real largest = 0;
  for (int i = threadIdx.x; i < n; i += 256) largest = max(largest, parts[i]);
  largest = block_largest(largest);
  if (threadIdx.x == 0) *all = largest;
}
