// Between interpolate.cpp (compiled once) and interpolate_isa.cpp (compiled per instruction set).
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

// The two input pixels that an output pixel lies between along one axis, and their weights.
struct Between {
  int64_t first;
  int64_t second;
  float first_weight;
  float second_weight;
};

// One row of output pixels, some adjacent channels of it. Pointers are to the first of these channels.
struct InterpolatedRow {
  const float* upper;  // the two rows of input pixels
  const float* lower;
  float upper_weight;
  float lower_weight;
  const Between* columns;  // of each output pixel
  int64_t width;           // output pixels
  int64_t channels;        // to compute
  int64_t pitch;           // floats from a pixel to the next
  float* output;
};

// Of the nearest pixels, which are the first ones of the upper row.
KERNEL_VARIANTS(void nearest_row(const InterpolatedRow& row))
KERNEL_VARIANTS(void bilinear_row(const InterpolatedRow& row))

}  // namespace executorch_ggml::kernels
