// Loops over one dense row of n floats.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

// y = the normalized x, times `weight` and plus `bias`, either of which may be null; or that rounded to bf16.
using NormalizeFn = void (*)(float* y, const float* x, const float* weight, const float* bias, int64_t n, float eps,
                             bool rounds);

struct NormalizeTable {
  NormalizeFn norm;
  NormalizeFn rms_norm;
};

KERNEL_VARIANTS(const NormalizeTable& normalize_loops())

}  // namespace executorch_ggml::kernels
