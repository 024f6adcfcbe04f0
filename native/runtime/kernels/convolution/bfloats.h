// Rounding to bf16 for layers that multiply it.
#pragma once

#include <cstdint>

namespace executorch_ggml::kernels {

// Rounds half to even. Numbers under 1.2e-38 become zeros, which products of bf16 take them as.
void round_bfloats(const float* x, int64_t n, uint16_t* y);

// The same of products.
void round_scaled_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y);

}  // namespace executorch_ggml::kernels
