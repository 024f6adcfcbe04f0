// Between pool.cpp (compiled once) and pool_isa.cpp (compiled per instruction set).
#pragma once

#include <cstdint>

#include "kernels/convolution/pool_2d.h"
#include "kernels/simd/isa.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

// What becomes of a window's sum: minus `below`, times `factor`, over the pixel's divisor, rounded.
struct Averaging {
  int32_t below;  // the zero point, as often as there are taps
  float factor;
  const Requantize& output;
};

KERNEL_VARIANTS(void pool_average_int8(const PoolPixel<int8_t>& pixel, const Averaging& averaging))
KERNEL_VARIANTS(void pool_average_uint8(const PoolPixel<uint8_t>& pixel, const Averaging& averaging))

}  // namespace executorch_ggml::kernels
