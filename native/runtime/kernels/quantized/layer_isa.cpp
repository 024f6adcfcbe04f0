// The arithmetic of layers of integers without dot products of bytes: inputs are widened to int16 as they are gathered,
// weights in registers, or once for many pixels, and pairs of products summed by one instruction.
#include "kernels/quantized/layer.h"
#include "kernels/quantized/tile.h"
#include "kernels/quantized/word_inputs.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// The weights of a quad that lie at even places are multiplied together, and those at odd places: shifts give them as
// int16, and the inputs are put in the same order.
constexpr int kOrder[kQuad] = {0, 2, 1, 3};

constexpr int kArranged = 16;  // inputs at a time

using Arranged = Vec<int16_t, kArranged / 2>;

template <class Byte>
VEC_INLINE void arrange_some(const Byte* from, int16_t zero, int16_t* to) {
  const auto bytes = load<Arranged>(from);
  Arranged even;
  Arranged odd;
  if constexpr (static_cast<Byte>(-1) < 0) {
    even = bytes << 8 >> 8;
    odd = bytes >> 8;
  } else {
    even = bytes & 0xff;
    odd = bytes >> 8 & 0xff;
  }
  even -= zero;
  odd -= zero;
  store(to, __builtin_shufflevector(even, odd, 0, 1, 8, 9, 2, 3, 10, 11));
  store(to + kArranged / 2, __builtin_shufflevector(even, odd, 4, 5, 12, 13, 6, 7, 14, 15));
}

template <class Byte>
VEC_INLINE void arrange_quads(const Byte* from, int64_t n, int16_t zero, int16_t* to) {
  if (n < kArranged) {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(from[i / kQuad * kQuad + kOrder[i % kQuad]] - zero);
    return;
  }
  for (int64_t i = 0; i + kArranged <= n; i += kArranged) arrange_some(from + i, zero, to + i);
  arrange_some(from + n - kArranged, zero, to + n - kArranged);  // overlaps the one before it
}

void arrange(const void* from, int64_t n, int32_t zero, bool is_signed, void* to) {
  auto* words = static_cast<int16_t*>(to);
  if (is_signed) return arrange_quads(static_cast<const int8_t*>(from), n, static_cast<int16_t>(zero), words);
  arrange_quads(static_cast<const uint8_t*>(from), n, static_cast<int16_t>(zero), words);
}

constexpr int64_t kWidenedBytes = 2 * kQuadBytes;  // of the weights of a quad

// Sign-extends bytes 0 and 2 of each 32-bit lane to int16 (half 0), or bytes 1 and 3 (half 1).
VEC_INLINE Words half_of_quads(Words bytes, int half) { return half == 0 ? bytes << 8 >> 8 : bytes >> 8; }

// As many as the registers hold sums of, beside a block's weights and an input.
constexpr int kMostRows = 12;
constexpr int kHeldRows = (kVectorRegisters - kBlockVectors - 2) / kBlockVectors;
constexpr int kRows = kHeldRows < kMostRows ? kHeldRows : kMostRows;

// So few rows read weights at the speed of memory. What the CPU prefetches by itself ends with each page.
constexpr int kStreamedRows = 2;
constexpr int64_t kPrefetched = 2048;  // bytes ahead

// Not inlined: GCC 12 would keep what all blocks share in registers, and spill sums in the inner loop.
template <int Rows, int Vectors, bool Widened>
__attribute__((noinline)) void run_vectors(const QuantizedTile& tile, int64_t channel) {
  TileSums<Rows, 1> sums = {};
  const void* const* inputs = tile.inputs;
  const int8_t* weights = weights_from(tile, channel);
  for (int64_t tap = 0; tap < tile.taps; ++tap, inputs += Rows) {
    for (int64_t q = 0; q < tile.tap_quads; ++q, weights += Widened ? kWidenedBytes : kQuadBytes) {
      if (Rows <= kStreamedRows) __builtin_prefetch(weights + kPrefetched);
      VEC_UNROLL
      for (int half = 0; half < 2; ++half) {
        Words w[Vectors];
        VEC_UNROLL
        for (int v = 0; v < Vectors; ++v) {
          w[v] = Widened ? load<Words>(weights + half * kQuadBytes + v * kVectorBytes)
                         : half_of_quads(load<Words>(weights + v * kVectorBytes), half);
        }
        VEC_UNROLL
        for (int r = 0; r < Rows; ++r) {
          const Words x = in_order(splat_pair(static_cast<const int16_t*>(inputs[r]) + q * kQuad + half * 2));
          VEC_UNROLL
          for (int v = 0; v < Vectors; ++v) add_in_order(&sums.at[r][0][v], pair_products(x, w[v]));
        }
      }
    }
  }
  finish_blocks(tile, channel, sums);
}

template <int Rows, bool Widened>
void run(const QuantizedTile& tile) {
  constexpr int kHalf = (kBlockVectors + 1) / 2;
  int64_t channel = 0;
  for (; tile.channels - channel > kHalf * kLanes; channel += kQuantizedBlock) {
    run_vectors<Rows, kBlockVectors, Widened>(tile, channel);
  }
  if (channel < tile.channels) run_vectors<Rows, kHalf, Widened>(tile, channel);
}

void widen(const int8_t* weights, int64_t quads, void* to) {
  auto* words = static_cast<char*>(to);
  for (int64_t q = 0; q < quads; ++q, weights += kQuadBytes, words += kWidenedBytes) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      const auto bytes = load<Words>(weights + v * kVectorBytes);
      for (int half = 0; half < 2; ++half) {
        store(words + half * kQuadBytes + v * kVectorBytes, half_of_quads(bytes, half));
      }
    }
  }
}

template <bool Widened, int Rows = 1>
void fill_rows(QuantizedTileRun (&to)[kMaxQuantizedRows]) {
  to[Rows - 1] = run<Rows, Widened>;
  if constexpr (Rows < kRows) fill_rows<Widened, Rows + 1>(to);
}

WidenedTiles make_widened_tiles() {
  WidenedTiles tiles = {};
  tiles.widen = widen;
  fill_rows<true>(tiles.run);
  return tiles;
}

QuantizedTiles make_tiles() {
  QuantizedTiles tiles = {};
  tiles.rows = kRows;
  tiles.row_step = 1;
  tiles.channels = kQuantizedBlock;
  tiles.element_bytes = sizeof(int16_t);
  tiles.gathered_bytes = kGatheredBytes;
  tiles.arrange = arrange;
  tiles.arrange_in_order = widen_inputs;
  fill_rows<false>(tiles.run);
  static const WidenedTiles widened = make_widened_tiles();
  tiles.widened = &widened;
  return tiles;
}

}  // namespace

const QuantizedTiles& quantized_tiles() {
  static const QuantizedTiles tiles = make_tiles();
  return tiles;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
