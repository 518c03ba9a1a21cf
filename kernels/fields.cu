// Between fields on the outer grid and images of patches on the inner one.
//
// architectures: sm_80 sm_90a sm_100
// operations: place place_adjoint mix mix_adjoint readout readout_adjoint
// hot: place place_points place_adjoint place_points_adjoint mix mix_adjoint readout readout_points readout_gradient
// hot: readout_points_gradient
// measured: NVIDIA H200, 2026-12-01, bfloat16, 720 x 1440 points of 20 channels: place_points 35 us, place_points_adjoint
//   33 us, readout_points 40 us, readout_points_gradient 42 us
//
// The kernels of points are those of patches of one point: 4 numbers a thread, which `whole` says can be read and written
// at once.

// A thread an element of the image: channel by sub-row by sub-column of one point. blockIdx.y is the image.
extern "C" __global__ void __launch_bounds__(256)
    place(const real* fields, act* image, int rows, int columns, int channels, int patch, int shared_fields, int halo,
          int image_channels, int first_channel, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 points = patch * patch, each = channels * points, inner = columns / patch;
  u32 place = i % each, point = i / each;
  u32 channel = place / points, sub = place % points;
  u32 inner_row = point / inner, inner_column = point % inner;
  // Rows beyond the last repeat it.
  u32 row = min(inner_row * patch + sub / patch, (u32)rows - 1), column = inner_column * patch + sub % patch;
  u32 inner_rows = (rows + patch - 1) / patch;
  i64 field = shared_fields ? 0 : (i64)blockIdx.y * rows * columns;
  i64 to = ((i64)blockIdx.y * (inner_rows + 2 * halo) + inner_row + halo) * (inner + 2 * halo) + inner_column + halo;
  image[to * image_channels + first_channel + place] =
      narrow(fields[(field + (i64)row * columns + column) * channels + channel]);
}

// The cell of point `point` of image blockIdx.y in images with a halo.
__device__ __forceinline__ i64 cell_of(u32 point, u32 rows, u32 columns, u32 halo) {
  return ((i64)blockIdx.y * (rows + 2 * halo) + point / columns + halo) * (columns + 2 * halo) + point % columns + halo;
}

extern "C" __global__ void __launch_bounds__(256)
    place_points(const real* fields, act* image, int rows, int columns, int channels, int shared_fields, int halo,
                 int image_channels, int first_channel, int whole, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x, vectors = (channels + 3) / 4;
  if (i >= n) return;
  u32 point = i / vectors, first = i % vectors * 4;
  i64 field = shared_fields ? 0 : (i64)blockIdx.y * rows * columns;
  lanes<4> x = read_some<4>(fields + (field + point) * channels, first, channels, whole);
  act* to = image + cell_of(point, rows, columns, halo) * image_channels + first_channel;
  write_some<4>(to, first, channels, whole, x);
}

extern "C" __global__ void __launch_bounds__(256)
    place_points_adjoint(const act* image, real* fields, int rows, int columns, int channels, int halo,
                         int image_channels, int first_channel, int whole, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x, vectors = (channels + 3) / 4;
  if (i >= n) return;
  u32 point = i / vectors, first = i % vectors * 4;
  const act* from = image + cell_of(point, rows, columns, halo) * image_channels + first_channel;
  lanes<4> x = read_some<4>(from, first, channels, whole);
  write_some<4>(fields + ((i64)blockIdx.y * rows * columns + point) * channels, first, channels, whole, x);
}

// A thread an element of the fields.
extern "C" __global__ void __launch_bounds__(256)
    place_adjoint(const act* image, real* fields, int rows, int columns, int channels, int patch, int halo,
                  int image_channels, int first_channel, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 channel = i % channels, point = i / channels;
  u32 row = point / columns, column = point % columns;
  u32 inner = columns / patch, inner_rows = (rows + patch - 1) / patch;
  // The last row also has the places of the rows that repeat it.
  u32 last = row == (u32)rows - 1 ? inner_rows * patch - 1 : row;
  real sum = 0;
  for (u32 r = row; r <= last; ++r) {
    i64 at = ((i64)blockIdx.y * (inner_rows + 2 * halo) + r / patch + halo) * (inner + 2 * halo) + column / patch + halo;
    sum += load(image[at * image_channels + first_channel + (channel * patch + r % patch) * patch + column % patch]);
  }
  fields[(i64)blockIdx.y * n + i] = sum;
}

