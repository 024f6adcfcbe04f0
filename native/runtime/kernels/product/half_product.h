// Products of f16 matrices with rows of floats: weights are widened to f32 in registers.
#pragma once

#include <cstdint>

#include "kernels/product/packing.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

constexpr int64_t kHalfRows = 4;     // of a tile
constexpr int64_t kHalfColumns = 6;  // of a tile
constexpr int64_t kStreamedHalfRows = 3;
constexpr int64_t kStreamedFloats = 1024;  // of the rows: more take too much of L1 and are rounded to f16

// Whether it is faster to convert the matrix to f32 in memory: for many rows on CPUs with 16 vector registers, which
// hold the sums of too few columns.
inline bool converts_halves(int64_t rows) {
  constexpr int64_t kLeastRows = 96;
  return rows >= kLeastRows && (active_isa() == Isa::Avx2 || active_isa() == Isa::AvxVnni);
}

// output[i * stride + j] = rows.row(i) . columns.row(j)
KERNEL_VARIANTS(void multiply_halves(FloatRows rows, int64_t row_count, HalfRows columns, int64_t column_count,
                                     int64_t length, float* output, int64_t stride))

// The same for at most kStreamedHalfRows rows, in f32 or f16: columns are streamed from memory.
KERNEL_VARIANTS(void stream_halves(FloatRows rows, int64_t row_count, HalfRows columns, int64_t column_count,
                                   int64_t length, float* output, int64_t stride))
KERNEL_VARIANTS(void stream_halves_by_halves(HalfRows rows, int64_t row_count, HalfRows columns, int64_t column_count,
                                             int64_t length, float* output, int64_t stride))

}  // namespace executorch_ggml::kernels
