// Vectors of the instruction set that this file is compiled for (GCC's vector extension, which Clang has too). For
// *_isa.cpp files only. All is in an unnamed namespace: no code of it may be shared between instruction sets.
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

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

constexpr int kLanes = kBytes / 4;      // of a vector of floats
constexpr int kWideLanes = kBytes / 8;  // of a vector of doubles

using Float = float __attribute__((vector_size(kBytes)));
using Int = int32_t __attribute__((vector_size(kBytes)));
using Uint = uint32_t __attribute__((vector_size(kBytes)));
using Double = double __attribute__((vector_size(kBytes)));
using Long = int64_t __attribute__((vector_size(kBytes)));
using HalfFloat = float __attribute__((vector_size(kBytes / 2)));  // as many floats as Double has doubles

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

VEC_INLINE Float splat(float value) {
  return value - Float{};  // not +: that would turn -0 into 0
}

VEC_INLINE Int bits(Float x) { return reinterpret_cast<Int>(x); }

VEC_INLINE Float from_bits(Int x) { return reinterpret_cast<Float>(x); }

VEC_INLINE Float pick(Int mask, Float yes, Float no) { return mask ? yes : no; }

VEC_INLINE Float abs(Float x) { return from_bits(bits(x) & 0x7fffffff); }

VEC_INLINE Int sign_bit(Float x) { return bits(x) & static_cast<int32_t>(0x80000000u); }

// `magnitude` must not be negative.
VEC_INLINE Float with_sign(Float magnitude, Int sign) { return from_bits(bits(magnitude) | sign); }

// Keeps NaN in x.
VEC_INLINE Float at_most(Float x, float limit) { return pick(x > limit, splat(limit), x); }

VEC_INLINE Float at_least(Float x, float limit) { return pick(x < limit, splat(limit), x); }

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

// As many halves as Float has lanes.
VEC_INLINE Float load_halves(const uint16_t* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<Float>(_mm512_maskz_cvtph_ps(0xffff, load<__m256i>(from)));
#elif defined(__F16C__)
  return reinterpret_cast<Float>(_mm256_cvtph_ps(load<__m128i>(from)));
#elif defined(__aarch64__)
  return reinterpret_cast<Float>(vcvt_f32_f16(load<float16x4_t>(from)));
#else
  Float x;
  for (int i = 0; i < kLanes; ++i) x[i] = ggml_fp16_to_fp32(from[i]);
  return x;
#endif
}

VEC_INLINE Float load_floats(const float* from) { return load<Float>(from); }

VEC_INLINE Float load_floats(const uint16_t* halves) { return load_halves(halves); }

VEC_INLINE float to_float(float x) { return x; }

VEC_INLINE float to_float(uint16_t half) { return ggml_fp16_to_fp32(half); }

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
  for (int i = 0; i < kLanes; ++i) {
    x[i] = __builtin_sqrtf(x[i]);
  }
  return x;
#endif
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
