// The vectors that kernels compute with: types of the instruction set that a file is compiled for (GCC's vector
// extension, which Clang has too), loads, stores, selects and sums over lanes. For *_isa.cpp files only. All is in an
// unnamed namespace: no code of it may be shared between instruction sets. Kernels ask the constants here, not the
// compiler's macros, what the instruction set has.
#pragma once

#include <cstdint>
#include <cstring>

#include "ggml.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define VEC_INLINE inline __attribute__((always_inline))

// Before a loop whose trip count is a small constant: its arrays of vectors then stay in registers.
#if defined(__clang__)
#define VEC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VEC_UNROLL _Pragma("GCC unroll 32")
#endif

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kVectorRegisters = 32;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kVectorRegisters = 16;
#elif defined(__aarch64__)
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 32;
#else
constexpr int kVectorBytes = 16;
constexpr int kVectorRegisters = 16;
#endif

// Whether a multiplication and an addition are one instruction, which needs no register for the product.
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kHasFma = true;
#else
constexpr bool kHasFma = false;
#endif

// Whether a vector is multiplied by one lane of another in one instruction.
#if defined(__aarch64__)
constexpr bool kHasLaneProducts = true;
#else
constexpr bool kHasLaneProducts = false;
#endif

// Whether f16 is converted by instructions.
#if defined(__F16C__) || defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kHasHalfConversion = true;
#else
constexpr bool kHasHalfConversion = false;
#endif

template <class T, int Lanes>
struct VecType {
  typedef T type __attribute__((vector_size(Lanes * sizeof(T))));
};

template <class T, int Lanes>
using Vec = typename VecType<T, Lanes>::type;

constexpr int kLanes = kVectorBytes / 4;      // of a vector of floats
constexpr int kWideLanes = kVectorBytes / 8;  // of a vector of doubles

using Float = Vec<float, kLanes>;
using Int = Vec<int32_t, kLanes>;
using Uint = Vec<uint32_t, kLanes>;
using Double = Vec<double, kWideLanes>;
using Long = Vec<int64_t, kWideLanes>;
using HalfFloat = Vec<float, kWideLanes>;  // as many floats as Double has doubles
using Quad = Vec<float, 4>;

template <class V>
constexpr int kLanesOf = static_cast<int>(sizeof(V) / sizeof(V{}[0]));

// --------------------------------------------------------------------------------------------------- loads and stores

template <class V, class T>
VEC_INLINE V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof(V));
  return v;
}

template <class V, class T>
VEC_INLINE void store(T* to, V v) {
  std::memcpy(to, &v, sizeof(V));
}

template <class V = Float>
VEC_INLINE V splat(float value) {
  return value - V{};  // not +: that would turn -0 into 0
}

#if defined(__AVX2__)
// Lane i is all ones where i < n.
VEC_INLINE __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

// The first n < kLanesOf<V> floats, then zeros; memory past them is not read.
template <class V = Float>
VEC_INLINE V load_first(const float* from, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (kLanesOf<V> == 16) return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), from);
#endif
#if defined(__AVX2__)
  if constexpr (kLanesOf<V> == 8) return _mm256_maskload_ps(from, first_lanes(n));
#endif
  V v = {};
  for (int64_t i = 0; i < n; ++i) v[i] = from[i];
  return v;
}

#if defined(__AVX2__)
// Masked stores of AVX2 take AMD's processors some 15 cycles each.
VEC_INLINE void store_parts(float* to, __m256 v, int64_t n) {
  __m128 left = _mm256_castps256_ps128(v);
  if ((n & 4) != 0) {
    _mm_storeu_ps(to, left);
    to += 4;
    left = _mm256_extractf128_ps(v, 1);
  }
  if ((n & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), left);
    to += 2;
    left = _mm_movehl_ps(left, left);
  }
  if ((n & 1) != 0) _mm_store_ss(to, left);
}
#endif

