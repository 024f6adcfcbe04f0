// Elementwise functions of two arguments, broadcast both ways.
#include <algorithm>

#include "kernels/elementwise/binary_any.h"
#include "kernels/elementwise/float_tables.h"

namespace executorch_ggml::kernels {

namespace {

enum class Form : uint8_t { Dense, ScalarA, ScalarB };

FloatPairFn choose(const FloatPair& pair, Form form) {
  switch (form) {
    case Form::ScalarA:
      return pair.scalar_a;
    case Form::ScalarB:
      return pair.scalar_b;
    default:
      return pair.dense;
  }
}

// The context is the FloatPair. The last few elements go through padded buffers.
template <Form kForm>
void zip_floats(void* dst, const void* const* src, int64_t n, const void* context) {
  const FloatPairFn fn = choose(*static_cast<const FloatPair*>(context), kForm);
  const float* a = static_cast<const float*>(src[0]);
  const float* b = static_cast<const float*>(src[1]);
  float* y = static_cast<float*>(dst);
  const int64_t rest = n % kFloatStep;
  n -= rest;
  fn(y, a, b, n);
  if (rest != 0) {
    float last_a[kFloatStep] = {a[0]};
    float last_b[kFloatStep] = {b[0]};
    float last[kFloatStep];
    if constexpr (kForm != Form::ScalarA) {
      std::copy_n(a + n, rest, last_a);
    }
    if constexpr (kForm != Form::ScalarB) {
      std::copy_n(b + n, rest, last_b);
    }
    fn(last, last_a, last_b, kFloatStep);
    std::copy_n(last, rest, y + n);
  }
}

void run_floats(const FloatPair& pair, ggml_tensor* dst, int ith, int nth) {
  Forms forms{zip_floats<Form::Dense>};
  if (pair.scalar_a != nullptr) {
    forms.scalar_a = zip_floats<Form::ScalarA>;
    forms.scalar_b = zip_floats<Form::ScalarB>;
  }
  run_elementwise(dst, 2, forms, &pair, ith, nth);
}

// Null where the kind is not one of the vectorized functions.
const FloatPair* vectorized(BinaryKind kind) {
  const BinaryTable& table = KERNEL_PICK(binary_table)();
  switch (kind) {
    case BinaryKind::Add:
      return &table.add;
    case BinaryKind::Sub:
      return &table.sub;
    case BinaryKind::Mul:
      return &table.mul;
    case BinaryKind::Div:
      return &table.div;
    case BinaryKind::Maximum:
      return &table.maximum;
    case BinaryKind::Minimum:
      return &table.minimum;
    default:
      return nullptr;
  }
}

void run_binary(BinaryKind kind, const KernelCallBase& call, ggml_tensor* dst, int ith, int nth) {
  const FloatPair* pair = call.src[0] == DType::F32 ? vectorized(kind) : nullptr;
  if (pair != nullptr) {
    run_floats(*pair, dst, ith, nth);
    return;
  }
  const Forms forms = generic_binary(kind, call.src[0]);
  if (forms.dense == nullptr) {
    call.status->fail("%s: binary function %d has no kernel for element type %d", call.node, static_cast<int>(kind),
                      static_cast<int>(call.src[0]));
    return;
  }
  run_elementwise(dst, 2, forms, &call, ith, nth);
}

}  // namespace

void add(ggml_tensor* dst, int ith, int nth, void* call) {
  run_binary(BinaryKind::Add, as_call<AddParams>(call), dst, ith, nth);
}

void sub(ggml_tensor* dst, int ith, int nth, void* call) {
  run_binary(BinaryKind::Sub, as_call<SubParams>(call), dst, ith, nth);
}

void mul(ggml_tensor* dst, int ith, int nth, void* call) {
  run_binary(BinaryKind::Mul, as_call<MulParams>(call), dst, ith, nth);
}

void div(ggml_tensor* dst, int ith, int nth, void* call) {
  run_binary(BinaryKind::Div, as_call<DivParams>(call), dst, ith, nth);
}

void swiglu_split(ggml_tensor* dst, int ith, int nth, void*) {
  run_floats(KERNEL_PICK(binary_table)().swiglu, dst, ith, nth);
}

void geglu_split(ggml_tensor* dst, int ith, int nth, void*) {
  run_floats(KERNEL_PICK(binary_table)().geglu, dst, ith, nth);
}

void geglu_erf_split(ggml_tensor* dst, int ith, int nth, void*) {
  run_floats(KERNEL_PICK(binary_table)().geglu_erf, dst, ith, nth);
}

void binary(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<BinaryParams>(call);
  run_binary(c.params.kind, c, dst, ith, nth);
}

}  // namespace executorch_ggml::kernels
