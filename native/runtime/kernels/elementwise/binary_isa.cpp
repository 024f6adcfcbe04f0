#include "kernels/elementwise/float_tables.h"
#include "kernels/simd/vec_math.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

template <bool kScalar>
VEC_INLINE Float operand(const float* from, int64_t i) {
  if constexpr (kScalar) {
    return splat(from[0]);
  } else {
    return load<Float>(from + i);
  }
}

template <class Op, bool kScalarA, bool kScalarB>
void zip(float* y, const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    store(y + i, Op::at(operand<kScalarA>(a, i), operand<kScalarB>(b, i)));
  }
}

template <class Op, bool kIsBuilt>
constexpr FloatPair forms() {
  if constexpr (kIsBuilt) return {zip<Op, false, false>, zip<Op, true, false>, zip<Op, false, true>};
  return {};
}

template <class Op, bool kIsBuilt>
constexpr FloatPair dense_form() {
  if constexpr (kIsBuilt) return {zip<Op, false, false>, nullptr, nullptr};
  return {};
}

#define PAIR(name, is_built, expression)                                \
  struct name##_op {                                                    \
    static VEC_INLINE Float at(Float a, Float b) { return expression; } \
  };                                                                    \
  constexpr FloatPair name##_loops = forms<name##_op, is_built>();
PAIR(add, has_function(BinaryKind::Add), a + b)
PAIR(sub, has_function(BinaryKind::Sub), a - b)
PAIR(mul, has_function(BinaryKind::Mul), (a * b))
PAIR(div, has_function(BinaryKind::Div), a / b)
PAIR(maximum, has_function(BinaryKind::Maximum), pick(a != a, a, pick(a > b, a, b)))  // b where it is NaN
PAIR(minimum, has_function(BinaryKind::Minimum), pick(a != a, a, pick(a < b, a, b)))
#undef PAIR

#define GATE(name, activation)                                              \
  struct name##_op {                                                        \
    static VEC_INLINE Float at(Float a, Float b) { return activation * b; } \
  };                                                                        \
  constexpr FloatPair name##_loops = dense_form<name##_op, built::name##_split>();
GATE(swiglu, vec_silu(a))
GATE(geglu, vec_gelu(a))
GATE(geglu_erf, vec_gelu_erf(a))
#undef GATE

}  // namespace

const BinaryTable& binary_table() {
#define EXECUTORCH_GGML_LOOPS(name) name##_loops,
  static constexpr BinaryTable kTable = {EXECUTORCH_GGML_BINARY(EXECUTORCH_GGML_LOOPS)};
#undef EXECUTORCH_GGML_LOOPS
  return kTable;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
