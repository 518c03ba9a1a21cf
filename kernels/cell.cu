// The LSTM cell: everything between two convolutions, in one pass over memory.
//
// architectures: sm_80 sm_90a sm_100
// operations: cell_forward cell_backward
// hot: cell_forward cell_forward_wide cell_backward cell_backward_wide cell_backward_wide_peepholes
// measured: NVIDIA H200, 2026-12-01, bfloat16, one image of 720 x 1440 points of 64 units: cell_forward_wide 295 us (376
//   where h goes to the head as well; 3.9 TB/s of a copy's 4.3), 430 and 530 us where gates are kept, cell_backward_wide
//   677 us (3.5 TB/s)
//
// Gates of up to 16 neighbouring units stand together: [block of units][gate i, f, g, o][unit]. The wide kernels take 4
// units a thread and need a multiple of 16 units. A block goes through its share of the points, a thread through every
// `lanes`-th of these with the same units, so that what belongs to units alone is read once and no place is divided out
// again. The halo of h is filled, and that of its gradient carried home, on the way: copies[first[cell]..first[cell + 1]]
// are those that are made of a cell of the padded image. `copies` is null where another kernel does that.

// A point of an image, and how to go on to another.
struct walk {
  u32 point, row, column, image;
};

__device__ __forceinline__ walk at_point(u32 point, u32 rows, u32 columns) {
  walk w;
  u32 line = point / columns;
  w.point = point;
  w.column = point % columns;
  w.row = line % rows;
  w.image = line / rows;
  return w;
}

__device__ __forceinline__ void advance(walk& w, u32 by, u32 rows, u32 columns) {
  w.point += by;
  w.column += by;
  while (w.column >= columns) {
    w.column -= columns;
    if (++w.row == rows) {
      w.row = 0;
      ++w.image;
    }
  }
}

// A cell of padded images, and where its image begins.
struct spot {
  i64 image;
  u32 cell;
};

__device__ __forceinline__ spot padded(const walk& w, u32 rows, u32 columns, u32 halo) {
  u32 wide = columns + 2 * halo;
  spot s;
  s.image = (i64)w.image * ((rows + 2 * halo) * wide);
  s.cell = (w.row + halo) * wide + w.column + halo;
  return s;
}

// Whether halo cells may be made of a point: those stand at most one cell further in than the halo is wide.
__device__ __forceinline__ bool at_edge(const walk& w, u32 rows, u32 columns, u32 halo) {
  return w.row <= halo || w.row + halo + 1 >= rows || w.column <= halo || w.column + halo + 1 >= columns;
}

// The units of a thread, and where their gates stand: the first gate's place at a point, and the distance to the next.
struct place {
  int unit, first, stride;
};

__device__ __forceinline__ place gates_of(int unit, int hidden) {
  int block = unit / 16;
  place p;
  p.unit = unit;
  p.stride = min(16, hidden - 16 * block);
  p.first = block * 64 + (unit - 16 * block);
  return p;
}

