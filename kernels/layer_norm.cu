// Normalisation of gate pre-activations over the units of one point, each gate separately: a warp a point.
//
// architectures: sm_80 sm_90a sm_100
// operations: layer_norm_forward layer_norm_backward layer_norm_moments layer_norm_forward_among
// operations: layer_norm_sums layer_norm_backward_among
// hot: layer_norm_forward layer_norm_backward layer_norm_moments layer_norm_forward_among
// hot: layer_norm_sums layer_norm_backward_among

__device__ __forceinline__ real warp_sum(real x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// The channel of unit u of a gate: gates of up to 16 neighbouring units stand together.
__device__ __forceinline__ int channel_of(int gate, int unit, int hidden) {
  int block = unit / 16, width = min(16, hidden - 16 * block);
  return block * 64 + gate * width + (unit - 16 * block);
}

// Mean of a + bias over the units of a gate, and the sum of the squared departures from it; every lane gets both.
__device__ __forceinline__ void moments_of(const act* a, const real* bias, int gate, int hidden, int lane, real& mean,
                                           real& squares) {
  real sum = 0;
  for (int u = lane; u < hidden; u += 32) {
    int c = channel_of(gate, u, hidden);
    sum += load(a[c]) + bias[c];
  }
  mean = warp_sum(sum) / real(hidden);
  squares = 0;
  for (int u = lane; u < hidden; u += 32) {
    int c = channel_of(gate, u, hidden);
    real x = load(a[c]) + bias[c] - mean;
    squares += x * x;
  }
  squares = warp_sum(squares);
}

__device__ __forceinline__ void normalise(act* a, const real* bias, const real* gain, act* n, int gate, int hidden,
                                          int lane, real mean, real scale) {
  for (int u = lane; u < hidden; u += 32) {
    int c = channel_of(gate, u, hidden);
    real x = (load(a[c]) + bias[c] - mean) * scale;
    n[c] = narrow(x);
    a[c] = narrow(gain[c] * x);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    layer_norm_forward(act* gates, const real* bias, const real* gain, act* normalised, real* inverse, int hidden,
                       real epsilon, i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  act* a = gates + point * 4 * hidden;
  act* n = normalised + point * 4 * hidden;
  for (int gate = 0; gate < 4; ++gate) {
    real mean, squares;
    moments_of(a, bias, gate, hidden, lane, mean, squares);
    real scale = real(1) / sqrt(squares / real(hidden) + epsilon);
    if (lane == 0) inverse[point * 4 + gate] = scale;
    normalise(a, bias, gain, n, gate, hidden, lane, mean, scale);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    layer_norm_moments(const act* gates, const real* bias, real* moments, int hidden, i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  for (int gate = 0; gate < 4; ++gate) {
    real mean, squares;
    moments_of(gates + point * 4 * hidden, bias, gate, hidden, lane, mean, squares);
    real* pair = moments + point * 8 + 2 * gate;
    if (lane == 0) pair[0] = mean, pair[1] = squares;
  }
}

// With the moments of all parts of the units, each of `hidden`, one behind the other: departures of their means from the
// mean count for each of their units.
extern "C" __global__ void __launch_bounds__(256)
    layer_norm_forward_among(act* gates, const real* bias, const real* gain, const real* moments, act* normalised,
                             real* inverse, int hidden, int parts, real epsilon, i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  act* a = gates + point * 4 * hidden;
  act* n = normalised + point * 4 * hidden;
  for (int gate = 0; gate < 4; ++gate) {
    const real* pair = moments + point * 8 + 2 * gate;
    real mean = 0, squares = 0;
    for (int part = 0; part < parts; ++part) mean += pair[part * points * 8];
    mean /= real(parts);
    for (int part = 0; part < parts; ++part) {
      real departure = pair[part * points * 8] - mean;
      squares += pair[part * points * 8 + 1] + real(hidden) * (departure * departure);
    }
    real scale = real(1) / sqrt(squares / (real(parts) * real(hidden)) + epsilon);
    if (lane == 0) inverse[point * 4 + gate] = scale;
    normalise(a, bias, gain, n, gate, hidden, lane, mean, scale);
  }
}

// With n the normalised values and d = gain dy: the sums of d and of d n over the units of a gate; every lane gets both.
__device__ __forceinline__ void sums_of(const act* a, const real* gain, const act* n, int gate, int hidden, int lane,
                                        real& sum, real& slope) {
  sum = 0, slope = 0;
  for (int u = lane; u < hidden; u += 32) {
    int c = channel_of(gate, u, hidden);
    real d = gain[c] * load(a[c]);
    sum += d;
    slope += d * load(n[c]);
  }
  sum = warp_sum(sum);
  slope = warp_sum(slope);
}

// da = (d - mean(d) - n mean(d n)) / deviation.
__device__ __forceinline__ void retreat(act* a, const real* gain, const act* n, int gate, int hidden, int lane,
                                        real mean, real slope, real scale) {
  for (int u = lane; u < hidden; u += 32) {
    int c = channel_of(gate, u, hidden);
    a[c] = narrow((gain[c] * load(a[c]) - mean - load(n[c]) * slope) * scale);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    layer_norm_backward(act* gates, const real* gain, const act* normalised, const real* inverse, int hidden,
                        i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  act* a = gates + point * 4 * hidden;
  const act* n = normalised + point * 4 * hidden;
  for (int gate = 0; gate < 4; ++gate) {
    real sum, slope;
    sums_of(a, gain, n, gate, hidden, lane, sum, slope);
    retreat(a, gain, n, gate, hidden, lane, sum / real(hidden), slope / real(hidden), inverse[point * 4 + gate]);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    layer_norm_sums(const act* gates, const real* gain, const act* normalised, real* sums, int hidden, i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  i64 first = point * 4 * hidden;
  for (int gate = 0; gate < 4; ++gate) {
    real sum, slope;
    sums_of(gates + first, gain, normalised + first, gate, hidden, lane, sum, slope);
    real* pair = sums + point * 8 + 2 * gate;
    if (lane == 0) pair[0] = sum, pair[1] = slope;
  }
}

extern "C" __global__ void __launch_bounds__(256)
    layer_norm_backward_among(act* gates, const real* gain, const act* normalised, const real* inverse,
                              const real* sums, int hidden, int parts, i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  i64 first = point * 4 * hidden;
  real units = real(parts) * real(hidden);
  for (int gate = 0; gate < 4; ++gate) {
    const real* pair = sums + point * 8 + 2 * gate;
    retreat(gates + first, gain, normalised + first, gate, hidden, lane, pair[0] / units, pair[1] / units,
            inverse[point * 4 + gate]);
  }
}
