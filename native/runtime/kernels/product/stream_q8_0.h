// Streams q8_0 matrices in ggml's own layout by int8 dot products. For folders of instruction sets of ARM64 only.
#pragma once

#include "kernels/product/integer_arithmetic.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// The dot products of a q8_0 column with some rows, a block at a time.
template <int Rows>
VEC_INLINE void multiply_column(const RowBlock* rows, int64_t blocks, const Q8_0* column, float* output,
                                int64_t row_stride) {
  Float sums[Rows][2] = {};  // of the blocks in turn: an addition does not wait for the one before
  const auto add = [&](int64_t block, int turn) {
    const int8x16_t low = vld1q_s8(column[block].weights);
    const int8x16_t high = vld1q_s8(column[block].weights + 16);
    const float scale = widened(column[block].scale);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const RowBlock& row = rows[r * blocks + block];
      const int32x4_t products =
          vdotq_s32(vdotq_s32(vdupq_n_s32(0), low, vld1q_s8(row.values)), high, vld1q_s8(row.values + 16));
      sums[r][turn] += floats_of(reinterpret_cast<Int>(products)) * (scale * row.scale);
    }
  };
  int64_t block = 0;
  for (; block + 2 <= blocks; block += 2) {
    prefetch_stream(column + block, 2 * sizeof(Q8_0));
    add(block, 0);
    add(block + 1, 1);
  }
  if (block < blocks) add(block, 0);
  VEC_UNROLL
  for (int r = 0; r < Rows; ++r) output[r * row_stride] = total(sums[r][0] + sums[r][1]);
}

template <int Rows>
void stream_columns(const RowBlock* rows, int64_t blocks, const char* columns, size_t stride, int64_t column_count,
                    float* output, int64_t row_stride) {
  for (int64_t i = 0; i < column_count; ++i) {
    const auto* column = reinterpret_cast<const Q8_0*>(columns + static_cast<size_t>(i) * stride);
    multiply_column<Rows>(rows, blocks, column, output + i, row_stride);
  }
}

void stream_q8_0(const RowBlock* rows, int64_t count, int64_t blocks, const char* columns, size_t stride,
                 int64_t column_count, float* output, int64_t row_stride) {
  static constexpr decltype(&stream_columns<1>) kStreams[kStreamRows] = {
      stream_columns<1>, stream_columns<2>, stream_columns<3>, stream_columns<4>, stream_columns<5>, stream_columns<6>};
  kStreams[count - 1](rows, blocks, columns, stride, column_count, output, row_stride);
}

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
