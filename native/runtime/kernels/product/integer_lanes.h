// What int8 GEMM asks of an instruction set: dot products of weights with values, four bytes in each lane, and how
// bytes are arranged in vectors. For folders of instruction sets only.
//
// A dot product of a type's weights with values sums kQuads groups of four (a group is a quad) before it ends in a sum
// of int32:
//
//   Sum sum = begin(start); sum = plus(sum, weights, values) for each kStep quads; Int result = end(sum, start)
#pragma once

#include "kernels/quantized/rounding.h"
#include "kernels/simd/vec.h"

#if !defined(__clang__)  // GCC 12 warns of its own AVX-512 header (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

using Bytes = Vec<uint16_t, kVectorBytes / 2>;  // in pairs, which can be shifted

VEC_INLINE int32_t quad_bits(const int8_t* values) {
  int32_t four = 0;
  std::memcpy(&four, values, sizeof(four));
  return four;
}

#if defined(__AVX512VNNI__)

constexpr int kByteOffset = 128;  // what is added to weights of 8 bits
constexpr int kTileRowStep = 1;   // tiles are compiled for each multiple of it
constexpr int kStreamRowStep = 1;

VEC_INLINE __m512i raw(Bytes x) { return reinterpret_cast<__m512i>(x); }
VEC_INLINE __m512i raw(Int x) { return reinterpret_cast<__m512i>(x); }

// One instruction; the accumulators start at minus the weights' offset times the sum of the values.
struct DotProduct {
  static constexpr int kStep = 1;
  static constexpr int kQuads = 8;
  static constexpr int kRows = 6;  // of a tile
  using Sum = Int;

  static VEC_INLINE Sum begin(int32_t start) { return reinterpret_cast<Int>(_mm512_set1_epi32(start)); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Bytes (&values)[kStep]) {
    return reinterpret_cast<Int>(_mm512_dpbusd_epi32(raw(sum), raw(weights[0]), raw(values[0])));
  }
  static VEC_INLINE Int end(Sum sum, int32_t) { return sum; }
};

template <int Bits>
struct DotOf {
  using type = DotProduct;
};

VEC_INLINE Bytes quad(const int8_t* values) { return reinterpret_cast<Bytes>(_mm512_set1_epi32(quad_bits(values))); }

VEC_INLINE Int nearest(Float x) { return reinterpret_cast<Int>(_mm512_cvtps_epi32(reinterpret_cast<__m512>(x))); }

VEC_INLINE int32_t largest(Int x) { return _mm512_reduce_max_epi32(raw(x)); }

VEC_INLINE int32_t total(Int x) { return _mm512_reduce_add_epi32(raw(x)); }

// The first `count` lanes, if there are any.
VEC_INLINE void store_lanes(float* to, Float x, int64_t count) {
  const int mask = count >= kLanes ? 0xffff : count <= 0 ? 0 : (1 << count) - 1;
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), reinterpret_cast<__m512>(x));
}

// `value` where a bit of the mask is set.
VEC_INLINE __m256i bytes_where(uint32_t mask, char value) { return _mm256_maskz_set1_epi8(mask, value); }

// 16 bytes of every fourth row.
VEC_INLINE __m512i every_fourth(const uint8_t* row, int64_t stride) {
  const auto quarter = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 4 * i * stride)); };
  __m512i x = _mm512_castsi128_si512(quarter(0));
  x = _mm512_inserti32x4(x, quarter(1), 1);
  x = _mm512_inserti32x4(x, quarter(2), 2);
  return _mm512_inserti32x4(x, quarter(3), 3);
}

VEC_INLINE __m512i low_words(__m512i a, __m512i b) { return _mm512_unpacklo_epi32(a, b); }
VEC_INLINE __m512i high_words(__m512i a, __m512i b) { return _mm512_unpackhi_epi32(a, b); }
VEC_INLINE __m512i low_pairs(__m512i a, __m512i b) { return _mm512_unpacklo_epi64(a, b); }
VEC_INLINE __m512i high_pairs(__m512i a, __m512i b) { return _mm512_unpackhi_epi64(a, b); }

#elif defined(__AVX2__)

constexpr int kTileRowStep = 3;
constexpr int kStreamRowStep = 6;

VEC_INLINE __m256i raw(Bytes x) { return reinterpret_cast<__m256i>(x); }
VEC_INLINE __m256i raw(Int x) { return reinterpret_cast<__m256i>(x); }

#if defined(__AVXVNNI__)

constexpr int kByteOffset = 128;

struct DotProduct {
  static constexpr int kStep = 1;
  static constexpr int kQuads = 8;
  static constexpr int kRows = 6;
  using Sum = Int;

  static VEC_INLINE Sum begin(int32_t start) { return reinterpret_cast<Int>(_mm256_set1_epi32(start)); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Bytes (&values)[kStep]) {
    return reinterpret_cast<Int>(_mm256_dpbusd_avx_epi32(raw(sum), raw(weights[0]), raw(values[0])));
  }
  static VEC_INLINE Int end(Sum sum, int32_t) { return sum; }
};

