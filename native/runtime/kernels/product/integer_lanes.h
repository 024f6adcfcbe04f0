// What int8 GEMM asks of an instruction set: dot products of weights with values, four bytes in each lane, and how
// bytes are arranged in vectors. For folders of instruction sets only.
//
// A dot product of a type's weights with values sums kQuads groups of four (a group is a quad) before it ends in a sum
// of int32:
//
//   Sum sum = begin(start); sum = plus(sum, weights, values) for each kStep quads; Int result = end(sum, start)
//
// where `values` are kStep quads of a row, as Dot::Values(values of the row). Tiles multiply two rows
// at a time where there is a PairDot.
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

#if defined(__AVX2__)

VEC_INLINE Bytes quad(const int8_t* values) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<Bytes>(_mm512_set1_epi32(quad_bits(values)));
#else
  return reinterpret_cast<Bytes>(_mm256_set1_epi32(quad_bits(values)));
#endif
}

// Quads of a row, each in all lanes.
template <int Step>
struct QuadVectors {
  Bytes at[Step];

  VEC_INLINE explicit QuadVectors(const int8_t* values) {
    VEC_UNROLL
    for (int i = 0; i < Step; ++i) at[i] = quad(values + 4 * i);
  }
};

#endif

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
  using Values = QuadVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t start) { return reinterpret_cast<Int>(_mm512_set1_epi32(start)); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    return reinterpret_cast<Int>(_mm512_dpbusd_epi32(raw(sum), raw(weights[0]), raw(values.at[0])));
  }
  static VEC_INLINE Int end(Sum sum, int32_t) { return sum; }
};

template <int Bits>
struct DotOf {
  using type = DotProduct;
};

VEC_INLINE Int nearest(Float x) { return reinterpret_cast<Int>(_mm512_cvtps_epi32(reinterpret_cast<__m512>(x))); }

VEC_INLINE int32_t largest(Int x) { return _mm512_reduce_max_epi32(raw(x)); }

VEC_INLINE int32_t total(Int x) { return _mm512_reduce_add_epi32(raw(x)); }

// The first `count` lanes, if there are any.
VEC_INLINE void store_lanes(float* to, Float x, int64_t count) {
  const int mask = count >= kLanes ? 0xffff : count <= 0 ? 0 : (1 << count) - 1;
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), reinterpret_cast<__m512>(x));
}

// `value` where a bit of the mask is set.
VEC_INLINE Vec<uint16_t, 16> bytes_where(uint32_t mask, char value) {
  return reinterpret_cast<Vec<uint16_t, 16>>(_mm256_maskz_set1_epi8(mask, value));
}

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
  using Values = QuadVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t start) { return reinterpret_cast<Int>(_mm256_set1_epi32(start)); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    return reinterpret_cast<Int>(_mm256_dpbusd_avx_epi32(raw(sum), raw(weights[0]), raw(values.at[0])));
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

VEC_INLINE Int plus_pairs(Int sum, __m256i words) {
  return reinterpret_cast<Int>(kept(raw(sum + widened_pairs(words))));
}

// Of few bits: products of `Quads` quads are summed in int16, 2 * Quads of them in each lane.
template <int Bits, int Quads>
struct NarrowDot {
  static_assert(((1 << Bits) - 1) * 127 * 2 * Quads <= INT16_MAX, "no sum saturates");
  static constexpr int kStep = 1;
  static constexpr int kQuads = Quads;
  static constexpr int kRows = 6;
  using Sum = __m256i;
  using Values = QuadVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t) { return _mm256_setzero_si256(); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    return kept(_mm256_add_epi16(sum, _mm256_maddubs_epi16(raw(weights[0]), raw(values.at[0]))));
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
  using Values = QuadVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t start) { return reinterpret_cast<Int>(_mm256_set1_epi32(start)); }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    return plus_pairs(sum, _mm256_add_epi16(_mm256_maddubs_epi16(raw(weights[0]), raw(values.at[0])),
                                            _mm256_maddubs_epi16(raw(weights[1]), raw(values.at[1]))));
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
  using Values = QuadVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t) { return Int{}; }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    const __m256i magnitudes = _mm256_abs_epi8(raw(weights[0]));
    const __m256i signed_values = _mm256_sign_epi8(raw(values.at[0]), raw(weights[0]));
    return plus_pairs(sum, _mm256_maddubs_epi16(magnitudes, signed_values));
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

