// Between elementwise.cpp (compiled once) and elementwise_isa.cpp (compiled per instruction set): loops over dense
// arrays of n elements.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

struct QuantizedLoops {
  void (*quantize)(const float* x, int64_t n, const QuantizeParams& p, void* y);
  // `type` is x's; `scales` may be null.
  void (*dequantize)(const void* x, DType type, const float* scales, int64_t n, const DequantizeParams& p, float* y);
  void (*binary)(const void* a, DType a_type, const void* b, DType b_type, int64_t n, const QuantizedBinaryParams& p,
                 void* y);
  // y = table[x], of 256 bytes.
  void (*lookup)(const uint8_t* x, int64_t n, const uint8_t* table, uint8_t* y);
};

KERNEL_VARIANTS(const QuantizedLoops& quantized_loops())

}  // namespace executorch_ggml::kernels
