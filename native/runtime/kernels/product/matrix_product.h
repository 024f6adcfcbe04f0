// int8 GEMM of many rows by tiles of 16 rows (simd/tiles.h). A block's products are summed by a tile, then scaled and
// added to sums of floats in the order that integer_arithmetic.h has, so that the results are the same. For folders of
// instruction sets, and native tests, only.
#pragma once

#include "kernels/product/integer_product.h"
#include "kernels/quantized/rounding.h"
#include "kernels/simd/tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kPanelTiles = static_cast<int>(kIntegerColumns / kIntegerLanes);
constexpr int kLaneVectors = static_cast<int>(kIntegerLanes) / kLanes;
static_assert(kIntegerLanes == kSumLanes && sizeof(ColumnBlock::weights[0]) == kTileBytes,
              "a quad of a block of columns is a row of a tile");

// Of matrices that have a scale for each 16 weights, or for each 32, and minimums or none.
template <class Tiles, bool Halves, bool Mins>
class MatrixProduct {
 public:
  static void multiply(const RowBlock* rows, int64_t count, int64_t blocks, const ColumnBlock* panel, int64_t columns,
                       float* output, int64_t stride, NextRead) {
    constexpr int kMost = kTwoTiles;
    TileState before;
    Tiles::save(&before);
    int64_t shaped = 0;
    for (int64_t row = 0; row < count; row += kMost) {
      const int64_t some = count - row < kMost ? count - row : kMost;
      if (some != shaped) shape_tiles(some);
      shaped = some;
      const Strip strip = {rows + row * blocks, some, blocks, panel, columns, output + row * stride, stride};
      const bool one_tile = columns <= kIntegerLanes;
      if (some > kTileRows) {
        one_tile ? multiply_strip<2, 1>(strip) : multiply_strip<2, 2>(strip);
      } else {
        one_tile ? multiply_strip<1, 1>(strip) : multiply_strip<1, 2>(strip);
      }
    }
    Tiles::restore(before);
  }

 private:
  static_assert(!(Halves && Mins), "no type has both");
  static constexpr int kParts = Halves ? 2 : 1;  // of a block, which have a scale each
  static constexpr int kQuads = static_cast<int>(kIntegerBlock) / 4 / kParts;
  static constexpr int kGroup = 2;  // parts that are scaled at once

  struct Strip {
    const RowBlock* rows;
    int64_t count;
    int64_t blocks;
    const ColumnBlock* panel;
    int64_t columns;
    float* output;
    int64_t stride;
  };

  static void shape_tiles(int64_t rows) {
    const int first = rows < kTileRows ? static_cast<int>(rows) : kTileRows;
    const TileShapes shapes(first, static_cast<int>(rows) - first, kQuads);
    Tiles::configure(shapes);
  }

  // The products of a part, which the sums of another are scaled beside.
  template <int Rows, int Columns>
  static VEC_INLINE void sum_part(const Strip& strip, int64_t part, int32_t* sums) {
    const int64_t block = part / kParts;
    const int half = static_cast<int>(part % kParts);
    const auto row_stride = static_cast<int64_t>(sizeof(RowBlock)) * strip.blocks;
    const ColumnBlock* columns = strip.panel + block * kPanelTiles;
    zero_sums<Tiles, Rows, Columns>();
    add_step<Tiles, TileProducts::SignedByUnsigned, Rows, Columns>(
        {strip.rows[block].values + half * kQuads * 4,
         row_stride,
         kTileRows * row_stride,
         {columns[0].weights[half * kQuads], columns[1].weights[half * kQuads]}});
    store_sums<Tiles, Rows, Columns>(sums);
  }

  // Adds the scaled sums of `Count` parts.
  template <int Count, int Columns>
  static VEC_INLINE void scale_parts(const Strip& strip, int64_t part, const int32_t* sums, int64_t part_sums,
                                     float* totals) {
    constexpr int kVectors = Columns * kLaneVectors;
    Float scales[Count][kVectors];
    Float mins[Count][kVectors];
    VEC_UNROLL
    for (int p = 0; p < Count; ++p) {
      const ColumnBlock* columns = strip.panel + (part + p) / kParts * kPanelTiles;
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const ColumnBlock& block = columns[v / kLaneVectors];
        const int lane = v % kLaneVectors * kLanes;
        scales[p][v] = load<Float>(block.scales[Halves ? p : 0] + lane);
        if (Mins) mins[p][v] = load<Float>(block.mins[0] + lane);
      }
    }
    const RowBlock* row = strip.rows + part / kParts;
    for (int64_t r = 0; r < strip.count; ++r, row += strip.blocks) {
      Float total[kVectors];
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) total[v] = load<Float>(totals + (r * kVectors + v) * kLanes);
      VEC_UNROLL
      for (int p = 0; p < Count; ++p) {
        const RowBlock& block = row[p / kParts];
        VEC_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          Int sum = load<Int>(sums + p * part_sums + (r * kVectors + v) * kLanes);
          if (!Mins) sum += block.start[Halves ? p : 0];
          total[v] += floats_of(sum) * (scales[p][v] * block.scale);
          if (Mins) total[v] -= mins[p][v] * block.sum[0];
        }
      }
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) store(totals + (r * kVectors + v) * kLanes, total[v]);
    }
  }

  // While a group's sums are scaled the tiles multiply the next one.
  template <int Rows, int Columns>
  static void multiply_strip(const Strip& strip) {
    constexpr int64_t kSums = Rows * kTileRows * Columns * kSumLanes;
    alignas(kTileBytes) int32_t sums[2][kGroup][kSums];
    alignas(kTileBytes) float totals[kSums];
    std::memset(totals, 0, sizeof(totals));
    const int64_t parts = strip.blocks * kParts;
    for (int64_t part = 0; part < parts + kGroup; part += kGroup) {
      const int64_t phase = part / kGroup % 2;
      for (int64_t p = 0; p < kGroup && part + p < parts; ++p) {
        sum_part<Rows, Columns>(strip, part + p, sums[phase][p]);
      }
      if (part >= kGroup) scale_group<Columns>(strip, part - kGroup, parts, sums[1 - phase][0], kSums, totals);
    }
    store_totals<Columns>(strip, totals);
  }

  template <int Columns>
  static VEC_INLINE void scale_group(const Strip& strip, int64_t part, int64_t parts, const int32_t* sums,
                                     int64_t part_sums, float* totals) {
    if (part + 1 < parts) {
      scale_parts<kGroup, Columns>(strip, part, sums, part_sums, totals);
    } else {
      scale_parts<1, Columns>(strip, part, sums, part_sums, totals);
    }
  }

  template <int Columns>
  static VEC_INLINE void store_totals(const Strip& strip, const float* totals) {
    for (int64_t r = 0; r < strip.count; ++r, totals += Columns * kSumLanes) {
      float* to = strip.output + r * strip.stride;
      for (int64_t lane = 0; lane < strip.columns && lane < Columns * kSumLanes; lane += kLanes) {
        const Float total = load<Float>(totals + lane);
        if (strip.columns - lane >= kLanes) {
          store(to + lane, total);
        } else {
          store_first(to + lane, total, strip.columns - lane);
        }
      }
    }
  }
};

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
