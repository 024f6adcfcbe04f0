// The tiles of conv_2d on bf16 by tile registers (simd/tiles.h): weights lie in the file as these are loaded. For
// folders of instruction sets, and native tests, only.
#pragma once

#include "kernels/convolution/conv_2d_tiles.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct BfloatElements {
  using Element = uint16_t;
  static constexpr int kAdjacent = 2;
  static constexpr bool kByLane = false;
  static constexpr bool kPrefetches = false;
};

using BfloatTile = ConvTileOf<uint16_t>;

constexpr int64_t kPair = 2;                        // elements of a quad
constexpr int64_t kPairWeights = kOcBlock * kPair;  // of a block
constexpr int kTwoBlocks = 2 * kOcBlock;
static_assert(kTwoTiles <= kMaxTileRows && kOcBlock == kSumLanes && kPairWeights * sizeof(uint16_t) == kTileBytes,
              "a pair of rows of a block of weights is a row of a tile");

// Half of L2 of every CPU with AMX. From 100 pixels on weights are multiplied more slowly than they come from L3.
constexpr int64_t kGatheredBfloats = 1 << 20;

// A step's operands, whose last quads are zeros. Not the inputs alone: zero times an infinite weight would be NaN.
template <int Rows, int Blocks>
struct PaddedStep {
  alignas(kTileBytes) uint8_t rows[Rows * kTileRows * kTileBytes];
  alignas(kTileBytes) uint8_t columns[Blocks][kTileRows * kTileBytes];

  VEC_INLINE TileStep copy(const TileStep& from, int row_count, int64_t quads) {
    const auto* row = static_cast<const char*>(from.rows);
    for (int i = 0; i < row_count; ++i, row += from.row_stride) copy_row(row, quads, rows + i * kTileBytes);
    for (int b = 0; b < Blocks; ++b) {
      std::memcpy(columns[b], from.columns[b], static_cast<size_t>(quads * kTileBytes));
      std::memset(columns[b] + quads * kTileBytes, 0, static_cast<size_t>((kTileRows - quads) * kTileBytes));
    }
    return {rows, kTileBytes, kTileRows * kTileBytes, {columns[0], columns[Blocks - 1]}};
  }

 private:
  static VEC_INLINE void copy_row(const char* from, int64_t quads, uint8_t* to) {
    VEC_UNROLL
    for (int at = 0; at < kTileQuads; at += kLanes) {
      const auto* floats = reinterpret_cast<const float*>(from) + at;  // as many bytes as pairs have
      const int64_t left = quads - at;
      Float x = {};
      if (left >= kLanes) {
        x = load<Float>(floats);
      } else if (left > 0) {
        x = load_first(floats, left);
      }
      store(to + at * 4, x);
    }
  }
};

// Stores the results of `Rows` pixels.
template <int Rows, int Blocks>
VEC_INLINE void finish_rows(const BfloatTile& tile, const float* sums) {
  constexpr int kVectors = Blocks * kSumLanes / kLanes;
  Float sum[Rows][kVectors];
  VEC_UNROLL
  for (int m = 0; m < Rows; ++m) {
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[m][v] = load<Float>(sums + (m * kVectors + v) * kLanes);
  }
  using Sums = Tile<BfloatElements, Rows, kLanes, kVectors>;
  Sums::add_bias(tile, 0, sum);
  Sums::finish(tile, 0, sum);
}

// What is to be prefetched beside some weights.
VEC_INLINE const char* next_at(const BfloatTile& tile, int64_t weights_offset) {
  const int64_t bytes = weights_offset * static_cast<int64_t>(sizeof(uint16_t));
  return static_cast<const char*>(tile.next) + (bytes >> tile.next_shift);
}

// The part of a tile that some of its blocks are, the first of them with a channel.
VEC_INLINE BfloatTile from_channel(const BfloatTile& tile, int64_t channel, int64_t channels) {
  BfloatTile part = tile;
  const int64_t offset = channel / kOcBlock * tile.block_stride;
  part.weights += offset;
  if (part.next != nullptr) part.next = next_at(tile, offset);
  if (part.bias != nullptr) part.bias += channel;
  part.output_offset += channel;
  part.channels = channels;
  return part;
}

// Sums of blocks that are to be finished.
template <int Blocks>
class StoredSums {
 public:
  static constexpr int kRowSums = Blocks * kSumLanes;

  StoredSums() = default;
  VEC_INLINE StoredSums(const BfloatTile& tile, const float* sums, int rows) : tile_(tile), sums_(sums), rows_(rows) {}

  VEC_INLINE void finish_some() {
    constexpr int kAtOnce = 4;
    if (rows_ >= kAtOnce && have_outputs<kAtOnce>()) return finish<kAtOnce>();
    if (rows_ > 0) have_outputs<1>() ? finish<1>() : skip<1>();
  }

  VEC_INLINE void finish_all() {
    while (rows_ > 0) finish_some();
  }

 private:
  template <int Rows>
  VEC_INLINE bool have_outputs() const {
    bool all = true;
    for (int row = 0; row < Rows; ++row) all = all && tile_.outputs[row] != nullptr;
    return all;
  }

  template <int Rows>
  VEC_INLINE void finish() {
    finish_rows<Rows, Blocks>(tile_, sums_);
    skip<Rows>();
  }

