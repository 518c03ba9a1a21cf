// Weighted squared or Huber error by lead, and its gradient.
//
// architectures: sm_80 sm_90a sm_100
// operations: loss
// hot: loss_parts

// blockIdx.y is the lead; parts[lead, block] is the block's share of its sum. `mask` and `gradient` may be null; a
// negative `huber` is none. n is images * rows * columns * channels.
extern "C" __global__ void __launch_bounds__(256)
    loss_parts(const real* prediction, const real* truth, const real* row_weights, const real* channel_weights,
               const real* lead_weights, const real* mask, real* gradient, double* parts, int rows, int columns,
               int channels, real huber, real scale, i64 n) {
  u32 each = (u32)rows * columns * channels, line = (u32)columns * channels;
  i64 first = blockIdx.y * n;
  real slope = real(2) * scale * lead_weights[blockIdx.y];
  double sum = 0;
  for (i64 i = thread_index(); i < n; i += (i64)gridDim.x * 256) {
    u32 k = (u32)(i % each);
    real weight = row_weights[k / line] * channel_weights[k % channels];
    if (mask) weight *= mask[k];
    // A masked point's truth may be missing (NaN), and zero times NaN is NaN.
    real error = weight == real(0) ? real(0) : prediction[first + i] - truth[first + i];
    real value = error * error, half = error;
    if (huber >= real(0) && fabs(error) > huber) {
      half = error < real(0) ? -huber : huber;
      value = half * error * real(2) - huber * huber;
    }
    sum += (double)weight * (double)value;
    if (gradient) gradient[first + i] = slope * weight * half;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// A block a lead.
extern "C" __global__ void __launch_bounds__(256) loss_values(const double* parts, real* values, int n, real scale) {
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += parts[(i64)blockIdx.x * n + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) values[blockIdx.x] = (real)(sum * (double)scale);
}
