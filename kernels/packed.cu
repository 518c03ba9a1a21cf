// Numbers on their way to other devices: in 16 bits each, or only the largest of them.
//
// architectures: sm_80 sm_90a sm_100
// operations: pack unpack pick lay_out
// hot: pack unpack

// The nearest number of 8 significant bits, and back.
__device__ __forceinline__ u16 to_half_width(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ real from_half_width(u16 bits) { return real(__uint_as_float((u32)bits << 16)); }

// Places beyond the last number hold 0.
extern "C" __global__ void __launch_bounds__(256) pack(const real* x, u16* packed, i64 n, i64 places) {
  i64 i = thread_index();
  if (i < places) packed[i] = i < n ? to_half_width(float(x[i])) : u16(0);
}

// The sum of `parts` arrays of `places` numbers, in their order.
extern "C" __global__ void __launch_bounds__(256)
    unpack(const u16* packed, real* x, int parts, i64 n, i64 places) {
  i64 i = thread_index();
  if (i >= n) return;
  real sum = from_half_width(packed[i]);
  for (int part = 1; part < parts; ++part) sum += from_half_width(packed[part * places + i]);
  x[i] = sum;
}

#define PICK_BLOCK 4096
#define PICK_EACH (PICK_BLOCK / 256)

// By their size alone; what is no number is larger than all.
__device__ __forceinline__ u32 size_key(real x) { return __float_as_uint(float(x)) & 0x7fffffffu; }

// A block of threads for each PICK_BLOCK numbers: the residual takes up x, gives away the `keep` numbers of largest size (of
// equal ones the first) as pairs of place and number in the order of places, and keeps the others. Pairs without a number
// have place -1.
extern "C" __global__ void __launch_bounds__(256)
    pick(const real* x, real* residual, real* picked, int keep, i64 n) {
  __shared__ u32 keys[PICK_BLOCK];
  __shared__ u32 counts[256];
  __shared__ u32 larger_before[256];
  __shared__ u32 equal_before[256];
  __shared__ u32 chosen, wanted;
  i64 first = (i64)blockIdx.x * PICK_BLOCK;
  int len = int(n - first < PICK_BLOCK ? n - first : PICK_BLOCK);
  int t = threadIdx.x;
  for (int i = t; i < len; i += 256) {
    real value = residual[first + i] + x[first + i];
    residual[first + i] = value;
    keys[i] = size_key(value);
  }
  if (t == 0) {
    chosen = 0;
    wanted = keep < len ? keep : len;
  }
  __syncthreads();
  // The key of the last number that is given away, eight bits after eight bits.
  for (int shift = 24; shift >= 0; shift -= 8) {
    counts[t] = 0;
    __syncthreads();
    u32 known = shift == 24 ? 0u : ~0u << (shift + 8);
    for (int i = t; i < len; i += 256)
      if ((keys[i] & known) == chosen) atomicAdd(&counts[keys[i] >> shift & 255u], 1u);
    __syncthreads();
    if (t == 0) {
      int digit = 255;
      while (digit > 0 && counts[digit] < wanted) wanted -= counts[digit--];
      chosen |= (u32)digit << shift;
    }
    __syncthreads();
  }
  // How many larger ones, and equal ones, are before those of this thread.
  u32 limit = chosen, ties = wanted, larger = 0, equal = 0;
  for (int i = t * PICK_EACH; i < (t + 1) * PICK_EACH && i < len; ++i) {
    larger += keys[i] > limit;
    equal += keys[i] == limit;
  }
  larger_before[t] = larger;
  equal_before[t] = equal;
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    u32 a = t >= step ? larger_before[t - step] : 0u, b = t >= step ? equal_before[t - step] : 0u;
    __syncthreads();
    larger_before[t] += a;
    equal_before[t] += b;
    __syncthreads();
  }
  larger = larger_before[t] - larger;
  equal = equal_before[t] - equal;
  real* pairs = picked + (i64)blockIdx.x * keep * 2;
  for (int i = t * PICK_EACH; i < (t + 1) * PICK_EACH && i < len; ++i) {
    u32 key = keys[i];
    bool is_tie = key == limit;
    real value = residual[first + i];
    if (key > limit || (is_tie && equal < ties)) {
      u32 place = larger + (equal < ties ? equal : ties);
      pairs[2 * place] = real(i);
      pairs[2 * place + 1] = value;
      residual[first + i] = 0;
    } else if (key >= 0x7f800000u) {
      residual[first + i] = 0;
    }
    larger += key > limit;
    equal += is_tie;
  }
  for (int place = len + t; place < keep; place += 256) {
    pairs[2 * place] = -1;
    pairs[2 * place + 1] = 0;
  }
}

// The sum of what `parts` devices have given away, in their order; `pairs` is how many each has.
extern "C" __global__ void __launch_bounds__(256)
    lay_out(const real* picked, real* x, int parts, int keep, i64 pairs, i64 n) {
  __shared__ real sums[PICK_BLOCK];
  i64 first = (i64)blockIdx.x * PICK_BLOCK;
  int len = int(n - first < PICK_BLOCK ? n - first : PICK_BLOCK);
  for (int i = threadIdx.x; i < len; i += 256) sums[i] = 0;
  __syncthreads();
  for (int part = 0; part < parts; ++part) {
    const real* own = picked + 2 * (part * pairs + (i64)blockIdx.x * keep);
    for (int i = threadIdx.x; i < keep; i += 256) {
      int place = int(own[2 * i]);
      if (place >= 0) sums[place] += own[2 * i + 1];
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < len; i += 256) x[first + i] = sums[i];
}
