// Layers of integers on NEON: inputs are widened to int16 as they are arranged, weights in registers, and multiplied
// with one lane each.
#include "kernels/quantized/layer.h"

#include <utility>

#include "kernels/quantized/tile.h"
#include "kernels/quantized/word_inputs.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kRows = 4;  // 4 x 4 sums, beside a quad's weights

// sums += the K-th input of each row times a quad's K-th weights.
template <int K, int Rows>
VEC_INLINE void add_products(const int16x4_t (&x)[Rows], int8x16_t weights, int32x4_t (&sums)[Rows][kBlockVectors]) {
  add_lane_products<K>(x, vmovl_s8(vget_low_s8(weights)), vmovl_high_s8(weights), sums);
}

// Not inlined: GCC 12 would keep what all blocks share in registers, and spill sums in the inner loop.
template <int Rows>
__attribute__((noinline)) void run_block(const QuantizedTile& tile, int64_t channel) {
  int32x4_t products[Rows][kBlockVectors] = {};
  const auto* inputs = reinterpret_cast<const int16_t* const*>(tile.inputs);
  const int8_t* weights = weights_from(tile, channel);
  for (int64_t tap = 0; tap < tile.taps; ++tap, inputs += Rows) {
    for (int64_t q = 0; q < tile.tap_quads; ++q, weights += kQuadBytes) {
      const int8x16x4_t of_quad = vld4q_s8(weights);
      int16x4_t x[Rows];
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) x[r] = vld1_s16(inputs[r] + q * kQuad);
      add_products<0>(x, of_quad.val[0], products);
      add_products<1>(x, of_quad.val[1], products);
      add_products<2>(x, of_quad.val[2], products);
      add_products<3>(x, of_quad.val[3], products);
    }
  }
  TileSums<Rows, 1> sums;
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) sums.at[r][0][v] = reinterpret_cast<Int>(products[r][v]);
  }
  finish_blocks(tile, channel, sums);
}

template <int Rows>
void run(const QuantizedTile& tile) {
  for (int64_t channel = 0; channel < tile.channels; channel += kQuantizedBlock) run_block<Rows>(tile, channel);
}

template <int... Number>
constexpr QuantizedTiles tiles_of(std::integer_sequence<int, Number...>) {
  return {kRows,        1,       kQuantizedBlock, sizeof(int16_t),     kGatheredBytes, false,
          widen_inputs, nullptr, nullptr,         {run<Number + 1>...}};
}

}  // namespace

constexpr QuantizedTiles word_tiles = tiles_of(std::make_integer_sequence<int, kRows>());

}  // namespace executorch_ggml::kernels::KERNEL_ISA
