// The arithmetic of attention.
#include "kernels/attention/attention.h"

#include "kernels/simd/prefetch.h"
#include "kernels/simd/vec_math.h"
#include "selection_generated.h"

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
  Quad high = quad_of(x, 0);
  for (int part = 1; part < kVectorBytes / 16; ++part) {
    const Quad quad = quad_of(x, part);
    high = quad > high ? quad : high;
  }
  const float left = high[0] > high[1] ? high[0] : high[1];
  const float right = high[2] > high[3] ? high[2] : high[3];
  return left > right ? left : right;
}

// The first n lanes of a vector, and a number in the others.
VEC_INLINE Float first_or(Float x, int64_t n, float other) {
  Int lane;
  VEC_UNROLL
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return pick(lane < static_cast<int32_t>(n), x, splat(other));
}

constexpr int kChains = 4;  // vectors of scores at a time: each step waits for the one before

// Calls body(chain, i, lanes, count) for each vector of scores, `count` of them being there.
template <class Body>
VEC_INLINE void each_score(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    VEC_UNROLL
    for (int c = 0; c < kChains; ++c) body(c, i + c * kLanes, AllLanes{}, int64_t{kLanes});
  }
  for (; i + kLanes <= n; i += kLanes) body(0, i, AllLanes{}, int64_t{kLanes});
  if (i < n) body(0, i, FirstLanes{n - i}, n - i);
}

constexpr float kLog2E = 1.44269504f;

// What scores are before their softmax, times log2(e): weights are powers of 2.
struct Scaled {
  Float scale;

  VEC_INLINE explicit Scaled(float of_scores) : scale(splat(of_scores * kLog2E)) {}

  template <class Lanes>
  VEC_INLINE Float at(const float* scores, int64_t i, const Lanes& lanes) const {
    return lanes.load(scores + i) * scale;
  }
};

VEC_INLINE Float load_mask(const uint16_t* mask, AllLanes) { return load_halves(mask); }

VEC_INLINE Float load_mask(const uint16_t* mask, FirstLanes lanes) {
  uint16_t halves[kLanes] = {};
  for (int64_t i = 0; i < lanes.n; ++i) halves[i] = mask[i];
  return load_halves(halves);
}

struct Masked {
  Float scale;
  const uint16_t* mask;

  VEC_INLINE Masked(float of_scores, const uint16_t* of_row) : scale(splat(of_scores * kLog2E)), mask(of_row) {}

  template <class Lanes>
  VEC_INLINE Float at(const float* scores, int64_t i, const Lanes& lanes) const {
    return lanes.load(scores + i) * scale + load_mask(mask + i, lanes) * kLog2E;
  }
};

struct CappedAndMasked {
  float scale;
  float softcap;
  const uint16_t* mask;  // or nullptr

  template <class Lanes>
  VEC_INLINE Float at(const float* scores, int64_t i, const Lanes& lanes) const {
    const Float capped = vec_tanh(lanes.load(scores + i) * scale / softcap) * (softcap * kLog2E);
    return mask == nullptr ? capped : capped + load_mask(mask + i, lanes) * kLog2E;
  }
};

// The highest lanes of vectors, side by side; NaN does not count.
struct Highest {
  Float chains[kChains];

  VEC_INLINE Highest() {
    VEC_UNROLL
    for (Float& chain : chains) chain = splat(-kInfinity);
  }

  VEC_INLINE void add(int chain, Float x, int64_t n) {
    chains[chain] = larger(n < kLanes ? first_or(x, n, -kInfinity) : x, chains[chain]);
  }

  VEC_INLINE float lane() const { return max_lane(larger(larger(chains[0], chains[1]), larger(chains[2], chains[3]))); }
};

template <class Score>
VEC_INLINE float highest_score(const float* scores, int64_t count, const Score& score) {
  Highest highest;
  each_score(count,
             [&](int chain, int64_t i, auto lanes, int64_t n) { highest.add(chain, score.at(scores, i, lanes), n); });
  return highest.lane();
}

// Of a block's weights, the sum, and the highest score.
struct Weighed {
  float sum;
  float highest;
};

