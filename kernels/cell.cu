// The LSTM cell: everything between two convolutions, in one pass over memory.
//
// architectures: sm_80 sm_90a sm_100
// operations: cell_forward cell_backward
// hot: cell_forward cell_forward_wide cell_backward cell_backward_wide
// measured: NVIDIA H200, 2026-12-01, bfloat16, ncu with cold caches, one image of 720 x 1440 points of 64 units:
//   cell_forward_wide with its gates kept 542 us (3.2 TB/s), cell_backward_wide 807 us (3.0 TB/s)
//
// Gates of up to 16 neighbouring units stand together: [block of units][gate i, f, g, o][unit]. The wide kernels take 8
// (backward 4) units a thread and need a multiple of 16 units. The halo of h is filled, and that of its gradient carried
// home, on the way: copies[first[cell]..first[cell + 1]] are those that are made of a cell of the padded image. `copies`
// is null where another kernel does that.

// A point in padded images: where its image begins, and its cell there.
struct spot {
  i64 image;
  u32 cell;
};

__device__ __forceinline__ spot interior(u32 point, u32 rows, u32 columns, u32 halo) {
  u32 line = point / columns, column = point % columns, wide = columns + 2 * halo;
  spot s;
  s.image = (i64)(line / rows) * (rows + 2 * halo) * wide;
  s.cell = (line % rows + halo) * wide + column + halo;
  return s;
}

// The gates of some units of a point: the first gate's place, and the distance to the next.
struct place {
  i64 at;
  int stride, first;
};

__device__ __forceinline__ place gates_of(u32 point, int unit, int hidden) {
  int block = unit / 16;
  place p;
  p.stride = min(16, hidden - 16 * block);
  p.first = block * 64 + (unit - 16 * block);
  p.at = (i64)point * 4 * hidden + p.first;
  return p;
}

template <int U>
__device__ __forceinline__ void forward(act* gates, const real* bias, const real* peepholes, const real* c_before,
                                        real* c, act* h, act* above, const real* factors, const copy* copies,
                                        const u32* firsts, u32 rows, u32 columns, int hidden, int halo, int above_halo,
                                        int keeps_gates, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 groups = hidden / U, point = i / groups;
  int unit = (int)(i % groups) * U;
  place g = gates_of(point, unit, hidden);
  lanes<U> a[4], before, cell, out;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    a[k] = read<U>(gates + g.at + k * g.stride);
    a[k] += read<U>(bias + g.first + k * g.stride);
  }
  i64 at = (i64)point * hidden + unit;
  if (c_before) before = read<U>(c_before + at);
  else before = lanes<U>();
  if (peepholes) {
    a[0] += read<U>(peepholes + unit) * before;
    a[1] += read<U>(peepholes + hidden + unit) * before;
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    a[0].v[u] = sigmoid(a[0].v[u]);
    a[1].v[u] = sigmoid(a[1].v[u]);
    a[2].v[u] = hyperbolic(a[2].v[u]);
    cell.v[u] = a[1].v[u] * before.v[u] + a[0].v[u] * a[2].v[u];
  }
  if (peepholes) a[3] += read<U>(peepholes + 2 * hidden + unit) * cell;
#pragma unroll
  for (int u = 0; u < U; ++u) {
    a[3].v[u] = sigmoid(a[3].v[u]);
    out.v[u] = a[3].v[u] * hyperbolic(cell.v[u]);
  }
  if (keeps_gates) {
#pragma unroll
    for (int k = 0; k < 4; ++k) write<U>(gates + g.at + k * g.stride, a[k]);
  }
  write<U>(c + at, cell);
  spot s = interior(point, rows, columns, halo);
  write<U>(h + (s.image + s.cell) * hidden + unit, out);
  if (copies) {
    u32 end = firsts[s.cell + 1];
    for (u32 k = firsts[s.cell]; k < end; ++k) write<U>(h + (s.image + copies[k].to) * hidden + unit, out);
  }
  if (above) {
    if (factors) out *= read<U>(factors + (i64)(point / (rows * columns)) * hidden + unit);
    s = interior(point, rows, columns, above_halo);
    write<U>(above + (s.image + s.cell) * hidden + unit, out);
  }
}

