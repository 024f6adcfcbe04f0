// Streams matrices in ggml's own layout, column by column, for a few rows. For folders of instruction sets only.
#pragma once

#include "kernels/product/integer_arithmetic.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// `Column` has the block type of the matrix and, for each number of rows, their dot products with a column:
//
//   using Block = Q8_0;
//   template <int Rows>
//   static void multiply(const RowBlock* rows, int64_t blocks, const Block* column, float* output, int64_t row_stride);
template <class Column, int Rows>
void stream_columns(const RowBlock* rows, int64_t blocks, const char* columns, size_t stride, int64_t column_count,
                    float* output, int64_t row_stride) {
  for (int64_t i = 0; i < column_count; ++i) {
    const auto* column = reinterpret_cast<const typename Column::Block*>(columns + static_cast<size_t>(i) * stride);
    Column::template multiply<Rows>(rows, blocks, column, output + i, row_stride);
  }
}

// IntegerProduct::stream.
template <class Column>
void stream(const RowBlock* rows, int64_t count, int64_t blocks, const char* columns, size_t stride,
            int64_t column_count, float* output, int64_t row_stride) {
  static_assert(kStreamRows == 6, "a function for each number of rows");
  static constexpr decltype(&stream_columns<Column, 1>) kStreams[kStreamRows] = {
      stream_columns<Column, 1>, stream_columns<Column, 2>, stream_columns<Column, 3>,
      stream_columns<Column, 4>, stream_columns<Column, 5>, stream_columns<Column, 6>};
  kStreams[count - 1](rows, blocks, columns, stride, column_count, output, row_stride);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
