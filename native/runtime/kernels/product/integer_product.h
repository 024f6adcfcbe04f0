// Products of quantized matrices with rows of floats that are quantized as well, to 8 bits in blocks of 32: whole
// numbers are multiplied and summed, four in each lane of one instruction. For plain .cpp only (see isa.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace executorch_ggml::kernels {

constexpr int64_t kIntegerBlock = 32;    // numbers that have one scale
constexpr int64_t kIntegerLanes = 16;    // columns of a vector
constexpr int64_t kIntegerColumns = 32;  // of a panel
constexpr int64_t kStreamRows = 6;

// A block of a row: values times `scale`. The halves matter to matrices with a scale for each 16 weights.
struct RowBlock {
  int8_t values[kIntegerBlock];
  float scale;
  int32_t start[2];  // minus what the matrix's offset adds to the half's sum of products, or in [0] to the whole one
  float sum[2];      // the half's, or in [0] the whole block's
};

// The same block of as many columns as a vector has lanes: (weights - offset) * scales - mins.
struct ColumnBlock {
  uint8_t weights[kIntegerBlock / 4][kIntegerLanes][4];
  float scales[2][kIntegerLanes];
  float mins[2][kIntegerLanes];
};

// How matrices of one type are kept that are only multiplied with: in panels of kIntegerLanes columns, read from
// beginning to end and unpacked in registers.
struct ArrangedColumns {
  size_t (*panel_bytes)(int64_t blocks);
  // A panel of `count` columns, `stride` bytes apart.
  void (*arrange)(const char* columns, size_t stride, int64_t count, int64_t blocks, char* panel);
  // One vector's part of the panel that IntegerProduct::multiply takes.
  void (*unpack)(const char* panel, int64_t blocks, ColumnBlock* to);
  // As IntegerProduct::multiply, of at most kStreamRows rows.
  void (*stream)(const RowBlock* rows, int64_t count, int64_t blocks, const char* panel, int64_t columns, float* made,
                 int64_t stride);
};

// How matrices of one type are multiplied.
struct IntegerProduct {
  // A row of `blocks` blocks. What is not finite makes the whole block NaN.
  void (*quantize)(const float* row, int64_t blocks, RowBlock* to);
  // `count` columns, `stride` bytes apart, as a panel of [blocks][kIntegerColumns / kIntegerLanes].
  void (*pack)(const char* columns, size_t stride, int64_t count, int64_t blocks, ColumnBlock* panel);
  // made[i * stride + j] = row i . column j of a panel that holds `columns`
  void (*multiply)(const RowBlock* rows, int64_t count, int64_t blocks, const ColumnBlock* panel, int64_t columns,
                   float* made, int64_t stride);
  // made[i * row_stride + j] = row i . column j of at most kStreamRows rows, the columns `stride` bytes apart: for
  // types that are as fast as they are; null for those that are arranged, or left to ggml.
  void (*stream)(const RowBlock* rows, int64_t count, int64_t blocks, const char* columns, size_t stride,
                 int64_t column_count, float* made, int64_t row_stride);
  const ArrangedColumns* arranged;  // null for types that are as fast as they are
};

// Null where the type, or what kernels run on now, has none.
const IntegerProduct* integer_product(ggml_type type);

// Of an arranged matrix, which says so in ggml_tensor::extra; null for others.
const IntegerProduct* arranged_product(const ggml_tensor* matrix);

// That of products with a matrix, or null.
const IntegerProduct* integer_product_with(const ggml_tensor* matrix);

// Of `round_rows`, a node of its own before products of many rows: threads share the work, and products the result.
struct RoundRowsParams {
  decltype(IntegerProduct::quantize) quantize;
};

// src[0]'s rows as RowBlocks, whose bytes are dst's rows.
void round_rows(ggml_tensor* dst, int ith, int nth, void* call);

// Bytes of a matrix as `arranged` keeps it, and that matrix made from ggml's.
size_t arranged_bytes(const ArrangedColumns& arranged, const ggml_tensor* matrix);
void arrange(const ArrangedColumns& arranged, const ggml_tensor* matrix, const void* data, void* to);

}  // namespace executorch_ggml::kernels
