// int8 GEMM: products of quantized matrices with rows of floats that are quantized as well, to 8 bits in blocks of 32.
// Integers are multiplied and summed, four in each lane of one instruction. For plain .cpp only (see isa.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"
#include "kernels/simd/isa.h"

namespace executorch_ggml::kernels {

constexpr int64_t kIntegerBlock = 32;    // numbers that share a scale
constexpr int64_t kIntegerLanes = 16;    // columns of a vector, and of a panel of a stored matrix
constexpr int64_t kIntegerColumns = 32;  // of a panel
constexpr int64_t kStreamRows = 6;

// A quantized block of a row: values * scale. The halves are for matrices with a scale for each 16 weights.
struct RowBlock {
  int8_t values[kIntegerBlock];
  float scale;
  int32_t start[2];  // where each half's accumulator starts, or in [0] the block's: minus the matrix's offset * sum
  float sum[2];      // of each half's numbers, or in [0] of the block's
};

// A block of kIntegerLanes columns: (weights - offset) * scales - mins.
struct ColumnBlock {
  uint8_t weights[kIntegerBlock / 4][kIntegerLanes][4];
  float scales[2][kIntegerLanes];
  float mins[2][kIntegerLanes];
};

// How a matrix in panels (panels.h) is multiplied, which is read from beginning to end and unpacked in registers.
struct PanelProduct {
  // Unpacks a panel into one vector's part of the panel that IntegerProduct::multiply takes.
  void (*unpack)(const char* panel, int64_t blocks, ColumnBlock* to);
  // output[i * stride + j] = row i . column j of at most kStreamRows rows
  void (*stream)(const RowBlock* rows, int64_t count, int64_t blocks, const char* panel, int64_t columns, float* output,
                 int64_t stride);
};

// Memory that is read after a product's, which it may prefetch.
struct NextRead {
  const char* data = nullptr;
  int64_t bytes = 0;
};

// int8 GEMM for the matrices of one type.
struct IntegerProduct {
  ggml_type type;
  // Quantizes a row of `blocks` blocks. A block with a number that is not finite becomes NaN as a whole.
  void (*quantize)(const float* row, int64_t blocks, RowBlock* to);
  // Packs `count` columns, `stride` bytes apart, as a panel of [blocks][kIntegerColumns / kIntegerLanes].
  void (*pack)(const char* columns, size_t stride, int64_t count, int64_t blocks, ColumnBlock* panel);
  // output[i * stride + j] = row i . column j of a panel that holds `columns`
  void (*multiply)(const RowBlock* rows, int64_t count, int64_t blocks, const ColumnBlock* panel, int64_t columns,
                   float* output, int64_t stride, NextRead next);
  // output[i * row_stride + j] = row i . column j of at most kStreamRows rows, the columns `stride` bytes apart, as
  // fast as they come from memory. Null for types that have panels for this, or are left to ggml.
  void (*stream)(const RowBlock* rows, int64_t count, int64_t blocks, const char* columns, size_t stride,
                 int64_t column_count, float* output, int64_t row_stride);
  const PanelProduct* panels;  // null for types that are as fast in ggml's own layout
};

// Those of one instruction set.
struct IntegerProducts {
  const IntegerProduct* products;
  size_t count;
};

// What multiplies many rows of a type faster than its IntegerProduct::multiply, with the same results.
struct MatrixMultiply {
  ggml_type type;
  decltype(IntegerProduct::multiply) multiply;
};

struct MatrixMultiplies {
  const MatrixMultiply* of;
  size_t count;
};

KERNEL_VARIANT(neon, extern const IntegerProducts integer_products)
KERNEL_VARIANT(dotprod, extern const IntegerProducts integer_products)
KERNEL_VARIANT(i8mm, extern const IntegerProducts integer_products)
KERNEL_VARIANT(avx2, extern const IntegerProducts integer_products)
KERNEL_VARIANT(avxvnni, extern const IntegerProducts integer_products)
KERNEL_VARIANT(avx512vnni, extern const IntegerProducts integer_products)
KERNEL_VARIANT(amx, extern const MatrixMultiplies matrix_multiplies)

// Those of an instruction set, or of the best below it that has some. Products are null on AVX-512 without VNNI, where
// ggml multiplies vectors of 64 bytes.
const IntegerProducts* integer_products_for(Isa isa);
MatrixMultiplies matrix_multiplies_for(Isa isa);

// Null where the type, or the instruction set that kernels run on, has none.
const IntegerProduct* integer_product(ggml_type type);

// Of more than kStreamRows rows: by tiles where the instruction set has them.
decltype(IntegerProduct::multiply) multiply_of_many_rows(const IntegerProduct& product);

// The product of matrices in panels, where a type and the instruction set that kernels run on have one.
const IntegerProduct* panel_product(ggml_type type);

// Of a matrix in ggml's own layout or in panels; null for others.
const IntegerProduct* integer_product_of(const ggml_tensor* matrix);

// Of `quantize_rows`, a node before products of many rows: threads share the work, and products the result.
struct QuantizeRowsParams {
  decltype(IntegerProduct::quantize) quantize;
};

// Quantizes src[0]'s rows: each row of dst holds the bytes of its RowBlocks.
void quantize_rows(ggml_tensor* dst, int ith, int nth, void* call);

}  // namespace executorch_ggml::kernels
