// Rows of floats, and matrices packed as conv_2d's tiles read them: blocks of kPackedColumns columns, row by row.
#pragma once

#include <cstdint>

#include "kernels/simd/isa.h"
#include "ops_generated.h"

namespace executorch_ggml::kernels {

constexpr int64_t kPackedColumns = 16;

// Numbers in rows.
template <class Number>
struct RowsOf {
  const Number* data;
  int64_t stride;  // numbers from a row to the next

  const Number* row(int64_t i) const { return data + i * stride; }
};

using FloatRows = RowsOf<float>;
using HalfRows = RowsOf<uint16_t>;

// packed[block][k][i] = rows.row(16 * block + i)[k], zeros beyond `count` rows.
KERNEL_VARIANTS(void pack_columns(FloatRows rows, int64_t count, int64_t width, float* packed))

// The same of bf16, converted to f32.
KERNEL_VARIANTS(void pack_bfloat_columns(HalfRows rows, int64_t count, int64_t width, float* packed))

// packed[block][k][i] = rows.row(k)[16 * block + i], zeros beyond the width.
KERNEL_VARIANTS(void pack_rows(FloatRows rows, int64_t count, int64_t width, float* packed))

// Of a half type, in pairs of rows: packed[block][k / 2][i][k % 2] = rows.row(k)[16 * block + i], zeros beyond the
// width and the count.
KERNEL_VARIANTS(void pack_row_pairs(HalfRows rows, int64_t count, int64_t width, uint16_t* packed))

// From a block of f16 or bf16, whose rows lie in pairs: packed[k][i] = pairs[k / 2][i][k % 2].
KERNEL_VARIANTS(void widen_half_pairs(const uint16_t* pairs, int64_t rows, float* packed))
KERNEL_VARIANTS(void widen_bfloat_pairs(const uint16_t* pairs, int64_t rows, float* packed))

// The same for either type. For plain .cpp only (see simd/isa.h).
void widen_pairs(const uint16_t* pairs, int64_t rows, DType type, float* packed);

}  // namespace executorch_ggml::kernels
