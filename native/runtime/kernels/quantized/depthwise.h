// Between depthwise.cpp (compiled once) and depthwise_isa.cpp (compiled per instruction set).
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

// A depthwise layer, some adjacent channels of it. Pointers are to the first of these channels.
struct QuantizedDepthwise {
  const int8_t* weights;  // taps of all channels
  int64_t pitch;          // bytes from a tap, or an input pixel, to the next
  int64_t channels;       // to compute
  Window2d window;
  bool is_signed;  // the inputs
  int32_t zero;
  const float* scale;
  const float* bias;  // or nullptr
  Requantize output;
  int64_t in_width;
  int64_t out_width;
};

// One row of output pixels.
struct QuantizedDepthwiseRow {
  const char* const* rows;  // where each tap row's input pixels begin, null outside of the image
  const char* outside;      // a pixel of zero points
  char* output;
  int64_t output_pitch;  // bytes
};

struct QuantizedDepthwiseLoops {
  int64_t (*prepared_bytes)(const QuantizedDepthwise& layer);
  void (*prepare)(const QuantizedDepthwise& layer, void* prepared);
  void (*run)(const QuantizedDepthwise& layer, const void* prepared, const QuantizedDepthwiseRow& row);
};

KERNEL_VARIANTS(const QuantizedDepthwiseLoops& quantized_depthwise_loops())

}  // namespace executorch_ggml::kernels