// Writes the weights 2^(score - base).
template <bool Rounds, class Score>
VEC_INLINE Weighed weigh_scores(const float* scores, int64_t count, const Score& score, float base, float* weights) {
  Float sum[kChains] = {};
  Highest highest;
  each_score(count, [&](int chain, int64_t i, auto lanes, int64_t n) {
    const Float x = score.at(scores, i, lanes);
    highest.add(chain, x, n);
    const Float weight = vec_exp2_below(x - base);
    lanes.store(weights + i, Rounds ? rounded_to_bfloat(weight) : weight);
    sum[chain] += n < kLanes ? first_or(weight, n, 0.0f) : weight;
  });
  return {total((sum[0] + sum[1]) + (sum[2] + sum[3])), highest.lane()};
}

// How far a block's maximum may be above the running base: weights stay far from overflow, and the rounding error of
// score - base stays that of the scores.
constexpr float kRoom = 8.0f;

// A step of the online softmax: one pass over a block's scores with the running base, which need not be the maximum.
// The first block, and one whose maximum is more than kRoom above the base, takes a pass for the maximum before.
template <bool Rounds, class Score>
VEC_INLINE float softmax_of(const float* scores, int64_t count, const Score& score, Softmax* softmax, float* weights) {
  const float before = softmax->base;
  const bool is_first = before == -kInfinity;
  if (!is_first) {
    const Weighed block = weigh_scores<Rounds>(scores, count, score, before, weights);
    if (block.highest - before <= kRoom) {
      softmax->sum += block.sum;
      return 1.0f;
    }
  }
  const float highest = highest_score(scores, count, score);
  softmax->base = highest > before ? highest : before;
  const float base = softmax->base == -kInfinity ? 0.0f : softmax->base;  // all keys so far are masked
  const float sum = weigh_scores<Rounds>(scores, count, score, base, weights).sum;
  const float factor = is_first ? 0.0f : vec_exp2_below(splat(before - base))[0];
  softmax->sum = softmax->sum * factor + sum;
  return factor;
}

// `score_of` says how a row's scores are seen.
template <bool Rounds, class ScoreOf>
VEC_INLINE void weigh_each(const ScoreRows& rows, const ScoreOf& score_of) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t at = r * rows.stride;
    rows.factors[r] = softmax_of<Rounds>(rows.scores + at, rows.keys, score_of(r), rows.softmax + r, rows.weights + at);
  }
}

template <class ScoreOf>
VEC_INLINE void weigh_rows(const ScoreRows& rows, const ScoreOf& score_of) {
  if (is_built(DType::Bf16) && rows.rounds) return weigh_each<true>(rows, score_of);
  weigh_each<false>(rows, score_of);
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

void softmax_rows(const ScoreRows& rows, float scale, float softcap) {
  const auto mask = [&](int64_t r) { return rows.masks == nullptr ? nullptr : rows.masks[r] + rows.first_key; };
  if (softcap != 0.0f) return weigh_rows(rows, [&](int64_t r) { return CappedAndMasked{scale, softcap, mask(r)}; });
  if (rows.masks != nullptr) return weigh_rows(rows, [&](int64_t r) { return Masked(scale, mask(r)); });
  weigh_rows(rows, [&](int64_t /*r*/) { return Scaled(scale); });
}

void round_rows(FloatRows rows, int64_t count, int64_t width, float* to) {
  for (int64_t i = 0; i < count; ++i, to += width) {
    const float* from = rows.row(i);
    each_vector(0, width, [=](int64_t k, auto lanes) { lanes.store(to + k, rounded_to_bfloat(lanes.load(from + k))); });
  }
}

void scale_and_add(float factor, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = factor * y[i] + x[i];
}

void scale_into(float factor, const float* x, int64_t n, bool rounds, float* y) {
  const bool rounds_here = is_built(DType::Bf16) && rounds;
  each_vector(0, n, [=](int64_t i, auto lanes) {
    const Float scaled = factor * lanes.load(x + i);
    lanes.store(y + i, rounds_here ? rounded_to_bfloat(scaled) : scaled);
  });
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
