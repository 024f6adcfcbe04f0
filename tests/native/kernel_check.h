// What the kernel tests share: tensors of any type and strides with guards around them, and a run of a kernel that is
// compared with an oracle element by element.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::testing {

inline int failures = 0;
inline std::mt19937_64 rng(20240607);

using Sizes = std::array<int64_t, 4>;
using Index = std::array<int64_t, 4>;
using Wide = __int128;

inline int64_t random_below(int64_t n) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(n)); }

inline bool is_float(DType type) {
  return type == DType::F32 || type == DType::F16 || type == DType::Bf16 || type == DType::F64;
}

inline ggml_type storage(DType type) {
  constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I8, GGML_TYPE_I16,
                                  GGML_TYPE_I32, GGML_TYPE_I64, GGML_TYPE_I8,   GGML_TYPE_I8, GGML_TYPE_F64};
  return kTypes[static_cast<int>(type)];
}

// A number of any type: exactly one of the two is meant.
struct Number {
  double real = 0;
  int64_t integer = 0;
};

enum class Layout { Dense, Permuted, Sliced };

constexpr size_t kGuard = 64;

struct Tensor {
  DType dtype;
  ggml_tensor t{};
  std::vector<char> memory;

  Tensor(DType type, Sizes ne, Layout layout = Layout::Dense) : dtype(type) {
    t.type = storage(type);
    int order[4] = {0, 1, 2, 3};
    if (layout == Layout::Permuted) {
      std::shuffle(order, order + 4, rng);
    }
    size_t step = ggml_type_size(t.type);
    for (int d : order) {
      const size_t skip = layout == Layout::Sliced ? 1 + rng() % 2 : 1;
      t.ne[d] = ne[d];
      t.nb[d] = step * skip;
      step *= skip * static_cast<size_t>(ne[d]);
    }
    memory.assign(step + 2 * kGuard, char(0x5a));
    t.data = memory.data() + kGuard;
  }

  Sizes ne() const { return {t.ne[0], t.ne[1], t.ne[2], t.ne[3]}; }

  // Dims of size 1 are repeated.
  char* at(const Index& i) const {
    char* p = static_cast<char*>(t.data);
    for (int d = 0; d < 4; ++d) {
      p += (t.ne[d] == 1 ? 0 : i[d]) * static_cast<int64_t>(t.nb[d]);
    }
    return p;
  }

  template <class T>
  T as(const Index& i) const {
    T value;
    std::memcpy(&value, at(i), sizeof(T));
    return value;
  }

  template <class T>
  void put(const Index& i, T value) {
    std::memcpy(at(i), &value, sizeof(T));
  }

  Number get(const Index& i) const {
    switch (dtype) {
      case DType::F32:
        return {as<float>(i), 0};
      case DType::F16:
        return {ggml_fp16_to_fp32(as<uint16_t>(i)), 0};
      case DType::Bf16:
        return {ggml_bf16_to_fp32(as<ggml_bf16_t>(i)), 0};
      case DType::F64:
        return {as<double>(i), 0};
      case DType::I8:
        return {0, as<int8_t>(i)};
      case DType::I16:
        return {0, as<int16_t>(i)};
      case DType::I32:
        return {0, as<int32_t>(i)};
      case DType::I64:
        return {0, as<int64_t>(i)};
      default:
        return {0, as<uint8_t>(i)};
    }
  }

  void set(const Index& i, Number n) {
    switch (dtype) {
      case DType::F32:
        return put(i, static_cast<float>(n.real));
      case DType::F16:
        return put(i, ggml_fp32_to_fp16(static_cast<float>(n.real)));
      case DType::Bf16:
        return put(i, ggml_fp32_to_bf16(static_cast<float>(n.real)));
      case DType::F64:
        return put(i, n.real);
      case DType::I8:
      case DType::U8:
        return put(i, static_cast<int8_t>(n.integer));
      case DType::I16:
        return put(i, static_cast<int16_t>(n.integer));
      case DType::I32:
        return put(i, static_cast<int32_t>(n.integer));
      case DType::I64:
        return put(i, n.integer);
      default:
        return put(i, static_cast<uint8_t>(n.integer != 0));
    }
  }

  bool guards_hold() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (memory[i] != 0x5a || memory[memory.size() - 1 - i] != 0x5a) {
        return false;
      }
    }
    return true;
  }
};

inline void each(const Sizes& ne, const std::function<void(const Index&)>& body) {
  Index i;
  for (i[3] = 0; i[3] < ne[3]; ++i[3]) {
    for (i[2] = 0; i[2] < ne[2]; ++i[2]) {
      for (i[1] = 0; i[1] < ne[1]; ++i[1]) {
        for (i[0] = 0; i[0] < ne[0]; ++i[0]) {
          body(i);
        }
      }
    }
  }
}