  template <int Rows>
  VEC_INLINE void skip() {
    tile_.outputs += Rows;
    sums_ += Rows * kRowSums;
    rows_ -= Rows;
  }

  BfloatTile tile_{};
  const float* sums_ = nullptr;
  int rows_ = 0;
};

// As many bytes of each block as a step reads.
template <int Blocks>
VEC_INLINE void prefetch_next(const BfloatTile& tile, int64_t offset, int64_t bytes) {
  if (tile.next == nullptr) return;
  for (int b = 0; b < Blocks; ++b) prefetch(next_at(tile, offset + b * tile.block_stride), bytes >> tile.next_shift);
}

// Rows x Blocks tiles of sums; `row_count` pixels are in them. What lies before them is finished between the steps.
template <class Tiles, int Rows, int Blocks>
VEC_INLINE void sum_bfloats(const BfloatTile& tile, int row_count, StoredSums<2>& before, float* sums) {
  constexpr auto kElement = static_cast<int64_t>(sizeof(uint16_t));
  zero_sums<Tiles, Rows, Blocks>();
  const TileSteps steps(tile.run / kPair);
  const int64_t whole = steps.shared > 0 ? steps.count - 1 : steps.count;
  const auto weights_offset = [&](int64_t tap, int64_t i) {
    return tile.tap_weights[tap] + i * steps.quads * kPairWeights;
  };
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const uint16_t* const* inputs = tile.inputs + tap * row_count;
    const int64_t pitch = row_count > 1 ? (inputs[1] - inputs[0]) * kElement : 0;
    const auto step_at = [&](int64_t i) -> TileStep {
      const uint16_t* weights = tile.weights + weights_offset(tap, i);
      return {inputs[0] + tile.input_offset + i * steps.quads * kPair,
              pitch,
              kTileRows * pitch,
              {weights, weights + (Blocks > 1 ? tile.block_stride : 0)}};
    };
    for (int64_t i = 0; i < whole; ++i) {
      add_step<Tiles, TileProducts::Bfloats, Rows, Blocks>(step_at(i));
      prefetch_next<Blocks>(tile, weights_offset(tap, i), steps.quads * kTileBytes);
      before.finish_some();
    }
    if (steps.shared > 0) {
      PaddedStep<Rows, Blocks> last;
      add_step<Tiles, TileProducts::Bfloats, Rows, Blocks>(
          last.copy(step_at(whole), row_count, steps.quads - steps.shared));
    }
  }
  before.finish_all();
  store_sums<Tiles, Rows, Blocks>(sums);
}

// Once for all numbers of pixels. Sums that were just stored can't be loaded for a while: they are finished beside the
// products of the next two blocks.
template <class Tiles, int Rows>
__attribute__((noinline)) void run_bfloat_rows(const BfloatTile& tile, int row_count) {
  alignas(kTileBytes) float sums[2][Rows * kTileRows * kTwoBlocks];
  StoredSums<2> before;
  int64_t channel = 0;
  int phase = 0;
  for (; tile.channels - channel > kOcBlock; channel += kTwoBlocks, phase = 1 - phase) {
    const int64_t left = tile.channels - channel;
    const BfloatTile two = from_channel(tile, channel, left < kTwoBlocks ? left : kTwoBlocks);
    sum_bfloats<Tiles, Rows, 2>(two, row_count, before, sums[phase]);
    before = {two, sums[phase], row_count};
  }
  if (channel < tile.channels) {
    const BfloatTile last = from_channel(tile, channel, tile.channels - channel);
    sum_bfloats<Tiles, Rows, 1>(last, row_count, before, sums[phase]);
    StoredSums<1>(last, sums[phase], row_count).finish_all();
  } else {
    before.finish_all();
  }
}

template <class Tiles, int RowCount>
void run_bfloat_tile(const BfloatTile& tile) {
  run_bfloat_rows<Tiles, (RowCount > kTileRows ? 2 : 1)>(tile, RowCount);
}

template <class Tiles>
struct BfloatSetup {
  static void save(TileState* before) { Tiles::save(before); }
  static void restore(const TileState& before) { Tiles::restore(before); }
  static void shape(int64_t rows, int64_t run) {
    const int first = rows < kTileRows ? static_cast<int>(rows) : kTileRows;
    const TileShapes shapes(first, static_cast<int>(rows) - first, static_cast<int>(TileSteps(run / kPair).quads));
    Tiles::configure(shapes);
  }
  static constexpr TileSetup kSetup = {save, shape, restore};
};

template <class Tiles, int... Number>
BfloatTiles matrix_tiles_by_rows(std::integer_sequence<int, Number...>) {
  return {kTwoTiles, kAnyChannels, {run_bfloat_tile<Tiles, Number + 1>...}};
}

// `few` computes what tiles would be slower at.
template <class Tiles>
BfloatTiles bfloat_matrix_tiles(const BfloatTiles* few) {
  BfloatTiles tiles = matrix_tiles_by_rows<Tiles>(std::make_integer_sequence<int, kTwoTiles>());
  tiles.setup = &BfloatSetup<Tiles>::kSetup;
  tiles.gathered_bytes = kGatheredBfloats;
  tiles.few = few;
  return tiles;
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
