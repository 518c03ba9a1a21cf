// What comes from files and from the calendar: stored numbers become normalised fields; the light of the sun.
//
// architectures: sm_80 sm_90a sm_100
// operations: decode daylight
// hot: decode

typedef unsigned long long u64;
typedef unsigned char byte;

// A field as its file stores it (src/device/stored.rs: Plane).
struct plane {
  double factor, offset, conversion_factor, conversion_offset, low, high, missing[2];
  const byte* const* chunks;
  // The product to the grid of the fields; null where the plane is on it.
  const u32* starts;
  const u32* sources;
  const double* weights;
  i64 start, row_stride, column_stride;
  // Numbers in a chunk.
  i64 numbers;
  u32 rows, file_columns, columns, first_column, tile_rows, tile_columns, tiles_across, flipped, number, order;
};

enum { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 };
enum { LITTLE, BIG, SHUFFLED };

#define NOT_A_NUMBER __int_as_float(0x7fc00000)

__device__ __forceinline__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

// Chunks are aligned to more than any number is.
__device__ __forceinline__ u64 stored_bits(const plane& p, const byte* chunk, i64 index) {
  u32 log_size = p.number <= U8 ? 0 : p.number <= U16 ? 1 : p.number <= U32 || p.number == F32 ? 2 : 3;
  if (p.order == SHUFFLED) {
    u64 bits = 0;
    for (u32 k = 0; k < 1u << log_size; ++k) bits |= (u64)chunk[k * p.numbers + index] << (8 * k);
    return bits;
  }
  bool big = p.order == BIG;
  if (log_size == 0) return chunk[index];
  if (log_size == 1) {
    u32 x = ((const u16*)chunk)[index];
    return big ? __byte_perm(x, 0, 0x4401) : x;
  }
  if (log_size == 2) {
    u32 x = ((const u32*)chunk)[index];
    return big ? __byte_perm(x, 0, 0x0123) : x;
  }
  uint2 x = ((const uint2*)chunk)[index];
  if (big) x = make_uint2(__byte_perm(x.y, 0, 0x0123), __byte_perm(x.x, 0, 0x0123));
  return (u64)x.y << 32 | x.x;
}

__device__ __forceinline__ double stored_number(u32 number, u64 bits) {
  switch (number) {
    case I8: return (signed char)bits;
    case I16: return (short)bits;
    case I32: return (int)bits;
    case I64: return (double)(i64)bits;
    case F32: return __uint_as_float((u32)bits);
    case F64: return __longlong_as_double((i64)bits);
    default: return (double)bits;
  }
}

// The value at a point of the plane's own grid. Every product is rounded before it is added to, as on the processor.
__device__ __forceinline__ float decoded(const plane& p, u32 point) {
  u32 row = point / p.columns;
  u32 column = p.first_column + point % p.columns;
  if (p.flipped) row = p.rows - 1 - row;
  if (column >= p.file_columns) column -= p.file_columns;
  const byte* chunk = p.chunks[row / p.tile_rows * p.tiles_across + column / p.tile_columns];
  i64 index = p.start + row % p.tile_rows * p.row_stride + column % p.tile_columns * p.column_stride;
  double x = stored_number(p.number, stored_bits(p, chunk, index));
  if (!(x >= p.low && x <= p.high) || x == p.missing[0] || x == p.missing[1]) return NOT_A_NUMBER;
  x = __dadd_rn(__dmul_rn(x, p.factor), p.offset);
  return (float)__dadd_rn(__dmul_rn(x, p.conversion_factor), p.conversion_offset);
}

__device__ __forceinline__ float on_grid(const plane& p, u32 point) {
  if (!p.starts) return decoded(p, point);
  double sum = 0, valid = 0, all = 0;
  for (u32 k = p.starts[point]; k < p.starts[point + 1]; ++k) {
    float x = decoded(p, p.sources[k]);
    double weight = p.weights[k];
    all += weight;
    if (is_finite(x)) {
      sum = __dadd_rn(sum, __dmul_rn(weight, x));
      valid += weight;
    }
  }
  return valid > 0 && valid >= 0.5 * all ? (float)(sum / valid) : NOT_A_NUMBER;
}