VEC_INLINE Vec<uint16_t, 16> bytes_where(uint32_t mask, char value) {
  const __m256i byte_of_lane = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(mask)), byte_of_lane);
  const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return reinterpret_cast<Vec<uint16_t, 16>>(
      _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(value)));
}

VEC_INLINE __m256i every_fourth(const uint8_t* row, int64_t stride) {
  const auto quarter = [&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 4 * i * stride)); };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(0)), quarter(1), 1);
}

VEC_INLINE __m256i low_words(__m256i a, __m256i b) { return _mm256_unpacklo_epi32(a, b); }
VEC_INLINE __m256i high_words(__m256i a, __m256i b) { return _mm256_unpackhi_epi32(a, b); }
VEC_INLINE __m256i low_pairs(__m256i a, __m256i b) { return _mm256_unpacklo_epi64(a, b); }
VEC_INLINE __m256i high_pairs(__m256i a, __m256i b) { return _mm256_unpackhi_epi64(a, b); }

#elif defined(__aarch64__)

constexpr int kByteOffset = 0;
constexpr int kTileRowStep = 2;
constexpr int kStreamRowStep = 6;

VEC_INLINE int8x16_t raw(Bytes x) { return reinterpret_cast<int8x16_t>(x); }
VEC_INLINE int32x4_t raw(Int x) { return reinterpret_cast<int32x4_t>(x); }

#if defined(__ARM_FEATURE_DOTPROD)

// Signed weights: those of fewer bits than 8 are not negative, and the accumulators start at minus their offset times
// the sum of the values.
struct DotProduct {
  static constexpr int kStep = 2;
  static constexpr int kQuads = 8;
  static constexpr int kRows = 6;
  using Sum = Int;

  struct Values {
    int8x8_t quads;
    VEC_INLINE explicit Values(const int8_t* values) : quads(vld1_s8(values)) {}
  };

  static VEC_INLINE Sum begin(int32_t start) { return Int{} + start; }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    const int32x4_t first = vdotq_lane_s32(raw(sum), raw(weights[0]), values.quads, 0);
    return reinterpret_cast<Int>(vdotq_lane_s32(first, raw(weights[1]), values.quads, 1));
  }
  static VEC_INLINE Int end(Sum sum, int32_t) { return sum; }
};

template <int Bits>
struct DotOf {
  using type = DotProduct;
};

#if defined(__ARM_FEATURE_MATMUL_INT8)
// Two rows by the four columns of a vector: each instruction sums the products of two rows' eight values with those of
// two columns.
struct PairDot {
  int32x4_t sums[2] = {};

  static VEC_INLINE int8x16_t values(const int8_t* first, const int8_t* second) {
    return vcombine_s8(vld1_s8(first), vld1_s8(second));
  }
  // Of two quads of four columns: those of columns 0 and 1, or of 2 and 3.
  static VEC_INLINE int8x16_t columns(const Bytes (&weights)[2], int half) {
    const int32x4_t a = vreinterpretq_s32_s8(raw(weights[0]));
    const int32x4_t b = vreinterpretq_s32_s8(raw(weights[1]));
    return vreinterpretq_s8_s32(half == 0 ? vzip1q_s32(a, b) : vzip2q_s32(a, b));
  }
  VEC_INLINE void add(int8x16_t rows, int8x16_t columns, int half) {
    sums[half] = vmmlaq_s32(sums[half], rows, columns);
  }
  VEC_INLINE Int of_row(int row, int32_t start) const {
    const int64x2_t a = vreinterpretq_s64_s32(sums[0]);
    const int64x2_t b = vreinterpretq_s64_s32(sums[1]);
    return reinterpret_cast<Int>(row == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b)) + start;
  }
};
#endif

#else

// Sums of int16 products, of columns 0 and 1 and of 2 and 3.
struct WordSums {
  int16x8_t at[2];
};

VEC_INLINE Int widened_pairs(const WordSums& x) {
  return reinterpret_cast<Int>(vpaddq_s32(vpaddlq_s16(x.at[0]), vpaddlq_s16(x.at[1])));
}

// Values in the two columns of half a vector.
template <int Step>
struct HalfVectors {
  int8x8_t at[Step];

