// Layers of integers on AMX: tiles of 16 pixels by 16 channels, and AVX-512 VNNI for what would fill little of them.
#include <utility>

#include "kernels/quantized/byte_inputs.h"
#include "kernels/quantized/matrix_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// By counts of cycles: a step of two tiles takes as long as two pixels' dot products with its 32 channels, and a
// product of fewer quads is over before its sums are stored.
constexpr int kFewRows = 2;
constexpr int64_t kFewQuads = 4;

void run_dot_products(QuantizedTile tile, int rows) {
  const QuantizedTiles& tiles = avx512vnni::dot_product_tiles;
  while (rows > 0) {
    const int some = rows < tiles.rows ? rows : tiles.rows;
    tiles.run[some - 1](tile);
    tile.inputs += some;
    tile.output += some * tile.output_pitch;
    rows -= some;
  }
}

void run_rows(const QuantizedTile& tile, int rows) {
  if (tile.taps > 1) return run_matrix_tile<CpuTiles>(tile, rows);
  if (tile.tap_quads < kFewQuads) return run_dot_products(tile, rows);
  const int rest = rows % kTileRows <= kFewRows ? rows % kTileRows : 0;
  const int whole = rows - rest;
  if (whole > 0) run_matrix_tile<CpuTiles>(tile, whole);
  if (rest == 0) return;
  QuantizedTile last = tile;
  last.inputs += whole;
  last.output = tile.output + whole * tile.output_pitch;
  run_dot_products(last, rest);
}

template <int Rows>
void run(const QuantizedTile& tile) {
  run_rows(tile, Rows);
}

template <int... Number>
constexpr QuantizedTiles tiles_of(std::integer_sequence<int, Number...>) {
  return {kMatrixRows,
          kTileRows,
          kMatrixChannels,
          sizeof(uint8_t),
          kMatrixGatheredBytes,
          true,
          arrange_bytes<false>,
          begin_matrix_tiles<CpuTiles>,
          end_matrix_tiles<CpuTiles>,
          {run<Number + 1>...}};
}

}  // namespace

constexpr QuantizedTiles matrix_tiles = tiles_of(std::make_integer_sequence<int, kMatrixRows>());

}  // namespace executorch_ggml::kernels::KERNEL_ISA
