// The arithmetic of int8 GEMM on AVX-512 VNNI, which multiplies unsigned bytes with signed ones: weights are made
// unsigned by adding their type's offset, and the accumulators start at minus that offset times the sum of a row's
// values.
#include "kernels/product/integer_product.h"

#include <cstring>
#include <limits>

#include "kernels/simd/prefetch.h"
#include "kernels/simd/vec.h"

#if !defined(__clang__)  // GCC 12 warns of its own AVX-512 header (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kVectors = kIntegerColumns / kIntegerLanes;
constexpr int kTileRows = static_cast<int>(kStreamRows);
constexpr int kNotFinite = 0x99;  // for vfpclass: quiet and signalling NaN, both infinities

// ------------------------------------------------------------------------------------------- blocks of ggml's types

VEC_INLINE float widened(uint16_t half) { return _cvtsh_ss(half); }

VEC_INLINE __m256i load_32(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

VEC_INLINE void store_32(uint8_t* to, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }

// 16 bytes as 32 numbers: the lower halves before the upper ones.
VEC_INLINE __m256i nibbles(const uint8_t* from) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(x), _mm_srli_epi16(x, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

// The bits of each byte from `shift` on that `mask` keeps.
VEC_INLINE __m256i bits_from(__m256i x, int shift, int mask) {
  const __m256i shifted = _mm256_srl_epi16(x, _mm_cvtsi32_si128(shift));
  return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(mask)));
}

// 16 where a bit is set, to add to nibbles.
VEC_INLINE __m256i fifth_bits(uint32_t high) { return _mm256_maskz_set1_epi8(high, 16); }

// A block of one column: (weights - Type::kOffset) * scales - mins.
struct Unpacked {
  __m256i weights;
  float scales[2];
  float mins[2];
};

// A type has kOffset, what is added to make its weights unsigned; kHalves, whether each 16 weights have their own
// scale; kMins, whether a minimum is subtracted; and unpack(column, index), which reads the index-th block of a column.

struct Q8_0 {
  static constexpr int kOffset = 128;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = false;
  uint16_t scale;
  int8_t weights[32];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q8_0& block = reinterpret_cast<const Q8_0*>(column)[index];
    return {_mm256_xor_si256(load_32(block.weights), _mm256_set1_epi8(-128)), {widened(block.scale)}, {}};
  }
};

struct Q4_0 {
  static constexpr int kOffset = 8;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = false;
  uint16_t scale;
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q4_0& block = reinterpret_cast<const Q4_0*>(column)[index];
    return {nibbles(block.low), {widened(block.scale)}, {}};
  }
};

struct Q4_1 {
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q4_1& block = reinterpret_cast<const Q4_1*>(column)[index];
    return {nibbles(block.low), {widened(block.scale)}, {-widened(block.min)}};
  }
};

struct Q5_0 {
  static constexpr int kOffset = 16;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = false;
  uint16_t scale;
  uint8_t high[4];
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q5_0& block = reinterpret_cast<const Q5_0*>(column)[index];
    uint32_t high = 0;
    std::memcpy(&high, block.high, sizeof(high));
    return {_mm256_or_si256(nibbles(block.low), fifth_bits(high)), {widened(block.scale)}, {}};
  }
};

struct Q5_1 {
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  uint8_t high[4];
  uint8_t low[16];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q5_1& block = reinterpret_cast<const Q5_1*>(column)[index];
    uint32_t high = 0;
    std::memcpy(&high, block.high, sizeof(high));
    return {_mm256_or_si256(nibbles(block.low), fifth_bits(high)), {widened(block.scale)}, {-widened(block.min)}};
  }
};

// Eight scales and as many mins of 6 bits in 12 bytes.
struct SixBits {
  uint8_t bytes[12];

  VEC_INLINE int scale(int64_t i) const {
    return i < 4 ? bytes[i] & 63 : (bytes[i + 4] & 15) | (bytes[i - 4] >> 6 << 4);
  }
  VEC_INLINE int min(int64_t i) const { return i < 4 ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | (bytes[i] >> 6 << 4); }
};