template <int Bits>
struct DotOf {
  using type = DotProduct;
};

#else

constexpr int kByteOffset = 0;

// The empty instruction keeps a sum in its register: else the compiler computes all products first, and stores them.
VEC_INLINE __m256i kept(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}

VEC_INLINE Int widened_pairs(__m256i words) {
  return reinterpret_cast<Int>(_mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}

// Of few bits: products of `Quads` quads are summed in int16, 2 * Quads of them in each lane.
template <int Bits, int Quads>
struct NarrowDot {
  static_assert(((1 << Bits) - 1) * 127 * 2 * Quads <= INT16_MAX, "no sum saturates");
  static constexpr int kStep = 1;
  static constexpr int kQuads = Quads;
  static constexpr int kRows = 6;
  using Sum = __m256i;

  static VEC_INLINE Sum begin(int32_t) { return _mm256_setzero_si256(); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Bytes (&values)[kStep]) {
    return kept(_mm256_add_epi16(sum, _mm256_maddubs_epi16(raw(weights[0]), raw(values[0]))));
  }
  static VEC_INLINE Int end(Sum sum, int32_t start) { return widened_pairs(sum) + start; }
};

// Of 6 bits: two quads are summed in int16, and the rest in int32.
struct PairedDot {
  static_assert(63 * 127 * 4 <= INT16_MAX, "no sum saturates");
  static constexpr int kStep = 2;
  static constexpr int kQuads = 8;
  static constexpr int kRows = 3;
  using Sum = Int;

  static VEC_INLINE Sum begin(int32_t start) { return reinterpret_cast<Int>(_mm256_set1_epi32(start)); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Bytes (&values)[kStep]) {
    return sum + widened_pairs(_mm256_add_epi16(_mm256_maddubs_epi16(raw(weights[0]), raw(values[0])),
                                                _mm256_maddubs_epi16(raw(weights[1]), raw(values[1]))));
  }
  static VEC_INLINE Int end(Sum sum, int32_t) { return sum; }
};

// Of signed bytes: magnitudes of weights, down to -128, are multiplied with values that take the weights' signs.
struct SignedDot {
  static_assert(128 * 127 * 2 <= INT16_MAX, "no sum saturates");
  static constexpr int kStep = 1;
  static constexpr int kQuads = 8;
  static constexpr int kRows = 3;
  using Sum = Int;

  static VEC_INLINE Sum begin(int32_t) { return Int{}; }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Bytes (&values)[kStep]) {
    const __m256i magnitudes = _mm256_abs_epi8(raw(weights[0]));
    return sum + widened_pairs(_mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(raw(values[0]), raw(weights[0]))));
  }
  static VEC_INLINE Int end(Sum sum, int32_t) { return sum; }
};

template <int Bits>
struct DotOf;
template <>
struct DotOf<4> {
  using type = NarrowDot<4, 8>;
};
template <>
struct DotOf<5> {
  using type = NarrowDot<5, 4>;
};
template <>
struct DotOf<6> {
  using type = PairedDot;
};
template <>
struct DotOf<8> {
  using type = SignedDot;
};

#endif

VEC_INLINE Bytes quad(const int8_t* values) { return reinterpret_cast<Bytes>(_mm256_set1_epi32(quad_bits(values))); }

VEC_INLINE Int nearest(Float x) { return reinterpret_cast<Int>(_mm256_cvtps_epi32(reinterpret_cast<__m256>(x))); }

VEC_INLINE int32_t largest(Int x) {
  __m128i y = _mm_max_epi32(_mm256_castsi256_si128(raw(x)), _mm256_extracti128_si256(raw(x), 1));
  y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(y, _mm_shuffle_epi32(y, 0xb1)));
}

VEC_INLINE int32_t total(Int x) {
  __m128i y = _mm_add_epi32(_mm256_castsi256_si128(raw(x)), _mm256_extracti128_si256(raw(x), 1));
  y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1)));
}

VEC_INLINE void store_lanes(float* to, Float x, int64_t count) {
  if (count >= kLanes) {
    store(to, x);
  } else if (count > 0) {
    store_first(to, x, count);
  }
}

VEC_INLINE __m256i bytes_where(uint32_t mask, char value) {
  const __m256i byte_of_lane = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(mask)), byte_of_lane);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(value));
}

VEC_INLINE __m256i every_fourth(const uint8_t* row, int64_t stride) {
  const auto quarter = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 4 * i * stride)); };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(0)), quarter(1), 1);
}

VEC_INLINE __m256i low_words(__m256i a, __m256i b) { return _mm256_unpacklo_epi32(a, b); }
VEC_INLINE __m256i high_words(__m256i a, __m256i b) { return _mm256_unpackhi_epi32(a, b); }
VEC_INLINE __m256i low_pairs(__m256i a, __m256i b) { return _mm256_unpacklo_epi64(a, b); }
VEC_INLINE __m256i high_pairs(__m256i a, __m256i b) { return _mm256_unpackhi_epi64(a, b); }

#endif

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
