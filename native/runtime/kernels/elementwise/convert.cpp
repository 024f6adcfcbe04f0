#include "kernels/elementwise/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

KERNEL_VARIANTS(void halves_from_floats(const float* x, int64_t n, uint16_t* y))
KERNEL_VARIANTS(void floats_from_halves(const uint16_t* x, int64_t n, float* y))
KERNEL_VARIANTS(void bfloats_from_floats(const float* x, int64_t n, uint16_t* y))
KERNEL_VARIANTS(void floats_from_bfloats(const uint16_t* x, int64_t n, float* y))

namespace {

constexpr int64_t kBlock = 512;

// A byte that is 0 or 1.
struct Bool {
  uint8_t value;
};

// Numbers out of the type's range become its least one, as x86's conversion does.
template <class To, class From>
To truncated(From x) {
  constexpr From kEnd = -static_cast<From>(std::numeric_limits<To>::min());
  return x >= -kEnd && x < kEnd ? static_cast<To>(x) : std::numeric_limits<To>::min();
}

template <class To, class From>
To number(From x) {
  if constexpr (std::is_same_v<To, Bool>) {
    return {x != From(0)};
  } else if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, uint8_t>) {
    return static_cast<uint8_t>(truncated<int64_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && sizeof(To) < 4) {
    return static_cast<To>(truncated<int32_t>(x));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncated<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
void convert_all(const void* from, int64_t n, void* to) {
  const From* x = static_cast<const From*>(from);
  To* __restrict y = static_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) {
    y[i] = number<To>(x[i]);
  }
}

using ConvertFn = void (*)(const void* from, int64_t n, void* to);

template <class From>
void to_halves(const void* from, int64_t n, void* to) {
  float floats[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    convert_all<From, float>(static_cast<const From*>(from) + i, m, floats);
    KERNEL_PICK(halves_from_floats)(floats, m, static_cast<uint16_t*>(to) + i);
  }
}

template <class From>
void to_bfloats(const void* from, int64_t n, void* to) {
  float floats[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    convert_all<From, float>(static_cast<const From*>(from) + i, m, floats);
    KERNEL_PICK(bfloats_from_floats)(floats, m, static_cast<uint16_t*>(to) + i);
  }
}

// From int64 or double to any type.
template <class From>
ConvertFn narrowing(DType type) {
  switch (type) {
    case DType::F32:
      return convert_all<From, float>;
    case DType::F16:
      return to_halves<From>;
    case DType::Bf16:
      return to_bfloats<From>;
    case DType::F64:
      return convert_all<From, double>;
    case DType::I8:
      return convert_all<From, int8_t>;
    case DType::I16:
      return convert_all<From, int16_t>;
    case DType::I32:
      return convert_all<From, int32_t>;
    case DType::I64:
      return convert_all<From, int64_t>;
    case DType::U8:
      return convert_all<From, uint8_t>;
    case DType::Bool:
      return convert_all<From, Bool>;
    default:
      return nullptr;  // ggml alone quantizes
  }
}

void from_half(const void* from, int64_t n, void* to) {
  KERNEL_PICK(floats_from_halves)(static_cast<const uint16_t*>(from), n, static_cast<float*>(to));
}

void from_bfloat(const void* from, int64_t n, void* to) {
  KERNEL_PICK(floats_from_bfloats)(static_cast<const uint16_t*>(from), n, static_cast<float*>(to));
}

void to_half(const void* from, int64_t n, void* to) {
  KERNEL_PICK(halves_from_floats)(static_cast<const float*>(from), n, static_cast<uint16_t*>(to));
}

void to_bfloat(const void* from, int64_t n, void* to) {
  KERNEL_PICK(bfloats_from_floats)(static_cast<const float*>(from), n, static_cast<uint16_t*>(to));
}

// The pairs that models convert often, in one pass.
struct Direct {
  DType from;
  DType to;
  ConvertFn fn;
};

constexpr Direct kDirect[] = {
    {DType::F32, DType::F16, to_half},
    {DType::F32, DType::Bf16, to_bfloat},
    {DType::F16, DType::F32, from_half},
    {DType::Bf16, DType::F32, from_bfloat},
    {DType::I64, DType::I32, convert_all<int64_t, int32_t>},
    {DType::I32, DType::I64, convert_all<int32_t, int64_t>},
    {DType::I64, DType::F32, convert_all<int64_t, float>},
    {DType::I32, DType::F32, convert_all<int32_t, float>},
    {DType::Bool, DType::F32, convert_all<uint8_t, float>},
    {DType::F32, DType::I32, convert_all<float, int32_t>},
};

void convert_in_blocks(const char* x, int64_t n, DType from, int64_t from_item, DType to, int64_t to_item, char* y) {
  union {
    int64_t integers[kBlock];
    double reals[kBlock];
  } wide;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    if (is_real(from)) {
      to_reals(x + i * from_item, m, from, wide.reals);
      from_reals(wide.reals, m, to, y + i * to_item);
    } else {
      to_integers(x + i * from_item, m, from, wide.integers);
      from_integers(wide.integers, m, to, y + i * to_item);
    }
  }
}

struct Conversion {
  DType from;
  DType to;
  int64_t from_item;
  int64_t to_item;
};

void convert_run(void* dst, const void* const* src, int64_t n, const void* context) {
  const auto& c = *static_cast<const Conversion*>(context);
  convert_in_blocks(static_cast<const char*>(src[0]), n, c.from, c.from_item, c.to, c.to_item, static_cast<char*>(dst));
}

// The context points to the ConvertFn.
void convert_directly(void* dst, const void* const* src, int64_t n, const void* context) {
  (*static_cast<const ConvertFn*>(context))(src[0], n, dst);
}

}  // namespace

