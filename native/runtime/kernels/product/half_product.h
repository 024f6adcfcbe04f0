// Products of matrices of f16 with rows of floats, which stay what they are: weights are widened in registers.
#pragma once

#include <cstdint>

#include "kernels/product/packing.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

constexpr int64_t kHalfRows = 4;     // of a tile
constexpr int64_t kHalfColumns = 6;  // of a tile
constexpr int64_t kStreamedHalfRows = 3;
constexpr int64_t kStreamedFloats = 1024;  // of rows: more leave the first cache too little room, and become halves

// made[i * stride + j] = rows.row(i) . columns.row(j)
KERNEL_VARIANTS(void multiply_halves(FloatRows rows, int64_t row_count, HalfRows columns, int64_t column_count,
                                     int64_t length, float* made, int64_t stride))

// The same of at most kStreamedHalfRows rows, floats or halves, as fast as the columns come from memory.
KERNEL_VARIANTS(void stream_halves(FloatRows rows, int64_t row_count, HalfRows columns, int64_t column_count,
                                   int64_t length, float* made, int64_t stride))
KERNEL_VARIANTS(void stream_halves_by_halves(HalfRows rows, int64_t row_count, HalfRows columns, int64_t column_count,
                                             int64_t length, float* made, int64_t stride))

}  // namespace executorch_ggml::kernels
