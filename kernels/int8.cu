// Whole numbers of 8 bits: activations are counted, and stencils without padding multiplied as matrices that are gathered on the
// way, by the units that multiply whole numbers. And what stands in for that while a network learns: rounding, and the gradient
// that passes through it.
//
// architectures: sm_80 sm_90a sm_100
// operations: convolve_int8 round round_adjoint round_columns
// hot: count convolve_int8 convolve_int8_to_real
//
// Counted activations stand as [pixel][padded inputs], weights as [output][tap][padded inputs], a multiple of 32 inputs each:
// `terms` of them are one sum. A block of 4 warps makes a tile of 64 points x 64 outputs, 64 terms at a time, of which the next
// two are on their way; a warp makes 32 x 32. A row of shared memory has 16 bytes more than its terms, so that 8 rows lie in
// different banks.

#define TILE 64
#define DEPTH 64
#define PITCH 80
#define STAGES 3

typedef signed char i8;

__device__ __forceinline__ float ratio(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ double ratio(double a, double b) { return a / b; }
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }

// round(x / step), a tie to the even number; none of none.
__device__ __forceinline__ real counted(real x, real step, real least, real most) {
  real q = rint(ratio(x, step));
  q = q < least ? least : q;
  return q > most ? most : q;
}

// A thread counts four inputs of a pixel.
extern "C" __global__ void __launch_bounds__(256)
    count(const act* x, u32* q, int inputs, int padded, real step, i64 n) {
  i64 index = thread_index();
  if (index >= n) return;
  int each = padded / 4, first = (int)(index % each) * 4;
  const act* from = x + index / each * inputs + first;
  u32 word = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k < inputs) word |= ((u32)(int)counted(load(from[k]), step, -128, 127) & 255u) << (8 * k);
  }
  q[index] = word;
}

struct stage {
  __align__(16) i8 x[TILE * PITCH];
  __align__(16) i8 w[TILE * PITCH];
};

// 16 bytes on their way to shared memory; zeros where they are not wanted.
__device__ __forceinline__ void fetch(i8* to, const i8* from, bool wanted) {
  u32 address = (u32)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(wanted ? 16 : 0));
}
__device__ __forceinline__ void fetched() { asm volatile("cp.async.commit_group;"); }
__device__ __forceinline__ void wait_for_all_but_one() { asm volatile("cp.async.wait_group 1;"); }

