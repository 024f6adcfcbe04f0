// The arithmetic of layers of integers by tiles of 16 rows (simd/tiles.h): unsigned inputs with signed weights, which
// lie in the file as tiles are loaded. For folders of instruction sets, and native tests, only.
#pragma once

#include "kernels/quantized/layer.h"
#include "kernels/quantized/tile.h"
#include "kernels/simd/tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kMatrixRows = kTwoTiles;
constexpr int kMatrixChannels = 2 * kQuantizedBlock;
constexpr int64_t kMatrixGatheredBytes = 256 * 1024;  // weights are multiplied faster than they come from L3
static_assert(kMatrixRows <= kMaxQuantizedRows && kQuantizedBlock == kSumLanes && kQuadBytes == kTileBytes,
              "a quad of a block of weights is a row of a tile");

// The inputs of a tap: rows that are evenly apart (QuantizedTiles::gathers).
struct TapRows {
  const uint8_t* first;
  int64_t pitch;

  VEC_INLINE TapRows(const QuantizedTile& tile, int64_t tap, int row_count) {
    const void* const* inputs = tile.inputs + tap * row_count;
    first = static_cast<const uint8_t*>(inputs[0]);
    pitch = row_count > 1 ? static_cast<const uint8_t*>(inputs[1]) - first : 0;
  }
};

// The last `kept` quads of the last 16 of each row, after zeros.
VEC_INLINE void copy_last_quads(const TapRows& tap, int64_t quads, int rows, int64_t kept, uint8_t* to) {
  static constexpr int32_t kMask[2 * kTileQuads] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                                    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const auto* from = tap.first + (quads - kTileQuads) * kQuad;
  for (int row = 0; row < rows; ++row, from += tap.pitch, to += kTileBytes) {
    VEC_UNROLL
    for (int at = 0; at < kTileBytes; at += kVectorBytes) {
      store(to + at, load<Int>(from + at) & load<Int>(kMask + kept + at / kQuad));
    }
  }
}

// The part of a tile that some of its blocks are, the first of them with a channel.
VEC_INLINE QuantizedTile from_channel(const QuantizedTile& tile, int64_t channel, int64_t channels) {
  QuantizedTile part = tile;
  const int64_t bytes = channel / kQuantizedBlock * tile.block_bytes;
  part.weights += bytes;
  part.sums = reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(tile.sums) + bytes);
  part.scale += channel;
  part.bias = bias_from(tile, channel);
  part.output += channel * output_bytes(tile);
  part.channels = channels;
  return part;
}

// Sums of a tile that is to be finished.
class StoredSums {
 public:
  StoredSums() = default;
  VEC_INLINE StoredSums(const QuantizedTile& tile, const int32_t* sums, int rows)
      : tile_(tile),
        sums_(sums),
        rows_(rows),
        channels_(tile.channels > kQuantizedBlock ? kMatrixChannels : kQuantizedBlock) {}

  VEC_INLINE void finish_some() {
    constexpr int kAtOnce = 8;
    if (channel_ >= tile_.channels) return;
    const int64_t end = row_ + kAtOnce < rows_ ? row_ + kAtOnce : rows_;
    finish_rows(tile_, sums_, channels_, channel_, row_, end);
    row_ = end;
    if (row_ < rows_) return;
    row_ = 0;
    channel_ += kQuantizedBlock;
  }

  VEC_INLINE void finish_all() {
    while (channel_ < tile_.channels) finish_some();
  }

 private:
  QuantizedTile tile_{};
  const int32_t* sums_ = nullptr;
  int64_t rows_ = 0;
  int channels_ = 0;
  int64_t row_ = 0;
  int64_t channel_ = 0;
};

