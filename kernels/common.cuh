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
#else
typedef real act;
__device__ __forceinline__ real load(act x) { return x; }
__device__ __forceinline__ act narrow(real x) { return x; }
#endif

__device__ __forceinline__ void store(real* to, real x) { *to = x; }
#if defined(ACT_BF16) || defined(ACT_FP16)
__device__ __forceinline__ real load(real x) { return x; }
__device__ __forceinline__ void store(act* to, real x) { *to = narrow(x); }
// What is rounded to 8 or 11 bits anyway need not be exact to 24: errors of some 2^-22.
__device__ __forceinline__ real sigmoid(real x) {
  float e, y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.f + e));
  return y;
}
__device__ __forceinline__ real hyperbolic(real x) { return 2.f * sigmoid(2.f * x) - 1.f; }
#else
__device__ __forceinline__ real sigmoid(real x) { return real(1) / (real(1) + exp(-x)); }
__device__ __forceinline__ real hyperbolic(real x) { return tanh(x); }
#endif

// U neighbouring numbers, as one or a few vectors of 16 bytes in memory.
template <int U>
struct lanes {
  real v[U];
  __device__ __forceinline__ lanes() {
#pragma unroll
    for (int u = 0; u < U; ++u) v[u] = 0;
  }
  __device__ __forceinline__ lanes& operator+=(const lanes& other) {
#pragma unroll
    for (int u = 0; u < U; ++u) v[u] += other.v[u];
    return *this;
  }
  __device__ __forceinline__ lanes& operator*=(const lanes& other) {
#pragma unroll
    for (int u = 0; u < U; ++u) v[u] *= other.v[u];
    return *this;
  }
};
template <int U>
__device__ __forceinline__ lanes<U> operator*(lanes<U> a, const lanes<U>& b) { return a *= b; }

template <typename T, int U>
struct __align__(sizeof(T) * U < 16 ? sizeof(T) * U : 16) packed { T v[U]; };

template <int U, typename T>
__device__ __forceinline__ lanes<U> read(const T* from) {
  packed<T, U> p = *(const packed<T, U>*)from;
  lanes<U> x;
#pragma unroll
  for (int u = 0; u < U; ++u) x.v[u] = load(p.v[u]);
  return x;
}

template <int U, typename T>
__device__ __forceinline__ void write(T* to, const lanes<U>& x) {
  packed<T, U> p;
#pragma unroll
  for (int u = 0; u < U; ++u) store(&p.v[u], x.v[u]);
  *(packed<T, U>*)to = p;
}

// U numbers of a row of `count`, from the `first` on: zero beyond its end. `whole` says that U divides all of them and
// where the row stands.
template <int U, typename T>
__device__ __forceinline__ lanes<U> read_some(const T* row, u32 first, u32 count, int whole) {
  if (whole) return read<U>(row + first);
  lanes<U> x;
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (first + u < count) x.v[u] = load(row[first + u]);
  }
  return x;
}

// And back: none beyond its end.
template <int U, typename T>
__device__ __forceinline__ void write_some(T* row, u32 first, u32 count, int whole, const lanes<U>& x) {
  if (whole) return write<U>(row + first, x);
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (first + u < count) store(row + first + u, x.v[u]);
  }
}

// A halo cell: `from` is NONE where it holds 0; `turned` says that odd channels change sign.
struct copy { u32 to, from, turned; };
#define NONE 0xffffffffu

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
