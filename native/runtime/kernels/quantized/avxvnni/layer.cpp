// Layers of integers on AVX-VNNI.
#include "kernels/quantized/dot_product_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr QuantizedTiles dot_product_tiles = kTiles;

}  // namespace executorch_ggml::kernels::KERNEL_ISA
