// Normalizations of rows.
#include "kernels/reduction/normalize.h"

#include "kernels/kernels.h"
#include "kernels/layout.h"

namespace executorch_ggml::kernels {

namespace {

const float* floats(const ggml_tensor* tensor) {
  return tensor == nullptr ? nullptr : static_cast<const float*>(tensor->data);
}

void normalize(ggml_tensor* dst, int ith, int nth, NormalizeFn loop, const ggml_tensor* bias, float eps, bool rounds) {
  const int64_t width = dst->ne[0];
  Walk walk(dst->ne);
  walk.add(dst);
  walk.add(dst->src[0]);
  const int64_t rows = ggml_nrows(dst);
  Runs runs(walk, {rows * ith / nth * width, rows * (ith + 1) / nth * width});
  while (runs.next()) {
    loop(reinterpret_cast<float*>(runs.at[0]), reinterpret_cast<const float*>(runs.at[1]), floats(dst->src[1]),
         floats(bias), width, eps, rounds);
  }
}

}  // namespace

void norm(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<NormParams>(call);
  normalize(dst, ith, nth, KERNEL_PICK(normalize_loops)().norm, dst->src[2], c.params.eps, c.rounds_result);
}

void rms_norm(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<RmsNormParams>(call);
  normalize(dst, ith, nth, KERNEL_PICK(normalize_loops)().rms_norm, nullptr, c.params.eps, c.rounds_result);
}

}  // namespace executorch_ggml::kernels