struct Q4K {
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  SixBits parts;
  uint8_t low[128];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q4K& block = reinterpret_cast<const Q4K*>(column)[index / 8];
    const int part = static_cast<int>(index % 8);
    return {bits_from(load_32(block.low + part / 2 * 32), part % 2 * 4, 15),
            {widened(block.scale) * static_cast<float>(block.parts.scale(part))},
            {widened(block.min) * static_cast<float>(block.parts.min(part))}};
  }
};

struct Q5K {
  static constexpr int kOffset = 0;
  static constexpr bool kHalves = false;
  static constexpr bool kMins = true;
  uint16_t scale, min;
  SixBits parts;
  uint8_t high[32];
  uint8_t low[128];

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q5K& block = reinterpret_cast<const Q5K*>(column)[index / 8];
    const int part = static_cast<int>(index % 8);
    const __m256i high = _mm256_slli_epi16(bits_from(load_32(block.high), part, 1), 4);
    return {_mm256_or_si256(bits_from(load_32(block.low + part / 2 * 32), part % 2 * 4, 15), high),
            {widened(block.scale) * static_cast<float>(block.parts.scale(part))},
            {widened(block.min) * static_cast<float>(block.parts.min(part))}};
  }
};

struct Q6K {
  static constexpr int kOffset = 32;
  static constexpr bool kHalves = true;
  static constexpr bool kMins = false;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t scale;

  static VEC_INLINE Unpacked unpack(const char* column, int64_t index) {
    const Q6K& block = reinterpret_cast<const Q6K*>(column)[index / 8];
    const int part = static_cast<int>(index % 8);
    const int half = part / 4;
    const int quarter = part % 4;
    const __m256i low = bits_from(load_32(block.low + 64 * half + quarter % 2 * 32), quarter / 2 * 4, 15);
    const __m256i high = _mm256_slli_epi16(bits_from(load_32(block.high + 32 * half), 2 * quarter, 3), 4);
    const float scale = widened(block.scale);
    return {
        _mm256_or_si256(low, high),
        {scale * static_cast<float>(block.scales[2 * part]), scale * static_cast<float>(block.scales[2 * part + 1])},
        {}};
  }
};

static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20 && sizeof(Q5_0) == 22 &&
                  sizeof(Q5_1) == 24 && sizeof(Q4K) == 144 && sizeof(Q5K) == 176 && sizeof(Q6K) == 210,
              "as in ggml");

// --------------------------------------------------------------------------------------------------------- packing

// 16 rows of 32 bytes to 8 rows of 16 times 4 bytes.
VEC_INLINE void transpose(const uint8_t (&from)[kIntegerLanes][kIntegerBlock],
                          uint8_t (&to)[kIntegerBlock / 4][kIntegerLanes][4]) {
  for (int half = 0; half < 2; ++half) {
    __m512i x[4];
    for (int i = 0; i < 4; ++i) {
      const auto quarter = [&](int row) {
        return _mm_load_si128(reinterpret_cast<const __m128i*>(from[row] + 16 * half));
      };
      x[i] = _mm512_castsi128_si512(quarter(i));
      x[i] = _mm512_inserti32x4(x[i], quarter(i + 4), 1);
      x[i] = _mm512_inserti32x4(x[i], quarter(i + 8), 2);
      x[i] = _mm512_inserti32x4(x[i], quarter(i + 12), 3);
    }
    const __m512i low01 = _mm512_unpacklo_epi32(x[0], x[1]);
    const __m512i high01 = _mm512_unpackhi_epi32(x[0], x[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(x[2], x[3]);
    const __m512i high23 = _mm512_unpackhi_epi32(x[2], x[3]);
    _mm512_storeu_si512(to[4 * half], _mm512_unpacklo_epi64(low01, low23));
    _mm512_storeu_si512(to[4 * half + 1], _mm512_unpackhi_epi64(low01, low23));
    _mm512_storeu_si512(to[4 * half + 2], _mm512_unpacklo_epi64(high01, high23));
    _mm512_storeu_si512(to[4 * half + 3], _mm512_unpackhi_epi64(high01, high23));
  }
}

// The index-th block of each of a vector's columns.
template <class Type>
VEC_INLINE void pack_block(const char* columns, size_t stride, int64_t count, int64_t index, ColumnBlock* to) {
  alignas(64) uint8_t rows[kIntegerLanes][kIntegerBlock];
  for (int64_t i = 0; i < kIntegerLanes; ++i) {
    Unpacked block = {};  // zeros where there is no such column
    if (i < count) block = Type::unpack(columns + static_cast<size_t>(i) * stride, index);
    store_32(rows[i], block.weights);
    for (int half = 0; half < 2; ++half) {
      to->scales[half][i] = block.scales[half];
      to->mins[half][i] = block.mins[half];
    }
  }
  transpose(rows, to->weights);
}

template <class Type>
void pack(const char* columns, size_t stride, int64_t count, int64_t blocks, ColumnBlock* panel) {
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t first = 0; first < kIntegerColumns; first += kIntegerLanes, ++panel) {
      pack_block<Type>(columns + static_cast<size_t>(first) * stride, stride, count - first, block, panel);
    }
  }
}