inline double random_real() {
  constexpr double kSpecial[] = {NAN,  INFINITY, -INFINITY, 0.0,  -0.0, 1e-41, -1e-41,
                                 3e38, -3e38,    1.0,       -1.0, 2.0,  0.5,   -2.5};
  if (random_below(8) == 0) {
    return kSpecial[random_below(std::size(kSpecial))];
  }
  return static_cast<float>(std::normal_distribution<double>(0, 4)(rng));
}

inline int64_t random_integer() {
  constexpr int64_t kSpecial[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 0, 1, -1, 255, -128, 65536};
  return random_below(6) == 0 ? kSpecial[random_below(std::size(kSpecial))] : random_below(23) - 11;
}

inline void randomize(Tensor& tensor) {
  each(tensor.ne(), [&](const Index& i) {
    tensor.set(i, {random_real(), tensor.dtype == DType::Bool ? random_below(2) : random_integer()});
  });
}

inline Tensor random_tensor(DType type, Sizes ne, Layout layout) {
  Tensor tensor(type, ne, layout);
  randomize(tensor);
  return tensor;
}

// In units of the last place of the float nearest to `want`.
inline double ulp_error(double got, double want) {
  if (std::isnan(got) || std::isnan(want)) {
    return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  }
  const float rounded = static_cast<float>(want);
  if (std::isinf(got) || std::isinf(rounded)) {
    return got == static_cast<double>(rounded) ? 0 : INFINITY;
  }
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

inline void report(const std::string& what, const Index& i, double got, double want) {
  if (++failures <= 20) {
    std::printf("FAIL %s at [%d %d %d %d]: got %.9g, want %.9g\n", what.c_str(), int(i[0]), int(i[1]), int(i[2]),
                int(i[3]), got, want);
  }
}

inline void expect(bool ok, const std::string& what) {
  if (!ok && ++failures <= 20) {
    std::printf("FAIL %s\n", what.c_str());
  }
}

using Oracle = std::function<Number(const Index&)>;

// Runs the kernel on 1 and on 3 threads and compares all of dst with the oracle.
inline void check(const std::string& what, Kernel kernel, KernelCallBase& call, Tensor& dst, std::vector<Tensor*> src,
                  const Oracle& oracle, double max_ulp = 0, bool fails = false) {
  call.node = "node";
  call.dst = dst.dtype;
  for (size_t i = 0; i < src.size(); ++i) {
    dst.t.src[i] = &src[i]->t;
    call.src[i] = src[i]->dtype;
  }
  for (int nth : {1, 3}) {
    RunStatus status;
    call.status = &status;
    std::fill(dst.memory.begin() + kGuard, dst.memory.end() - kGuard, char(0xa5));
    for (int ith = 0; ith < nth; ++ith) {
      kernel(&dst.t, ith, nth, &call);
    }
    expect(status.ok() != fails, what + (fails ? ": no failure" : std::string(": ") + status.message()));
    expect(dst.guards_hold(), what + ": wrote outside");
    each(dst.ne(), [&](const Index& i) {
      const Number got = dst.get(i);
      const Number want = oracle(i);
      if (is_float(dst.dtype) ? ulp_error(got.real, want.real) > max_ulp : got.integer != want.integer) {
        is_float(dst.dtype) ? report(what, i, got.real, want.real)
                            : report(what, i, double(got.integer), double(want.integer));
      }
    });
  }
}

constexpr Layout kLayouts[] = {Layout::Dense, Layout::Permuted, Layout::Sliced};
constexpr Sizes kShapes[] = {{1, 1, 1, 1},   {7, 1, 1, 1},  {5, 3, 2, 2},    {67, 5, 3, 1},
                             {600, 2, 1, 3}, {4, 70, 9, 1}, {1, 130, 1, 2},  {0, 3, 2, 1},
                             {1, 1, 1, 700}, {3, 0, 1, 1},  {129, 40, 2, 1}, {3, 70, 31, 1}};

constexpr DType kTypes[] = {DType::F32, DType::F16, DType::Bf16, DType::I8, DType::I16,
                            DType::I32, DType::I64, DType::Bool, DType::U8, DType::F64};

// `ne` with some dims 1.
inline Sizes broadcast_from(Sizes ne, int64_t mask) {
  for (int d = 0; d < 4; ++d) {
    ne[d] = (mask >> d) & 1 ? 1 : ne[d];
  }
  return ne;
}

// Each dim whose bit is set.
inline Ints axes_of(int mask) {
  Ints axes;
  for (int d = 0; d < 4; ++d) {
    if ((mask >> d) & 1) {
      axes.at[axes.size++] = d;
    }
  }
  return axes;
}

}  // namespace executorch_ggml::testing
