#include "kernels/product/packed_product.h"

#include <algorithm>

#include "kernels/partition.h"

namespace executorch_ggml::kernels {
namespace {

template <class Element>
void multiply(const ConvTilesOf<Element>& tiles, const Element* const* rows, int64_t count, int64_t length,
              const Element* packed, Range columns, float* output, int64_t stride, ReadNext next) {
  const int64_t first_tap = 0;
  float* outputs[kMaxTileRows];
  for (int64_t i = 0; i < count; ++i) outputs[i] = output + i * stride;
  ConvTileOf<Element> tile = {};
  tile.inputs = rows;
  tile.tap_weights = &first_tap;
  tile.taps = 1;
  tile.run = length;
  tile.block_stride = length * kPackedColumns;
  tile.weights = packed + columns.begin / kPackedColumns * tile.block_stride;
  tile.outputs = outputs;
  tile.output_offset = columns.begin;
  tile.channels = columns.size();
  tile.next = next.begin;
  tile.next_shift = next.shift;
  tiles.by_rows[count - 1](tile);
}

}  // namespace

void multiply_packed(const float* const* rows, int64_t count, int64_t length, const float* packed, int64_t columns,
                     float* output, int64_t stride, ReadNext next) {
  multiply(KERNEL_PICK(conv_tiles)(), rows, count, length, packed, {0, columns}, output, stride, next);
}

void multiply_packed(const BfloatTiles& tiles, TileSession& session, const uint16_t* const* rows, int64_t count,
                     int64_t length, const uint16_t* packed, int64_t columns, float* output, int64_t stride,
                     const char* next) {
  session.shape(count, length);
  const int shift = tiles.setup == nullptr ? 1 : 0;  // tiles in tile registers have more rows to prefetch
  const int64_t first = next == nullptr ? columns : std::min(tiles.channels, columns);
  multiply(tiles, rows, count, length, packed, {0, first}, output, stride, {next, shift});
  if (first < columns) multiply(tiles, rows, count, length, packed, {first, columns}, output, stride, {});
}

}  // namespace executorch_ggml::kernels
