// The flow of a shallow layer in one pass over memory.
//
// A warp walks northward along a strip of 32 columns and keeps what it needs of the last rows in registers; what stands
// in neighbouring columns comes from neighbouring lanes. 29 of the columns have all their neighbours in the strip: strips
// overlap, which costs a tenth of the arithmetic and no synchronisation at all.
//
// architectures: sm_80 sm_90a sm_100
// operations: flow
// hot: flow
// measured: NVIDIA H200, 2026-12-01, float32, 2880 x 5760 cells, a stage that adds: flow 390 us (2.0 TB/s, 65 % of the
//   instructions that can be issued), flow_rows after it 320 us

#define HALO 2
// Numbers of a row in the table: see RowMeasures::coefficients.
#define MEASURES 14
// Columns of a strip whose results are written.
#define INNER 29

#define ARAKAWA_LAMB 0
#define ENERGY 1
#define ENSTROPHY 2

// As in rows.cu.
#define STAGE 0
#define STAGE_ADD 1
#define LAST 2
#define TENDENCY 3
#define ROTATIONAL 4

__device__ __forceinline__ real from_west(real x) { return __shfl_up_sync(0xffffffffu, x, 1); }
__device__ __forceinline__ real from_east(real x) { return __shfl_down_sync(0xffffffffu, x, 1); }

struct triple {
  real u, v, h;
};

__device__ __forceinline__ triple read(const real* u, const real* v, const real* h, i64 at) {
  triple x = {u[at], v[at], h[at]};
  return x;
}

// What becomes of the tendency k; `base` is read from where its name says, `before` from the sum, or from `next` in the
// last stage. Where it still has to be smoothed it is stored as it is, for flow_rows.
__device__ __forceinline__ void put(real k, i64 at, int mode, bool smoothed, real* raw, real base, real before,
                                    real* next, real* sum, real a, real b) {
  if (smoothed) {
    raw[at] = k;
  } else if (mode == STAGE || mode == STAGE_ADD) {
    next[at] = base + a * k;
    sum[at] = before + b * k;
  } else if (mode == LAST) {
    next[at] = before + (base + b * k);
  } else {
    next[at] = k;
  }
}

// Potential vorticity of a cap: circulation along the outermost row of u, over area and mean thickness. Any block that
// touches a pole does this for itself, in the same order.
__device__ real cap(const real* u, const real* h, const real* table, const real* f, bool f_by_row, int row, int face,
                    int columns, real sign, real dy_per_area, real depth) {
  int width = columns + 2 * HALO;
  i64 start = (i64)(row + HALO) * width + HALO;
  double around = 0, thickness = 0;
  for (int i = threadIdx.x; i < columns; i += 256) {
    around += (double)u[start + i];
    thickness += (double)h[start + i];
  }
  around = block_sum(around);
  thickness = block_sum(thickness);
  double zeta = (double)sign * around * (double)table[(row + HALO) * MEASURES + 5] * (double)dy_per_area;
  real rotation = f_by_row ? f[face + HALO] : f[(i64)(face + HALO) * width + HALO];
  return (real)(((double)rotation + zeta) / ((double)depth + thickness / columns));
}

