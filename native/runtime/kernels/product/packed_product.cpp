#include "kernels/product/packed_product.h"

#include <algorithm>
#include <limits>

namespace executorch_ggml::kernels {
namespace {

template <class Element>
void multiply(const ConvTilesOf<Element>& tiles, const Element* const* rows, int64_t count, int64_t length,
              const Element* packed, int64_t columns, float* output, int64_t stride, const char* next = nullptr) {
  const int64_t first_tap = 0;
  float* outputs[kMaxTileRows];
  for (int64_t i = 0; i < count; ++i) outputs[i] = output + i * stride;
  ConvTileOf<Element> tile = {};
  tile.inputs = rows;
  tile.tap_weights = &first_tap;
  tile.taps = 1;
  tile.run = length;
  tile.block_stride = length * kPackedColumns;
  tile.outputs = outputs;
  tile.low = -std::numeric_limits<float>::infinity();
  tile.high = std::numeric_limits<float>::infinity();
  tile.next = next;
  tile.next_shift = tiles.setup == nullptr ? 1 : 0;  // tiles in tile registers have more rows to prefetch
  tile.weights = packed;
  tile.channels = next == nullptr ? columns : std::min(tiles.channels, columns);
  const auto run_tile = tiles.by_rows[count - 1];
  run_tile(tile);
  if (tile.channels == columns) return;
  tile.next = nullptr;
  tile.weights += tile.channels / kPackedColumns * tile.block_stride;
  tile.output_offset = tile.channels;
  tile.channels = columns - tile.channels;
  run_tile(tile);
}

}  // namespace

void multiply_packed(const float* const* rows, int64_t count, int64_t length, const float* packed, int64_t columns,
                     float* output, int64_t stride) {
  multiply(KERNEL_PICK(conv_tiles)(), rows, count, length, packed, columns, output, stride);
}

void multiply_packed(const BfloatTiles& tiles, TileSession& session, const uint16_t* const* rows, int64_t count,
                     int64_t length, const uint16_t* packed, int64_t columns, float* output, int64_t stride,
                     const char* next) {
  session.shape(count, length);
  multiply(tiles, rows, count, length, packed, columns, output, stride, next);
}

}  // namespace executorch_ggml::kernels
