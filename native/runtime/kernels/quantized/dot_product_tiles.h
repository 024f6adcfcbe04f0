// The arithmetic of layers of integers by instructions that sum products of four inputs with four signed weights. The
// zero point's share is subtracted at the end. For folders of instruction sets only.
#pragma once

#include <utility>

#include "kernels/quantized/byte_inputs.h"
#include "kernels/quantized/dot_products.h"
#include "kernels/quantized/layer.h"
#include "kernels/quantized/tile.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// As many sums as the registers hold, beside the weights of some quads.
#if defined(__AVX512VNNI__)
constexpr int kRows = 12;
constexpr int kBlocks = 2;
constexpr int kQuadsAtOnce = 2;
#elif defined(__aarch64__)
constexpr int kRows = 6;
constexpr int kBlocks = 1;
constexpr int kQuadsAtOnce = 4;
#else
constexpr int kRows = 6;
constexpr int kBlocks = 1;
constexpr int kQuadsAtOnce = 1;
#endif

VEC_INLINE Int splat_quad(const uint8_t* from) {
  int32_t x;
  std::memcpy(&x, from, sizeof(x));
  return Int{} + x;
}

#if defined(__aarch64__)
// sums[r][v] += the Q-th quad of each row by a vector of weights.
template <int Q, int Rows>
VEC_INLINE void add_lane(const int8x16_t (&x)[Rows], const int8_t* weights, TileSums<Rows, 1>& sums) {
  VEC_UNROLL
  for (int v = 0; v < kBlockVectors; ++v) {
    const auto w = load<int8x16_t>(weights + Q * kQuadBytes + v * kVectorBytes);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      auto& sum = sums.at[r][0][v];
      sum = reinterpret_cast<Int>(vdotq_laneq_s32(reinterpret_cast<int32x4_t>(sum), w, x[r], Q));
      asm("" : "+w"(sum));  // else compilers load all weights first, and spill
    }
  }
}

// Four quads of each row in one register.
template <int Rows>
VEC_INLINE void add_four_quads(const uint8_t* const* inputs, int64_t first, const int8_t* weights,
                               TileSums<Rows, 1>& sums) {
  int8x16_t x[Rows];
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) x[r] = load<int8x16_t>(inputs[r] + first * kQuad);
  add_lane<0>(x, weights, sums);
  add_lane<1>(x, weights, sums);
  add_lane<2>(x, weights, sums);
  add_lane<3>(x, weights, sums);
}
#endif

// Adds the products of some adjacent quads: each row's pointer, of which there are more than registers, is used for
// all.
template <int Quads, int Rows, int Blocks>
VEC_INLINE void add_quads(const uint8_t* const* inputs, int64_t first, const int8_t* weights, int64_t block_bytes,
                          TileSums<Rows, Blocks>& sums) {
#if defined(__aarch64__)
  if constexpr (Quads == 4) return add_four_quads(inputs, first, weights, sums);
#endif
  Int w[Quads][Blocks][kBlockVectors];
  VEC_UNROLL
  for (int q = 0; q < Quads; ++q) {
    VEC_UNROLL
    for (int b = 0; b < Blocks; ++b) {
      VEC_UNROLL
      for (int v = 0; v < kBlockVectors; ++v) {
        w[q][b][v] = load<Int>(weights + q * kQuadBytes + b * block_bytes + v * kVectorBytes);
      }
    }
  }
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) {
    VEC_UNROLL
    for (int q = 0; q < Quads; ++q) {
      const Int x = splat_quad(inputs[r] + (first + q) * kQuad);
      VEC_UNROLL
      for (int b = 0; b < Blocks; ++b) {
        VEC_UNROLL
        for (int v = 0; v < kBlockVectors; ++v) {
          sums.at[r][b][v] = plus_dot_products(sums.at[r][b][v], x, w[q][b][v]);
        }
      }
    }
  }
}

// Not inlined: GCC 12 would keep what all blocks share in registers, and spill sums in the inner loop.
template <int Rows, int Blocks>
__attribute__((noinline)) void run_blocks(const QuantizedTile& tile, int64_t channel) {
  TileSums<Rows, Blocks> sums;
  VEC_UNROLL
  for (int b = 0; b < Blocks; ++b) {
    VEC_UNROLL
    for (int v = 0; v < kBlockVectors; ++v) {
      const Int zeros = zero_share(tile, channel + b * kQuantizedBlock, v);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) sums.at[r][b][v] = zeros;
    }
  }
  const auto* inputs = reinterpret_cast<const uint8_t* const*>(tile.inputs);
  const int8_t* weights = weights_from(tile, channel);
  for (int64_t tap = 0; tap < tile.taps; ++tap, inputs += Rows) {
    int64_t q = 0;
    for (; q + kQuadsAtOnce <= tile.tap_quads; q += kQuadsAtOnce, weights += kQuadsAtOnce * kQuadBytes) {
      add_quads<kQuadsAtOnce>(inputs, q, weights, tile.block_bytes, sums);
    }
    for (; q < tile.tap_quads; ++q, weights += kQuadBytes) {
      add_quads<1>(inputs, q, weights, tile.block_bytes, sums);
    }
  }
  finish_blocks(tile, channel, sums);
}

template <int Rows>
void run(const QuantizedTile& tile) {
  constexpr int64_t kMost = kBlocks * kQuantizedBlock;
  int64_t channel = 0;
  for (; tile.channels - channel > kMost - kQuantizedBlock; channel += kMost) run_blocks<Rows, kBlocks>(tile, channel);
  if (kBlocks > 1 && channel < tile.channels) run_blocks<Rows, 1>(tile, channel);
}

template <int... Number>
constexpr QuantizedTiles tiles_of(std::integer_sequence<int, Number...>) {
  return {
      kRows,   1,       kBlocks * kQuantizedBlock, sizeof(uint8_t), kGatheredBytes, false, arrange_bytes<kSignedInputs>,
      nullptr, nullptr, {run<Number + 1>...},      kSignedInputs};
}

constexpr QuantizedTiles kTiles = tiles_of(std::make_integer_sequence<int, kRows>());

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
