// Points and their neighbours; a thread a point, blockIdx.y the row.
//
// architectures: sm_80 sm_90a sm_100
// operations: biharmonic sum jacobian leapfrog_predict
// hot: biharmonic sum_terms jacobian leapfrog_predict

#define HALO 2
#define MEASURES 14

__device__ __forceinline__ int column_index() { return blockIdx.x * 256 + threadIdx.x; }

// Of a row, or the mean of its neighbours where it lies on a pole: rows 0 and `rows` where `poles` has 1 and 2.
__device__ __forceinline__ real off_pole(const real* x, i64 width, int j, int rows, int poles) {
  bool on_pole = (j == 0 && (poles & 1)) || (j == rows && (poles & 2));
  return on_pole ? real(0.5) * (x[(j - 1) * width] + x[(j + 1) * width]) : x[j * width];
}

extern "C" __global__ void __launch_bounds__(256)
    biharmonic(const real* x, real* to, int rows, int columns, int poles, real weight) {
  int i = column_index(), j = blockIdx.y;
  if (i >= columns || (j == 0 && (poles & 1))) return;
  i64 width = columns + 2 * HALO;
  // The column, with row 0 of the interior at its beginning.
  const real* c = x + HALO * width + HALO + i;
  const real* row = c + j * width;
  real along = (row[-2] + row[2]) - real(4) * (row[-1] + row[1]) + real(6) * row[0];
  real y0 = off_pole(c, width, j - 2, rows, poles), y1 = off_pole(c, width, j - 1, rows, poles);
  real y3 = off_pole(c, width, j + 1, rows, poles), y4 = off_pole(c, width, j + 2, rows, poles);
  real across = (y0 + y4) - real(4) * (y1 + y3) + real(6) * row[0];
  to[(j + HALO) * width + HALO + i] -= weight * (along + across);
}

// `y = keep y + sum of terms`. Addresses are those of the first interior point; rows are `wide` apart. A term has no
// factors, one a row (`by_row`) or one a point.
extern "C" __global__ void __launch_bounds__(256)
    sum_terms(real* y, const real* x0, const real* x1, const real* x2, const real* x3, const real* f0, const real* f1,
              const real* f2, const real* f3, int columns, int count, i64 wide, i64 wide0, i64 wide1, i64 wide2,
              i64 wide3, int by_row, real keep, real w0, real w1, real w2, real w3) {
  int i = column_index(), j = blockIdx.y;
  if (i >= columns) return;
  const real* x[4] = {x0, x1, x2, x3};
  const real* f[4] = {f0, f1, f2, f3};
  const i64 widths[4] = {wide0, wide1, wide2, wide3};
  const real weights[4] = {w0, w1, w2, w3};
  real* to = y + j * wide + i;
  real total = keep == 0 ? real(0) : keep * *to;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
    if (t >= count) break;
    real weight = weights[t];
    if (f[t]) weight *= f[t][by_row >> t & 1 ? j : (i64)j * columns + i];
    total += weight * x[t][j * widths[t] + i];
  }
  *to = total;
}

// Arakawa's Jacobian of q + r and p, and diffusion: p and q begin in the halo, of one cell.
extern "C" __global__ void __launch_bounds__(256)
    jacobian(const real* p, const real* q, const real* table, real* k, int columns, real diffusion) {
  int i = column_index(), j = blockIdx.y;
  if (i >= columns) return;
  i64 width = columns + 2;
  const real* of = table + 4 * j;
  real rm = of[0], r0 = of[4], rp = of[8];
  real per_area = of[5], west = of[6], south = of[7], north = of[11];
  const real *pm = p + j * width + i, *p0 = pm + width, *pp = p0 + width;
  const real *qm = q + j * width + i, *q0 = qm + width, *qp = q0 + width;
  real amw = qm[0] + rm, am = qm[1] + rm, ame = qm[2] + rm;
  real aw = q0[0] + r0, ae = q0[2] + r0;
  real apw = qp[0] + rp, ap = qp[1] + rp, ape = qp[2] + rp;
  real j1 = (p0[2] - p0[0]) * (ap - am) - (pp[1] - pm[1]) * (ae - aw);
  real j2 = p0[2] * (ape - ame) - p0[0] * (apw - amw) - pp[1] * (ape - apw) + pm[1] * (ame - amw);
  real j3 = ap * (pp[2] - pp[0]) - am * (pm[2] - pm[0]) - ae * (pp[2] - pm[2]) + aw * (pp[0] - pm[0]);
  real along = west * ((q0[0] - q0[1]) + (q0[2] - q0[1]));
  real across = south * (qm[1] - q0[1]) + north * (qp[1] - q0[1]);
  k[(i64)j * columns + i] =
      diffusion * per_area * (along + across) - per_area * real(1.0 / 12.0) * (j1 + j2 + j3);
}

// What w would be, were it not for the average over before and after.
__device__ __forceinline__ real predicted(const real* before, const real* now, const real* k, i64 at, real twice_dt) {
  real difference = before[at] - now[at];
  return (difference + difference) + twice_dt * k[at];
}

// The right side of the equation for w of h, times the area of a cell: see Leapfrog. `depth` is 2 dt depth, `factor`
// -kappa dy / 2.
extern "C" __global__ void __launch_bounds__(256)
    leapfrog_predict(const real* before_u, const real* before_v, const real* before_h, const real* now_u,
                     const real* now_v, const real* now_h, const real* k_u, const real* k_v, const real* k_h,
                     const real* table, real* unknown, int rows, int columns, int north_pole, real twice_dt,
                     real depth, real factor) {
  int i = column_index(), j = blockIdx.y;
  if (i >= columns) return;
  i64 width = columns + 2 * HALO, start = (j + HALO) * width + HALO;
  const real* of = table + (j + HALO) * MEASURES;
  i64 here = start + i, east = i + 1 == columns ? start : here + 1;
  real along = predicted(before_u, now_u, k_u, east, twice_dt) - predicted(before_u, now_u, k_u, here, twice_dt);
  // Nothing passes a pole.
  real north = 0;
  if (j + 1 < rows || !north_pole) north = predicted(before_v, now_v, k_v, here + width, twice_dt) * of[MEASURES];
  real across = north - predicted(before_v, now_v, k_v, here, twice_dt) * of[0];

  real rise = predicted(before_h, now_h, k_h, here, twice_dt);
  double re = of[10], im = of[11];
  if (re != 0 || im != 0) {
    // The inverse of the row's smoothing, 1 + nu d_i^4.
    double from_one = (1 - re) * (1 - re) + im * im;
    real nu = (real)((re * re + im * im) / (from_one * from_one));
    real x[5];
#pragma unroll
    for (int d = 0; d < 5; ++d) {
      int c = i + d - 2;
      while (c < 0) c += columns;
      while (c >= columns) c -= columns;
      x[d] = predicted(before_h, now_h, k_h, start + c, twice_dt);
    }
    real second[3];
#pragma unroll
    for (int d = 0; d < 3; ++d) second[d] = (x[d + 2] - x[d + 1]) - (x[d + 1] - x[d]);
    rise += nu * ((second[2] - second[1]) - (second[1] - second[0]));
  }
  // dy / (2 area) stands for the area.
  unknown[(i64)j * columns + i] = factor / of[4] * (rise - depth * of[4] * (along + across));
}
