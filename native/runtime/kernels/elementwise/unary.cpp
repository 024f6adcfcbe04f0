// Elementwise functions of one argument.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/float_tables.h"
#include "kernels/kernels.h"
#include "platform/platform.h"

namespace executorch_ggml::kernels {

namespace {

struct FloatCall {
  FloatFn fn;
  const float* params;
};

// The last few elements go through a padded buffer.
void map_floats(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto& call = *static_cast<const FloatCall*>(context);
  const float* x = static_cast<const float*>(src[0]);
  float* y = static_cast<float*>(dst);
  const int64_t rest = n % kFloatStep;
  n -= rest;
  call.fn(y, x, n, call.params);
  if (rest != 0) {
    float in[kFloatStep] = {};
    float out[kFloatStep];
    std::copy_n(x + n, rest, in);
    call.fn(out, in, kFloatStep, call.params);
    std::copy_n(out, rest, y + n);
  }
}

void run_floats(FloatFn fn, const float* params, ggml_tensor* dst, int ith, int nth) {
  const FloatCall call{fn, params};
  run_elementwise(dst, 1, {map_floats}, &call, ith, nth);
}

}  // namespace

#define EXECUTORCH_GGML_KERNEL(name)                                     \
  void name(ggml_tensor* dst, int ith, int nth, void*) {                 \
    run_floats(KERNEL_PICK(unary_table)().name, nullptr, dst, ith, nth); \
  }
EXECUTORCH_GGML_PLAIN_UNARY(EXECUTORCH_GGML_KERNEL)
#undef EXECUTORCH_GGML_KERNEL

void leaky_relu(ggml_tensor* dst, int ith, int nth, void* call) {
  const float params[] = {as_call<LeakyReluParams>(call).params.negative_slope};
  run_floats(KERNEL_PICK(unary_table)().leaky_relu, params, dst, ith, nth);
}

void scale_bias(ggml_tensor* dst, int ith, int nth, void* call) {
  const ScaleBiasParams& p = as_call<ScaleBiasParams>(call).params;
  const float params[] = {p.s, p.b};
  run_floats(KERNEL_PICK(unary_table)().scale_bias, params, dst, ith, nth);
}

void clamp(ggml_tensor* dst, int ith, int nth, void* call) {
  const ClampParams& p = as_call<ClampParams>(call).params;
  const float params[] = {p.min, p.max};
  run_floats(KERNEL_PICK(unary_table)().clamp, params, dst, ith, nth);
}

namespace {

// One loop for the functions and element types that are not vectorized by hand.
template <class T, class R, class Op>
void map(void* dst, const void* const* src, int64_t n, const void*) {
  const T* x = static_cast<const T*>(src[0]);
  R* __restrict y = static_cast<R*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<R>(Op::at(x[i]));
  }
}

struct LogicalNot {
  template <class T>
  static bool at(T x) {
    return x == T(0);
  }
};

struct IsNan {
  static bool at(float x) { return x != x; }
};

struct IsInf {
  static bool at(float x) { return std::fabs(x) > 3.40282347e38f; }
};

struct SignBit {
  static bool at(float x) { return std::signbit(x); }
};

struct Identity {
  template <class T>
  static T at(T x) {
    return x;
  }
};

struct Never {
  template <class T>
  static bool at(T) {
    return false;
  }
};

struct BitwiseNot {
  template <class T>
  static T at(T x) {
    return ~x;
  }
};

// Of integers; wraps, as unsigned arithmetic does.
struct Negative {
  template <class T>
  static auto at(T x) {
    return 0 - static_cast<std::make_unsigned_t<T>>(x);
  }
};

struct Absolute {
  template <class T>
  static auto at(T x) {
    const auto u = static_cast<std::make_unsigned_t<T>>(x);
    return x < 0 ? 0 - u : u;
  }
};

struct Sign {
  template <class T>
  static T at(T x) {
    return static_cast<T>((x > 0) - (x < 0));
  }
};

// Null where the kind is not one of the vectorized functions.
FloatFn vectorized_unary(UnaryKind kind) {
  const UnaryTable& table = KERNEL_PICK(unary_table)();
  switch (kind) {
    case UnaryKind::Rsqrt:
      return table.rsqrt;
    case UnaryKind::Reciprocal:
      return table.reciprocal;
    case UnaryKind::Erf:
      return table.erf;
    case UnaryKind::Log1p:
      return table.log1p;
    case UnaryKind::Round:
      return table.round;
    case UnaryKind::RoundF16:
      return table.round_f16;
    case UnaryKind::RoundBf16:
      return table.round_bf16;
    case UnaryKind::Neg:
      return table.neg;
    case UnaryKind::Abs:
      return table.abs;
    case UnaryKind::Sign:
      return table.sgn;
    default:
      return nullptr;
  }
}

// Functions of libm, called for one element at a time.
using ScalarFn = float (*)(float);

// Null where the kind is not one of libm's.
ScalarFn libm_unary(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::Tan:
      return std::tan;
    case UnaryKind::Atan:
      return std::atan;
    case UnaryKind::Acos:
      return std::acos;
    case UnaryKind::Acosh:  // musl 1.2.3 does not return NaN for all x < 1
      return [](float x) { return x < 1.0f ? std::numeric_limits<float>::quiet_NaN() : std::acosh(x); };
    case UnaryKind::Asin:
      return std::asin;
    case UnaryKind::Asinh:
      return std::asinh;
    case UnaryKind::Atanh:
      return std::atanh;
    case UnaryKind::Cosh:
      return std::cosh;
    case UnaryKind::Sinh:
      return std::sinh;
    case UnaryKind::Log2:
      return std::log2;
    case UnaryKind::Log10:
      return std::log10;
    case UnaryKind::Exp2:
      return std::exp2;
    case UnaryKind::Erfc:
      return std::erfc;
    case UnaryKind::Lgamma:
      return platform::log_gamma;
    default:
      return nullptr;
  }
}