// Writes the first n < kLanesOf<V> floats, and nothing past them.
template <class V>
VEC_INLINE void store_first(float* to, V v, int64_t n) {
#if defined(__AVX512F__)
  if constexpr (kLanesOf<V> == 16) return _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), v);
  if constexpr (kLanesOf<V> == 8) return _mm256_mask_storeu_ps(to, static_cast<__mmask8>((1u << n) - 1), v);
#endif
#if defined(__AVX2__)
  if constexpr (kLanesOf<V> == 8) return store_parts(to, v, n);
#endif
  for (int64_t i = 0; i < n; ++i) to[i] = v[i];
}

// Loads and stores of whole vectors, or of the first n lanes, for loops over channels.
struct AllLanes {
  VEC_INLINE Float load(const float* from) const { return KERNEL_ISA::load<Float>(from); }
  VEC_INLINE void store(float* to, Float v) const { KERNEL_ISA::store(to, v); }
};

struct FirstLanes {
  int64_t n;
  VEC_INLINE Float load(const float* from) const { return load_first(from, n); }
  VEC_INLINE void store(float* to, Float v) const { store_first(to, v, n); }
};

// Calls body(i, lanes) for each vector of elements from `begin` on, the last one perhaps in part.
template <class Body>
VEC_INLINE void each_vector(int64_t begin, int64_t end, const Body& body) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) body(i, AllLanes{});
  if (i < end) body(i, FirstLanes{end - i});
}

VEC_INLINE Float floats_of_halves(Vec<uint16_t, kLanes> halves) {
#if defined(__AVX512F__)
  return reinterpret_cast<Float>(_mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(halves)));
#elif defined(__F16C__)
  return reinterpret_cast<Float>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(halves)));
#elif defined(__aarch64__)
  return reinterpret_cast<Float>(vcvt_f32_f16(reinterpret_cast<float16x4_t>(halves)));
#else
  Float x;
  for (int i = 0; i < kLanes; ++i) x[i] = ggml_fp16_to_fp32(halves[i]);
  return x;
#endif
}

// kLanes halves as floats.
VEC_INLINE Float load_halves(const uint16_t* from) { return floats_of_halves(load<Vec<uint16_t, kLanes>>(from)); }

