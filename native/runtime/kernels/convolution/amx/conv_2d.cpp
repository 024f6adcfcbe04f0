// The arithmetic of conv_2d on bf16 by AMX: tiles of 16 pixels by 16 channels, and AVX512-BF16 for one pixel.
#include <algorithm>

#include "kernels/convolution/bfloat_matrix_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// A step of tiles takes 16 cycles for up to 16 pixels by 16 channels, as 16 instructions of AVX512-BF16 do for one
// pixel: from the second on tiles are faster.
void run_one_pixel(const BfloatTile& tile) {
  const BfloatTiles& few = avx512bf16::bfloat_tiles();
  for (int64_t channel = 0; channel < tile.channels;) {
    const ConvTileShapeOf<uint16_t>& shape = few.shape_for(tile.channels - channel);
    const int64_t channels = std::min(shape.channels, tile.channels - channel);
    shape.by_rows[0](from_channel(tile, channel, channels));
    channel += channels;
  }
}

BfloatShapes<CpuTiles> make_shapes() {
  BfloatShapes<CpuTiles> shapes;
  shapes.any.by_rows[0] = run_one_pixel;
  return shapes;
}

}  // namespace

const BfloatTiles& bfloat_tiles() {
  static const BfloatShapes<CpuTiles> shapes = make_shapes();
  static const BfloatTiles tiles = bfloat_matrix_tiles_of(shapes, &avx512bf16::bfloat_tiles());
  return tiles;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