template <int U>
__device__ __forceinline__ void forward(act* gates, const real* bias, const real* peepholes, const real* c_before,
                                        real* c, act* h, act* above, const real* factors, const copy* copies,
                                        const u32* firsts, u32 rows, u32 columns, int hidden, int halo, int above_halo,
                                        int keeps_gates, int first_unit, u32 points, u32 share) {
  u32 groups = min(hidden - first_unit, (int)blockDim.x * U) / U, of = blockDim.x / groups;
  place g = gates_of(first_unit + (int)(threadIdx.x % groups) * U, hidden);
  lanes<U> b[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) b[k] = read<U>(bias + g.first + k * g.stride);
  u32 end = min(points, (blockIdx.x + 1) * share);
  for (walk w = at_point(blockIdx.x * share + threadIdx.x / groups, rows, columns); w.point < end;
       advance(w, of, rows, columns)) {
    act* gate = gates + (i64)w.point * 4 * hidden + g.first;
    i64 at = (i64)w.point * hidden + g.unit;
    lanes<U> a[4], before, cell, out;
#pragma unroll
    for (int k = 0; k < 4; ++k) a[k] = read<U>(gate + k * g.stride);
    if (c_before) before = read<U>(c_before + at);
    else before = lanes<U>();
#pragma unroll
    for (int k = 0; k < 4; ++k) a[k] += b[k];
    if (peepholes) {
      a[0] += read<U>(peepholes + g.unit) * before;
      a[1] += read<U>(peepholes + hidden + g.unit) * before;
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      a[0].v[u] = sigmoid(a[0].v[u]);
      a[1].v[u] = sigmoid(a[1].v[u]);
      a[2].v[u] = hyperbolic(a[2].v[u]);
      cell.v[u] = a[1].v[u] * before.v[u] + a[0].v[u] * a[2].v[u];
    }
    if (peepholes) a[3] += read<U>(peepholes + 2 * hidden + g.unit) * cell;
#pragma unroll
    for (int u = 0; u < U; ++u) {
      a[3].v[u] = sigmoid(a[3].v[u]);
      out.v[u] = a[3].v[u] * hyperbolic(cell.v[u]);
    }
    if (keeps_gates) {
#pragma unroll
      for (int k = 0; k < 4; ++k) write<U>(gate + k * g.stride, a[k]);
    }
    write<U>(c + at, cell);
    spot s = padded(w, rows, columns, halo);
    act* to = h + s.image * hidden + g.unit;
    write<U>(to + (i64)s.cell * hidden, out);
    if (copies && at_edge(w, rows, columns, halo)) {
      u32 last = firsts[s.cell + 1];
      for (u32 k = firsts[s.cell]; k < last; ++k) write<U>(to + (i64)copies[k].to * hidden, out);
    }
    if (above) {
      if (factors) out *= read<U>(factors + (i64)w.image * hidden + g.unit);
      s = padded(w, rows, columns, above_halo);
      write<U>(above + (s.image + s.cell) * hidden + g.unit, out);
    }
  }
}

// A block leaves its sums in parts[block, 7 hidden]: of the four gates' gradients, then of the three peepholes', which
// are those of PEEPHOLES only.
template <int U, bool PEEPHOLES>
__device__ __forceinline__ void backward(act* gates, const real* peepholes, const real* c_before, const real* c,
                                         const act* dh, const act* above, const real* factors, const copy* copies,
                                         const u32* firsts, real* dc, real* parts, u32 rows, u32 columns, int hidden,
                                         int halo, int above_halo, int first_unit, u32 points, u32 share) {
  extern __shared__ real shared[];
  u32 groups = min(hidden - first_unit, (int)blockDim.x * U) / U, of = blockDim.x / groups;
  u32 lane = threadIdx.x / groups;
  place g = gates_of(first_unit + (int)(threadIdx.x % groups) * U, hidden);
  lanes<U> sums[4], peeps[3], p[3];
  if (PEEPHOLES && peepholes) {
#pragma unroll
    for (int k = 0; k < 3; ++k) p[k] = read<U>(peepholes + k * hidden + g.unit);
  }
  u32 end = min(points, (blockIdx.x + 1) * share);
  for (walk w = at_point(blockIdx.x * share + lane, rows, columns); w.point < end; advance(w, of, rows, columns)) {
    act* gate = gates + (i64)w.point * 4 * hidden + g.first;
    i64 at = (i64)w.point * hidden + g.unit;
    lanes<U> a[4], out, up, before;
#pragma unroll
    for (int k = 0; k < 4; ++k) a[k] = read<U>(gate + k * g.stride);
    lanes<U> cell = read<U>(c + at), d = read<U>(dc + at);
    if (c_before) before = read<U>(c_before + at);
    if (above) {
      spot s = padded(w, rows, columns, above_halo);
      up = read<U>(above + (s.image + s.cell) * hidden + g.unit);
    }
    if (dh) {
      spot s = padded(w, rows, columns, halo);
      const act* from = dh + s.image * hidden + g.unit;
      out = read<U>(from + (i64)s.cell * hidden);
      if (copies && at_edge(w, rows, columns, halo)) {
        u32 last = firsts[s.cell + 1];
        for (u32 k = firsts[s.cell]; k < last; ++k) out += read<U>(from + (i64)copies[k].to * hidden);
      }
    }
    if (factors) up *= read<U>(factors + (i64)w.image * hidden + g.unit);
    out += up;
#pragma unroll
    for (int u = 0; u < U; ++u) {
      real i = a[0].v[u], f = a[1].v[u], candidate = a[2].v[u], o = a[3].v[u];
      real tanh_c = hyperbolic(cell.v[u]);
      real d_o = out.v[u] * tanh_c * o * (real(1) - o);
      real d_cell = d.v[u] + out.v[u] * o * (real(1) - tanh_c * tanh_c);
      if (PEEPHOLES) d_cell += p[2].v[u] * d_o;
      real d_i = d_cell * candidate * i * (real(1) - i);
      real d_f = d_cell * before.v[u] * f * (real(1) - f);
      a[0].v[u] = d_i;
      a[1].v[u] = d_f;
      a[2].v[u] = d_cell * i * (real(1) - candidate * candidate);
      a[3].v[u] = d_o;
      d.v[u] = d_cell * f;
      if (PEEPHOLES) {
        d.v[u] += p[0].v[u] * d_i + p[1].v[u] * d_f;
        peeps[0].v[u] += d_i * before.v[u];
        peeps[1].v[u] += d_f * before.v[u];
        peeps[2].v[u] += d_o * cell.v[u];
      }
    }
    write<U>(dc + at, d);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      write<U>(gate + k * g.stride, a[k]);
      sums[k] += a[k];
    }
  }
  // Lanes are added one after the other.
  real* to = parts + (i64)blockIdx.x * 7 * hidden;
