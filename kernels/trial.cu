// What is needed to try the plans of a library: operands, and comparisons of results.
//
// architectures: sm_80 sm_90a sm_100
// operations: convolve convolve_input_gradient convolve_weight_gradient
// hot:

// Between -1 and 1, the same in every run.
extern "C" __global__ void __launch_bounds__(256) noise(act* x, u32 seed, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  u32 h = (u32)i * 0x9e3779b1u + (u32)(i >> 32) * 0x85ebca77u + seed * 0xc2b2ae3du;
  h = (h ^ h >> 15) * 0x2c1b3c6du;
  h = (h ^ h >> 12) * 0x297a2d39u;
  h ^= h >> 15;
  x[i] = narrow(real(h) * real(4.656612873077393e-10) - real(1));
}

// Of words of 16 bits. The order of whole additions does not matter.
extern "C" __global__ void __launch_bounds__(256)
    unequal_halves(const u16* x, const u16* y, u32* counters, i64 n) {
  i64 i = thread_index();
  if (i < n && x[i] != y[i]) atomicAdd(counters, 1u);
}

// The bits of positive numbers are ordered as the numbers. A NaN is larger than all, and so is what it differs by.
extern "C" __global__ void __launch_bounds__(256)
    largest_difference(const act* x, const act* y, u32* counters, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  float difference = fabsf((float)(load(x[i]) - load(y[i])));
  atomicMax(counters + 1, __float_as_uint(difference));
  atomicMax(counters + 2, __float_as_uint(fabsf((float)load(y[i]))));
}
