// Transport over a sphere: what cpu/transport.rs does, a thread a point. Geometry is in double precision whatever the
// fields are.
//
// architectures: sm_80 sm_90a sm_100
// operations: depart interpolate
// hot: interpolate

// What lies beyond an edge.
#define REPLICATE 0
#define POLE_ROW 1
#define POLE_FACE 2

struct space { double x, y, z; };
struct lattice { int rows, columns, south, north, periodic; };

// Sines and cosines of the latitudes, then of the longitudes.
extern "C" __global__ void __launch_bounds__(256)
    lattice_directions(double2* directions, double first, double dp, double dl, int rows, int columns) {
  i64 i = thread_index();
  if (i >= rows + columns) return;
  double angle = i < rows ? first + dp * (double)i : dl * (double)(i - rows);
  double2 direction;
  sincos(angle, &direction.x, &direction.y);
  directions[i] = direction;
}

// The row that a row, perhaps beyond an edge, copies; `across` tells whether half the columns further on.
__device__ __forceinline__ int source_row(const lattice& on, i64 row, bool& across) {
  const i64 last = on.rows - 1;
  across = false;
  if (row >= 0 && row <= last) return (int)row;
  const int edge = row < 0 ? on.south : on.north;
  const i64 beyond = row < 0 ? -row : row - last;
  across = edge != REPLICATE;
  i64 inward = edge == REPLICATE ? 0 : edge == POLE_ROW ? beyond : beyond - 1;
  inward = min(inward, last);
  return (int)(row < 0 ? inward : last - inward);
}

__device__ __forceinline__ int source_column(const lattice& on, i64 column) {
  if (column >= 0 && column < on.columns) return (int)column;
  if (!on.periodic) return column < 0 ? 0 : on.columns - 1;
  column %= on.columns;
  return (int)(column < 0 ? column + on.columns : column);
}

// Whole rows or columns of a place, not so many that their number overflows.
__device__ __forceinline__ i64 whole(double place) { return (i64)fmin(fmax(place, -1e9), 1e9); }

__device__ __forceinline__ space vector_at(const double2* latitudes, const double2* longitudes, const real* u,
                                           const real* v, const lattice& on, double scale, int j, int i) {
  const double2 p = latitudes[j], l = longitudes[i];
  const i64 at = (i64)j * on.columns + i;
  const double east = scale * (double)u[at], north = scale * (double)v[at];
  return {-east * l.x - north * p.x * l.y, east * l.y - north * p.x * l.x, north * p.y};
}

// Rows and columns from a point of the lattice to a point of the sphere.
__device__ __forceinline__ double2 offset(double2 longitude, double latitude, double dp, double dl, space point) {
  const double sl = longitude.x, cl = longitude.y;
  const double east = atan2(cl * point.y - sl * point.x, cl * point.x + sl * point.y);
  // In a form that is exact at the poles too.
  const double north = atan2(point.z, hypot(point.x, point.y)) - latitude;
  return make_double2(north / dp, east / dl);
}

__device__ __forceinline__ bool is_finite(double x) { return fabs(x) <= 1.7976931348623157e308; }

