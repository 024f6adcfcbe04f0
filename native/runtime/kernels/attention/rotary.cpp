// Rotary position embeddings from the cosines and sines of the angles.

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace executorch_ggml::kernels {

namespace {

// Rotates a row by pairs of an element of its first half and the one of its second half.
void rotate_halves(float* y, const float* x, const float* cos, const float* sin, int64_t width) {
  const int64_t half = width / 2;
  for (int64_t i = 0; i < half; ++i) {
    y[i] = x[i] * cos[i] - x[i + half] * sin[i];
  }
  for (int64_t i = half; i < width; ++i) {
    y[i] = x[i] * cos[i] + x[i - half] * sin[i];
  }
}

// Rotates a row by pairs of neighbors.
void rotate_pairs(float* y, const float* x, const float* cos, const float* sin, int64_t width) {
  for (int64_t i = 0; i < width; i += 2) {
    const float first = x[i];
    y[i] = first * cos[i] - x[i + 1] * sin[i];
    y[i + 1] = x[i + 1] * cos[i + 1] + first * sin[i + 1];
  }
}

}  // namespace

void rotary(ggml_tensor* dst, int ith, int nth, void* call) {
  const int64_t width = dst->ne[0];
  const auto rotate = as_call<RotaryParams>(call).params.interleaved ? rotate_pairs : rotate_halves;
  Walk walk(dst->ne);
  walk.add(dst);
  for (int i = 0; i < 3; ++i) walk.add(dst->src[i]);
  const int64_t rows = ggml_nrows(dst);
  Runs runs(walk, {rows * ith / nth * width, rows * (ith + 1) / nth * width});
  while (runs.next()) {
    const auto at = [&](int i) { return reinterpret_cast<const float*>(runs.at[i]); };
    rotate(reinterpret_cast<float*>(runs.at[0]), at(1), at(2), at(3), width);
  }
}

}  // namespace executorch_ggml::kernels
