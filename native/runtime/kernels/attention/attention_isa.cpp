// The arithmetic of attention.
#include "kernels/attention/attention.h"

#include "kernels/simd/prefetch.h"
#include "kernels/simd/vec_math.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr bool kManyRegisters = kVectorRegisters == 32;
constexpr int kRows = kManyRegisters ? 4 : 2;      // queries that share a loaded key or value
constexpr int kVectors = kManyRegisters ? 16 : 4;  // of sums, of all rows together
constexpr int kKeys = 4;                           // whose dot products with a query are computed side by side

template <class Number>
VEC_INLINE void prefetch_row(RowsOf<Number> rows, int64_t i, Block block) {
  if (i + kPrefetchRows >= block.count + block.after) return;
  prefetch(rows.row(i + kPrefetchRows), block.width * static_cast<int64_t>(sizeof(Number)));
}

template <int Rows, class Number>
void score_rows(const float* const* queries, RowsOf<Number> keys, Block block, float* scores, int64_t stride) {
  const int64_t count = block.count;
  const int64_t whole = block.width - block.width % kLanes;
  for (int64_t key = 0; key < count; key += kKeys) {
    const Number* key_data[kKeys];
    for (int i = 0; i < kKeys; ++i) {
      prefetch_row(keys, key + i, block);
      key_data[i] = keys.row(key + i < count ? key + i : count - 1);
    }
    Float sum[Rows][kKeys] = {};
    for (int64_t k = 0; k < whole; k += kLanes) {
      Float x[kKeys];
      for (int i = 0; i < kKeys; ++i) x[i] = load_floats(key_data[i] + k);
      for (int r = 0; r < Rows; ++r) {
        const Float q = load<Float>(queries[r] + k);
        for (int i = 0; i < kKeys; ++i) sum[r][i] += q * x[i];
      }
    }
    for (int r = 0; r < Rows; ++r) {
      Quad dots = totals(folded(sum[r][0]), folded(sum[r][1]), folded(sum[r][2]), folded(sum[r][3]));
      for (int64_t k = whole; k < block.width; ++k) {
        for (int i = 0; i < kKeys; ++i) dots[i] += queries[r][k] * to_float(key_data[i][k]);
      }
      float* to = scores + r * stride + key;
      for (int i = 0; i < kKeys && key + i < count; ++i) to[i] = dots[i];
    }
  }
}

// The weighted sums of some vectors of columns. The first columns of a block prefetch the rows of the next.
template <int Rows, int Vectors, class Number>
VEC_INLINE void sum_columns(const float* weights, int64_t stride, RowsOf<Number> values, Block block, int64_t column,
                            const float* factors, float* const* sums) {
  Float sum[Rows][Vectors];
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) sum[r][v] = load<Float>(sums[r] + column + v * kLanes) * factors[r];
  }
  for (int64_t key = 0; key < block.count; ++key) {
    if (column == 0) prefetch_row(values, key, block);
    const Number* from = values.row(key) + column;
    Float x[Vectors];
    for (int v = 0; v < Vectors; ++v) x[v] = load_floats(from + v * kLanes);
    for (int r = 0; r < Rows; ++r) {
      const Float weight = splat(weights[r * stride + key]);
      for (int v = 0; v < Vectors; ++v) sum[r][v] += weight * x[v];
    }
  }
  for (int r = 0; r < Rows; ++r) {
    for (int v = 0; v < Vectors; ++v) store(sums[r] + column + v * kLanes, sum[r][v]);
  }
}

template <int Rows, class Number>
void sum_rows(const float* weights, int64_t stride, RowsOf<Number> values, Block block, const float* factors,
              float* const* sums) {
  constexpr int kColumns = kVectors / Rows < 8 ? kVectors / Rows : 8;
  int64_t column = 0;
  for (; column + kColumns * kLanes <= block.width; column += kColumns * kLanes) {
    sum_columns<Rows, kColumns>(weights, stride, values, block, column, factors, sums);
  }
  for (; column + kLanes <= block.width; column += kLanes) {
    sum_columns<Rows, 1>(weights, stride, values, block, column, factors, sums);
  }
  for (; column < block.width; ++column) {
    for (int r = 0; r < Rows; ++r) {
      float sum = sums[r][column] * factors[r];
      for (int64_t key = 0; key < block.count; ++key) {
        sum += weights[r * stride + key] * to_float(values.row(key)[column]);
      }
      sums[r][column] = sum;
    }
  }
}

