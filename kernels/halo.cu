// Halo cells are copies of interior cells; the adjoint carries their gradients home.
//
// architectures: sm_80 sm_90a sm_100
// operations: halo_fill halo_adjoint
// hot: halo_fill halo_fill_wide halo_adjoint halo_adjoint_wide
// measured: NVIDIA H200, 2026-12-01, bfloat16, 16 images of 20 x 36 cells of 128 channels, caches cold: halo_fill_wide
//   2.9 us, halo_adjoint_wide 10.1 us

// Activations in 16 bytes.
#define WIDE (int)(16 / sizeof(act))

// A thread an element. `channels` of the image, of which `count` from `first` on take part; blockIdx.y is the image.
extern "C" __global__ void __launch_bounds__(256)
    halo_fill(act* x, const copy* copies, const unsigned char* odd, int first, u32 count, int channels, i64 cells,
              u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 c = i % count;
  copy k = copies[i / count];
  act* image = x + blockIdx.y * cells * channels + first + c;
  real value = k.from == NONE ? real(0) : load(image[(i64)k.from * channels]);
  image[(i64)k.to * channels] = narrow(k.turned && odd[c] ? -value : value);
}

// 16 bytes a thread, where no channel is odd and all take part.
extern "C" __global__ void __launch_bounds__(256)
    halo_fill_wide(uint4* x, const copy* copies, u32 vectors, i64 cells, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 v = i % vectors;
  copy k = copies[i / vectors];
  uint4* image = x + blockIdx.y * cells * vectors + v;
  image[(i64)k.to * vectors] = k.from == NONE ? make_uint4(0, 0, 0, 0) : image[(i64)k.from * vectors];
}

// A thread a source cell and channel: `starts[s]..starts[s + 1]` are the copies made of source s, added in this order,
// so that the sum is the same every time.
extern "C" __global__ void __launch_bounds__(256)
    halo_adjoint(act* dx, const copy* copies, const u32* starts, const unsigned char* odd, int first, u32 count,
                 int channels, i64 cells, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 c = i % count;
  u32 source = i / count;
  act* image = dx + blockIdx.y * cells * channels + first + c;
  real sum = 0;
  u32 from = NONE;
  for (u32 k = starts[source]; k < starts[source + 1]; ++k) {
    copy one = copies[k];
    from = one.from;
    act* cell = image + (i64)one.to * channels;
    real value = load(*cell);
    sum += one.turned && odd[c] ? -value : value;
    *cell = narrow(0);
  }
  if (from != NONE) {
    act* cell = image + (i64)from * channels;
    *cell = narrow(load(*cell) + sum);
  }
}

// WIDE channels a thread, where no channel is odd and all take part.
extern "C" __global__ void __launch_bounds__(256)
    halo_adjoint_wide(act* dx, const copy* copies, const u32* starts, u32 vectors, i64 cells, u32 n) {
  u32 i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  u32 v = i % vectors, source = i / vectors;
  act* image = dx + (blockIdx.y * cells * vectors + v) * WIDE;
  lanes<WIDE> sum, none;
  u32 from = NONE;
  for (u32 k = starts[source]; k < starts[source + 1]; ++k) {
    copy one = copies[k];
    from = one.from;
    act* cell = image + (i64)one.to * vectors * WIDE;
    sum += read<WIDE>(cell);
    write<WIDE>(cell, none);
  }
  if (from != NONE) {
    act* cell = image + (i64)from * vectors * WIDE;
    sum += read<WIDE>(cell);
    write<WIDE>(cell, sum);
  }
}