// A block goes through the points `lane, lane + lanes, ..` of its share, each thread with units of its own, and leaves its
// sums in parts[block, 7 hidden]: of the four gates' gradients, then of the three peepholes'.
template <int U>
__device__ __forceinline__ void backward(act* gates, const real* peepholes, const real* c_before, const real* c,
                                         const act* dh, const act* above, const real* factors,
                                         const copy* copies, const u32* firsts, real* dc, real* parts, u32 rows, u32 columns, int hidden, int halo, int above_halo, int first_unit,
                                         u32 points, u32 share) {
  extern __shared__ real shared[];
  int groups = min(hidden - first_unit, (int)blockDim.x * U) / U;
  int lane = threadIdx.x / groups, lanes_ = blockDim.x / groups;
  int unit = first_unit + (threadIdx.x % groups) * U;
  bool works = lane < lanes_;
  lanes<U> sums[4], peeps[3];
#pragma unroll
  for (int k = 0; k < 4; ++k) sums[k] = lanes<U>();
#pragma unroll
  for (int k = 0; k < 3; ++k) peeps[k] = lanes<U>();
  lanes<U> p[3];
#pragma unroll
  for (int k = 0; k < 3; ++k) {
    if (peepholes) p[k] = read<U>(peepholes + k * hidden + unit);
    else p[k] = lanes<U>();
  }
  u32 end = min(points, (blockIdx.x + 1) * share);
  for (u32 point = blockIdx.x * share + lane; works && point < end; point += lanes_) {
    place g = gates_of(point, unit, hidden);
    i64 at = (i64)point * hidden + unit;
    lanes<U> out, before, cell = read<U>(c + at), d = read<U>(dc + at), a[4];
    if (dh) {
      spot s = interior(point, rows, columns, halo);
      out = read<U>(dh + (s.image + s.cell) * hidden + unit);
      if (copies) {
        u32 end = firsts[s.cell + 1];
        for (u32 k = firsts[s.cell]; k < end; ++k) out += read<U>(dh + (s.image + copies[k].to) * hidden + unit);
      }
    } else {
      out = lanes<U>();
    }
    if (above) {
      spot s = interior(point, rows, columns, above_halo);
      lanes<U> up = read<U>(above + (s.image + s.cell) * hidden + unit);
      if (factors) up *= read<U>(factors + (i64)(point / (rows * columns)) * hidden + unit);
      out += up;
    }
    if (c_before) before = read<U>(c_before + at);
    else before = lanes<U>();
#pragma unroll
    for (int k = 0; k < 4; ++k) a[k] = read<U>(gates + g.at + k * g.stride);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      real i = a[0].v[u], f = a[1].v[u], candidate = a[2].v[u], o = a[3].v[u];
      real tanh_c = hyperbolic(cell.v[u]);
      real d_o = out.v[u] * tanh_c * o * (real(1) - o);
      real d_cell = d.v[u] + out.v[u] * o * (real(1) - tanh_c * tanh_c) + p[2].v[u] * d_o;
      real d_i = d_cell * candidate * i * (real(1) - i);
      real d_f = d_cell * before.v[u] * f * (real(1) - f);
      a[0].v[u] = d_i;
      a[1].v[u] = d_f;
      a[2].v[u] = d_cell * i * (real(1) - candidate * candidate);
      a[3].v[u] = d_o;
      d.v[u] = d_cell * f + p[0].v[u] * d_i + p[1].v[u] * d_f;
      peeps[0].v[u] += d_i * before.v[u];
      peeps[1].v[u] += d_f * before.v[u];
      peeps[2].v[u] += d_o * cell.v[u];
    }
    write<U>(dc + at, d);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      write<U>(gates + g.at + k * g.stride, a[k]);
      sums[k] += a[k];
    }
  }
  // Lanes are added one after the other.
  int stride = gates_of(0, unit, hidden).stride, first = gates_of(0, unit, hidden).first;
  real* to = parts + (i64)blockIdx.x * 7 * hidden;
#pragma unroll
  for (int k = 0; k < 7; ++k) {
    if (k == 4 && !peepholes) break;
    lanes<U> mine = k < 4 ? sums[k & 3] : peeps[k < 4 ? 0 : k - 4];
    __syncthreads();
    write<U>(shared + threadIdx.x * U, mine);
    __syncthreads();
    if (lane == 0) {
      for (int other = 1; other < lanes_; ++other) mine += read<U>(shared + (threadIdx.x + other * groups) * U);
      write<U>(to + (k < 4 ? first + k * stride : k * hidden + unit), mine);
    }
  }
}

#define FORWARD_PARAMETERS \
  gates, bias, peepholes, c_before, c, h, above, factors, copies, firsts, rows, columns, hidden, halo, above_halo, keeps_gates, n

extern "C" __global__ void __launch_bounds__(256)
    cell_forward(act* gates, const real* bias, const real* peepholes, const real* c_before, real* c, act* h, act* above,
                 const real* factors, const copy* copies, const u32* firsts, u32 rows, u32 columns, int hidden,
                 int halo, int above_halo, int keeps_gates, u32 n) {
  forward<1>(FORWARD_PARAMETERS);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    cell_forward_wide(act* gates, const real* bias, const real* peepholes, const real* c_before, real* c, act* h,
                      act* above, const real* factors, const copy* copies, const u32* firsts, u32 rows, u32 columns,
                      int hidden, int halo, int above_halo, int keeps_gates, u32 n) {
  forward<8>(FORWARD_PARAMETERS);
}

#define BACKWARD_PARAMETERS                                                                                            \
  gates, peepholes, c_before, c, dh, above, factors, copies, firsts, dc, parts, rows, columns, hidden, halo,        \
      above_halo, first_unit, points, share

extern "C" __global__ void __launch_bounds__(256)
    cell_backward(act* gates, const real* peepholes, const real* c_before, const real* c, const act* dh,
                  const act* above, const real* factors, const copy* copies, const u32* firsts, real* dc, real* parts, u32 rows, u32 columns, int hidden,
                  int halo, int above_halo, int first_unit, u32 points, u32 share) {
  backward<1>(BACKWARD_PARAMETERS);
}

extern "C" __global__ void __launch_bounds__(256)
    cell_backward_wide(act* gates, const real* peepholes, const real* c_before, const real* c, const act* dh,
                       const act* above, const real* factors, const copy* copies, const u32* firsts, real* dc, real* parts, u32 rows, u32 columns, int hidden,
                       int halo, int above_halo, int first_unit, u32 points, u32 share) {
  backward<4>(BACKWARD_PARAMETERS);
}
