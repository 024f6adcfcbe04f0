// Streams q8_0 matrices in ggml's own layout by int8 dot products. For folders of instruction sets of ARM64 only.
#pragma once

#include "kernels/product/stream_columns.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// The dot products of a q8_0 column with some rows, a block at a time.
struct Q8_0Column {
  using Block = Q8_0;

  template <int Rows>
  static VEC_INLINE void multiply(const RowBlock* rows, int64_t blocks, const Q8_0* column, float* output,
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
};

}  // namespace
}  // namespace executorch_ggml::kernels::KERNEL_ISA
