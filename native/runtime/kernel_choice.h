// Where a kernel of ours runs instead of ggml's: the predicates that rows of the op table name as `when`.
#pragma once

#include <cstdint>

#include "ggml.h"
#include "kernels/convolution/conv_2d.h"
#include "kernels/product/half_product.h"
#include "kernels/product/integer_product.h"
#include "kernels/product/panels.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml {

// Rows from which on it costs less to pack a matrix and multiply floats than to multiply as ggml does, row by row for
// most types (tests/native/kernels_product_test --bench). What is streamed needs no packing: it pays from the first
// row.
inline int64_t rows_of_wide_product(ggml_type type) {
  const kernels::IntegerProduct* integers = kernels::integer_product(type);
  if (integers != nullptr) return integers->stream != nullptr ? 1 : 8;
  switch (type) {
    case GGML_TYPE_Q4_0:  // ggml has tiles for these
    case GGML_TYPE_Q5_0:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_IQ4_NL:
    case GGML_TYPE_TQ2_0:
      return INT64_MAX;
    case GGML_TYPE_F32:
      return 64;
    case GGML_TYPE_Q2_K:
      return 256;
    case GGML_TYPE_Q5_1:
    case GGML_TYPE_Q3_K:
    case GGML_TYPE_IQ2_XXS:
    case GGML_TYPE_IQ2_XS:
    case GGML_TYPE_IQ2_S:
      return 64;
    default:
      return ggml_is_quantized(type) ? 32 : INT64_MAX;
  }
}

// As above, of halves: few rows are streamed and many multiplied in tiles; between them ggml is faster.
inline bool is_wide_half_product(int64_t rows) {
  return kernels::active_isa() >= kernels::Isa::Avx2 && (rows <= kernels::kHalfRows || rows >= 2 * kernels::kHalfRows);
}

// As above, of bf16. On CPUs with AMX up to 16 rows take as long as the matrix is read, some 0.4 cycles for a pair of
// its numbers from L3; ggml takes one instruction for 16 pairs and a row, which is as much for six rows. CPUs without
// bf16 products convert it to f32.
inline bool is_wide_bfloat_product(const ggml_tensor* a, int64_t rows) {
  constexpr int64_t kLeastRows = 8, kLeastConvertedRows = 16;
  if (kernels::bfloat_conv_tiles() == nullptr) return rows >= kLeastConvertedRows;
  return a->ne[0] % 2 == 0 && a->nb[1] % sizeof(float) == 0 && rows >= kLeastRows;
}

using kernels::is_in_panels;

// Not where ggml has packed the matrix: then it has tiles. For floats it has some too, but for rows that are adjacent.
inline bool is_wide_product(const ggml_tensor* a, const ggml_tensor* b) {
  if (a->extra != nullptr) return is_in_panels(a);
  if (b->type != GGML_TYPE_F32) return false;
  if (a->type == GGML_TYPE_F16) return is_wide_half_product(b->ne[1]);
  if (a->type == GGML_TYPE_BF16) return is_wide_bfloat_product(a, b->ne[1]);
  const int64_t least = a->type == GGML_TYPE_F32 && !ggml_is_contiguous(b) ? 4 : rows_of_wide_product(a->type);
  return b->ne[1] >= least;
}

}  // namespace executorch_ggml
