// Layers of integers on ARM64 with dot products of signed bytes.
#include "kernels/quantized/dot_product_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr QuantizedTiles dot_product_tiles = kTiles;

}  // namespace executorch_ggml::kernels::KERNEL_ISA
