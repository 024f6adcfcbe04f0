// Linear layers of few rows whose weights are of a half type, in pairs of rows (packing.h): they are converted to
// floats in registers, once for all rows, and read at the speed of memory. For plain .cpp only (see simd/isa.h).
#pragma once

#include <cstdint>

#include "kernels/convolution/convolution.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml {

template <class Params>
struct KernelCall;

}  // namespace executorch_ggml

namespace executorch_ggml::kernels {

constexpr int64_t kPairProductRows = 4;

// sums[i * kPackedColumns + j] = rows[i] . column j of a block of pairs, of up to kPairProductRows rows
KERNEL_VARIANTS(void multiply_half_pairs(const float* const* rows, int64_t count, int64_t length, const uint16_t* pairs,
                                         float* sums))
KERNEL_VARIANTS(void multiply_bfloat_pairs(const float* const* rows, int64_t count, int64_t length,
                                           const uint16_t* pairs, float* sums))

// Whether a layer is one.
bool is_pair_product(const ggml_tensor* dst, const KernelCall<ConvolutionParams>& call);

void pair_product(ggml_tensor* dst, const KernelCall<ConvolutionParams>& call, int ith, int nth);

}  // namespace executorch_ggml::kernels