template <int Rows>
struct Group {
  static constexpr int value = Rows;
};

// Calls run(Group<n>, first) for all rows, in groups of Most, then of half as many, and so on.
template <int Most, class Run>
VEC_INLINE void in_groups(int64_t rows, const Run& run, int64_t first = 0) {
  for (; first + Most <= rows; first += Most) run(Group<Most>(), first);
  if constexpr (Most > 1) in_groups<Most / 2>(rows, run, first);
}

template <class Number>
VEC_INLINE void score_any(const float* const* queries, int64_t rows, RowsOf<Number> keys, Block block, float* scores,
                          int64_t stride) {
  in_groups<kRows>(rows, [&](auto group, int64_t r) {
    score_rows<group.value>(queries + r, keys, block, scores + r * stride, stride);
  });
}

template <class Number>
VEC_INLINE void sum_any(const float* weights, int64_t stride, int64_t rows, RowsOf<Number> values, Block block,
                        const float* factors, float* const* sums) {
  in_groups<kRows>(rows, [&](auto group, int64_t r) {
    sum_rows<group.value>(weights + r * stride, stride, values, block, factors + r, sums + r);
  });
}

VEC_INLINE float max_lane(Float x) {
  float highest = x[0];
  for (int i = 1; i < kLanes; ++i) highest = x[i] > highest ? x[i] : highest;
  return highest;
}

// The first n lanes of a vector, and -inf in the others.
VEC_INLINE Float masked_from(Float x, int64_t n) {
  for (int64_t i = n; i < kLanes; ++i) x[i] = -kInfinity;
  return x;
}

VEC_INLINE Float load_scores(const float* from, int64_t n) {
  if (n >= kLanes) return load<Float>(from);
  Float x = {};
  for (int64_t i = 0; i < n; ++i) x[i] = from[i];
  return masked_from(x, n);
}

VEC_INLINE void store_scores(float* to, Float x, int64_t n) {
  if (n >= kLanes) return store(to, x);
  for (int64_t i = 0; i < n; ++i) to[i] = x[i];
}

VEC_INLINE Float scaled_score(Float x, float scale, float softcap) {
  x = x * scale;
  return softcap == 0.0f ? x : vec_tanh(x / softcap) * softcap;
}

}  // namespace

void score_few(const float* const* queries, int64_t rows, FloatRows keys, Block block, float* scores, int64_t stride) {
  score_any(queries, rows, keys, block, scores, stride);
}

void score_few_halves(const float* const* queries, int64_t rows, HalfRows keys, Block block, float* scores,
                      int64_t stride) {
  score_any(queries, rows, keys, block, scores, stride);
}

void sum_few(const float* weights, int64_t stride, int64_t rows, FloatRows values, Block block, const float* factors,
             float* const* sums) {
  sum_any(weights, stride, rows, values, block, factors, sums);
}

void sum_few_halves(const float* weights, int64_t stride, int64_t rows, HalfRows values, Block block,
                    const float* factors, float* const* sums) {
  sum_any(weights, stride, rows, values, block, factors, sums);
}

bool reads_halves() { return kHasHalfConversion; }

float softmax_block(float* scores, int64_t count, const ScoreParams& params, Softmax* softmax) {
  Float high = splat(-kInfinity);
  for (int64_t i = 0; i < count; i += kLanes) {
    Float x = scaled_score(load_scores(scores + i, count - i), params.scale, params.softcap);
    if (params.mask != nullptr) x += load_scores(params.mask + i, count - i);
    x = masked_from(x, count - i);
    store_scores(scores + i, x, count - i);
    high = pick(x > high, x, high);
  }
  const float before = softmax->highest;
  const float block_highest = max_lane(high);
  const float highest = block_highest > before ? block_highest : before;
  const float base = highest == -kInfinity ? 0.0f : highest;  // all keys so far are masked
  Float sum = {};
  for (int64_t i = 0; i < count; i += kLanes) {
    const Float weight = vec_exp(load_scores(scores + i, count - i) - base);
    store_scores(scores + i, weight, count - i);
    sum += weight;
  }
  const float factor = before == highest ? 1.0f : vec_exp(splat(before - highest))[0];
  softmax->highest = highest;
  softmax->sum = softmax->sum * factor + total(sum);
  return factor;
}

void scale_and_add(float factor, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = factor * y[i] + x[i];
}

void scale_into(float factor, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = factor * x[i];
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
