// The activations that convolutions and linear layers end in: those of a few operations are applied in registers before
// the store, others to the stored results, which may be rounded too. For *_isa.cpp files only.
//
// SiLU and GELU take fewer steps than those of vec_math.h: results near the smallest floats lose relative accuracy.
#pragma once

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "kernels/simd/vec_math.h"
#include "ops_generated.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Eager divides by 6; a division has a higher latency than the rest.
template <class V>
VEC_INLINE V hardswish_of(V x) {
  return x * (clamped(x + 3.0f, V{}, splat<V>(6.0f)) * (1.0f / 6.0f));
}

// x P(X < x) for a normal X. The probability is computed from its smaller tail, e^(-x^2 / 2) * u * polynomial(u) with
// u = 1 / (1 + 0.35 |x|), so that small results keep their relative accuracy.
VEC_INLINE Float gelu_erf_of(Float x) {
  const Float u = 1.0f / (abs(x) * 0.35f + 1.0f);
  const Float p = polynomial(u, 0.13962166011333466f, 0.13985756039619446f, 0.11986308544874191f, 0.10539215058088303f,
                             -0.022843437269330025f, 0.15879657864570618f, -0.25539103150367737f, 0.1438184231519699f,
                             -0.029115017503499985f);
  const Float tail = vec_exp_below(x * x * -0.5f) * (p * u);
  return x * pick(x > 0.0f, 1.0f - tail, tail);
}

template <Activation>
struct Activated {
  static VEC_INLINE Float at(Float x) { return x; }
};

template <>
struct Activated<Activation::Silu> {
  static VEC_INLINE Float at(Float x) { return x / (1.0f + vec_exp_normal(-x)); }
};

template <>
struct Activated<Activation::Hardswish> {
  static VEC_INLINE Float at(Float x) { return hardswish_of(x); }
};

template <>
struct Activated<Activation::GeluErf> {
  static VEC_INLINE Float at(Float x) { return gelu_erf_of(x); }
};

template <Activation kActivation, bool kRounds>
void apply_to_floats([[maybe_unused]] float* y, [[maybe_unused]] int64_t n) {
  if constexpr (is_built(kActivation) && (is_built(DType::Bf16) || !kRounds)) {
    each_vector(0, n, [=](int64_t i, auto lanes) {
      const Float x = Activated<kActivation>::at(lanes.load(y + i));
      lanes.store(y + i, kRounds ? rounded_to_bfloat(x) : x);
    });
  }
}

template <Activation kActivation>
void apply_to_floats(float* y, int64_t n, bool rounds) {
  rounds ? apply_to_floats<kActivation, true>(y, n) : apply_to_floats<kActivation, false>(y, n);
}

__attribute__((unused)) void apply_in_place(float* y, int64_t n, const StoredEpilogue& epilogue) {
  switch (epilogue.activation) {
    case Activation::None:
    case Activation::Clamp:
      return epilogue.rounds ? apply_to_floats<Activation::None, true>(y, n) : void();
    case Activation::Silu:
      return apply_to_floats<Activation::Silu>(y, n, epilogue.rounds);
    case Activation::Hardswish:
      return apply_to_floats<Activation::Hardswish>(y, n, epilogue.rounds);
    case Activation::GeluErf:
      return apply_to_floats<Activation::GeluErf>(y, n, epilogue.rounds);
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