// The context points to the ScalarFn.
void map_scalars(void* dst, const void* const* src, int64_t n, const void* context) {
  const ScalarFn fn = *static_cast<const ScalarFn*>(context);
  const float* x = static_cast<const float*>(src[0]);
  float* __restrict y = static_cast<float*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = fn(x[i]);
  }
}

MapFn float_unary(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::LogicalNot:
      return map<float, uint8_t, LogicalNot>;
    case UnaryKind::Isnan:
      return map<float, uint8_t, IsNan>;
    case UnaryKind::Isinf:
      return map<float, uint8_t, IsInf>;
    case UnaryKind::Signbit:
      return map<float, uint8_t, SignBit>;
    default:
      return nullptr;
  }
}

template <class T>
MapFn integer_unary(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::LogicalNot:
      return map<T, uint8_t, LogicalNot>;
    case UnaryKind::Isnan:
    case UnaryKind::Isinf:
      return map<T, uint8_t, Never>;
    case UnaryKind::Neg:
      return map<T, T, Negative>;
    case UnaryKind::Abs:
      return map<T, T, Absolute>;
    case UnaryKind::BitwiseNot:
      return map<T, T, BitwiseNot>;
    case UnaryKind::Sign:
      return map<T, T, Sign>;
    case UnaryKind::Round:
      return map<T, T, Identity>;
    default:
      return nullptr;
  }
}

MapFn bool_unary(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::LogicalNot:
    case UnaryKind::BitwiseNot:
      return map<uint8_t, uint8_t, LogicalNot>;
    case UnaryKind::Isnan:
    case UnaryKind::Isinf:
      return map<uint8_t, uint8_t, Never>;
    case UnaryKind::Sign:
      return map<uint8_t, uint8_t, Identity>;
    default:
      return nullptr;
  }
}

MapFn find_unary(UnaryKind kind, DType type) {
  switch (type) {
    case DType::F32:
      return float_unary(kind);
    case DType::I32:
      return integer_unary<int32_t>(kind);
    case DType::I64:
      return integer_unary<int64_t>(kind);
    case DType::Bool:
      return bool_unary(kind);
    default:
      return nullptr;
  }
}

}  // namespace

void unary(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<UnaryParams>(call);
  const FloatFn vectorized = c.src[0] == DType::F32 ? vectorized_unary(c.params.kind) : nullptr;
  if (vectorized != nullptr) {
    run_floats(vectorized, nullptr, dst, ith, nth);
    return;
  }
  const ScalarFn scalar = c.src[0] == DType::F32 ? libm_unary(c.params.kind) : nullptr;
  if (scalar != nullptr) {
    run_elementwise(dst, 1, {map_scalars}, &scalar, ith, nth);
    return;
  }
  const MapFn fn = find_unary(c.params.kind, c.src[0]);
  if (fn == nullptr) {
    c.status->fail("%s: unary function %d has no kernel for element type %d", c.node, static_cast<int>(c.params.kind),
                   static_cast<int>(c.src[0]));
    return;
  }
  run_elementwise(dst, 1, {fn}, nullptr, ith, nth);
}

}  // namespace executorch_ggml::kernels
