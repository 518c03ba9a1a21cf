// Passes in which whole rows are smoothed: Filter::weights tells how. A block has a row, and the row's numbers pass between
// two places of memory: shared memory, or for rows that do not fit there `work`, with room for two rows a block.
//
// architectures: sm_80 sm_90a sm_100
// operations: smooth_rows leapfrog_correct
// hot: flow_rows smooth_rows leapfrog_correct

#define HALO 2
#define MEASURES 14
// Filter::NEGLIGIBLE
#define NEGLIGIBLE 5e-4

// What becomes of a tendency: as in flow.cu.
#define STAGE 0
#define STAGE_ADD 1
#define LAST 2

extern __shared__ double shared_rows[];

__device__ __forceinline__ real* row_memory(real* work, int n) {
  return work ? work + (i64)blockIdx.x * 2 * n : (real*)shared_rows;
}

// Smooths the cyclic row of n in x; `other` is as long. Tells which of the two holds the result. Every thread has to call
// it, and has to be done with writing x.
__device__ __forceinline__ real* smooth(real* x, real* other, int n, double re, double im) {
  int near = 1 % n;
  for (;;) {
    __syncthreads();
    const double product = re * re + im * im;
    if (!(product >= NEGLIGIBLE * NEGLIGIBLE)) return x;
    const double sum = 1 + 2 * re + product;
    const real square_sum = (real)(sum * sum);
    const real c1 = (real)(2 * re * (1 + product)) / square_sum, c2 = (real)product / square_sum;
    const int far = 2 * near % n;
    for (int i = threadIdx.x; i < n; i += 256) {
      const int w1 = i < near ? i - near + n : i - near, e1 = i + near < n ? i + near : i + near - n;
      const int w2 = i < far ? i - far + n : i - far, e2 = i + far < n ? i + far : i + far - n;
      const real here = x[i];
      other[i] = here + (c1 * ((x[w1] - here) + (x[e1] - here)) + c2 * ((x[w2] - here) + (x[e2] - here)));
    }
    real* swapped = x;
    x = other;
    other = swapped;
    const double square = re * re - im * im;
    im = 2 * re * im;
    re = square;
    near = far;
  }
}

// Finishes what `flow` has left in `raw`: the rows that have a filter.
extern "C" __global__ void __launch_bounds__(256, 4)
    flow_rows(const real* table, const real* raw_u, const real* raw_v, const real* raw_h, const real* base_u,
              const real* base_v, const real* base_h, real* next_u, real* next_v, real* next_h, real* sum_u,
              real* sum_v, real* sum_h, real* work, int rows, int columns, int mode, real a, real b) {
  real* x = row_memory(work, columns);
  for (int line = blockIdx.x; line < 3 * rows; line += gridDim.x) {
    const int j = line / 3, field = line % 3;
    const real* z = table + (j + HALO) * MEASURES + (field == 1 ? 12 : 10);
    if (z[0] == 0 && z[1] == 0) continue;
    const i64 start = (i64)(j + HALO) * (columns + 2 * HALO) + HALO;
    const real* raw = (field == 0 ? raw_u : field == 1 ? raw_v : raw_h) + start;
    const real* base = (field == 0 ? base_u : field == 1 ? base_v : base_h) + start;
    real* next = (field == 0 ? next_u : field == 1 ? next_v : next_h) + start;
    real* sum = (field == 0 ? sum_u : field == 1 ? sum_v : sum_h) + start;
    for (int i = threadIdx.x; i < columns; i += 256) x[i] = raw[i];
    const real* k = smooth(x, x + columns, columns, z[0], z[1]);
    for (int i = threadIdx.x; i < columns; i += 256) {
      if (mode == STAGE || mode == STAGE_ADD) {
        next[i] = base[i] + a * k[i];
        sum[i] = mode == STAGE ? b * k[i] : sum[i] + b * k[i];
      } else if (mode == LAST) {
        next[i] += base[i] + b * k[i];
      } else {
        next[i] = k[i];
      }
    }
    __syncthreads();
  }
}

// `x` begins in the interior; its rows are `width` apart.
extern "C" __global__ void __launch_bounds__(256, 4)
    smooth_rows(real* x, const real* filters, real* work, int rows, int columns, int width) {
  real* memory = row_memory(work, columns);
  for (int j = blockIdx.x; j < rows; j += gridDim.x) {
    const real re = filters[2 * j], im = filters[2 * j + 1];
    if (re == 0 && im == 0) continue;
    real* row = x + (i64)j * width;
    for (int i = threadIdx.x; i < columns; i += 256) memory[i] = row[i];
    const real* smoothed = smooth(memory, memory + columns, columns, re, im);
    for (int i = threadIdx.x; i < columns; i += 256) row[i] = smoothed[i];
    __syncthreads();
  }
}

// Steps from before to after and filters now, given second differences in time: see Leapfrog. `now_share` and
// `after_share` are what of them goes into now and after; `head` is dt g; `south` is the row of `unknown` before the first,
// null where that lies on a pole.
extern "C" __global__ void __launch_bounds__(256, 4)
    leapfrog_correct(const real* k_u, const real* k_v, const real* table, const real* unknown, const real* south,
                     real* before_u, real* before_v, real* before_h, real* now_u, real* now_v, real* now_h, real* work,
                     int rows, int columns, real dt, real head, real per_dy, real now_share, real after_share) {
  real* memory = row_memory(work, columns);
  for (int line = blockIdx.x; line < 3 * rows; line += gridDim.x) {
    const int j = line / 3, field = line % 3;
    // Nothing passes a pole.
    if (field == 1 && j == 0 && !south) continue;
    const i64 start = (i64)(j + HALO) * (columns + 2 * HALO) + HALO;
    const real* k = (field == 0 ? k_u : k_v) + start;
    const real* w = unknown + (i64)j * columns;
    real* before = (field == 0 ? before_u : field == 1 ? before_v : before_h) + start;
    real* now = (field == 0 ? now_u : field == 1 ? now_v : now_h) + start;
    const real* of = table + (j + HALO) * MEASURES;
    const real factor = head * (field == 0 ? of[8] : per_dy);
    const real* z = of + (field == 1 ? 12 : 10);
    const bool smoothed = field != 2 && (z[0] != 0 || z[1] != 0);
    // What w falls by to the west or to the south, times dt g.
    const real* before_w = field != 1 ? w : j == 0 ? south : w - columns;
    auto fall = [&](int i) {
      const int neighbour = field == 1 ? i : i == 0 ? columns - 1 : i - 1;
      return factor * (w[i] - before_w[neighbour]);
    };
    const real* falls = memory;
    if (smoothed) {
      for (int i = threadIdx.x; i < columns; i += 256) memory[i] = fall(i);
      falls = smooth(memory, memory + columns, columns, z[0], z[1]);
    }
    for (int i = threadIdx.x; i < columns; i += 256) {
      const real change = now[i] - before[i];
      real difference = w[i];
      if (field != 2) difference = ((dt + dt) * k[i] - (smoothed ? falls[i] : fall(i))) - (change + change);
      before[i] = now[i] + (change + after_share * difference);
      now[i] += now_share * difference;
    }
    if (smoothed) __syncthreads();
  }
}
