// Layers with weights of bf16: rounding their inputs, and the tiles that compute them. For plain .cpp only (see
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

// The tiles of a layer on floats: those that widen weights of bf16 in registers, where they fit it.
const ConvTiles& float_tiles(const ggml_tensor* dst, const KernelCall<ConvolutionParams>& call);

// A thread's share of conv_2d_bfloats by these tiles.
void conv_2d_by_tiles(ggml_tensor* dst, const KernelCall<ConvolutionParams>& call, const BfloatTiles& tiles, int ith,
                      int nth);

}  // namespace executorch_ggml::kernels
