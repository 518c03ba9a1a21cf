// Stencils without padding as products of matrices that are gathered on the way: for any number of channels, in the
// precision of REAL.
//
// architectures: sm_80 sm_90a sm_100
// operations: convolve convolve_input_gradient convolve_weight_gradient
// measured: NVIDIA H200, 2026-12-01, float32, whole training steps of networks whose convolutions are all done here: 15
//   TFLOP/s; a library's plans are 17 to 30 times as fast in bfloat16
// hot: convolve convolve_input_gradient convolve_weight_gradient
// hot: convolve_to_real convolve_input_gradient_of_real convolve_weight_gradient_of_real
//
// A block of 256 threads makes a tile of 64 x 64 numbers, a thread 4 x 4 of them, 16 terms at a time.

#define TILE 64
#define DEPTH 16

struct tile {
  real a[DEPTH][TILE + 4];
  real b[DEPTH][TILE + 4];
};

__device__ __forceinline__ void multiply(const tile& t, real (&sum)[4][4], int row, int column) {
#pragma unroll
  for (int k = 0; k < DEPTH; ++k) {
    real a[4], b[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = t.a[k][row + i];
#pragma unroll
    for (int j = 0; j < 4; ++j) b[j] = t.b[k][column + j];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
  }
}

// y[m, o] (+)= sum over q of x[base(m) + offset(q)] w[q, o]; m counts output points, q taps and inputs.
template <typename X, typename Y>
__device__ __forceinline__ void forward(const X* x, const real* w, Y* y, int rows, int columns, int inputs,
                                        int outputs, int kernel, int add, i64 points) {
  __shared__ tile t;
  int thread = threadIdx.x;
  i64 first_m = (i64)blockIdx.x * TILE;
  int first_o = blockIdx.y * TILE;
  int line = (columns + kernel - 1) * inputs, taps = kernel * inputs, terms = kernel * taps;
  i64 base[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    i64 m = first_m + thread / DEPTH + 16 * r;
    m = m < points ? m : points - 1;
    i64 row = m / columns;
    base[r] = ((row / rows) * (rows + kernel - 1) + row % rows) * line + (m % columns) * inputs;
  }
  int row = thread / 16 * 4, column = thread % 16 * 4;
  real sum[4][4] = {};
  for (int first = 0; first < terms; first += DEPTH) {
    int q = first + thread % DEPTH;
    i64 offset = (i64)(q / taps) * line + q % taps;
#pragma unroll
    for (int r = 0; r < 4; ++r) t.a[thread % DEPTH][thread / DEPTH + 16 * r] = q < terms ? load(x[base[r] + offset]) : real(0);
    int o = first_o + thread % TILE;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int p = first + thread / TILE + 4 * r;
      t.b[thread / TILE + 4 * r][thread % TILE] = p < terms && o < outputs ? w[(i64)p * outputs + o] : real(0);
    }
    __syncthreads();
    multiply(t, sum, row, column);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      i64 m = first_m + row + i;
      int o = first_o + column + j;
      if (m < points && o < outputs) {
        Y* to = y + m * outputs + o;
        store(to, add ? load(*to) + sum[i][j] : sum[i][j]);
      }
    }
}

// dx[m, c] = sum over (a, b, o) of dy[j - a, i - b, o] w[a, b, c, o]; m counts the points of x with their halo.
template <typename X, typename Y>
__device__ __forceinline__ void input_gradient(const Y* dy, const real* w, X* dx, int rows, int columns, int inputs,
                                               int outputs, int kernel, i64 points) {
  __shared__ tile t;
  int thread = threadIdx.x;
  i64 first_m = (i64)blockIdx.x * TILE;
  int first_c = blockIdx.y * TILE;
  int wide = columns + kernel - 1, high = rows + kernel - 1, terms = kernel * kernel * outputs;
  int j[4], i[4];
  i64 image[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    i64 m = first_m + thread / DEPTH + 16 * r;
    m = m < points ? m : points - 1;
    i64 line = m / wide;
    i[r] = (int)(m % wide);
    j[r] = (int)(line % high);
    image[r] = line / high * rows;
  }
  int row = thread / 16 * 4, column = thread % 16 * 4;
  real sum[4][4] = {};
  for (int first = 0; first < terms; first += DEPTH) {
    int p = first + thread % DEPTH;
    int o = p % outputs, tap = p / outputs, a = tap / kernel, b = tap % kernel;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int y = j[r] - a, x = i[r] - b;
      bool inside = p < terms && y >= 0 && y < rows && x >= 0 && x < columns;
      t.a[thread % DEPTH][thread / DEPTH + 16 * r] =
          inside ? load(dy[((image[r] + y) * columns + x) * outputs + o]) : real(0);
      int c = thread / DEPTH + 16 * r;
      t.b[thread % DEPTH][c] =
          p < terms && first_c + c < inputs ? w[((i64)tap * inputs + first_c + c) * outputs + o] : real(0);
    }
    __syncthreads();
    multiply(t, sum, row, column);
    __syncthreads();
  }
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      i64 m = first_m + row + a;
      int c = first_c + column + b;
      if (m < points && c < inputs) store(dx + m * inputs + c, sum[a][b]);
    }
}

