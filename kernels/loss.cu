// Weighted squared or Huber error by lead, and its gradient.
//
// architectures: sm_80 sm_90a sm_100
// operations: loss
// hot: loss_parts loss_parts_wide
// measured: NVIDIA H200, 2026-12-01, two leads of 720 x 1440 points of 20 channels: loss_parts_wide 124 us

// blockIdx.y is the lead, blockIdx.z the image; parts[lead, image, block] is the block's share of the lead's sum. `mask`
// and `gradient` may be null; a negative `huber` is none. n is rows * columns * channels; U divides columns * channels.
template <int U>
__device__ __forceinline__ void parts_of(const real* prediction, const real* truth, const real* row_weights,
                                         const real* channel_weights, const real* lead_weights, const real* mask,
                                         real* gradient, double* parts, u32 line, u32 channels, real huber, real scale,
                                         u32 n) {
  i64 image = (i64)blockIdx.y * gridDim.z + blockIdx.z;
  prediction += image * n, truth += image * n;
  real slope = real(2) * scale * lead_weights[blockIdx.y];
  double sum = 0;
  for (u32 i = blockIdx.x * 256 + threadIdx.x; i < n / U; i += gridDim.x * 256) {
    u32 k = i * U, channel = k % channels;
    real row = row_weights[k / line];
    lanes<U> x = read<U>(prediction + k), y = read<U>(truth + k), d;
#pragma unroll
    for (int u = 0; u < U; ++u) {
      real weight = row * channel_weights[channel];
      if (mask) weight *= mask[k + u];
      // A masked point's truth may be missing (NaN), and zero times NaN is NaN.
      real error = weight == real(0) ? real(0) : x.v[u] - y.v[u];
      real value = error * error, half = error;
      if (huber >= real(0) && fabs(error) > huber) {
        half = error < real(0) ? -huber : huber;
        value = half * error * real(2) - huber * huber;
      }
      sum += (double)weight * (double)value;
      d.v[u] = slope * weight * half;
      if (++channel == channels) channel = 0;
    }
    if (gradient) write<U>(gradient + image * n + k, d);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[image * gridDim.x + blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    loss_parts(const real* prediction, const real* truth, const real* row_weights, const real* channel_weights,
               const real* lead_weights, const real* mask, real* gradient, double* parts, u32 line, u32 channels,
               real huber, real scale, u32 n) {
  parts_of<1>(prediction, truth, row_weights, channel_weights, lead_weights, mask, gradient, parts, line, channels,
              huber, scale, n);
}

extern "C" __global__ void __launch_bounds__(256)
    loss_parts_wide(const real* prediction, const real* truth, const real* row_weights, const real* channel_weights,
                    const real* lead_weights, const real* mask, real* gradient, double* parts, u32 line, u32 channels,
                    real huber, real scale, u32 n) {
  parts_of<4>(prediction, truth, row_weights, channel_weights, lead_weights, mask, gradient, parts, line, channels,
              huber, scale, n);
}

// A block a lead.
extern "C" __global__ void __launch_bounds__(256) loss_values(const double* parts, real* values, int n, real scale) {
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += parts[(i64)blockIdx.x * n + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) values[blockIdx.x] = (real)(sum * (double)scale);
}
