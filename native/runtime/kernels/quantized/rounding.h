// Bytes as vectors of integers and back, and floats rounded to the steps of a grid. For *_isa.cpp files only.
#pragma once

#include <cstdint>

#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

VEC_INLINE Float floats_of(Int x) { return __builtin_convertvector(x, Float); }

// kLanes narrow integers.
template <class Narrow>
VEC_INLINE Int load_narrow(const Narrow* from) {
  return __builtin_convertvector(load<Vec<Narrow, kLanes>>(from), Int);
}

// Of bytes by one instruction, which GCC 12 does not make of that.
#if defined(__AVX512F__)
VEC_INLINE Int load_narrow(const uint8_t* from) {
  return reinterpret_cast<Int>(_mm512_maskz_cvtepu8_epi32(0xffff, load<__m128i>(from)));
}
VEC_INLINE Int load_narrow(const int8_t* from) {
  return reinterpret_cast<Int>(_mm512_maskz_cvtepi8_epi32(0xffff, load<__m128i>(from)));
}
#elif defined(__AVX2__)
VEC_INLINE Int load_narrow(const uint8_t* from) {
  return reinterpret_cast<Int>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
VEC_INLINE Int load_narrow(const int8_t* from) {
  return reinterpret_cast<Int>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
#elif defined(__aarch64__)
VEC_INLINE Int load_narrow(const uint8_t* from) {
  const auto bytes = vreinterpret_u8_u32(vdup_n_u32(load<uint32_t>(from)));
  return reinterpret_cast<Int>(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}
VEC_INLINE Int load_narrow(const int8_t* from) {
  const auto bytes = vreinterpret_s8_u32(vdup_n_u32(load<uint32_t>(from)));
  return reinterpret_cast<Int>(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}
#endif

using Words = Vec<int16_t, 2 * kLanes>;

// a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1] in lane i.
VEC_INLINE Int pair_products(Words a, Words b) {
#if defined(__AVX512BW__)
  return reinterpret_cast<Int>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Int>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Int>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#elif defined(__aarch64__)
  const auto x = reinterpret_cast<int16x8_t>(a);
  const auto y = reinterpret_cast<int16x8_t>(b);
  return reinterpret_cast<Int>(vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
#else
  const Int x = reinterpret_cast<Int>(a);
  const Int y = reinterpret_cast<Int>(b);
  return (x >> 16) * (y >> 16) + (x << 16 >> 16) * (y << 16 >> 16);
#endif
}

// x, computed here in the order of the source: compilers load what all rows of a tile need first, and spill it.
template <class V>
VEC_INLINE V in_order(V x) {
#if defined(__AVX512F__)
  asm volatile("" : "+v"(x));
#elif defined(__SSE2__)
  asm volatile("" : "+x"(x));
#endif
  return x;
}

// *sum += x in that order, which wraps. The instruction says that the sum stays in its register, where GCC 12 rotates
// them all.
VEC_INLINE void add_in_order(Int* sum, Int x) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  asm volatile("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(x));
#else
  *sum = in_order(reinterpret_cast<Int>(reinterpret_cast<Uint>(*sum) + reinterpret_cast<Uint>(x)));
#endif
}

// The same 16 bits in each pair of lanes of a Words.
VEC_INLINE Words splat_pair(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, sizeof(both));
  return reinterpret_cast<Words>(Int{} + both);
}

// The low byte of each lane.
VEC_INLINE void store_bytes(void* to, Int x) {
#if defined(__AVX512F__)
  store(to, _mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(x)));
#elif defined(__AVX2__)
  const __m256i first = _mm256_set1_epi32(0x0c080400);
  const __m256i bytes = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(x), first);
  const __m128i joined = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(static_cast<__m128i*>(to), joined);
#elif defined(__aarch64__)
  const auto words = vmovn_s32(reinterpret_cast<int32x4_t>(x));
  store(to, vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(words, words))), 0));
#else
  auto* bytes = static_cast<int8_t*>(to);
  for (int i = 0; i < kLanes; ++i) bytes[i] = static_cast<int8_t>(x[i]);
#endif
}

// What rounds steps, half to even, moves them by a zero point and clamps them.
struct Rounding {
  // From 1.5 * 2^23 on, to 2^24, floats are integers. Larger sums are past all bounds.
  static constexpr float kMagic = 12582912.0f;
  Float back;
  Float low;
  Float high;

  VEC_INLINE Rounding(float zero, float lowest, float highest)
      : back(splat(kMagic - zero)), low(splat(lowest)), high(splat(highest)) {}

  // Keeps NaN, which becomes 0 in bytes as in torch.
  VEC_INLINE Float between(Float x) const { return clamped(x, low, high); }

  VEC_INLINE Int steps(Float x) const {
    const Float near = rounded(rounded(x) + kMagic) - back;
    return __builtin_convertvector(between(near), Int);
  }
};

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
