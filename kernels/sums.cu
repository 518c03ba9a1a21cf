// Sums over the points of an array, channel by channel, in a fixed order: first every block its share of the points, then
// all shares one after the other.
//
// architectures: sm_80 sm_90a sm_100
// operations:
// hot: channel_sums channel_sums_of_real add_shares

// parts[block, c] = sum over the block's points of x[point, c] (times y[point, c]). A thread takes every `of`-th point of
// one channel; then the threads of a channel are added one after the other.
template <typename X>
__device__ __forceinline__ void sums_of(const X* x, const act* y, real* parts, int channels, i64 points, i64 share) {
  __shared__ real shared[256];
  i64 from = blockIdx.x * share, end = from + share < points ? from + share : points;
  int across = min(channels, 256), of = 256 / across, lane = threadIdx.x / across;
  for (int first = 0; first < channels; first += across) {
    int c = first + threadIdx.x % across;
    real sum = 0;
    if (lane < of && c < channels) {
#pragma unroll 4
      for (i64 p = from + lane; p < end; p += of) {
        real value = load(x[p * channels + c]);
        sum += y ? value * load(y[p * channels + c]) : value;
      }
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (lane == 0 && c < channels) {
      for (int k = 1; k < of; ++k) sum += shared[threadIdx.x + k * across];
      parts[(i64)blockIdx.x * channels + c] = sum;
    }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256)
    channel_sums(const act* x, const act* y, real* parts, int channels, i64 points, i64 share) {
  sums_of(x, y, parts, channels, points, share);
}

extern "C" __global__ void __launch_bounds__(256)
    channel_sums_of_real(const real* x, const act* y, real* parts, int channels, i64 points, i64 share) {
  sums_of(x, y, parts, channels, points, share);
}

// to[i] += sum over k of parts[k, i], 32 threads an element, 8 elements a block: each thread adds every 32nd share, then
// the 32 sums are added in a fixed order.
extern "C" __global__ void __launch_bounds__(256) add_shares(const real* parts, real* to, i64 n, i64 stride, int shares) {
  __shared__ real sums[32][8];
  int lane = threadIdx.x & 7, row = threadIdx.x >> 3;
  i64 i = (i64)blockIdx.x * 8 + lane;
  real sum = 0;
  if (i < n) {
#pragma unroll 8
    for (int k = row; k < shares; k += 32) sum += parts[k * stride + i];
  }
  sums[row][lane] = sum;
  __syncthreads();
  for (int half = 16; half > 0; half >>= 1) {
    if (row < half) sums[row][lane] += sums[row + half][lane];
    __syncthreads();
  }
  if (row == 0 && i < n) to[i] += sums[0][lane];
}