void from_integers(const int64_t* x, int64_t n, DType type, void* y) { narrowing<int64_t>(type)(x, n, y); }

void from_reals(const double* x, int64_t n, DType type, void* y) { narrowing<double>(type)(x, n, y); }

void to_floats(const void* x, int64_t n, DType half, float* y) {
  (half == DType::F16 ? from_half : from_bfloat)(x, n, y);
}

void from_floats(const float* x, int64_t n, DType half, void* y) {
  (half == DType::F16 ? to_half : to_bfloat)(x, n, y);
}

void to_integers(const void* x, int64_t n, DType type, int64_t* y) {
  switch (type) {
    case DType::I8:
      return convert_all<int8_t, int64_t>(x, n, y);
    case DType::I16:
      return convert_all<int16_t, int64_t>(x, n, y);
    case DType::I32:
      return convert_all<int32_t, int64_t>(x, n, y);
    case DType::I64:
      std::memcpy(y, x, static_cast<size_t>(n) * sizeof(int64_t));
      return;
    default:  // bool and u8
      return convert_all<uint8_t, int64_t>(x, n, y);
  }
}

void to_reals(const void* x, int64_t n, DType type, double* y) {
  if (type == DType::F64) {
    std::memcpy(y, x, static_cast<size_t>(n) * sizeof(double));
    return;
  }
  if (type == DType::F32) {
    return convert_all<float, double>(x, n, y);
  }
  float floats[kBlock];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    to_floats(static_cast<const uint16_t*>(x) + i, m, type, floats);
    convert_all<float, double>(floats, m, y + i);
  }
}

void convert(ggml_tensor* dst, int ith, int nth, void* call) {
  const auto& c = as_call<ConvertParams>(call);
  for (const Direct& direct : kDirect) {
    if (direct.from == c.src[0] && direct.to == c.dst) {
      run_elementwise(dst, 1, {convert_directly}, &direct.fn, ith, nth);
      return;
    }
  }
  const Conversion conversion{c.src[0], c.dst, item_size(dst->src[0]), item_size(dst)};
  run_elementwise(dst, 1, {convert_run}, &conversion, ith, nth);
}

}  // namespace executorch_ggml::kernels
