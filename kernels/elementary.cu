// Passes over whole slots.
//
// architectures: sm_80 sm_90a sm_100
// operations: scale lerp relax sum_of_squares
// hot: lerp sum_of_squares_parts

extern "C" __global__ void __launch_bounds__(256) scale(real* x, real factor, i64 n) {
  i64 i = thread_index();
  if (i < n) x[i] *= factor;
}

extern "C" __global__ void __launch_bounds__(256) lerp(real* x, const real* target, real weight, i64 n) {
  i64 i = thread_index();
  if (i < n) x[i] += weight * (target[i] - x[i]);
}

extern "C" __global__ void __launch_bounds__(256)
    relax(real* x, const real* target, const real* weights, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  real weight = weights[i];
  x[i] = weight == real(1) ? target[i] : (real(1) - weight) * x[i] + weight * target[i];
}

// One sum a block; which block adds what follows from n and the number of blocks alone.
extern "C" __global__ void __launch_bounds__(256) sum_of_squares_parts(const real* x, double* parts, i64 n) {
  double sum = 0;
  for (i64 i = thread_index(); i < n; i += (i64)gridDim.x * 256) sum += (double)x[i] * (double)x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// One block.
extern "C" __global__ void __launch_bounds__(256) sum_of_parts(const double* parts, double* sum, int n) {
  double total = 0;
  for (int i = threadIdx.x; i < n; i += 256) total += parts[i];
  total = block_sum(total);
  if (threadIdx.x == 0) *sum = total;
}