// Rounds half to even.
VEC_INLINE void store_halves(uint16_t* to, Float x) {
#if defined(__AVX512F__)
  store(to, _mm512_maskz_cvtps_ph(0xffff, reinterpret_cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  store(to, _mm256_cvtps_ph(reinterpret_cast<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__aarch64__)
  store(to, vcvt_f16_f32(reinterpret_cast<float32x4_t>(x)));
#else
  for (int i = 0; i < kLanes; ++i) to[i] = ggml_fp32_to_fp16(x[i]);
#endif
}

// The nearest numbers that f16 has, half to even.
VEC_INLINE Float rounded_to_half(Float x) {
  uint16_t halves[kLanes];
  store_halves(halves, x);
  return load_halves(halves);
}

// The nearest numbers that bf16 has, half to even: the lower half carries into the upper one. NaN stays NaN.
VEC_INLINE Float rounded_to_bfloat(Float x) {
  const Uint u = reinterpret_cast<Uint>(x);
  const Uint nearest = u + 0x7fffu + ((u >> 16) & 1u);
  return reinterpret_cast<Float>((x == x ? nearest : u | 0x400000u) & 0xffff0000u);
}

VEC_INLINE Float load_floats(const float* from) { return load<Float>(from); }

VEC_INLINE Float load_floats(const uint16_t* halves) { return load_halves(halves); }

VEC_INLINE float to_float(float x) { return x; }

VEC_INLINE float to_float(uint16_t half) { return ggml_fp16_to_fp32(half); }

// --------------------------------------------------------------------------------------------------- bits and selects

template <class V>
VEC_INLINE auto bits(V x) {
  return reinterpret_cast<decltype(x < x)>(x);
}

template <class V = Float, class I = Int>
VEC_INLINE V from_bits(I x) {
  return reinterpret_cast<V>(x);
}

VEC_INLINE Float pick(Int mask, Float yes, Float no) { return mask ? yes : no; }

VEC_INLINE Float abs(Float x) { return from_bits(bits(x) & 0x7fffffff); }

VEC_INLINE Int sign_bit(Float x) { return bits(x) & static_cast<int32_t>(0x80000000u); }

// `magnitude` must not be negative.
VEC_INLINE Float with_sign(Float magnitude, Int sign) { return from_bits(bits(magnitude) | sign); }

// a > b ? a : b, so b where one of them is NaN. GCC compares and blends where one is a constant; this is one
// instruction.
template <class V>
VEC_INLINE V larger(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (kLanesOf<V> == 16) {
    return reinterpret_cast<V>(_mm512_maskz_max_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
  }
#endif
#if defined(__AVX2__)
  if constexpr (kLanesOf<V> == 8) {
    return reinterpret_cast<V>(_mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
  }
#endif
  return a > b ? a : b;
}

// a < b ? a : b, in the same way.
template <class V>
VEC_INLINE V smaller(V a, V b) {
#if defined(__AVX512F__)
  if constexpr (kLanesOf<V> == 16) {
    return reinterpret_cast<V>(_mm512_maskz_min_ps(0xffff, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
  }
#endif
#if defined(__AVX2__)
  if constexpr (kLanesOf<V> == 8) {
    return reinterpret_cast<V>(_mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
  }
#endif
  return a < b ? a : b;
}

// Keeps NaN in x.
VEC_INLINE Float at_most(Float x, float limit) { return smaller(splat(limit), x); }

VEC_INLINE Float at_least(Float x, float limit) { return larger(splat(limit), x); }

// Keeps NaN in x; where low > high, high wins.
template <class V>
VEC_INLINE V clamped(V x, V low, V high) {
  return smaller(high, larger(low, x));
}

// x, and the compiler no longer knows that it came from a product: keeps it from fusing the product into an FMA.
VEC_INLINE Float rounded(Float x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__SSE2__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
  return x;
}

VEC_INLINE Float square_root(Float x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Float>(_mm512_maskz_sqrt_ps(0xffff, reinterpret_cast<__m512>(x)));
#elif defined(__AVX2__)
  return reinterpret_cast<Float>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#elif defined(__SSE2__)
  return reinterpret_cast<Float>(_mm_sqrt_ps(reinterpret_cast<__m128>(x)));
#elif defined(__aarch64__)
  return reinterpret_cast<Float>(vsqrtq_f32(reinterpret_cast<float32x4_t>(x)));
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// 2^n for -127 < n < 128.
VEC_INLINE Float power_of_two(Int n) { return from_bits((n + 127) << 23); }

// x 2^n for n without fractions, which may be denormal or overflow.
#if defined(__AVX512F__)
constexpr bool kHasScaling = true;
VEC_INLINE Float times_power_of_two(Float x, Float n) {
  return reinterpret_cast<Float>(
      _mm512_maskz_scalef_ps(0xffff, reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(n)));
}
#else
constexpr bool kHasScaling = false;
VEC_INLINE Float times_power_of_two(Float x, Float n) {
  const Int whole = __builtin_convertvector(n, Int);
  const Int half = whole >> 1;
  return x * power_of_two(half) * power_of_two(whole - half);
}
#endif

// ----------------------------------------------------------------------------------------------------- sums over lanes

// The 4 lanes of a vector that begin at lane 4 * part.
VEC_INLINE Quad quad_of(Float x, int part) {
  Quad quads[kVectorBytes / 16];
  std::memcpy(quads, &x, sizeof(x));
  return quads[part];
}

// The sums of every fourth lane.
VEC_INLINE Quad folded(Float x) {
  Quad sum = quad_of(x, 0);
  for (int part = 1; part < kVectorBytes / 16; ++part) sum += quad_of(x, part);
  return sum;
}

VEC_INLINE float total(Float x) {
  const Quad sum = folded(x);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The totals of four vectors.
VEC_INLINE Quad totals(Quad a, Quad b, Quad c, Quad d) {
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