// 16 floats as signed bytes, and the sum of these.
VEC_INLINE __m128i quantize_16(__m512 x, float inverse, int32_t* sum) {
  const __m512i integers = _mm512_cvtps_epi32(_mm512_mul_ps(x, _mm512_set1_ps(inverse)));
  *sum = _mm512_reduce_add_epi32(integers);
  return _mm512_cvtsepi32_epi8(integers);
}

template <int Offset, bool Halves>
void quantize(const float* row, int64_t blocks, RowBlock* to) {
  constexpr float kLeast = 1e-30f;  // below it, the inverse of the scale may be infinite
  for (int64_t i = 0; i < blocks; ++i, row += kIntegerBlock, ++to) {
    const __m512 a = _mm512_loadu_ps(row);
    const __m512 b = _mm512_loadu_ps(row + 16);
    const float highest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(a), _mm512_abs_ps(b)));
    const bool finite = (_mm512_fpclass_ps_mask(a, kNotFinite) | _mm512_fpclass_ps_mask(b, kNotFinite)) == 0;
    const float inverse = finite && highest > kLeast ? 127.0f / highest : 0.0f;
    to->scale = finite ? highest / 127.0f : std::numeric_limits<float>::quiet_NaN();
    int32_t sums[2];
    auto* values = reinterpret_cast<__m128i*>(to->values);
    _mm_storeu_si128(values, finite ? quantize_16(a, inverse, &sums[0]) : _mm_setzero_si128());
    _mm_storeu_si128(values + 1, finite ? quantize_16(b, inverse, &sums[1]) : _mm_setzero_si128());
    if (!finite) sums[0] = sums[1] = 0;
    if (!Halves) sums[0] += sums[1];
    for (int half = 0; half < 2; ++half) {
      to->start[half] = -Offset * sums[half];
      to->sum[half] = to->scale * static_cast<float>(sums[half]);
    }
  }
}

// ----------------------------------------------------------------------------------------------------- GEMM: tiles of
// rows by columns

VEC_INLINE __m512i quad(const int8_t* values) {
  int32_t four = 0;
  std::memcpy(&four, values, sizeof(four));
  return _mm512_set1_epi32(four);
}

