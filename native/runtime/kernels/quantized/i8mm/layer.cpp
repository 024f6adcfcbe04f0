// Layers of integers on ARM64 with matrix products of signed bytes: of two rows by two channels, eight inputs at a
// time. The zero point's share is subtracted at the end.
#include "kernels/quantized/layer.h"

#include <utility>

#include "kernels/quantized/byte_inputs.h"
#include "kernels/quantized/tile.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kRows = 6;                     // 3 x 8 sums, beside the rows' inputs
constexpr int kPairs = kQuantizedBlock / 2;  // of a block's channels

// Two quads of weights as pairs of channels.
VEC_INLINE void load_pairs(const int8_t* weights, bool has_second, int8x16_t (&to)[kPairs]) {
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    const auto first = load<int32x4_t>(weights + v * kVectorBytes);
    const auto second = has_second ? load<int32x4_t>(weights + kQuadBytes + v * kVectorBytes) : vdupq_n_s32(0);
    to[2 * v] = vreinterpretq_s8_s32(vzip1q_s32(first, second));
    to[2 * v + 1] = vreinterpretq_s8_s32(vzip2q_s32(first, second));
  }
}

VEC_INLINE int8x8_t load_inputs(const uint8_t* from, bool has_second) {
  if (has_second) return load<int8x8_t>(from);
  return vreinterpret_s8_u32(vset_lane_u32(load<uint32_t>(from), vdup_n_u32(0), 0));
}

// An odd number of rows has the last one twice.
template <int Rows>
VEC_INLINE void add_quads(const uint8_t* const* inputs, int64_t quad, const int8_t* weights, bool has_second,
                          int32x4_t (&sums)[(Rows + 1) / 2][kPairs]) {
  int8x16_t pairs[kPairs];
  load_pairs(weights, has_second, pairs);
  VEC_UNROLL
  for (int r = 0; r < (Rows + 1) / 2; ++r) {
    const uint8_t* second = inputs[2 * r + 1 < Rows ? 2 * r + 1 : 2 * r];
    const int8x16_t x = vcombine_s8(load_inputs(inputs[2 * r] + quad * kQuad, has_second),
                                    load_inputs(second + quad * kQuad, has_second));
    VEC_UNROLL
    for (int p = 0; p < kPairs; ++p) sums[r][p] = vmmlaq_s32(sums[r][p], x, pairs[p]);
  }
}

// Not inlined: GCC 12 would keep what all blocks share in registers, and spill sums in the inner loop.
template <int Rows>
__attribute__((noinline)) void run_block(const QuantizedTile& tile, int64_t channel) {
  int32x4_t products[(Rows + 1) / 2][kPairs] = {};
  const auto* inputs = reinterpret_cast<const uint8_t* const*>(tile.inputs);
  const int8_t* weights = weights_from(tile, channel);
  for (int64_t tap = 0; tap < tile.taps; ++tap, inputs += Rows) {
    int64_t q = 0;
    for (; q + 2 <= tile.tap_quads; q += 2, weights += 2 * kQuadBytes) {
      add_quads<Rows>(inputs, q, weights, true, products);
    }
    if (q < tile.tap_quads) {
      add_quads<Rows>(inputs, q, weights, false, products);
      weights += kQuadBytes;
    }
  }
  TileSums<Rows, 1> sums;
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    const Int zeros = zero_share(tile, channel, v);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const int64x2_t low = vreinterpretq_s64_s32(products[r / 2][2 * v]);
      const int64x2_t high = vreinterpretq_s64_s32(products[r / 2][2 * v + 1]);
      sums.at[r][0][v] = reinterpret_cast<Int>(r % 2 == 0 ? vzip1q_s64(low, high) : vzip2q_s64(low, high)) + zeros;
    }
  }
  finish_blocks(tile, channel, sums);
}

template <int Rows>
void run(const QuantizedTile& tile) {
  for (int64_t channel = 0; channel < tile.channels; channel += kQuantizedBlock) run_block<Rows>(tile, channel);
}

template <int... Number>
constexpr QuantizedTiles tiles_of(std::integer_sequence<int, Number...>) {
  return {kRows,
          1,
          kQuantizedBlock,
          sizeof(uint8_t),
          kGatheredBytes,
          false,
          arrange_bytes<true>,
          nullptr,
          nullptr,
          {run<Number + 1>...},
          true};
}

}  // namespace

constexpr QuantizedTiles dot_product_tiles = tiles_of(std::make_integer_sequence<int, kRows>());

}  // namespace executorch_ggml::kernels::KERNEL_ISA
