// The arithmetic of layers of integers without dot products of bytes: inputs are gathered as int16, weights widened in
// registers, and pairs of products summed by one instruction.
#include "kernels/quantized/layer.h"
#include "kernels/quantized/tile.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Count bytes less the zero point.
template <int Count, class Byte>
VEC_INLINE void widen_some(const Byte* from, int16_t zero, int16_t* to) {
  store(to, __builtin_convertvector(load<Vec<Byte, Count>>(from), Vec<int16_t, Count>) - zero);
}

// n bytes by vectors of Count, the last of which overlaps the one before it; of fewer, by smaller ones.
template <int Count, class Byte>
VEC_INLINE void widen(const Byte* from, int64_t n, int16_t zero, int16_t* to) {
  if (n < Count) {
    if constexpr (Count > 4) return widen<Count / 2>(from, n, zero, to);
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(from[i] - zero);
    return;
  }
  for (int64_t i = 0; i + Count <= n; i += Count) widen_some<Count>(from + i, zero, to + i);
  if (n % Count != 0) widen_some<Count>(from + n - Count, zero, to + n - Count);
}

void gather(const void* from, int64_t n, int32_t zero, bool is_signed, void* to) {
  constexpr int kCount = kVectorBytes / 2;
  auto* words = static_cast<int16_t*>(to);
  if (is_signed) return widen<kCount>(static_cast<const int8_t*>(from), n, static_cast<int16_t>(zero), words);
  widen<kCount>(static_cast<const uint8_t*>(from), n, static_cast<int16_t>(zero), words);
}

#if defined(__AVX2__)

#if defined(__AVX512BW__)
using Words = __m512i;
constexpr int kRows = 12;

VEC_INLINE Words widened(const int8_t* from) { return _mm512_maskz_cvtepi8_epi16(~0u, load<__m256i>(from)); }

VEC_INLINE Words four(const int16_t* from) {
  int64_t x;
  std::memcpy(&x, from, sizeof(x));
  return _mm512_set1_epi64(x);
}

// The empty instruction keeps sums in registers: else the compiler loads the inputs of all rows first.
VEC_INLINE Words plus_products(Words sum, Words a, Words b) {
  sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
  asm("" : "+v"(sum));
  return sum;
}

// Each channel's sum of its two lanes.
VEC_INLINE Int joined(Words a, Words b) {
  const auto x = reinterpret_cast<Int>(a);
  const auto y = reinterpret_cast<Int>(b);
  return __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
#else
using Words = __m256i;
constexpr int kRows = 6;

VEC_INLINE Words widened(const int8_t* from) { return _mm256_cvtepi8_epi16(load<__m128i>(from)); }

VEC_INLINE Words four(const int16_t* from) {
  int64_t x;
  std::memcpy(&x, from, sizeof(x));
  return _mm256_set1_epi64x(x);
}

// The empty instruction keeps sums in registers: else the compiler loads the inputs of all rows first.
VEC_INLINE Words plus_products(Words sum, Words a, Words b) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  asm("" : "+x"(sum));
  return sum;
}

// Each channel's sum of its two lanes.
VEC_INLINE Int joined(Words a, Words b) {
  return reinterpret_cast<Int>(_mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8));
}
#endif

constexpr int kTileVectors = 2;        // of words
constexpr int kTileChannels = kLanes;  // two words a quad and channel

template <int Rows>
void run(const QuantizedTile& tile) {
  constexpr int kBytes = sizeof(Words) / 2;  // of weights a vector
  Words sums[Rows][kTileVectors] = {};
  const auto* rows = static_cast<const char*>(tile.rows);
  const int8_t* weights = tile.weights;
  for (int64_t q = 0; q < tile.quads; ++q) {
    Words w[kTileVectors];
    VEC_UNROLL
    for (int v = 0; v < kTileVectors; ++v) w[v] = widened(weights + v * kBytes);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const Words x = four(reinterpret_cast<const int16_t*>(rows + r * tile.row_bytes) + q * kQuad);
      VEC_UNROLL
      for (int v = 0; v < kTileVectors; ++v) sums[r][v] = plus_products(sums[r][v], x, w[v]);
    }
    weights += kQuadBytes;
  }
  int32_t totals[Rows][kTileChannels];
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) store(totals[r], joined(sums[r][0], sums[r][1]));
  finish_tile(tile, totals[0], Rows, kTileChannels);
}

#else

constexpr int kRows = 2;
constexpr int kTileChannels = kQuantizedBlock;

template <int Rows>
void run(const QuantizedTile& tile) {
  int32_t sums[Rows][kTileChannels] = {};
  const auto* rows = static_cast<const char*>(tile.rows);
  const int8_t* weights = tile.weights;
  for (int64_t q = 0; q < tile.quads; ++q, weights += kQuadBytes) {
    for (int r = 0; r < Rows; ++r) {
      const int16_t* x = reinterpret_cast<const int16_t*>(rows + r * tile.row_bytes) + q * kQuad;
      for (int c = 0; c < kTileChannels; ++c) {
        const int8_t* w = weights + c * kQuad;
        sums[r][c] += x[0] * w[0] + x[1] * w[1] + x[2] * w[2] + x[3] * w[3];
      }
    }
  }
  finish_tile(tile, sums[0], Rows, kTileChannels);
}

#endif

template <int Rows = 1>
void fill_rows(QuantizedTiles& tiles) {
  tiles.run[Rows - 1] = run<Rows>;
  if constexpr (Rows < kRows) fill_rows<Rows + 1>(tiles);
}

QuantizedTiles make_tiles() {
  QuantizedTiles tiles = {kRows, kTileChannels, sizeof(int16_t), gather, {}};
  fill_rows(tiles);
  return tiles;
}

}  // namespace

const QuantizedTiles& quantized_tiles() {
  static const QuantizedTiles tiles = make_tiles();
  return tiles;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