__mmask16 lane_mask(int64_t count) {
  return static_cast<__mmask16>(count >= kIntegerLanes ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

template <bool Halves, bool Mins, int Rows>
struct Tile {
  static constexpr int kParts = Halves ? 2 : 1;
  static constexpr int kQuads =
      static_cast<int>(kIntegerBlock) / 4 / kParts;  // groups of 4 products that share a scale

  static VEC_INLINE void accumulate(const RowBlock* const (&rows)[Rows], const ColumnBlock* columns, int part,
                                    __m512 (&sums)[Rows][kVectors]) {
    __m512i products[Rows][kVectors];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) products[r][v] = _mm512_set1_epi32(rows[r]->start[part]);
    }
    VEC_UNROLL
    for (int q = part * kQuads; q < (part + 1) * kQuads; ++q) {
      __m512i weights[kVectors];
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_si512(columns[v].weights[q]);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const __m512i values = quad(rows[r]->values + 4 * q);
        VEC_UNROLL
        for (int v = 0; v < kVectors; ++v) products[r][v] = _mm512_dpbusd_epi32(products[r][v], weights[v], values);
      }
    }
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const __m512 scales = _mm512_loadu_ps(columns[v].scales[part]);
      const __m512 mins = _mm512_loadu_ps(columns[v].mins[part]);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(rows[r]->scale));
        sums[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[r][v]), scale, sums[r][v]);
        if (Mins) sums[r][v] = _mm512_fnmadd_ps(mins, _mm512_set1_ps(rows[r]->sum[part]), sums[r][v]);
      }
    }
  }

  static void run(const RowBlock* first, int64_t blocks, const ColumnBlock* panel, int64_t columns, float* output,
                  int64_t stride) {
    __m512 sums[Rows][kVectors] = {};
    const RowBlock* rows[Rows];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) rows[r] = first + r * blocks;
    for (int64_t block = 0; block < blocks; ++block, panel += kVectors) {
      VEC_UNROLL
      for (int part = 0; part < kParts; ++part) accumulate(rows, panel, part, sums);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) ++rows[r];
    }
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const __mmask16 lanes = lane_mask(columns - v * kIntegerLanes);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) _mm512_mask_storeu_ps(output + r * stride + v * kIntegerLanes, lanes, sums[r][v]);
    }
  }
};

template <bool Halves, bool Mins>
void multiply(const RowBlock* rows, int64_t count, int64_t blocks, const ColumnBlock* panel, int64_t columns,
              float* output, int64_t stride) {
  static constexpr decltype(&Tile<Halves, Mins, 1>::run) kTiles[kTileRows] = {
      Tile<Halves, Mins, 1>::run, Tile<Halves, Mins, 2>::run, Tile<Halves, Mins, 3>::run,
      Tile<Halves, Mins, 4>::run, Tile<Halves, Mins, 5>::run, Tile<Halves, Mins, 6>::run};
  for (int64_t row = 0; row < count; row += kTileRows) {
    const int64_t left = count - row;
    kTiles[(left < kTileRows ? left : kTileRows) - 1](rows + row * blocks, blocks, panel, columns,
                                                      output + row * stride, stride);
  }
}

// Two blocks in one vector.
VEC_INLINE __m512i two_blocks(const void* first, const void* second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(load_32(first)), load_32(second), 1);
}

// The first block's scale in the lower lanes, the second one's in the upper lanes.
VEC_INLINE __m512 two_scales(float first, float second) {
  return _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(first), _mm512_set1_ps(second));
}

// The dot products of a q8_0 column with some rows, two blocks at a time.
template <int Rows>
VEC_INLINE void multiply_column(const RowBlock* rows, int64_t blocks, const Q8_0* column, float* output,
                                int64_t row_stride) {
  const __m512i offset = _mm512_set1_epi8(-128);
  __m512 sums[Rows] = {};
  for (int64_t block = 0; block < blocks; block += 2) {
    const bool whole = block + 1 < blocks;
    const Q8_0& a = column[block];
    const Q8_0& b = whole ? column[block + 1] : a;
    prefetch_stream(&a, 2 * sizeof(a));
    const __m512i weights = _mm512_xor_si512(two_blocks(a.weights, b.weights), offset);
    const __m512 scales = two_scales(widened(a.scale), whole ? widened(b.scale) : 0.0f);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const RowBlock& x = rows[r * blocks + block];
      const RowBlock& y = whole ? (&x)[1] : x;
      const __m512i start = _mm512_mask_set1_epi32(_mm512_maskz_set1_epi32(1, x.start[0]), 1 << 8, y.start[0]);
      const __m512i products = _mm512_dpbusd_epi32(start, weights, two_blocks(x.values, y.values));
      sums[r] =
          _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), _mm512_mul_ps(scales, two_scales(x.scale, y.scale)), sums[r]);
    }
  }
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) output[r * row_stride] = _mm512_reduce_add_ps(sums[r]);
}