// `scale` is what a velocity of 1 moves. South and north are what lies beyond those edges.
extern "C" __global__ void __launch_bounds__(256)
    depart(const real* u, const real* v, real* places, const double2* directions, double first, double dp, double dl,
           double scale, int rows, int columns, int south, int north, int periodic, int iterations) {
  const i64 point = thread_index();
  if (point >= (i64)rows * columns) return;
  const int j = (int)(point / columns), i = (int)(point % columns);
  const lattice on = {rows, columns, south, north, periodic};
  const double2 *latitudes = directions, *longitudes = directions + rows;
  const double latitude = first + dp * j;
  const double2 here_p = latitudes[j], here_l = longitudes[i];
  const space x = {here_p.y * here_l.y, here_p.y * here_l.x, here_p.x};
  space middle = x, motion = vector_at(latitudes, longitudes, u, v, on, scale, j, i);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    if (iteration > 0) {
      const double2 moved = offset(here_l, latitude, dp, dl, middle);
      double row = j + moved.x, column = i + moved.y;
      if (!is_finite(row) || !is_finite(column)) {
        middle.x = row - row + (column - column);
        break;
      }
      if (south == REPLICATE) row = fmax(row, 0.0);
      if (north == REPLICATE) row = fmin(row, (double)(rows - 1));
      if (!periodic) column = fmin(fmax(column, 0.0), (double)(columns - 1));
      const double j0 = floor(row), i0 = floor(column), fj = row - j0, fi = column - i0;
      motion = {0, 0, 0};
      for (int dj = 0; dj < 2; ++dj) {
        bool across;
        const int row_at = source_row(on, whole(j0) + dj, across);
        for (int di = 0; di < 2; ++di) {
          const int column_at = source_column(on, whole(i0) + di + (across ? columns / 2 : 0));
          const space part = vector_at(latitudes, longitudes, u, v, on, scale, row_at, column_at);
          const double weight = (dj ? fj : 1 - fj) * (di ? fi : 1 - fi);
          motion.x += weight * part.x;
          motion.y += weight * part.y;
          motion.z += weight * part.z;
        }
      }
    }
    middle = {x.x - motion.x / 2, x.y - motion.y / 2, x.z - motion.z / 2};
    const double length = sqrt(middle.x * middle.x + middle.y * middle.y + middle.z * middle.z);
    middle = {middle.x / length, middle.y / length, middle.z / length};
  }
  const double twice = 2 * (x.x * middle.x + x.y * middle.y + x.z * middle.z);
  const space start = {twice * middle.x - x.x, twice * middle.y - x.y, twice * middle.z - x.z};
  double2 place = offset(here_l, latitude, dp, dl, start);
  // Neither is a number then.
  if (!is_finite(place.x) || !is_finite(place.y)) place.x = place.y = place.x - place.x + (place.y - place.y);
  places[2 * point] = (real)place.x;
  places[2 * point + 1] = (real)place.y;
}

// The last point of `length` not beyond `at + offset`, and how far beyond it that is; held within the first and the last
// point where asked.
__device__ __forceinline__ i64 split(int at, double offset, bool hold_first, bool hold_last, int length, double& rest) {
  const double down = floor(offset);
  if (down != down) {
    rest = offset;
    return at;
  }
  const i64 point = at + whole(down);
  rest = offset - down;
  if (hold_first && point < 0) {
    rest = 0;
    return 0;
  }
  if (hold_last && point >= length - 1) {
    rest = 0;
    return length - 1;
  }
  return point;
}

// Of the points -1, 0, 1 and 2 at f in [0, 1).
__device__ __forceinline__ void weights(double f, real (&w)[4]) {
  const double a = f + 1, b = f - 1, c = f - 2;
  w[0] = (real)(-f * b * c / 6);
  w[1] = (real)(a * b * c / 2);
  w[2] = (real)(-a * f * c / 2);
  w[3] = (real)(a * f * b / 6);
}

extern "C" __global__ void __launch_bounds__(256)
    interpolate(const real* places, const real* from, real* to, int fields, int rows, int columns, int south, int north,
                int periodic, int limited) {
  const i64 points = (i64)rows * columns, point = thread_index();
  if (point >= points) return;
  const int j = (int)(point / columns), i = (int)(point % columns);
  const lattice on = {rows, columns, south, north, periodic};
  double fj, fi;
  const i64 j0 = split(j, places[2 * point], south == REPLICATE, north == REPLICATE, rows, fj);
  const i64 i0 = split(i, places[2 * point + 1], !periodic, !periodic, columns, fi);
  real wj[4], wi[4];
  weights(fj, wj);
  weights(fi, wi);
  for (int field = 0; field < fields; ++field) {
    const real* x = from + field * points;
    real value = 0, low = 0, high = 0;
#pragma unroll
    for (int dj = 0; dj < 4; ++dj) {
      bool across;
      const int row = source_row(on, j0 + dj - 1, across);
      real along = 0;
#pragma unroll
      for (int di = 0; di < 4; ++di) {
        const int column = source_column(on, i0 + di - 1 + (across ? columns / 2 : 0));
        const real number = x[(i64)row * columns + column];
        along += number * wi[di];
        if ((dj == 1 || dj == 2) && (di == 1 || di == 2)) {
          const bool first = dj == 1 && di == 1;
          low = first || number < low ? number : low;
          high = first || number > high ? number : high;
        }
      }
      value += wj[dj] * along;
    }
    if (limited) {
      // Comparisons with NaN are false, so that NaN passes.
      value = value < low ? low : value;
      value = value > high ? high : value;
    }
    to[field * points + point] = value;
  }
}
