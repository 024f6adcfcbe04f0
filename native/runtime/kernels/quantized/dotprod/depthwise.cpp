// Depthwise layers of integers on ARM64 with dot products of signed bytes.
#include "kernels/quantized/dot_product_depthwise.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

constexpr QuantizedDepthwiseLoops dot_product_depthwise_loops = Depthwise<Quads>::kLoops;

}  // namespace executorch_ggml::kernels::KERNEL_ISA
