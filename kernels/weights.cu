// Weights of convolutions between the order of parameters, [tap, input, output], and that of a library, [output, tap, input].
//
// architectures: sm_80 sm_90a sm_100
// operations: convolve convolve_input_gradient convolve_weight_gradient
// measured: NVIDIA H200, 2026-12-01, bfloat16, 25 taps of 128 inputs and 512 outputs: weights_to_library 6.1 us,
//   weights_from_library 8.5 us
// hot: weights_to_library weights_from_library pad_channels unpad_channels
//
// The library may have more inputs than there are: those are zero, and stay so.
//
// A block of 32 x 8 threads turns a tile of 32 x 32 numbers of one tap.

#define TILE 32

extern "C" __global__ void __launch_bounds__(256)
    weights_to_library(const real* w, act* turned, int taps, int inputs, int padded, int outputs) {
  __shared__ real tile[TILE][TILE + 1];
  int x = threadIdx.x % TILE, y = threadIdx.x / TILE, tap = blockIdx.z;
  int first_output = blockIdx.x * TILE, first_input = blockIdx.y * TILE;
  for (int i = y; i < TILE; i += 8) {
    int input = first_input + i, output = first_output + x;
    if (input < inputs && output < outputs) tile[i][x] = w[((i64)tap * inputs + input) * outputs + output];
  }
  __syncthreads();
  for (int o = y; o < TILE; o += 8) {
    int input = first_input + x, output = first_output + o;
    if (input < inputs && output < outputs) turned[((i64)output * taps + tap) * padded + input] = narrow(tile[x][o]);
  }
}

// Adds.
extern "C" __global__ void __launch_bounds__(256)
    weights_from_library(const act* turned, real* w, int taps, int inputs, int padded, int outputs) {
  __shared__ real tile[TILE][TILE + 1];
  int x = threadIdx.x % TILE, y = threadIdx.x / TILE, tap = blockIdx.z;
  int first_output = blockIdx.x * TILE, first_input = blockIdx.y * TILE;
  for (int o = y; o < TILE; o += 8) {
    int input = first_input + x, output = first_output + o;
    if (input < inputs && output < outputs) tile[x][o] = load(turned[((i64)output * taps + tap) * padded + input]);
  }
  __syncthreads();
  for (int i = y; i < TILE; i += 8) {
    int input = first_input + i, output = first_output + x;
    if (input < inputs && output < outputs) w[((i64)tap * inputs + input) * outputs + output] += tile[i][x];
  }
}

// Points of `channels` numbers become points of `padded`, the rest of them zero. 4 numbers a thread, which `whole` says
// can be read at once.
extern "C" __global__ void __launch_bounds__(256)
    pad_channels(const act* from, act* to, u32 channels, u32 padded, int whole, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  u32 vectors = padded / 4, first = (u32)(i % vectors) * 4;
  i64 point = i / vectors;
  lanes<4> x;
  if (first < channels) x = read_some<4>(from + point * channels, first, channels, whole);
  write<4>(to + point * padded + first, x);
}

// And back.
extern "C" __global__ void __launch_bounds__(256)
    unpad_channels(const act* from, act* to, u32 channels, u32 padded, int whole, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  u32 vectors = (channels + 3) / 4, first = (u32)(i % vectors) * 4;
  i64 point = i / vectors;
  write_some<4>(to + point * channels, first, channels, whole, read<4>(from + point * padded + first));
}
