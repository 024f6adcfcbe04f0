#include "kernels/reduction/normalize.h"
#include "kernels/simd/vec.h"
#include "ops_generated.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// The sum of what `term` gives for each element, in double.
template <class Term>
VEC_INLINE double sum(const float* x, int64_t n, const Term& term) {
  constexpr int kChains = 4;  // independent ones, as one waits for its last result
  Double sums[kChains] = {};
  int64_t i = 0;
  for (; i + kChains * kWideLanes <= n; i += kChains * kWideLanes) {
    VEC_UNROLL
    for (int c = 0; c < kChains; ++c) {
      sums[c] += term(__builtin_convertvector(load<HalfFloat>(x + i + c * kWideLanes), Double));
    }
  }
  const Double all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double total = 0.0;
  for (int lane = 0; lane < kWideLanes; ++lane) total += all[lane];
  for (; i < n; ++i) total += term(static_cast<double>(x[i]));
  return total;
}

// y = (x - mean) * scale * weight + bias
template <bool kRounds>
void write(float* y, const float* x, const float* weight, const float* bias, int64_t n, float mean, float scale) {
  each_vector(0, n, [=](int64_t i, auto lanes) {
    Float value = (lanes.load(x + i) - mean) * scale;
    if (weight != nullptr) value *= lanes.load(weight + i);
    if (bias != nullptr) value += lanes.load(bias + i);
    lanes.store(y + i, kRounds ? rounded_to_bfloat(value) : value);
  });
}

constexpr auto write_rounded = write<is_built(DType::Bf16)>;

float inverse_root(double mean_square, float eps) {
  return static_cast<float>(1.0 / __builtin_sqrt(mean_square + static_cast<double>(eps)));
}

void norm(float* y, const float* x, const float* weight, const float* bias, int64_t n, float eps, bool rounds) {
  const double count = static_cast<double>(n);
  const double mean = sum(x, n, [](auto v) { return v; }) / count;
  const double variance = sum(x, n, [mean](auto v) { return (v - mean) * (v - mean); }) / count;
  (rounds ? write_rounded : write<false>)(y, x, weight, bias, n, static_cast<float>(mean), inverse_root(variance, eps));
}

void rms_norm(float* y, const float* x, const float* weight, const float* bias, int64_t n, float eps, bool rounds) {
  const double mean_square = sum(x, n, [](auto v) { return v * v; }) / static_cast<double>(n);
  (rounds ? write_rounded : write<false>)(y, x, weight, bias, n, 0.0f, inverse_root(mean_square, eps));
}

}  // namespace

const NormalizeTable& normalize_loops() {
  static constexpr NormalizeTable kTable = {norm, rms_norm};
  return kTable;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