template <int Rows>
void stream_columns(const RowBlock* rows, int64_t blocks, const char* columns, size_t stride, int64_t column_count,
                    float* output, int64_t row_stride) {
  for (int64_t i = 0; i < column_count; ++i) {
    const auto* column = reinterpret_cast<const Q8_0*>(columns + static_cast<size_t>(i) * stride);
    multiply_column<Rows>(rows, blocks, column, output + i, row_stride);
  }
}

void stream_q8_0(const RowBlock* rows, int64_t count, int64_t blocks, const char* columns, size_t stride,
                 int64_t column_count, float* output, int64_t row_stride) {
  static constexpr decltype(&stream_columns<1>) kStreams[kStreamRows] = {
      stream_columns<1>, stream_columns<2>, stream_columns<3>, stream_columns<4>, stream_columns<5>, stream_columns<6>};
  kStreams[count - 1](rows, blocks, columns, stride, column_count, output, row_stride);
}

// ------------------------------------------------------------------------------------------------ prepacked weights

// A block of a vector's columns in registers.
struct Columns {
  __m512i weights[kIntegerBlock / 4];
  __m512 scales[2];
  __m512 mins;
};

// The lower 4 bits of weights: byte i of vector q holds those of weights[q] and, in its upper half, of weights[q + 4].
using Nibbles = uint8_t[kIntegerBlock / 8][64];

VEC_INLINE void join_nibbles(const ColumnBlock& block, Nibbles* to) {
  for (int q = 0; q < 4; ++q) {
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i low = _mm512_and_si512(_mm512_loadu_si512(block.weights[q]), mask);
    const __m512i high = _mm512_and_si512(_mm512_loadu_si512(block.weights[q + 4]), mask);
    _mm512_storeu_si512((*to)[q], _mm512_or_si512(low, _mm512_slli_epi16(high, 4)));
  }
}

VEC_INLINE void split_nibbles(const Nibbles& from, Columns* to) {
  const __m512i mask = _mm512_set1_epi8(15);
  VEC_UNROLL
  for (int q = 0; q < 4; ++q) {
    const __m512i x = _mm512_loadu_si512(from[q]);
    to->weights[q] = _mm512_and_si512(x, mask);
    to->weights[q + 4] = _mm512_and_si512(_mm512_srli_epi16(x, 4), mask);
  }
}

using Halves16 = uint16_t[kIntegerLanes];
using Bytes16 = uint8_t[kIntegerLanes];

