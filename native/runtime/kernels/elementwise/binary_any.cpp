#include "kernels/elementwise/binary_any.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/float_tables.h"

namespace executorch_ggml::kernels {

namespace {

// Not inlined: swapped() shares it.
template <class T, class R, class Op>
__attribute__((noinline)) void zip(void* dst, const void* const* src, int64_t n, const void*) {
  const T* a = static_cast<const T*>(src[0]);
  const T* b = static_cast<const T*>(src[1]);
  R* __restrict y = static_cast<R*>(dst);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<R>(Op::at(a[i], b[i]));
  }
}

// Integer division: 0 and a failed run where the divisor is 0.
template <class T, class Op>
void zip_checked(void* dst, const void* const* src, int64_t n, const void* context) {
  const T* b = static_cast<const T*>(src[1]);
  const auto& call = *static_cast<const KernelCallBase*>(context);
  if (std::find(b, b + n, T(0)) != b + n) {
    call.status->fail("%s: division by zero", call.node);
    std::fill_n(static_cast<T*>(dst), n, T(0));
    return;
  }
  zip<T, T, Op>(dst, src, n, context);
}

template <class T>
constexpr bool kInteger = std::is_integral_v<T>;

// Where integers wrap, in the unsigned type; floats as they are.
template <class T>
auto wrapping(T x) {
  if constexpr (kInteger<T>) {
    return static_cast<std::make_unsigned_t<T>>(x);
  } else {
    return x;
  }
}

#define PAIR(name, expression) \
  struct name {                \
    template <class T>         \
    static auto at(T a, T b) { \
      return expression;       \
    }                          \
  };
PAIR(Add, wrapping(a) + wrapping(b))
PAIR(Sub, wrapping(a) - wrapping(b))
PAIR(Mul, wrapping(a) * wrapping(b))
PAIR(Maximum, a > b ? a : b)
PAIR(Minimum, a < b ? a : b)
PAIR(BitAnd, a& b)
PAIR(BitOr, a | b)
PAIR(BitXor, a ^ b)
PAIR(Equal, a == b)
PAIR(NotEqual, a != b)
PAIR(Less, a < b)
PAIR(LessEqual, a <= b)
PAIR(LogicalAnd, (a != T(0)) & (b != T(0)))
PAIR(LogicalOr, (a != T(0)) | (b != T(0)))
PAIR(LogicalXor, (a != T(0)) != (b != T(0)))
#undef PAIR

// f(b, a): a > b is b < a.
template <MapFn kFn>
void swapped(void* dst, const void* const* src, int64_t n, const void* context) {
  const void* const other[] = {src[1], src[0]};
  kFn(dst, other, n, context);
}

struct Pow {
  static float at(float a, float b) { return std::pow(a, b); }
  template <class T>
  static T at(T a, T b) {
    using U = std::make_unsigned_t<T>;
    if (b < 0) {
      return a == 1 ? T(1) : a == -1 ? T(b % 2 == 0 ? 1 : -1) : T(0);
    }
    U power = 1;
    U base = static_cast<U>(a);
    for (U rest = static_cast<U>(b); rest != 0; rest >>= 1) {
      power *= (rest & 1) != 0 ? base : U(1);
      base *= base;
    }
    return static_cast<T>(power);
  }
};

struct Fmod {
  static float at(float a, float b) { return std::fmod(a, b); }
  template <class T>
  static T at(T a, T b) {
    return b == -1 ? T(0) : a % b;  // the smallest number % -1 traps
  }
};

// The sign of the divisor.
struct Remainder {
  template <class T>
  static T at(T a, T b) {
    const T rest = Fmod::at(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};

struct FloorDivide {
  static float at(float a, float b) {
    if (b == 0.0f) {
      return a / b;
    }
    const float rest = std::fmod(a, b);
    float quotient = (a - rest) / b;
    if (rest != 0.0f && (b < 0.0f) != (rest < 0.0f)) {
      quotient -= 1.0f;
    }
    if (quotient == 0.0f) {
      return std::copysign(0.0f, a / b);
    }
    const float down = std::floor(quotient);
    return quotient - down > 0.5f ? down + 1.0f : down;
  }
  template <class T>
  static T at(T a, T b) {
    if (b == -1) {
      return static_cast<T>(0 - wrapping(a));
    }
    const T quotient = a / b;
    return (a < 0) != (b < 0) && a % b != 0 ? quotient - 1 : quotient;
  }
};

struct TruncDivide {
  template <class T>
  static T at(T a, T b) {
    return b == -1 ? static_cast<T>(0 - wrapping(a)) : a / b;  // the smallest number / -1 traps
  }
};

// A shift by a negative number, or by all bits or more, shifts all bits out.
struct ShiftLeft {
  template <class T>
  static T at(T a, T b) {
    return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : static_cast<T>(wrapping(a) << b);
  }
};

struct ShiftRight {
  template <class T>
  static T at(T a, T b) {
    constexpr T kMost = 8 * sizeof(T) - 1;
    return a >> (b < 0 || b > kMost ? kMost : b);
  }
};

struct Atan2 {
  static float at(float a, float b) { return std::atan2(a, b); }
};

struct Hypot {
  static float at(float a, float b) { return std::hypot(a, b); }
};

// One exponent for all, as `x ** 2` has it.
void pow_scalar(void* dst, const void* const* src, int64_t n, const void*) {
  const float* x = static_cast<const float*>(src[0]);
  const float exponent = *static_cast<const float*>(src[1]);
  float* y = static_cast<float*>(dst);
  const auto each = [&](auto function) {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = function(x[i]);
    }
  };
  if (exponent == 2.0f) {
    each([](float v) { return v * v; });
  } else if (exponent == 3.0f) {
    each([](float v) { return v * v * v; });
  } else if (exponent == -1.0f) {
    each([](float v) { return 1.0f / v; });
  } else if (exponent == -2.0f) {
    each([](float v) { return 1.0f / (v * v); });
  } else {
    each([exponent](float v) { return std::pow(v, exponent); });
  }
}

// The function of a kind; null where that is left out.
template <BinaryKind kKind, MapFn kFn>
constexpr MapFn only = has_function(kKind) ? kFn : nullptr;

// Null for the kinds that are not comparisons.
template <class T>
MapFn comparison(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::Eq:
      return only<BinaryKind::Eq, zip<T, uint8_t, Equal>>;
    case BinaryKind::Ne:
      return only<BinaryKind::Ne, zip<T, uint8_t, NotEqual>>;
    case BinaryKind::Lt:
      return only<BinaryKind::Lt, zip<T, uint8_t, Less>>;
    case BinaryKind::Le:
      return only<BinaryKind::Le, zip<T, uint8_t, LessEqual>>;
    case BinaryKind::Gt:
      return only<BinaryKind::Gt, swapped<zip<T, uint8_t, Less>>>;
    case BinaryKind::Ge:
      return only<BinaryKind::Ge, swapped<zip<T, uint8_t, LessEqual>>>;
    default:
      return nullptr;
  }
}

template <class T>
MapFn predicate(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::LogicalAnd:
      return only<BinaryKind::LogicalAnd, zip<T, uint8_t, LogicalAnd>>;
    case BinaryKind::LogicalOr:
      return only<BinaryKind::LogicalOr, zip<T, uint8_t, LogicalOr>>;
    case BinaryKind::LogicalXor:
      return only<BinaryKind::LogicalXor, zip<T, uint8_t, LogicalXor>>;
    default:
      return comparison<T>(kind);
  }
}