// blockIdx.y is the sample, n the numbers of one.
extern "C" __global__ void __launch_bounds__(256)
    mix(const real* share, const real* truth, const real* prediction, real* mixed, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  real s = share[blockIdx.y];
  i += blockIdx.y * n;
  mixed[i] = s == real(0) ? prediction[i] : s == real(1) ? truth[i] : s * truth[i] + (real(1) - s) * prediction[i];
}

extern "C" __global__ void __launch_bounds__(256)
    mix_adjoint(const real* share, const real* dmixed, real* dprediction, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  real rest = real(1) - share[blockIdx.y];
  i += blockIdx.y * n;
  dprediction[i] += rest * dmixed[i];
}

// A thread an element of the fields; blockIdx.y is the image. `scale` and `base` may be null.
extern "C" __global__ void __launch_bounds__(256)
    readout(const real* y, const real* bias, const real* scale, const real* base, real* fields, int rows, int columns,
            int channels, int patch, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 channel = i % channels, point = i / channels;
  u32 row = point / columns, column = point % columns;
  u32 inner = columns / patch, inner_rows = (rows + patch - 1) / patch, outputs = channels * patch * patch;
  u32 output = (channel * patch + row % patch) * patch + column % patch;
  i64 at = ((i64)blockIdx.y * inner_rows + row / patch) * inner + column / patch;
  real value = y[at * outputs + output] + bias[output];
  if (scale) value = scale[channel] * value;
  i64 to = (i64)blockIdx.y * n + i;
  fields[to] = base ? base[to] + value : value;
}

// Of any shape: fields and y are in one order.
extern "C" __global__ void __launch_bounds__(256)
    readout_points(const real* y, const real* bias, const real* scale, const real* base, real* fields, int channels,
                   int whole, i64 n) {
  i64 first = thread_index() * 4;
  if (first >= n) return;
  u32 count = (u32)(n - first < 4 ? n - first : 4), channel = (u32)(first % channels);
  lanes<4> x = read_some<4>(y + first, 0, count, whole), start;
  if (base) start = read_some<4>(base + first, 0, count, whole);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    real value = x.v[k] + bias[channel];
    if (scale) value = scale[channel] * value;
    x.v[k] = start.v[k] + value;
    if (++channel == (u32)channels) channel = 0;
  }
  write_some<4>(fields + first, 0, count, whole, x);
}

extern "C" __global__ void __launch_bounds__(256)
    readout_points_gradient(const real* dfields, const real* scale, real* dy, int channels, int whole, i64 n) {
  i64 first = thread_index() * 4;
  if (first >= n) return;
  u32 count = (u32)(n - first < 4 ? n - first : 4), channel = (u32)(first % channels);
  lanes<4> x = read_some<4>(dfields + first, 0, count, whole);
  if (scale) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      x.v[k] *= scale[channel];
      if (++channel == (u32)channels) channel = 0;
    }
  }
  write_some<4>(dy + first, 0, count, whole, x);
}

// A thread an element of dy.
extern "C" __global__ void __launch_bounds__(256)
    readout_gradient(const real* dfields, const real* scale, real* dy, int rows, int columns, int channels, int patch,
                     u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 points = patch * patch, outputs = channels * points, inner = columns / patch;
  u32 output = i % outputs, point = i / outputs, channel = output / points, sub = output % points;
  u32 row = point / inner * patch + sub / patch, column = point % inner * patch + sub % patch;
  real value = 0;
  if (row < (u32)rows) {
    value = dfields[((i64)blockIdx.y * rows * columns + (i64)row * columns + column) * channels + channel];
    if (scale) value *= scale[channel];
  }
  dy[(i64)blockIdx.y * n + i] = value;
}