#pragma unroll
  for (int k = 0; k < (PEEPHOLES ? 7 : 4); ++k) {
    lanes<U> mine = k < 4 ? sums[k & 3] : peeps[k < 4 ? 0 : k - 4];
    __syncthreads();
    write<U>(shared + threadIdx.x * U, mine);
    __syncthreads();
    if (lane == 0) {
      for (u32 other = 1; other < of; ++other) mine += read<U>(shared + (threadIdx.x + other * groups) * U);
      write<U>(to + (k < 4 ? g.first + k * g.stride : k * hidden + g.unit), mine);
    }
  }
}

#define FORWARD_PARAMETERS                                                                                         \
  gates, bias, peepholes, c_before, c, h, above, factors, copies, firsts, rows, columns, hidden, halo, above_halo, \
      keeps_gates, first_unit, points, share

extern "C" __global__ void __launch_bounds__(128)
    cell_forward(act* gates, const real* bias, const real* peepholes, const real* c_before, real* c, act* h, act* above,
                 const real* factors, const copy* copies, const u32* firsts, u32 rows, u32 columns, int hidden,
                 int halo, int above_halo, int keeps_gates, int first_unit, u32 points, u32 share) {
  forward<1>(FORWARD_PARAMETERS);
}

extern "C" __global__ void __launch_bounds__(128, 7)
    cell_forward_wide(act* gates, const real* bias, const real* peepholes, const real* c_before, real* c, act* h,
                      act* above, const real* factors, const copy* copies, const u32* firsts, u32 rows, u32 columns,
                      int hidden, int halo, int above_halo, int keeps_gates, int first_unit, u32 points, u32 share) {
  forward<4>(FORWARD_PARAMETERS);
}

#define BACKWARD_PARAMETERS                                                                                        \
  gates, peepholes, c_before, c, dh, above, factors, copies, firsts, dc, parts, rows, columns, hidden, halo,       \
      above_halo, first_unit, points, share

extern "C" __global__ void __launch_bounds__(128)
    cell_backward(act* gates, const real* peepholes, const real* c_before, const real* c, const act* dh,
                  const act* above, const real* factors, const copy* copies, const u32* firsts, real* dc, real* parts,
                  u32 rows, u32 columns, int hidden, int halo, int above_halo, int first_unit, u32 points, u32 share) {
  backward<1, true>(BACKWARD_PARAMETERS);
}

extern "C" __global__ void __launch_bounds__(128, 5)
    cell_backward_wide(act* gates, const real* peepholes, const real* c_before, const real* c, const act* dh,
                       const act* above, const real* factors, const copy* copies, const u32* firsts, real* dc,
                       real* parts, u32 rows, u32 columns, int hidden, int halo, int above_halo, int first_unit,
                       u32 points, u32 share) {
  backward<4, false>(BACKWARD_PARAMETERS);
}

extern "C" __global__ void __launch_bounds__(128, 3)
    cell_backward_wide_peepholes(act* gates, const real* peepholes, const real* c_before, const real* c, const act* dh,
                                 const act* above, const real* factors, const copy* copies, const u32* firsts, real* dc,
                                 real* parts, u32 rows, u32 columns, int hidden, int halo, int above_halo,
                                 int first_unit, u32 points, u32 share) {
  backward<4, true>(BACKWARD_PARAMETERS);
}
