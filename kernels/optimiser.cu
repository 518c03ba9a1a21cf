// AdamW over one parameter.
//
// architectures: sm_80 sm_90a sm_100
// operations: adamw
// measured: NVIDIA H200, 2026-12-01, 11.7 million parameters: 87 us (3.8 TB/s)
// hot: adamw

// settings: learning rate, gradient scale, c1, c2. new1 = 1 - beta1, new2 = 1 - beta2.
extern "C" __global__ void __launch_bounds__(256)
    adamw(real* parameter, const real* gradient, real* first, real* second, const real* settings, real new1, real new2,
          real epsilon, real decay, i64 n) {
  i64 i = thread_index();
  if (i >= n) return;
  real g = settings[1] * gradient[i];
  real m = first[i], v = second[i], p = parameter[i];
  m += new1 * (g - m);
  v += new2 * (g * g - v);
  first[i] = m;
  second[i] = v;
  parameter[i] = p - settings[0] * (settings[2] * m / (sqrt(settings[3] * v) + epsilon) + decay * p);
}
