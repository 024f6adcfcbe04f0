// Vectors of floats for the image kernels' *_isa.cpp, in GCC's and Clang's own vector types, and the activations. All
// of it has internal linkage: see isa.h.
#pragma once

#include <cstdint>

#include "ops_generated.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define KERNEL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KERNEL_UNROLL _Pragma("GCC unroll 32")
#endif
#define KERNEL_INLINE __attribute__((always_inline)) inline

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kVectorRegisters = 32;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kVectorRegisters = 16;
#else
constexpr int kLanes = 4;
#if defined(__aarch64__)
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorRegisters = 16;
#endif
#endif

template <int Lanes>
struct VecTypes {
  typedef float Float __attribute__((vector_size(Lanes * 4)));
  typedef int32_t Int __attribute__((vector_size(Lanes * 4)));
};

template <int Lanes>
using VecF = typename VecTypes<Lanes>::Float;

template <int Lanes>
using VecI = typename VecTypes<Lanes>::Int;

template <int Lanes>
KERNEL_INLINE VecF<Lanes> load(const float* from) {
  VecF<Lanes> v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}

template <int Lanes>
KERNEL_INLINE void store(float* to, VecF<Lanes> v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

template <int Lanes>
KERNEL_INLINE VecF<Lanes> splat(float s) {
  return s - VecF<Lanes>{};  // (0 + s would turn -0 into 0, so it is not free)
}

#if defined(__AVX2__)
// Lane i is all ones where i < n.
KERNEL_INLINE __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

// The first n < Lanes floats, then zeros; nothing past them is touched.
template <int Lanes>
KERNEL_INLINE VecF<Lanes> load_first(const float* from, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (Lanes == 16) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), from);
  }
#endif
#if defined(__AVX2__)
  if constexpr (Lanes == 8) {
    return _mm256_maskload_ps(from, first_lanes(n));
  }
#endif
  VecF<Lanes> v = {};
  for (int64_t i = 0; i < n; ++i) {
    v[i] = from[i];
  }
  return v;
}

template <int Lanes>
KERNEL_INLINE void store_first(float* to, VecF<Lanes> v, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (Lanes == 16) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), v);
    return;
  }
#endif
#if defined(__AVX2__)
  if constexpr (Lanes == 8) {
    _mm256_maskstore_ps(to, first_lanes(n), v);
    return;
  }
#endif
  for (int64_t i = 0; i < n; ++i) {
    to[i] = v[i];
  }
}

// Whole vectors, or the first n lanes of one: what a loop over channels reads and writes with.
struct AllLanes {
  KERNEL_INLINE VecF<kLanes> load(const float* from) const { return KERNEL_ISA::load<kLanes>(from); }
  KERNEL_INLINE void store(float* to, VecF<kLanes> v) const { KERNEL_ISA::store<kLanes>(to, v); }
};

struct FirstLanes {
  int64_t n;
  KERNEL_INLINE VecF<kLanes> load(const float* from) const { return load_first<kLanes>(from, n); }
  KERNEL_INLINE void store(float* to, VecF<kLanes> v) const { store_first<kLanes>(to, v, n); }
};

template <int Lanes>
KERNEL_INLINE VecI<Lanes> bits_of(VecF<Lanes> v) {
  VecI<Lanes> i;
  __builtin_memcpy(&i, &v, sizeof(i));
  return i;
}

template <int Lanes>
KERNEL_INLINE VecF<Lanes> of_bits(VecI<Lanes> i) {
  VecF<Lanes> v;
  __builtin_memcpy(&v, &i, sizeof(v));
  return v;
}

// NaN stays; where low > high, high wins.
template <int Lanes>
KERNEL_INLINE VecF<Lanes> clamped(VecF<Lanes> x, VecF<Lanes> low, VecF<Lanes> high) {
  x = low > x ? low : x;
  return high < x ? high : x;
}

// e^x to 1 ulp or so; NaN stays. Infinite from 88.02 (not 88.72) up, 0 where the result would be subnormal.
template <int Lanes>
KERNEL_INLINE VecF<Lanes> exponential(VecF<Lanes> x) {
  using V = VecF<Lanes>;
  const V low = splat<Lanes>(-87.3365f);
  const V high = splat<Lanes>(88.02f);
  const V inside = clamped<Lanes>(x, low, high);
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the sum's low bits.
  const V magic = splat<Lanes>(12582912.0f);
  const V shifted = inside * 1.44269504089f + magic;
  const V n = shifted - magic;
  const V r = inside - n * 0.693359375f - n * -2.12194440e-4f;
  V p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const VecI<Lanes> power = (bits_of<Lanes>(shifted) << 23) + 0x3f800000;
  p = p * of_bits<Lanes>(power);
  p = x > high ? splat<Lanes>(__builtin_inff()) : p;
  return x < low ? V{} : p;
}

// x times the normal distribution's integral up to x. That integral is taken from its smaller tail,
// e^(-x^2 / 2) * u * polynomial(u) with u = 1 / (1 + 0.35 |x|), so that small results keep their relative accuracy.
template <int Lanes>
KERNEL_INLINE VecF<Lanes> gelu_erf_of(VecF<Lanes> x) {
  using V = VecF<Lanes>;
  const V size = x < 0.0f ? -x : x;
  const V u = 1.0f / (size * 0.35f + 1.0f);
  V p = u * -0.029115017503499985f + 0.1438184231519699f;
  p = p * u + -0.25539103150367737f;
  p = p * u + 0.15879657864570618f;
  p = p * u + -0.022843437269330025f;
  p = p * u + 0.10539215058088303f;
  p = p * u + 0.11986308544874191f;
  p = p * u + 0.13985756039619446f;
  p = p * u + 0.13962166011333466f;
  const V tail = exponential<Lanes>(x * x * -0.5f) * (p * u);
  return x * (x > 0.0f ? 1.0f - tail : tail);
}

template <Activation>
struct Activated;  // the activations that need more than clamping

template <>
struct Activated<Activation::Silu> {
  static KERNEL_INLINE VecF<kLanes> at(VecF<kLanes> x) { return x / (1.0f + exponential<kLanes>(-x)); }
};

template <>
struct Activated<Activation::Hardswish> {
  static KERNEL_INLINE VecF<kLanes> at(VecF<kLanes> x) {
    return x * clamped<kLanes>(x + 3.0f, VecF<kLanes>{}, splat<kLanes>(6.0f)) / 6.0f;
  }
};

template <>
struct Activated<Activation::GeluErf> {
  static KERNEL_INLINE VecF<kLanes> at(VecF<kLanes> x) { return gelu_erf_of<kLanes>(x); }
};

template <Activation kActivation>
void activate_floats(float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store<kLanes>(y + i, Activated<kActivation>::at(load<kLanes>(y + i)));
  }
  if (i < n) {
    store_first<kLanes>(y + i, Activated<kActivation>::at(load_first<kLanes>(y + i, n - i)), n - i);
  }
}

// Activates results that a kernel just wrote: it clamps in registers, where that is free, and leaves the rest to this.
__attribute__((unused)) void activate_in_place(float* y, int64_t n, Activation activation) {
  switch (activation) {
    case Activation::None:
    case Activation::Clamp:
      return;
    case Activation::Silu:
      return activate_floats<Activation::Silu>(y, n);
    case Activation::Hardswish:
      return activate_floats<Activation::Hardswish>(y, n);
    case Activation::GeluErf:
      return activate_floats<Activation::GeluErf>(y, n);
  }
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