VEC_INLINE __m512 widened(const Halves16& from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

VEC_INLINE __m512 widened(const Bytes16& from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

// A panel is a row of groups of kBlocks blocks. set_column copies a column's scales, set_block a block of all columns'
// weights; load unpacks a block into registers.

struct Q4_0Group {
  static constexpr int64_t kBlocks = 1;
  Halves16 scale;
  Nibbles low;

  VEC_INLINE void set_column(const char* column, int64_t group, int64_t lane) {
    scale[lane] = reinterpret_cast<const Q4_0*>(column)[group].scale;
  }
  VEC_INLINE void set_block(const ColumnBlock& block, int64_t) { join_nibbles(block, &low); }
  VEC_INLINE void load(int64_t, Columns* to) const {
    split_nibbles(low, to);
    to->scales[0] = to->scales[1] = widened(scale);
    to->mins = _mm512_setzero_ps();
  }
};

struct Q4KGroup {
  static constexpr int64_t kBlocks = 8;
  struct Part {
    Bytes16 scale, min;
    Nibbles low;
  };
  Halves16 scale, min;
  Part parts[kBlocks];

  VEC_INLINE void set_column(const char* column, int64_t group, int64_t lane) {
    const Q4K& from = reinterpret_cast<const Q4K*>(column)[group];
    scale[lane] = from.scale;
    min[lane] = from.min;
    for (int64_t i = 0; i < kBlocks; ++i) {
      parts[i].scale[lane] = static_cast<uint8_t>(from.parts.scale(i));
      parts[i].min[lane] = static_cast<uint8_t>(from.parts.min(i));
    }
  }
  VEC_INLINE void set_block(const ColumnBlock& block, int64_t part) { join_nibbles(block, &parts[part].low); }
  VEC_INLINE void load(int64_t part, Columns* to) const {
    split_nibbles(parts[part].low, to);
    to->scales[0] = to->scales[1] = _mm512_mul_ps(widened(scale), widened(parts[part].scale));
    to->mins = _mm512_mul_ps(widened(min), widened(parts[part].min));
  }
};

struct Q6KGroup {
  static constexpr int64_t kBlocks = 8;
  struct Part {
    int8_t scale[2][kIntegerLanes];
    Nibbles low;
    uint8_t high[2][64];  // the upper 2 bits of weights[q] for even q, and for odd q
  };
  Halves16 scale;
  Part parts[kBlocks];

  VEC_INLINE void set_column(const char* column, int64_t group, int64_t lane) {
    const Q6K& from = reinterpret_cast<const Q6K*>(column)[group];
    scale[lane] = from.scale;
    for (int64_t i = 0; i < 2 * kBlocks; ++i) parts[i / 2].scale[i % 2][lane] = from.scales[i];
  }
  VEC_INLINE void set_block(const ColumnBlock& block, int64_t part) {
    join_nibbles(block, &parts[part].low);
    __m512i high[2] = {};
    for (int q = 0; q < 8; ++q) {
      const __m512i two =
          _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(block.weights[q]), 4), _mm512_set1_epi8(3));
      high[q % 2] = _mm512_or_si512(high[q % 2], _mm512_slli_epi16(two, q / 2 * 2));
    }
    for (int i = 0; i < 2; ++i) _mm512_storeu_si512(parts[part].high[i], high[i]);
  }
  VEC_INLINE void load(int64_t part, Columns* to) const {
    split_nibbles(parts[part].low, to);
    const __m512i high[] = {_mm512_loadu_si512(parts[part].high[0]), _mm512_loadu_si512(parts[part].high[1])};
    const __m512i mask = _mm512_set1_epi8(3 << 4);
    VEC_UNROLL
    for (int q = 0; q < 8; ++q) {
      const int up = 4 - q / 2 * 2;
      const __m512i x = up > 0 ? _mm512_slli_epi16(high[q % 2], up) : _mm512_srli_epi16(high[q % 2], -up);
      to->weights[q] = _mm512_or_si512(to->weights[q], _mm512_and_si512(x, mask));
    }
    for (int i = 0; i < 2; ++i) {
      const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(parts[part].scale[i]));
      to->scales[i] = _mm512_mul_ps(widened(scale), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(eight)));
    }
    to->mins = _mm512_setzero_ps();
  }
};

template <class Type, class Group>
struct Prepacked {
  static constexpr int kParts = Type::kHalves ? 2 : 1;
  static constexpr int kQuads = static_cast<int>(kIntegerBlock) / 4 / kParts;

  static size_t panel_bytes(int64_t blocks) { return static_cast<size_t>(blocks / Group::kBlocks) * sizeof(Group); }

  static void pack(const char* columns, size_t stride, int64_t count, int64_t blocks, char* panel) {
    auto* groups = reinterpret_cast<Group*>(panel);
    ColumnBlock block;
    for (int64_t i = 0; i < blocks / Group::kBlocks; ++i) {
      groups[i] = {};
      for (int64_t lane = 0; lane < count; ++lane) {
        groups[i].set_column(columns + static_cast<size_t>(lane) * stride, i, lane);
      }
      for (int64_t part = 0; part < Group::kBlocks; ++part) {
        pack_block<Type>(columns, stride, count, i * Group::kBlocks + part, &block);
        groups[i].set_block(block, part);
      }
    }
  }

  static void unpack(const char* panel, int64_t blocks, ColumnBlock* to) {
    const auto* group = reinterpret_cast<const Group*>(panel);
    Columns columns;
    for (int64_t block = 0; block < blocks; block += Group::kBlocks, ++group) {
      for (int64_t part = 0; part < Group::kBlocks; ++part, to += kVectors) {
        group->load(part, &columns);
        VEC_UNROLL
        for (int q = 0; q < kIntegerBlock / 4; ++q) _mm512_storeu_si512(to->weights[q], columns.weights[q]);
        for (int i = 0; i < 2; ++i) _mm512_storeu_ps(to->scales[i], columns.scales[i]);
        _mm512_storeu_ps(to->mins[0], columns.mins);
      }
    }
  }