// parts[z, q, o] = sum over the z-th share of m of x[base(m) + offset(q)] dy[m, o].
template <typename X, typename Y>
__device__ __forceinline__ void weight_gradient(const X* x, const Y* dy, real* parts, int rows, int columns, int inputs,
                                                int outputs, int kernel, i64 points, i64 share) {
  __shared__ tile t;
  int thread = threadIdx.x;
  int first_q = blockIdx.x * TILE, first_o = blockIdx.y * TILE;
  int line = (columns + kernel - 1) * inputs, taps = kernel * inputs, terms = kernel * taps;
  int q = first_q + thread % TILE, o = first_o + thread % TILE;
  i64 offset = (i64)(q / taps) * line + q % taps;
  int row = thread / 16 * 4, column = thread % 16 * 4;
  i64 from = blockIdx.z * share, end = from + share < points ? from + share : points;
  real sum[4][4] = {};
  for (i64 first = from; first < end; first += DEPTH) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int k = thread / TILE + 4 * r;
      i64 m = first + k;
      real a = 0, b = 0;
      if (m < end) {
        i64 y = m / columns;
        i64 base = ((y / rows) * (rows + kernel - 1) + y % rows) * line + (m % columns) * inputs;
        if (q < terms) a = load(x[base + offset]);
        if (o < outputs) b = load(dy[m * outputs + o]);
      }
      t.a[k][thread % TILE] = a;
      t.b[k][thread % TILE] = b;
    }
    __syncthreads();
    multiply(t, sum, row, column);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int p = first_q + row + i, c = first_o + column + j;
      if (p < terms && c < outputs) parts[((i64)blockIdx.z * terms + p) * outputs + c] = sum[i][j];
    }
}

extern "C" __global__ void __launch_bounds__(256)
    convolve(const act* x, const real* w, act* y, int rows, int columns, int inputs, int outputs, int kernel, int add,
             i64 points) {
  forward(x, w, y, rows, columns, inputs, outputs, kernel, add, points);
}

extern "C" __global__ void __launch_bounds__(256)
    convolve_input_gradient(const act* dy, const real* w, act* dx, int rows, int columns, int inputs, int outputs,
                            int kernel, i64 points) {
  input_gradient(dy, w, dx, rows, columns, inputs, outputs, kernel, points);
}

extern "C" __global__ void __launch_bounds__(256)
    convolve_weight_gradient(const act* x, const act* dy, real* parts, int rows, int columns, int inputs, int outputs,
                             int kernel, i64 points, i64 share) {
  weight_gradient(x, dy, parts, rows, columns, inputs, outputs, kernel, points, share);
}

// The head's: what comes out, and its gradient, is kept as it is.

extern "C" __global__ void __launch_bounds__(256)
    convolve_to_real(const act* x, const real* w, real* y, int rows, int columns, int inputs, int outputs, int kernel,
                     int add, i64 points) {
  forward(x, w, y, rows, columns, inputs, outputs, kernel, add, points);
}

extern "C" __global__ void __launch_bounds__(256)
    convolve_input_gradient_of_real(const real* dy, const real* w, act* dx, int rows, int columns, int inputs,
                                    int outputs, int kernel, i64 points) {
  input_gradient(dy, w, dx, rows, columns, inputs, outputs, kernel, points);
}

extern "C" __global__ void __launch_bounds__(256)
    convolve_weight_gradient_of_real(const act* x, const real* dy, real* parts, int rows, int columns, int inputs,
                                     int outputs, int kernel, i64 points, i64 share) {
  weight_gradient(x, dy, parts, rows, columns, inputs, outputs, kernel, points, share);
}