Forms float_function(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::Pow:
      return {only<BinaryKind::Pow, zip<float, float, Pow>>, nullptr, only<BinaryKind::Pow, pow_scalar>};
    case BinaryKind::FloorDivide:
      return {only<BinaryKind::FloorDivide, zip<float, float, FloorDivide>>};
    case BinaryKind::Remainder:
      return {only<BinaryKind::Remainder, zip<float, float, Remainder>>};
    case BinaryKind::Fmod:
      return {only<BinaryKind::Fmod, zip<float, float, Fmod>>};
    case BinaryKind::Atan2:
      return {only<BinaryKind::Atan2, zip<float, float, Atan2>>};
    case BinaryKind::Hypot:
      return {only<BinaryKind::Hypot, zip<float, float, Hypot>>};
    default:
      return {predicate<float>(kind)};
  }
}

template <class T>
MapFn integer_function(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::Add:
      return only<BinaryKind::Add, zip<T, T, Add>>;
    case BinaryKind::Sub:
      return only<BinaryKind::Sub, zip<T, T, Sub>>;
    case BinaryKind::Mul:
      return only<BinaryKind::Mul, zip<T, T, Mul>>;
    case BinaryKind::Maximum:
      return only<BinaryKind::Maximum, zip<T, T, Maximum>>;
    case BinaryKind::Minimum:
      return only<BinaryKind::Minimum, zip<T, T, Minimum>>;
    case BinaryKind::Pow:
      return only<BinaryKind::Pow, zip<T, T, Pow>>;
    case BinaryKind::FloorDivide:
      return only<BinaryKind::FloorDivide, zip_checked<T, FloorDivide>>;
    case BinaryKind::Remainder:
      return only<BinaryKind::Remainder, zip_checked<T, Remainder>>;
    case BinaryKind::Fmod:
      return only<BinaryKind::Fmod, zip_checked<T, Fmod>>;
    case BinaryKind::TruncDivide:
      return only<BinaryKind::TruncDivide, zip_checked<T, TruncDivide>>;
    case BinaryKind::ShiftLeft:
      return only<BinaryKind::ShiftLeft, zip<T, T, ShiftLeft>>;
    case BinaryKind::ShiftRight:
      return only<BinaryKind::ShiftRight, zip<T, T, ShiftRight>>;
    case BinaryKind::BitwiseAnd:
      return only<BinaryKind::BitwiseAnd, zip<T, T, BitAnd>>;
    case BinaryKind::BitwiseOr:
      return only<BinaryKind::BitwiseOr, zip<T, T, BitOr>>;
    case BinaryKind::BitwiseXor:
      return only<BinaryKind::BitwiseXor, zip<T, T, BitXor>>;
    default:
      return predicate<T>(kind);
  }
}