// Adds the products of one tap. What lies before the tile is finished between the steps.
template <class Tiles, int Rows, int Blocks>
VEC_INLINE void add_tap(const QuantizedTile& tile, const TapRows& tap, const int8_t* weights, StoredSums& before) {
  const TileSteps steps(tile.tap_quads);
  const int64_t whole = steps.shared > 0 ? steps.count - 1 : steps.count;
  const auto step_at = [&](int64_t quad) -> TileStep {
    const int8_t* of_step = weights + quad * kQuadBytes;
    return {tap.first + quad * kQuad, tap.pitch, kTileRows * tap.pitch, {of_step, of_step + tile.block_bytes}};
  };
  for (int64_t i = 0; i < whole; ++i) {
    add_step<Tiles, TileProducts::UnsignedBySigned, Rows, Blocks>(step_at(i * steps.quads));
    before.finish_some();
  }
  if (steps.shared == 0) return;
  // Begins before the end of the step before it, with zeros for what that has multiplied.
  alignas(kTileBytes) uint8_t last[Rows * kTileRows * kTileBytes];
  copy_last_quads(tap, tile.tap_quads, Rows * kTileRows, steps.quads - steps.shared, last);
  TileStep step = step_at(tile.tap_quads - steps.quads);
  step.rows = last + (kTileQuads - steps.quads) * kQuad;
  step.row_stride = kTileBytes;
  step.tile_stride = kTileRows * kTileBytes;
  add_step<Tiles, TileProducts::UnsignedBySigned, Rows, Blocks>(step);
}

template <class Tiles, int Rows, int Blocks>
VEC_INLINE void sum_products(const QuantizedTile& tile, int row_count, StoredSums& before, int32_t* sums) {
  alignas(kTileBytes) int32_t start[Blocks][kQuantizedBlock];  // minus the zero point's share
  for (int b = 0; b < Blocks; ++b) {
    const auto* of_block = reinterpret_cast<const char*>(tile.sums) + b * tile.block_bytes;
    for (int v = 0; v < kBlockVectors; ++v) {
      store(start[b] + v * kLanes, load<Int>(of_block + v * kVectorBytes) * -tile.zero);
    }
  }
  Tiles::template load<sum_tile(0, 0)>(start[0], 0);
  if constexpr (Rows > 1) Tiles::template load<sum_tile(1, 0)>(start[0], 0);
  if constexpr (Blocks > 1) Tiles::template load<sum_tile(0, 1)>(start[1], 0);
  if constexpr (Rows > 1 && Blocks > 1) Tiles::template load<sum_tile(1, 1)>(start[1], 0);

  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const int8_t* weights = tile.weights + tap * tile.tap_quads * kQuadBytes;
    add_tap<Tiles, Rows, Blocks>(tile, TapRows(tile, tap, row_count), weights, before);
  }
  before.finish_all();
  store_sums<Tiles, Rows, Blocks>(sums);
}

// Sums that were just stored can't be loaded for a while: they are finished beside the products of the next two blocks.
template <class Tiles, int Rows>
__attribute__((noinline)) void run_matrix_rows(const QuantizedTile& tile, int rows) {
  alignas(kTileBytes) int32_t sums[2][Rows * kTileRows * kMatrixChannels];
  StoredSums before;
  int phase = 0;
  for (int64_t channel = 0; channel < tile.channels; channel += kMatrixChannels, phase = 1 - phase) {
    const int64_t left = tile.channels - channel;
    const QuantizedTile part = from_channel(tile, channel, left < kMatrixChannels ? left : kMatrixChannels);
    if (left > kQuantizedBlock) {
      sum_products<Tiles, Rows, 2>(part, rows, before, sums[phase]);
    } else {
      sum_products<Tiles, Rows, 1>(part, rows, before, sums[phase]);
    }
    before = {part, sums[phase], rows};
  }
  before.finish_all();
}

template <class Tiles>
void run_matrix_tile(const QuantizedTile& tile, int rows) {
  rows > kTileRows ? run_matrix_rows<Tiles, 2>(tile, rows) : run_matrix_rows<Tiles, 1>(tile, rows);
}

template <class Tiles>
void begin_matrix_tiles(int64_t quads, TileState* before) {
  Tiles::save(before);
  const TileShapes shapes(kTileRows, kTileRows, static_cast<int>(TileSteps(quads).quads));
  Tiles::configure(shapes);
}

template <class Tiles>
void end_matrix_tiles(const TileState& before) {
  Tiles::restore(before);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
