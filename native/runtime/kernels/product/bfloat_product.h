// Products with matrices of bf16, by instructions that multiply it.
#pragma once

#include "kernels/convolution/conv_2d.h"

struct ggml_tensor;

namespace executorch_ggml::kernels {

// A product by some tiles, of pairs of numbers; src[2] is the rows in bf16, or null: then each thread rounds them.
void bfloat_product_by(const BfloatTiles& tiles, ggml_tensor* dst, int ith, int nth);

}  // namespace executorch_ggml::kernels
