// Rounding to bf16 for layers that multiply it, and the tiles of those that widen it. For plain .cpp only (see
// simd/isa.h).
#pragma once

#include <cstdint>

#include "kernels/convolution/conv_2d.h"
#include "kernels/kernels.h"

namespace executorch_ggml::kernels {

// Rounds half to even. Numbers under 1.2e-38 become zeros, which products of bf16 take them as.
void round_bfloats(const float* x, int64_t n, uint16_t* y);

// The same of products.
void round_scaled_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y);

// The tiles of a layer on floats.
const ConvTiles& float_tiles(const ggml_tensor* dst, const KernelCall<ConvolutionParams>& call);

}  // namespace executorch_ggml::kernels
