// The float functions that are compiled per instruction set: tables of loops over dense arrays.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "selection_generated.h"

namespace executorch_ggml::kernels {

// Lanes of the widest vector. The loops take multiples of it; their callers pad the last few elements.
constexpr int64_t kFloatStep = 16;

// y[i] = f(x[i]) for i < n.
using FloatFn = void (*)(float* y, const float* x, int64_t n, const float* params);

// y[i] = f(a[i], b[i]) for i < n.
using FloatPairFn = void (*)(float* y, const float* a, const float* b, int64_t n);

// A function with its variants in which one argument is a single element.
struct FloatPair {
  FloatPairFn dense;
  FloatPairFn scalar_a;
  FloatPairFn scalar_b;
};

// clang-format off
// Kernels of the op table without parameters, and with.
#define EXECUTORCH_GGML_PLAIN_UNARY(X)                                                                     \
  X(sqr) X(sqrt) X(log) X(sin) X(cos) X(abs) X(sgn) X(neg) X(tanh) X(elu) X(relu) X(sigmoid) X(gelu)       \
  X(gelu_erf) X(silu) X(hardswish) X(hardsigmoid) X(exp) X(expm1) X(softplus) X(floor) X(ceil) X(trunc)
#define EXECUTORCH_GGML_UNARY_WITH_PARAMS(X) X(leaky_relu) X(scale_bias) X(clamp)
// Functions of the `unary` node alone.
#define EXECUTORCH_GGML_OTHER_UNARY(X) X(rsqrt) X(reciprocal) X(erf) X(log1p) X(round) X(round_f16) X(round_bf16)
#define EXECUTORCH_GGML_UNARY(X) \
  EXECUTORCH_GGML_PLAIN_UNARY(X) EXECUTORCH_GGML_UNARY_WITH_PARAMS(X) EXECUTORCH_GGML_OTHER_UNARY(X)
// clang-format on

struct UnaryTable {
#define EXECUTORCH_GGML_MEMBER(name) FloatFn name;
  EXECUTORCH_GGML_UNARY(EXECUTORCH_GGML_MEMBER)
#undef EXECUTORCH_GGML_MEMBER
};

// swiglu is silu(a) * b, geglu and geglu_erf gelu(a) * b; these have no scalar variants.
#define EXECUTORCH_GGML_BINARY(X) X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(swiglu) X(geglu) X(geglu_erf)

struct BinaryTable {
#define EXECUTORCH_GGML_MEMBER(name) FloatPair name;
  EXECUTORCH_GGML_BINARY(EXECUTORCH_GGML_MEMBER)
#undef EXECUTORCH_GGML_MEMBER
};

// Whether a function of two arguments is built: for an op of its own, or as a kind of `binary`.
constexpr bool has_function(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::Add:
      return built::add || is_built(kind);
    case BinaryKind::Sub:
      return built::sub || is_built(kind);
    case BinaryKind::Mul:
      return built::mul || is_built(kind);
    case BinaryKind::Div:
      return built::div || is_built(kind);
    default:
      return is_built(kind);
  }
}

KERNEL_VARIANTS(const UnaryTable& unary_table())
KERNEL_VARIANTS(const BinaryTable& binary_table())

}  // namespace executorch_ggml::kernels
