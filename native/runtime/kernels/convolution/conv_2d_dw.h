// Between conv_2d_dw.cpp (compiled once) and conv_2d_dw_isa.cpp (compiled per instruction set).
#pragma once

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

// One row of output pixels, some adjacent channels of it. Pointers are to the first of these channels.
struct DepthwiseRow {
  const float* input;    // the first pixel of the input row that the first tap row reads
  int64_t input_pitch;   // floats from one tap row's input row to the next one's
  const float* weights;  // the first tap row's first tap
  int64_t tap_rows;      // those inside the image
  const float* bias;     // or nullptr
  float* output;         // the row's first pixel
  int64_t channels;      // to compute
  int64_t pitch;         // floats from a pixel, or tap, to the next
  int64_t in_width;
  int64_t out_width;
  Window window;  // along the row
  RegisterEpilogue register_epilogue;
  StoredEpilogue stored_epilogue;
};

KERNEL_VARIANTS(void conv_dw_row(const DepthwiseRow& row))

}  // namespace executorch_ggml::kernels
