// Between the planning of attention (attention.cpp, compiled once) and its arithmetic (attention_isa.cpp, compiled per
// instruction set). "Rows" are queries; a row's scores are its products with a block of keys.
#pragma once

#include <cstdint>

#include "kernels/product/packing.h"

namespace executorch_ggml::kernels {

// To ask the memory for: rows of one head may lie apart from each other, which processors do not foresee.
constexpr int64_t kRowsAhead = 24;

// How scores become weights.
struct Softening {
  float scale;
  float softcap;      // 0: none
  const float* mask;  // of the block, to be added; or nullptr
};

// What a row's softmax has come to: the highest score so far, and the sum of the weights relative to it.
struct Softmax {
  float highest;
  float sum;
};

// A block of keys or of values: `count` rows of a head, and `after` more that come next.
struct Block {
  int64_t count;
  int64_t after;
  int64_t width;
};

// scores[r * stride + key] = queries[r] . keys.row(key)
KERNEL_VARIANTS(void score_few(const float* const* queries, int64_t rows, FloatRows keys, Block block, float* scores,
                               int64_t stride))
KERNEL_VARIANTS(void score_few_halves(const float* const* queries, int64_t rows, HalfRows keys, Block block,
                                      float* scores, int64_t stride))

// sums[r] = factors[r] * sums[r] + the sum of weights[r * stride + key] * values.row(key) over the keys.
KERNEL_VARIANTS(void sum_few(const float* weights, int64_t stride, int64_t rows, FloatRows values, Block block,
                             const float* factors, float* const* sums))
KERNEL_VARIANTS(void sum_few_halves(const float* weights, int64_t stride, int64_t rows, HalfRows values, Block block,
                                    const float* factors, float* const* sums))

// Whether an instruction widens halves, so that those of few rows need not be widened beforehand.
KERNEL_VARIANTS(bool reads_halves())

// Turns a row's scores into weights relative to the highest score so far; gives what to multiply former sums with.
KERNEL_VARIANTS(float soften(float* scores, int64_t count, const Softening& how, Softmax* softmax))

// y = factor * y + x
KERNEL_VARIANTS(void scale_and_add(float factor, const float* x, int64_t n, float* y))

// y = factor * x
KERNEL_VARIANTS(void scale_into(float factor, const float* x, int64_t n, float* y))

}  // namespace executorch_ggml::kernels