  template <int Rows>
  static void stream_rows(const RowBlock* row, int64_t blocks, const char* panel, __mmask16 lanes, float* output,
                          int64_t stride) {
    constexpr int64_t kPartBytes = sizeof(Group) / Group::kBlocks;
    const auto* group = reinterpret_cast<const Group*>(panel);
    __m512 sums[Rows] = {};
    Columns columns;
    for (int64_t block = 0; block < blocks; block += Group::kBlocks, ++group) {
      for (int64_t part = 0; part < Group::kBlocks; ++part, ++row) {
        prefetch_stream(reinterpret_cast<const char*>(group) + part * kPartBytes, kPartBytes);
        group->load(part, &columns);
        VEC_UNROLL
        for (int r = 0; r < Rows; ++r) {
          const RowBlock& x = row[r * blocks];
          VEC_UNROLL
          for (int i = 0; i < kParts; ++i) {
            __m512i products = _mm512_set1_epi32(x.start[i]);
            VEC_UNROLL
            for (int q = i * kQuads; q < (i + 1) * kQuads; ++q) {
              products = _mm512_dpbusd_epi32(products, columns.weights[q], quad(x.values + 4 * q));
            }
            const __m512 scale = _mm512_mul_ps(columns.scales[i], _mm512_set1_ps(x.scale));
            sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), scale, sums[r]);
          }
          if (Type::kMins) sums[r] = _mm512_fnmadd_ps(columns.mins, _mm512_set1_ps(x.sum[0]), sums[r]);
        }
      }
    }
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) _mm512_mask_storeu_ps(output + r * stride, lanes, sums[r]);
  }

  static void stream(const RowBlock* rows, int64_t count, int64_t blocks, const char* panel, int64_t columns,
                     float* output, int64_t stride) {
    static constexpr decltype(&stream_rows<1>) kStreams[kStreamRows] = {stream_rows<1>, stream_rows<2>, stream_rows<3>,
                                                                        stream_rows<4>, stream_rows<5>, stream_rows<6>};
    kStreams[count - 1](rows, blocks, panel, lane_mask(columns), output, stride);
  }

  static constexpr PrepackedLayout kLayout = {panel_bytes, pack, unpack, stream};
};

template <class Type>
constexpr const PrepackedLayout* kPrepacked = nullptr;
template <>
constexpr const PrepackedLayout* kPrepacked<Q4_0> = &Prepacked<Q4_0, Q4_0Group>::kLayout;
template <>
constexpr const PrepackedLayout* kPrepacked<Q4K> = &Prepacked<Q4K, Q4KGroup>::kLayout;
template <>
constexpr const PrepackedLayout* kPrepacked<Q6K> = &Prepacked<Q6K, Q6KGroup>::kLayout;

template <class Type>
constexpr decltype(IntegerProduct::stream) kStream = nullptr;
template <>
constexpr decltype(IntegerProduct::stream) kStream<Q8_0> = stream_q8_0;

template <class Type>
constexpr IntegerProduct product_of(ggml_type type) {
  return {type,          quantize<Type::kOffset, Type::kHalves>,
          pack<Type>,    multiply<Type::kHalves, Type::kMins>,
          kStream<Type>, kPrepacked<Type>};
}

constexpr IntegerProduct kProducts[] = {
    product_of<Q4_0>(GGML_TYPE_Q4_0), product_of<Q4_1>(GGML_TYPE_Q4_1), product_of<Q5_0>(GGML_TYPE_Q5_0),
    product_of<Q5_1>(GGML_TYPE_Q5_1), product_of<Q8_0>(GGML_TYPE_Q8_0), product_of<Q4K>(GGML_TYPE_Q4_K),
    product_of<Q5K>(GGML_TYPE_Q5_K),  product_of<Q6K>(GGML_TYPE_Q6_K),
};

}  // namespace

constexpr IntegerProducts integer_products = {kProducts, sizeof(kProducts) / sizeof(kProducts[0])};

}  // namespace executorch_ggml::kernels::KERNEL_ISA
