// Rotary position embeddings with the angles' cosines and sines given.

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace executorch_ggml::kernels {

namespace {

// A row whose first half is paired with its second.
void turn_halves(float* y, const float* x, const float* cos, const float* sin, int64_t width) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    y[i] = x[i] * cos[i] - x[i + half] * sin[i];
  }
  for (int64_t i = half; i < width; ++i) {
    y[i] = x[i] * cos[i] + x[i - half] * sin[i];
  }
}

// A row of neighbours in pairs.
void turn_pairs(float* y, const float* x, const float* cos, const float* sin, int64_t width) {
  for (int64_t i = 0; i < width; i += 2) {
    const float first = x[i];
    y[i] = first * cos[i] - x[i + 1] * sin[i];
    y[i + 1] = x[i + 1] * cos[i + 1] + first * sin[i + 1];
  }
}

}  // namespace

void rotary(ggml_tensor* dst, int ith, int nth, void* call) {
  const int64_t width = dst->ne[0];
  const auto turn = as_call<RotaryParams>(call).params.interleaved ? turn_pairs : turn_halves;
  Walk walk(dst->ne);
  walk.add(dst);
  for (int i = 0; i < 3; ++i) walk.add(dst->src[i]);
  const int64_t rows = ggml_nrows(dst);
  Runs runs(walk, {rows * ith / nth * width, rows * (ith + 1) / nth * width});
  while (runs.next()) {
    const auto at = [&](int i) { return reinterpret_cast<const float*>(runs.at[i]); };
    turn(reinterpret_cast<float*>(runs.at[0]), at(1), at(2), at(3), width);
  }
}

}  // namespace executorch_ggml::kernels
