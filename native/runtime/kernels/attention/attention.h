// Between the planning of attention (attention.cpp, compiled once) and its arithmetic (attention_isa.cpp, compiled per
// instruction set). "Rows" are queries; a row's scores are its products with a block of keys.
#pragma once

#include <cstdint>

#include "kernels/product/packing.h"

namespace executorch_ggml::kernels {

// Rows to prefetch ahead: those of one head may be far apart, where the CPU's own prefetcher does not find them.
constexpr int64_t kPrefetchRows = 24;

// The online softmax of a row: weights are e^(score - base), and a base, here times log2(e), is about the highest score
// so far.
struct Softmax {
  float base;
  float sum;  // of the weights
};

// The scores of some rows with a block of keys, and what becomes of them.
struct ScoreRows {
  int64_t count;
  int64_t keys;
  int64_t stride;  // floats from a row to the next one
  const float* scores;
  const uint16_t* const* masks;  // of each row, in f16, to be added from the block's first key on; or nullptr
  int64_t first_key;
  Softmax* softmax;
  float* weights;
  float* factors;  // that rescale the sums of the blocks before
  bool rounds;     // the stored weights to bf16; their sums are of unrounded ones
};

// A block of keys or of values: `count` rows of a head of `width` numbers, and `after` more rows behind it.
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

// Whether the CPU has an instruction for f16 to f32: then f16 keys and values are read as they are.
KERNEL_VARIANTS(bool reads_halves())

// A step of the online softmax of scores that are scaled, capped where `softcap` is not 0, and masked: writes weights
// and factors.
KERNEL_VARIANTS(void softmax_rows(const ScoreRows& rows, float scale, float softcap))

// to[i * width + k] = rows.row(i)[k], rounded to bf16
KERNEL_VARIANTS(void round_rows(FloatRows rows, int64_t count, int64_t width, float* to))

// y = factor * y + x
KERNEL_VARIANTS(void scale_and_add(float factor, const float* x, int64_t n, float* y))

// y = factor * x, or that rounded to bf16
KERNEL_VARIANTS(void scale_into(float factor, const float* x, int64_t n, bool rounds, float* y))

}  // namespace executorch_ggml::kernels
