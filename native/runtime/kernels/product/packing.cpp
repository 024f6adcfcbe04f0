#include "kernels/product/packing.h"

namespace executorch_ggml::kernels {

void widen_pairs(const uint16_t* pairs, int64_t rows, DType type, float* packed) {
  if (type == DType::F16) return KERNEL_PICK(widen_half_pairs)(pairs, rows, packed);
  KERNEL_PICK(widen_bfloat_pairs)(pairs, rows, packed);
}

}  // namespace executorch_ggml::kernels
