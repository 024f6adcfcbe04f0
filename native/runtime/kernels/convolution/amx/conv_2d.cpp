// The arithmetic of conv_2d on bf16 by AMX: tiles of 16 pixels by 16 channels, and AVX512-BF16 for one pixel.
#include "kernels/convolution/bfloat_matrix_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// A step of tiles takes 16 cycles for up to 16 pixels by 16 channels, as 16 instructions of AVX512-BF16 do for one
// pixel: from the second on tiles are faster.
BfloatTiles make_tiles() {
  const BfloatTiles& few = avx512bf16::bfloat_tiles();
  BfloatTiles tiles = bfloat_matrix_tiles<CpuTiles>(&few);
  tiles.by_rows[0] = few.by_rows[0];
  return tiles;
}

}  // namespace

const BfloatTiles& bfloat_tiles() {
  static const BfloatTiles tiles = make_tiles();
  return tiles;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