  VEC_INLINE explicit HalfVectors(const int8_t* values) {
    VEC_UNROLL
    for (int i = 0; i < Step; ++i) at[i] = vreinterpret_s8_s32(vdup_n_s32(quad_bits(values + 4 * i)));
  }
};

// Of few bits: products of `Quads` quads are summed in int16.
template <int Bits, int Quads>
struct NarrowDot {
  static_assert(((1 << Bits) - 1) * 127 * Quads <= INT16_MAX, "no sum wraps");
  static constexpr int kStep = 1;
  static constexpr int kQuads = Quads;
  static constexpr int kRows = 2;  // compilers spill the sums of more
  using Sum = WordSums;
  using Values = HalfVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t) { return {}; }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    return {vmlal_s8(sum.at[0], vget_low_s8(raw(weights[0])), values.at[0]),
            vmlal_s8(sum.at[1], vget_high_s8(raw(weights[0])), values.at[0])};
  }
  static VEC_INLINE Int end(Sum sum, int32_t start) { return widened_pairs(sum) + start; }
};

// Of signed bytes: two quads are summed in int16, and the rest in int32.
struct PairedDot {
  static_assert(128 * 127 * 2 <= INT16_MAX, "no sum wraps");
  static constexpr int kStep = 2;
  static constexpr int kQuads = 8;
  static constexpr int kRows = 2;  // compilers spill the sums of more
  struct Sum {
    int32x4_t at[2];
  };
  using Values = HalfVectors<kStep>;

  static VEC_INLINE Sum begin(int32_t) { return {}; }
  static VEC_INLINE Sum plus(Sum sum, const Bytes (&weights)[kStep], const Values& values) {
    const int16x8_t low =
        vmlal_s8(vmull_s8(vget_low_s8(raw(weights[0])), values.at[0]), vget_low_s8(raw(weights[1])), values.at[1]);
    const int16x8_t high =
        vmlal_s8(vmull_s8(vget_high_s8(raw(weights[0])), values.at[0]), vget_high_s8(raw(weights[1])), values.at[1]);
    return {vpadalq_s16(sum.at[0], low), vpadalq_s16(sum.at[1], high)};
  }
  static VEC_INLINE Int end(Sum sum, int32_t start) {
    return reinterpret_cast<Int>(vpaddq_s32(sum.at[0], sum.at[1])) + start;
  }
};

template <int Bits>
struct DotOf;
template <>
struct DotOf<4> {
  using type = NarrowDot<4, 8>;
};
template <>
struct DotOf<5> {
  using type = NarrowDot<5, 8>;
};
template <>
struct DotOf<6> {
  using type = NarrowDot<6, 4>;
};
template <>
struct DotOf<8> {
  using type = PairedDot;
};

#endif

VEC_INLINE Int nearest(Float x) { return reinterpret_cast<Int>(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(x))); }

VEC_INLINE int32_t largest(Int x) { return vmaxvq_s32(raw(x)); }

VEC_INLINE int32_t total(Int x) { return vaddvq_s32(raw(x)); }

VEC_INLINE void store_lanes(float* to, Float x, int64_t count) {
  if (count >= kLanes) {
    store(to, x);
  } else if (count > 0) {
    store_first(to, x, count);
  }
}

VEC_INLINE Vec<uint16_t, 16> bytes_where(uint32_t mask, char value) {
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
  uint8x16_t halves[2];
  VEC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const auto low = vdup_n_u8(static_cast<uint8_t>(mask >> 16 * half));
    const auto high = vdup_n_u8(static_cast<uint8_t>(mask >> (16 * half + 8)));
    halves[half] = vandq_u8(vtstq_u8(vcombine_u8(low, high), bits), vdupq_n_u8(static_cast<uint8_t>(value)));
  }
  return load<Vec<uint16_t, 16>>(halves);
}

VEC_INLINE int32x4_t every_fourth(const uint8_t* row, int64_t) { return load<int32x4_t>(row); }

VEC_INLINE int32x4_t low_words(int32x4_t a, int32x4_t b) { return vzip1q_s32(a, b); }
VEC_INLINE int32x4_t high_words(int32x4_t a, int32x4_t b) { return vzip2q_s32(a, b); }
VEC_INLINE int32x4_t low_pairs(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
VEC_INLINE int32x4_t high_pairs(int32x4_t a, int32x4_t b) {
  return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}

#endif

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