// A thread a number of an image (blockIdx.y): [rows, columns, channels]. Neighbours write neighbours; each plane is read
// in order by every channels-th thread, through the first cache.
//
// scalings: epsilon, mean, deviation of each channel
extern "C" __global__ void __launch_bounds__(256)
    decode(real* fields, const plane* planes, const u32* terms, const float* scalings, const u32* turns,
           const real* bases, const u32* sets, const float* weights, int base_terms, const real* mask, u32 columns,
           u32 channels, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 image = blockIdx.y;
  u32 channel = i % channels, place = i / channels;
  u32 column = place % columns, turned = column + turns[image];
  u32 point = place - column + (turned < columns ? turned : turned - columns);
  u32 value = point * channels + channel;
  real* out = fields + (i64)image * n + i;
  if (mask && mask[value] == real(0)) {
    *out = 0;
    return;
  }
  const u32* term = terms + image * channels + channel;
  float x = NOT_A_NUMBER;
  for (u32 k = term[0]; k < term[1]; ++k) {
    float next = on_grid(planes[k], point);
    x = k == term[0] ? next : x + next;
  }
  float epsilon = scalings[3 * channel];
  if (epsilon != 0) x = log1pf((x < 0 ? 0.f : x) / epsilon);
  float base = 0;
  for (int k = 0; k < base_terms; ++k) {
    i64 field = (i64)sets[image] * base_terms + k;
    base = __fadd_rn(base, __fmul_rn(weights[image * base_terms + k], (float)bases[field * n + value]));
  }
  *out = (x - base - scalings[3 * channel + 1]) / scalings[3 * channel + 2];
}

// src/device/daylight.rs: Light.
struct light { double strength, sin_declination, cos_declination, start, turn; };

#define PI 3.14159265358979323846

// A thread a point of an image (blockIdx.y). latitudes: sine and cosine of each row; light_channel: channels where there
// is none.
extern "C" __global__ void __launch_bounds__(256)
    daylight(real* fields, const light* lights, int count, const double* latitudes, const double* longitudes,
             const float* by_column, const u32* turns, u32 light_channel, real unit, u32 columns, u32 channels,
             u32 points) {
  u32 place = blockIdx.x * 256 + threadIdx.x;
  if (place >= points) return;
  u32 image = blockIdx.y, row = place / columns;
  u32 column = place % columns + turns[image];
  if (column >= columns) column -= columns;
  real* out = fields + ((i64)image * points + place) * channels;
  const float* same = by_column + ((i64)image * columns + column) * channels;
  for (u32 channel = 0; channel < channels; ++channel) {
    if (channel != light_channel) out[channel] = same[channel];
  }
  if (light_channel >= channels) return;
  double sum = 0;
  for (int k = 0; k < count; ++k) {
    light l = lights[image * count + k];
    double a = latitudes[2 * row] * l.sin_declination, b = latitudes[2 * row + 1] * l.cos_declination;
    // Half a day: 0 where the source does not rise, pi where it does not set.
    double half = acos(fmin(fmax(-a / fmax(b, 1e-12), -1.0), 1.0));
    double sin_half = sin(half);
    double h = l.start + longitudes[column] + PI;
    h -= floor(h / (2 * PI)) * (2 * PI);
    h -= PI;
    double seen = 0;
    for (int turn = 0; turn < 2; ++turn) {
      double rise = turn * 2 * PI - half, set = turn * 2 * PI + half;
      double begin = h > rise ? h : rise, sin_begin = h > rise ? sin(h) : -sin_half;
      bool ends = h + l.turn < set;
      double end = ends ? h + l.turn : set, sin_end = ends ? sin(h + l.turn) : sin_half;
      if (end > begin) seen += a * (end - begin) + b * (sin_end - sin_begin);
    }
    sum += l.strength * seen;
  }
  out[light_channel] = (float)fmax(sum, 0.0) / (float)unit;
}
