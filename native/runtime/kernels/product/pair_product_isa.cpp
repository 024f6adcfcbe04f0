#include "kernels/product/pair_product.h"

#include "kernels/product/row_pairs.h"
#include "kernels/simd/prefetch.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

constexpr int kVectors = static_cast<int>(kPackedColumns) / kLanes;
constexpr int64_t kPairElements = 2 * kPackedColumns;

template <class Pairs, int Rows>
struct PairProduct {
  // Of one row two, so that an addition does not wait for the one before it.
  static constexpr int kSums = Rows == 1 ? 2 : 1;
  using Sums = Float[kSums][Rows][kVectors];

  static VEC_INLINE void accumulate(const float* const (&rows)[Rows], int64_t k, const uint16_t* pairs,
                                    Float (&sums)[Rows][kVectors]) {
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const RowPair weights = Pairs::load(pairs + 2 * v * kLanes);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) sums[r][v] += splat<Float>(rows[r][k]) * weights.even;
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) sums[r][v] += splat<Float>(rows[r][k + 1]) * weights.odd;
    }
  }

  static void run(const float* const* inputs, int64_t length, const uint16_t* pairs, float* to) {
    const float* rows[Rows];
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) rows[r] = inputs[r];
    Sums sums = {};
    int64_t k = 0;
    for (; k + 2 * kSums <= length; k += 2 * kSums, pairs += kSums * kPairElements) {
      prefetch_stream(reinterpret_cast<const char*>(pairs), kSums * kPairElements * sizeof(uint16_t));
      VEC_UNROLL
      for (int s = 0; s < kSums; ++s) accumulate(rows, k + 2 * s, pairs + s * kPairElements, sums[s]);
    }
    for (; k + 2 <= length; k += 2, pairs += kPairElements) accumulate(rows, k, pairs, sums[0]);
    if (k < length) accumulate_last(rows, k, pairs, sums[0]);
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) {
      VEC_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const Float sum = kSums == 1 ? sums[0][r][v] : sums[0][r][v] + sums[kSums - 1][r][v];
        store(to + r * kPackedColumns + v * kLanes, sum);
      }
    }
  }

  // Of an odd length: the other row of the pair is not there.
  static VEC_INLINE void accumulate_last(const float* const (&rows)[Rows], int64_t k, const uint16_t* pairs,
                                         Float (&sums)[Rows][kVectors]) {
    VEC_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Float weights = Pairs::load(pairs + 2 * v * kLanes).even;
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) sums[r][v] += splat<Float>(rows[r][k]) * weights;
    }
  }
};

template <class Pairs>
void multiply(const float* const* rows, int64_t count, int64_t length, const uint16_t* pairs, float* sums) {
  static_assert(kPairProductRows == 4, "a function for each number of rows");
  static constexpr decltype(&PairProduct<Pairs, 1>::run) kRun[kPairProductRows] = {
      PairProduct<Pairs, 1>::run, PairProduct<Pairs, 2>::run, PairProduct<Pairs, 3>::run, PairProduct<Pairs, 4>::run};
  kRun[count - 1](rows, length, pairs, sums);
}

}  // namespace

void multiply_half_pairs(const float* const* rows, int64_t count, int64_t length, const uint16_t* pairs, float* sums) {
  multiply<HalfPairs>(rows, count, length, pairs, sums);
}

void multiply_bfloat_pairs(const float* const* rows, int64_t count, int64_t length, const uint16_t* pairs,
                           float* sums) {
  multiply<BfloatPairs>(rows, count, length, pairs, sums);
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
