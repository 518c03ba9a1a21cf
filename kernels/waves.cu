// Waves along rows, and the equations that they solve: what cpu/waves.rs and cpu/elliptic.rs do, two rows a block.
//
// The Fourier transform is Stockham's, with radices 2, 3, 4, 5 and 8 in registers. Any other prime factor p of the length is
// a sum of p terms for each number: any length will do, and those of grids are fast.
//
// architectures: sm_80 sm_90a sm_100
// operations: waves_forward waves_backward solve_waves
// hot: waves_forward waves_backward solve_waves

#define PERIODIC 0
#define DIRICHLET 1
#define NEUMANN 2

struct __align__(2 * sizeof(real)) complex { real x, y; };

__device__ __forceinline__ complex number(real x, real y) {
  complex z;
  z.x = x;
  z.y = y;
  return z;
}
__device__ __forceinline__ complex operator+(complex a, complex b) { return number(a.x + b.x, a.y + b.y); }
__device__ __forceinline__ complex operator-(complex a, complex b) { return number(a.x - b.x, a.y - b.y); }
__device__ __forceinline__ complex operator*(complex a, complex b) {
  return number(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
__device__ __forceinline__ complex operator*(real a, complex b) { return number(a * b.x, a * b.y); }
// -i z
__device__ __forceinline__ complex turned(complex z) { return number(z.y, -z.x); }

// Transforms of R numbers in place.
__device__ __forceinline__ void transform(complex (&z)[2]) {
  complex sum = z[0] + z[1];
  z[1] = z[0] - z[1];
  z[0] = sum;
}
__device__ __forceinline__ void transform(complex (&z)[3]) {
  complex sum = z[1] + z[2], difference = turned(real(0.86602540378443864676) * (z[1] - z[2]));
  complex middle = z[0] - real(0.5) * sum;
  z[0] = z[0] + sum;
  z[1] = middle + difference;
  z[2] = middle - difference;
}
__device__ __forceinline__ void transform(complex (&z)[4]) {
  complex a = z[0] + z[2], b = z[0] - z[2], c = z[1] + z[3], d = turned(z[1] - z[3]);
  z[0] = a + c;
  z[1] = b + d;
  z[2] = a - c;
  z[3] = b - d;
}
__device__ __forceinline__ void transform(complex (&z)[5]) {
  // Cosines and sines of 72 and 144 degrees.
  const real c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
  const real s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
  complex a = z[1] + z[4], b = z[2] + z[3], d = z[1] - z[4], e = z[2] - z[3];
  complex p = z[0] + (c1 * a + c2 * b), q = z[0] + (c2 * a + c1 * b);
  complex r = turned(s1 * d + s2 * e), s = turned(s2 * d - s1 * e);
  z[0] = z[0] + (a + b);
  z[1] = p + r;
  z[2] = q + s;
  z[3] = q - s;
  z[4] = p - r;
}
__device__ __forceinline__ void transform(complex (&z)[8]) {
  const real half = 0.70710678118654752440;
  complex even[4] = {z[0], z[2], z[4], z[6]}, odd[4] = {z[1], z[3], z[5], z[7]};
  transform(even);
  transform(odd);
  odd[1] = half * (odd[1] + turned(odd[1]));
  odd[2] = turned(odd[2]);
  odd[3] = half * (turned(odd[3]) - odd[3]);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    z[k] = even[k] + odd[k];
    z[k + 4] = even[k] - odd[k];
  }
}

// One pass with a radix; `done` is the product of those before. `turns` are exp(-2 pi i k / length).
template <int RADIX>
__device__ __forceinline__ void pass(const complex* x, complex* y, const complex* turns, int length, int done) {
  const int count = length / RADIX, step = count / done;
  for (int b = threadIdx.x; b < count; b += 256) {
    const int k = b % done;
    complex z[RADIX];
    z[0] = x[b];
#pragma unroll
    for (int t = 1; t < RADIX; ++t) z[t] = turns[t * k * step] * x[b + t * count];
    transform(z);
    complex* to = y + (b - k) * RADIX + k;
#pragma unroll
    for (int t = 0; t < RADIX; ++t) to[t * done] = z[t];
  }
}

// The same with any radix, a thread a result.
__device__ __forceinline__ void pass_of(int radix, const complex* x, complex* y, const complex* turns, int length,
                                        int done) {
  const int count = length / radix, step = count / done;
  for (int i = threadIdx.x; i < length; i += 256) {
    const int b = i % count, result = i / count, k = b % done;
    const int turn = k * step + result * count;
    complex sum = number(0, 0);
    for (int t = 0, at = 0; t < radix; ++t) {
      sum = sum + turns[at] * x[b + t * count];
      at += turn;
      if (at >= length) at -= length;
    }
    y[(b - k) * radix + k + result * done] = sum;
  }
}

// Transforms `length` numbers of z; `other` is as long. Tells which of the two holds the result. Every thread has to call
// it. `radices` end with 1.
__device__ complex* fourier(complex* z, complex* other, const complex* turns, const int* radices, int length) {
  __syncthreads();
  for (int done = 1; *radices != 1; done *= *radices++) {
    switch (*radices) {
      case 2: pass<2>(z, other, turns, length, done); break;
      case 3: pass<3>(z, other, turns, length, done); break;
      case 4: pass<4>(z, other, turns, length, done); break;
      case 5: pass<5>(z, other, turns, length, done); break;
      case 8: pass<8>(z, other, turns, length, done); break;
      default: pass_of(*radices, z, other, turns, length, done);
    }
    complex* swapped = z;
    z = other;
    other = swapped;
    __syncthreads();
  }
  return z;
}

extern __shared__ double shared_waves[];

// Room for two complex rows: shared memory, or `work` where they do not fit there.
__device__ __forceinline__ complex* wave_memory(complex* work, int length) {
  return work ? work + (i64)blockIdx.x * 2 * length : (complex*)shared_waves;
}

// Points of odd rows about the places before the first and behind the last.
__device__ __forceinline__ void lay_odd(complex* z, const real* a, const real* b, int n, bool both) {
  for (int i = threadIdx.x; i < n; i += 256) {
    complex value = number(a[i], both ? b[i] : real(0));
    z[i + 1] = value;
    z[2 * (n + 1) - 1 - i] = number(-value.x, -value.y);
  }
  if (threadIdx.x == 0) z[0] = z[n + 1] = number(0, 0);
}

// `to` may be `from`. `half_turns` are exp(-i pi k / (2 n)), of Neumann ends.
extern "C" __global__ void __launch_bounds__(256, 4)
    waves_forward(const real* from, real* to, const complex* turns, const complex* half_turns, const int* radices,
                  complex* work, int rows, int n, int length, int ends) {
  complex* memory = wave_memory(work, length);
  for (int first = 2 * blockIdx.x; first < rows; first += 2 * gridDim.x) {
    const bool both = first + 1 < rows;
    const real *in = from + (i64)first * n, *in_b = in + n;
    real *out = to + (i64)first * n, *out_b = out + n;
    if (ends == PERIODIC) {
      for (int i = threadIdx.x; i < n; i += 256) memory[i] = number(in[i], both ? in_b[i] : real(0));
    } else if (ends == DIRICHLET) {
      lay_odd(memory, in, in_b, n, both);
    } else {
      for (int i = threadIdx.x; i < n; i += 256) {
        memory[i] = memory[2 * n - 1 - i] = number(in[i], both ? in_b[i] : real(0));
      }
    }
    const complex* z = fourier(memory, memory + length, turns, radices, length);
    if (ends == PERIODIC) {
      // The cosines of the first row stand where z is even, those of the second where it is odd, and so on.
      const real factor = real(0.5) / n;
      for (int k = threadIdx.x; k <= n / 2; k += 256) {
        const complex plus = z[k], minus = z[k == 0 ? 0 : n - k];
        out[k] = factor * (plus.x + minus.x);
        if (both) out_b[k] = factor * (plus.y + minus.y);
        if (k == 0 || 2 * k >= n) continue;
        out[n / 2 + k] = factor * (plus.y - minus.y);
        if (both) out_b[n / 2 + k] = factor * (minus.x - plus.x);
      }
    } else if (ends == DIRICHLET) {
      const real factor = real(1) / (n + 1);
      for (int i = threadIdx.x; i < n; i += 256) {
        out[i] = -factor * z[i + 1].y;
        if (both) out_b[i] = factor * z[i + 1].x;
      }
    } else {
      const real factor = real(0.5) / n;
      for (int k = threadIdx.x; k < n; k += 256) {
        const complex value = factor * (z[k] * half_turns[k]);
        out[k] = value.x;
        if (both) out_b[k] = value.y;
      }
    }
    __syncthreads();
  }
}

// From amplitudes to rows in place: the inverse is the transform with real and imaginary parts exchanged before and after.
extern "C" __global__ void __launch_bounds__(256, 4)
    waves_backward(real* x, const complex* turns, const complex* half_turns, const int* radices, complex* work, int rows,
                   int n, int length, int ends) {
  complex* memory = wave_memory(work, length);
  for (int first = 2 * blockIdx.x; first < rows; first += 2 * gridDim.x) {
    const bool both = first + 1 < rows;
    real *a = x + (i64)first * n, *b = a + n;
    if (ends == PERIODIC) {
      for (int k = threadIdx.x; k <= n / 2; k += 256) {
        const bool sines = k > 0 && 2 * k < n;
        const complex cosine = number(a[k], both ? b[k] : real(0));
        complex sine = number(0, 0);
        if (sines) sine = number(a[n / 2 + k], both ? b[n / 2 + k] : real(0));
        memory[k] = number(sine.x + cosine.y, cosine.x - sine.y);
        if (sines) memory[n - k] = number(cosine.y - sine.x, cosine.x + sine.y);
      }
    } else if (ends == DIRICHLET) {
      lay_odd(memory, a, b, n, both);
    } else {
      for (int k = threadIdx.x; k < n; k += 256) {
        const complex value = number(a[k], both ? b[k] : real(0)), turn = half_turns[k];
        const complex here = value * number(turn.x, -turn.y), there = value * turn;
        memory[k] = number(here.y, here.x);
        if (k > 0) memory[2 * n - k] = number(there.y, there.x);
      }
      if (threadIdx.x == 0) memory[n] = number(0, 0);
    }
    const complex* z = fourier(memory, memory + length, turns, radices, length);
    for (int i = threadIdx.x; i < n; i += 256) {
      if (ends == DIRICHLET) {
        a[i] = real(-0.5) * z[i + 1].y;
        if (both) b[i] = real(0.5) * z[i + 1].x;
      } else {
        a[i] = z[i].y;
        if (both) b[i] = z[i].x;
      }
    }
    __syncthreads();
  }
}

// The rows of a column are solved in so many pieces at once.
#define PIECES 32
#define COLUMNS 8

// What runs into a piece, when a piece makes `y + product * what runs into it` of that and the first has nothing run in.
// `place` counts the pieces in the order of the running.
__device__ __forceinline__ real inflow(real y, real product, int place, int column) {
  __shared__ real sums[PIECES][COLUMNS], products[PIECES][COLUMNS];
  for (int distance = 1; distance < PIECES; distance *= 2) {
    sums[place][column] = y;
    products[place][column] = product;
    __syncthreads();
    if (place >= distance) {
      y += product * sums[place - distance][column];
      product *= products[place - distance][column];
    }
    __syncthreads();
  }
  sums[place][column] = y;
  __syncthreads();
  real before = place == 0 ? real(0) : sums[place - 1][column];
  __syncthreads();
  return before;
}

// Of numbers `columns` apart: takes from each its share of their sum (`weigh` false), or from all their mean with the
// shares as weights.
__device__ __forceinline__ void remove_mean(real* x, const real* shares, int rows, int columns, bool weigh) {
  __shared__ double whole;
  double sum = 0;
  for (int j = threadIdx.x; j < rows; j += 256) {
    sum += weigh ? (double)shares[j] * (double)x[(i64)j * columns] : (double)x[(i64)j * columns];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) whole = sum;
  __syncthreads();
  for (int j = threadIdx.x; j < rows; j += 256) {
    real* at = x + (i64)j * columns;
    *at = (real)((double)*at - (weigh ? whole : (double)shares[j] * whole));
  }
  __syncthreads();
}

// The tridiagonal systems of all waves in place: a block has 8 columns, and 32 pieces of each. Both the elimination northward
// and the substitution southward are recurrences of one number with factors of at most 1: a piece finds what it makes of
// nothing running in, then what runs in, then its numbers. The columns are those from `from` on of a row of amplitudes, of
// which those from `cosines` on belong to waves 1, 2, ...
extern "C" __global__ void __launch_bounds__(256, 4)
    solve_waves(real* x, const real* pivots, const real* carries, const real* shares, int rows, int columns, int from,
                int waves, int cosines) {
  const int piece = threadIdx.x / COLUMNS, column = threadIdx.x % COLUMNS;
  const int place = blockIdx.x * COLUMNS + column;
  const int wave = from + place < cosines ? from + place : from + place - cosines + 1;
  const int each = (rows + PIECES - 1) / PIECES;
  const int start = min(rows, piece * each), end = place < columns ? min(rows, start + each) : start;
  const bool free_constant = shares != nullptr && blockIdx.x == 0;
  if (free_constant) remove_mean(x, shares, rows, columns, false);
  real* const first = x + place;
  pivots += wave;
  carries += wave;

  real y = 0, product = 1;
#pragma unroll 4
  for (int j = start; j < end; ++j) {
    const real carry = carries[(i64)j * waves];
    y = carry * (y - first[(i64)j * columns]);
    product *= carry;
  }
  y = inflow(y, product, piece, column);
#pragma unroll 4
  for (int j = start; j < end; ++j) {
    real* at = first + (i64)j * columns;
    const real value = y - *at;
    *at = value;
    y = carries[(i64)j * waves] * value;
  }
  y = 0;
#pragma unroll 4
  for (int j = end - 1; j >= start; --j) {
    y = pivots[(i64)j * waves] * first[(i64)j * columns] + carries[(i64)j * waves] * y;
  }
  y = inflow(y, product, PIECES - 1 - piece, column);
#pragma unroll 4
  for (int j = end - 1; j >= start; --j) {
    real* at = first + (i64)j * columns;
    y = pivots[(i64)j * waves] * *at + carries[(i64)j * waves] * y;
    *at = y;
  }
  if (free_constant) {
    __syncthreads();
    remove_mean(x, shares, rows, columns, true);
  }
}