// sum += a b of 16 x 32 and 32 x 8 numbers.
__device__ __forceinline__ void multiply(int (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// y[m, o] (+)= step steps[o] sum over the terms of q w.
template <typename Y>
__device__ __forceinline__ void forward(const i8* q, const i8* w, const float* steps, Y* y, int rows, int columns,
                                        int padded, int outputs, int kernel, real step, int add, i64 points) {
  __shared__ stage stages[STAGES];
  int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  i64 first_m = (i64)blockIdx.x * TILE;
  int first_o = blockIdx.y * TILE;
  int taps = kernel * kernel, terms = taps * padded, wide = columns + kernel - 1;
  // A thread fetches two pieces of 16 terms of a point, and as many of an output.
  int fetched_row = thread / 2, piece = thread % 2 * 32;
  i64 m = first_m + fetched_row;
  bool is_point = m < points, is_output = first_o + fetched_row < outputs;
  m = is_point ? m : 0;
  i64 row = m / columns;
  const i8* of_point =
      q + (((row / rows) * (rows + kernel - 1) + row % rows) * wide + m % columns) * (i64)padded;
  const i8* of_output = w + (i64)(is_output ? first_o + fetched_row : 0) * terms;
  int chunks = (terms + DEPTH - 1) / DEPTH;
  auto load_chunk = [&](int chunk) {
    stage& to = stages[chunk % STAGES];
    int first = chunk * DEPTH + piece;
    // 32 terms from a multiple of 32 on are of one tap.
    int tap = first / padded, input = first - tap * padded;
    bool inside = chunk < chunks && first < terms;
    const i8* x = of_point + (inside ? ((i64)(tap / kernel) * wide + tap % kernel) * padded + input : 0);
    const i8* of = of_output + (inside ? first : 0);
#pragma unroll
    for (int half = 0; half < 32; half += 16) {
      fetch(to.x + fetched_row * PITCH + piece + half, x + half, inside && is_point);
      fetch(to.w + fetched_row * PITCH + piece + half, of + half, inside && is_output);
    }
    fetched();
  };
  int sum[2][4][4] = {};
  int group = lane / 4, within = lane % 4 * 4;
  int my_row = warp / 2 * 32 + group, my_column = warp % 2 * 32 + group;
  load_chunk(0);
  load_chunk(1);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_for_all_but_one();
    __syncthreads();
    load_chunk(chunk + 2);
    const stage& from = stages[chunk % STAGES];
#pragma unroll
    for (int depth = 0; depth < DEPTH; depth += 32) {
      u32 a[2][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const i8* at = from.x + (my_row + 16 * i) * PITCH + depth + within;
        a[i][0] = *(const u32*)at;
        a[i][1] = *(const u32*)(at + 8 * PITCH);
        a[i][2] = *(const u32*)(at + 16);
        a[i][3] = *(const u32*)(at + 8 * PITCH + 16);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const i8* at = from.w + (my_column + 8 * j) * PITCH + depth + within;
        b[j][0] = *(const u32*)at;
        b[j][1] = *(const u32*)(at + 16);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(sum[i][j], a[i], b[j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        i64 point = first_m + my_row + 16 * i + 8 * (k / 2);
        int o = first_o + warp % 2 * 32 + 8 * j + lane % 4 * 2 + k % 2;
        if (point < points && o < outputs) {
          Y* to = y + point * outputs + o;
          real value = product((real)__fmul_rn((float)step, steps[o]), (real)sum[i][j][k]);
          store(to, add ? load(*to) + value : value);
        }
      }
}

extern "C" __global__ void __launch_bounds__(128)
    convolve_int8(const i8* q, const i8* w, const float* steps, act* y, int rows, int columns, int padded, int outputs,
                  int kernel, real step, int add, i64 points) {
  forward(q, w, steps, y, rows, columns, padded, outputs, kernel, step, add, points);
}

// The head's.
extern "C" __global__ void __launch_bounds__(128)
    convolve_int8_to_real(const i8* q, const i8* w, const float* steps, real* y, int rows, int columns, int padded,
                          int outputs, int kernel, real step, int add, i64 points) {
  forward(q, w, steps, y, rows, columns, padded, outputs, kernel, step, add, points);
}

// x = step counted(x).
extern "C" __global__ void __launch_bounds__(256) round_steps(act* x, real step, real least, real most, i64 n) {
  i64 index = thread_index();
  if (index < n) store(x + index, product(step, counted(load(x[index]), step, least, most)));
}

// dx = 0 where x is the first or the last of its numbers.
extern "C" __global__ void __launch_bounds__(256)
    round_steps_adjoint(const act* x, act* dx, real step, real least, real most, i64 n) {
  i64 index = thread_index();
  if (index >= n) return;
  // As they are stored.
  real of = load(x[index]), first = load(narrow(product(step, least))), last = load(narrow(product(step, most)));
  if (of <= first || of >= last) store(dx + index, real(0));
}

// Columns of w [terms, outputs], each in a step of its own. A block of 32 x 8 threads takes 32 columns.
extern "C" __global__ void __launch_bounds__(256)
    round_columns(const real* w, real* rounded, int terms, int outputs, real most) {
  __shared__ real largest[8][32];
  int column = blockIdx.x * 32 + threadIdx.x % 32, part = threadIdx.x / 32;
  real own = 0;
  if (column < outputs) {
    for (int term = part; term < terms; term += 8) {
      real of = fabs(w[(i64)term * outputs + column]);
      own = of > own ? of : own;
    }
  }
  largest[part][threadIdx.x % 32] = own;
  __syncthreads();
  if (column >= outputs) return;
  for (int other = 0; other < 8; ++other) {
    real of = largest[other][threadIdx.x % 32];
    own = of > own ? of : own;
  }
  // A column of zeros has any step.
  real step = own > 0 ? ratio(own, most) : real(1);
  for (int term = part; term < terms; term += 8) {
    i64 index = (i64)term * outputs + column;
    rounded[index] = product(step, counted(w[index], step, -most, most));
  }
}
