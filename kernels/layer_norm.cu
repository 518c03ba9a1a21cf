// Normalisation of gate pre-activations over the units of one point, each gate separately: a warp a point.
//
// architectures: sm_80 sm_90a sm_100
// operations: layer_norm_forward layer_norm_backward
// hot: layer_norm_forward layer_norm_backward

__device__ __forceinline__ real warp_sum(real x) {
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// The channel of unit u of a gate: gates of up to 16 neighbouring units stand together.
__device__ __forceinline__ int channel_of(int gate, int unit, int hidden) {
  int block = unit / 16, width = min(16, hidden - 16 * block);
  return block * 64 + gate * width + (unit - 16 * block);
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
    real sum = 0;
    for (int u = lane; u < hidden; u += 32) {
      int c = channel_of(gate, u, hidden);
      sum += load(a[c]) + bias[c];
    }
    real mean = warp_sum(sum) / real(hidden);
    real squares = 0;
    for (int u = lane; u < hidden; u += 32) {
      int c = channel_of(gate, u, hidden);
      real x = load(a[c]) + bias[c] - mean;
      squares += x * x;
    }
    real scale = real(1) / sqrt(warp_sum(squares) / real(hidden) + epsilon);
    if (lane == 0) inverse[point * 4 + gate] = scale;
    for (int u = lane; u < hidden; u += 32) {
      int c = channel_of(gate, u, hidden);
      real x = (load(a[c]) + bias[c] - mean) * scale;
      n[c] = narrow(x);
      a[c] = narrow(gain[c] * x);
    }
  }
}

// With n the normalised values and d = gain dy: da = (d - mean(d) - n mean(d n)) / deviation.
extern "C" __global__ void __launch_bounds__(256)
    layer_norm_backward(act* gates, const real* gain, const act* normalised, const real* inverse, int hidden,
                        i64 points) {
  i64 point = (i64)blockIdx.x * 8 + threadIdx.x / 32;
  int lane = threadIdx.x & 31;
  if (point >= points) return;
  act* a = gates + point * 4 * hidden;
  const act* n = normalised + point * 4 * hidden;
  for (int gate = 0; gate < 4; ++gate) {
    real sum = 0, slope = 0;
    for (int u = lane; u < hidden; u += 32) {
      int c = channel_of(gate, u, hidden);
      real d = gain[c] * load(a[c]);
      sum += d;
      slope += d * load(n[c]);
    }
    sum = warp_sum(sum) / real(hidden);
    slope = warp_sum(slope) / real(hidden);
    real scale = inverse[point * 4 + gate];
    for (int u = lane; u < hidden; u += 32) {
      int c = channel_of(gate, u, hidden);
      a[c] = narrow((gain[c] * load(a[c]) - sum - load(n[c]) * slope) * scale);
    }
  }
}
