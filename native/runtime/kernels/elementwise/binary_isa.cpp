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

template <class Op>
constexpr FloatPair kForms = {zip<Op, false, false>, zip<Op, true, false>, zip<Op, false, true>};

#define PAIR(name, expression)                                          \
  struct name##_op {                                                    \
    static VEC_INLINE Float at(Float a, Float b) { return expression; } \
  };                                                                    \
  constexpr FloatPair name##_loops = kForms<name##_op>;
PAIR(add, a + b)
PAIR(sub, a - b)
PAIR(mul, (a * b))
PAIR(div, a / b)
PAIR(maximum, pick(a != a, a, pick(a > b, a, b)))  // b where it is NaN, as nothing is greater
PAIR(minimum, pick(a != a, a, pick(a < b, a, b)))
#undef PAIR

#define GATE(name, activation)                                              \
  struct name##_op {                                                        \
    static VEC_INLINE Float at(Float a, Float b) { return activation * b; } \
  };                                                                        \
  constexpr FloatPair name##_loops = {zip<name##_op, false, false>, nullptr, nullptr};
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
