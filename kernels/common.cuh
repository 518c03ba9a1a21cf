// What every kernel is compiled with. NVRTC brings no headers: these few lines compile in a hundredth of the time that
// NVIDIA's take.
//
//   REAL      float or double: parameters, cell states, fields, sums
//   ACT       how activations are stored, see below; REAL itself unless the device computes in less
//
// Every index that can pass 2^31 is 64 bits wide.

typedef REAL real;
typedef unsigned int u32;
typedef unsigned short u16;
typedef long long i64;

// Activations: `real` (ACT_REAL), or 16 bits of them.
#ifdef ACT_BF16
struct act { u16 bits; };
__device__ __forceinline__ real load(act x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ act narrow(real x) {
  act a;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(a.bits) : "f"(x));
  return a;
}
// The two halves of a word, and a word of two numbers.
__device__ __forceinline__ float2 unpack(u32 x) {
  return make_float2(__uint_as_float(x << 16), __uint_as_float(x & 0xffff0000u));
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 x;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  return x;
}
#elif defined(ACT_FP16)
struct act { u16 bits; };
__device__ __forceinline__ real load(act x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ act narrow(real x) {
  act a;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a.bits) : "f"(x));
  return a;
}
__device__ __forceinline__ float2 unpack(u32 x) {
  act low, high;
  low.bits = (u16)x;
  high.bits = (u16)(x >> 16);
  return make_float2(load(low), load(high));
}
__device__ __forceinline__ u32 pack(float low, float high) {
  return (u32)narrow(low).bits | (u32)narrow(high).bits << 16;
}
#else
typedef real act;
__device__ __forceinline__ real load(act x) { return x; }
__device__ __forceinline__ act narrow(real x) { return x; }
#endif

// The place of this thread among all threads of a launch over one dimension.
__device__ __forceinline__ i64 thread_index() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

// Sum over a block of 256 threads; the whole sum is in thread 0. The order of the additions is fixed.
template <typename T>
__device__ __forceinline__ T block_sum(T x) {
  __shared__ T warps[8];
  for (int offset = 16; offset > 0; offset >>= 1) x += __shfl_down_sync(0xffffffffu, x, offset);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < 8; ++warp) x += warps[warp];
  }
  __syncthreads();
  return x;
}
