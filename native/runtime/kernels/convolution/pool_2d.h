// Between pool_2d.cpp (compiled once) and pool_2d_isa.cpp (compiled per instruction set).
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

// One output pixel, some adjacent channels of it. Pointers are to the first of these channels.
template <class T>
struct PoolPixel {
  const T* input;     // the first tap inside the image
  int64_t row_pitch;  // elements from a tap to the one below it
  int64_t tap_pitch;  // elements from a tap to the next
  int64_t tap_rows;
  int64_t taps;  // of a row
  int64_t channels;
  float divisor;  // of averages
  T* output;
};

KERNEL_VARIANTS(void pool_max(const PoolPixel<float>& pixel))
KERNEL_VARIANTS(void pool_average(const PoolPixel<float>& pixel))
KERNEL_VARIANTS(void pool_max_int8(const PoolPixel<int8_t>& pixel))
KERNEL_VARIANTS(void pool_max_uint8(const PoolPixel<uint8_t>& pixel))

}  // namespace executorch_ggml::kernels
