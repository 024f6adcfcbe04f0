// Dequantizes rows of the types for which ggml's own function is slow.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

// n must be a multiple of 256.
KERNEL_VARIANTS(void floats_from_q6_k(const void* from, int64_t n, float* to))

// n must be a multiple of 32.
KERNEL_VARIANTS(void floats_from_q8_0(const void* from, int64_t n, float* to))

}  // namespace executorch_ggml::kernels