// `segment` rows a warp; warps are numbered along the rows first. `poles`: 1 for the southern, 2 for the northern.
// `dy_per_area`: of the caps.
extern "C" __global__ void __launch_bounds__(256)
    flow(const real* u, const real* v, const real* h, const real* table, const real* f, const real* bottom,
         const real* base_u, const real* base_v, const real* base_h, real* next_u, real* next_v, real* next_h,
         real* sum_u, real* sum_v, real* sum_h, real* raw_u, real* raw_v, real* raw_h, int rows, int columns,
         int segment, int form, int mode, int poles, int f_by_row, real g, real depth, real per_dy, real dy_per_area,
         real a, real b) {
  __shared__ real caps[2];
  const bool south = poles & 1, north = poles & 2;
  const int strips = (columns + INNER - 1) / INNER, segments = (rows + segment - 1) / segment;
  const int first = blockIdx.x * 8, warp = first + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (south && first / strips == 0) {
    real q = cap(u, h, table, f, f_by_row, 0, 0, columns, -1, dy_per_area, depth);
    if (threadIdx.x == 0) caps[0] = q;
  }
  if (north && (first + 7) / strips >= segments - 1) {
    real q = cap(u, h, table, f, f_by_row, rows - 1, rows, columns, 1, dy_per_area, depth);
    if (threadIdx.x == 0) caps[1] = q;
  }
  __syncthreads();
  const int part = warp / strips;
  if (part >= segments) return;
  const int start = part * segment, end = min(rows, start + segment);
  const int column = warp % strips * INNER + lane - 2;
  const bool inner = lane >= 2 && lane < 2 + INNER && column < columns;
  const int width = columns + 2 * HALO;
  const int at = min(column, columns + 1) + HALO;
  const int low = south ? 0 : -HALO, high = north ? rows : rows + HALO;
  const real twice_depth = 2 * depth;

  // Names end with the row: `1` is row r, `0` the row before it, whose tendencies are found, `s` the one before that;
  // then with the column: `w` to the west, `e` to the east.
  real u0 = 0, v0 = 0, h0 = 0, t0 = 0, flux0 = 0, cross0 = 0, cross0w = 0, q0 = 0, q0w = 0, q0e = 0;
  real fluxs = 0, fluxse = 0, crosss = 0, qs = 0, qse = 0, heads = 0;
  // Row r comes from memory while the row before it is worked on.
  triple coming = {0, 0, 0};
  if (start - 2 >= low) coming = read(u, v, h, (i64)(start - 2 + HALO) * width + at);
  for (int r = start - 2; r <= end; ++r) {
    const i64 place = (i64)(r + HALO) * width + at, cell = place - width;
    const real u1 = coming.u, v1 = coming.v, h1 = coming.h;
    coming.u = coming.v = coming.h = 0;
    if (r < end && r + 1 >= low && r + 1 < high) coming = read(u, v, h, place + width);
    // And so does what the tendencies are added to.
    bool smooth_centres = false, smooth_faces = false;
    triple base = {0, 0, 0}, before = {0, 0, 0};
    if (r > start && inner && mode != ROTATIONAL) {
      const real* z = table + (r - 1 + HALO) * MEASURES + 10;
      smooth_centres = z[0] != 0 || z[1] != 0;
      smooth_faces = z[2] != 0 || z[3] != 0;
      if (mode <= LAST && !(smooth_centres && smooth_faces)) {
        base = read(base_u, base_v, base_h, cell);
        if (mode == STAGE_ADD) before = read(sum_u, sum_v, sum_h, cell);
        if (mode == LAST) before = read(next_u, next_v, next_h, cell);
      }
    }
    // Twice the thickness on west faces, and the flux through them.
    const real t1 = h1 + from_west(h1) + twice_depth;
    const real flux1 = t1 * u1;
    if (r > start - 2) {
      const real* of1 = table + (r + HALO) * MEASURES;
      const real* of0 = of1 - MEASURES;
      // The flux through south faces, and potential vorticity.
      real cross1 = 0, q1;
      if ((south && r == 0) || (north && r == rows)) {
        q1 = caps[r != 0];
      } else {
        cross1 = (h1 + h0 + twice_depth) * (v1 * of1[0]);
        const real circulation = (v1 - from_west(v1)) - u1 * of1[5] + u0 * of0[5];
        const real rotation = f_by_row ? f[r + HALO] : f[place];
        q1 = (circulation + rotation * of1[7]) / (t1 * of1[6] + t0 * of0[6]);
      }
      const real cross1w = from_west(cross1), q1w = from_west(q1), q1e = from_east(q1);
      const real flux0w = from_west(flux0), flux0e = from_east(flux0);
      // What the tendencies take the gradient of.
      const real u0e = from_east(u0);
      const real kinetic = (u0 * u0 + u0e * u0e) * of0[1] + v0 * v0 * of0[2] + v1 * v1 * of0[3];
      real head0 = 0;
      if (mode != ROTATIONAL) head0 = kinetic + g * (bottom ? h0 + bottom[cell] : h0);
      const real head0w = from_west(head0);
      if (r > start) {
        real turn_u, turn_v;
        if (form == ARAKAWA_LAMB) {
          // Sums of q on the same column, to the east and to the west.
          const real here = q1 + q0, east = q1e + q0e, west = q1w + q0w;
          const real al = here + east + (q1e + q0), de = here + east + (q1 + q0e);
          const real be = here + west + (q1w + q0), ga = here + west + (q1 + q0w);
          const real e0 = (q1e + q1) - (q0 + q0e), em = (q1 + q1w) - (q0w + q0);
          turn_u = al * cross1 + be * cross1w + (ga * cross0w + de * cross0) + (em * flux0w - e0 * flux0e);
          // Sums of q on the same row, to the north and to the south.
          const real same = q0 + q0e, above = q1 + q1e, below = qs + qse;
          const real ga_v = same + above + (q1e + q0), de_v = same + above + (q1 + q0e);
          const real al_v = same + below + (q0e + qs), be_v = same + below + (q0 + qse);
          const real p0 = (q1 + q0) - (q1e + q0e), pm = (q0 + qs) - (q0e + qse);
          turn_v = ga_v * flux0e + de_v * flux0 + (al_v * fluxs + be_v * fluxse) + (p0 * cross1 - pm * crosss);
          turn_u *= real(1.0 / 24.0);
          turn_v *= real(1.0 / 24.0);
        } else if (form == ENERGY) {
          turn_u = real(0.25) * (q0 * (cross0 + cross0w) + q1 * (cross1 + cross1w));
          turn_v = real(0.25) * (q0 * (flux0 + fluxs) + q0e * (flux0e + fluxse));
        } else {
          turn_u = real(0.125) * ((q0 + q1) * ((cross0 + cross0w) + (cross1 + cross1w)));
          turn_v = real(0.125) * ((q0 + q0e) * ((flux0 + fluxs) + (flux0e + fluxse)));
        }
        real du = turn_u * of0[9] + (head0w - head0) * of0[8];
        real dv = (heads - head0) * per_dy - turn_v * real(0.5);
        real dh = ((flux0 - flux0e) + (cross0 - cross1)) * of0[4];
        if (south && r == 1) dv = 0;
        if (mode == ROTATIONAL) dh = kinetic;
        if (inner) {
          put(du, cell, mode, smooth_centres, raw_u, base.u, before.u, next_u, sum_u, a, b);
          put(dv, cell, mode, smooth_faces, raw_v, base.v, before.v, next_v, sum_v, a, b);
          put(dh, cell, mode, smooth_centres, raw_h, base.h, before.h, next_h, sum_h, a, b);
        }
      }
      fluxs = flux0;
      fluxse = flux0e;
      crosss = cross0;
      qs = q0;
      qse = q0e;
      heads = head0;
      cross0 = cross1;
      cross0w = cross1w;
      q0 = q1;
      q0w = q1w;
      q0e = q1e;
    }
    u0 = u1;
    v0 = v1;
    h0 = h1;
    t0 = t1;
    flux0 = flux1;
  }
}