// On bytes 0 and 1.
MapFn bool_function(BinaryKind kind) {
  switch (kind) {
    case BinaryKind::Add:
    case BinaryKind::Maximum:
    case BinaryKind::BitwiseOr:
    case BinaryKind::LogicalOr:
      return zip<uint8_t, uint8_t, BitOr>;
    case BinaryKind::Mul:
    case BinaryKind::Minimum:
    case BinaryKind::BitwiseAnd:
    case BinaryKind::LogicalAnd:
      return zip<uint8_t, uint8_t, BitAnd>;
    case BinaryKind::BitwiseXor:
    case BinaryKind::LogicalXor:
    case BinaryKind::Ne:
      return zip<uint8_t, uint8_t, BitXor>;
    default:
      return comparison<uint8_t>(kind);
  }
}

}  // namespace

Forms generic_binary(BinaryKind kind, DType type) {
  switch (type) {
    case DType::F32:
      return float_function(kind);
    case DType::I32:
      if constexpr (is_built(DType::I32)) return {integer_function<int32_t>(kind)};
      return {};
    case DType::I64:
      if constexpr (is_built(DType::I64)) return {integer_function<int64_t>(kind)};
      return {};
    case DType::Bool:
      if constexpr (is_built(DType::Bool)) return {bool_function(kind)};
      return {};
    default:
      return {};
  }
}

}  // namespace executorch_ggml::kernels
