// int8 GEMM on AVX-512 VNNI, which multiplies unsigned bytes with signed ones: weights are made unsigned by adding
// their type's offset, and the accumulators start at minus that offset times the sum of a row's values.
#include "kernels/product/stream_columns.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// Two blocks in one vector.
VEC_INLINE __m512i two_blocks(const void* first, const void* second) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(load<__m256i>(first)), load<__m256i>(second), 1);
}

// The first block's scale in the lower lanes, the second one's in the upper lanes.
VEC_INLINE __m512 two_scales(float first, float second) {
  return _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(first), _mm512_set1_ps(second));
}

// The dot products of a q8_0 column with some rows, two blocks at a time.
struct Q8_0Column {
  using Block = Q8_0;

  template <int Rows>
  static VEC_INLINE void multiply(const RowBlock* rows, int64_t blocks, const Q8_0* column, float* output,
                                  int64_t row_stride) {
    const __m512i offset = _mm512_set1_epi8(-128);
    __m512 sums[Rows] = {};
    for (int64_t block = 0; block < blocks; block += 2) {
      const bool whole = block + 1 < blocks;
      const Q8_0& a = column[block];
      const Q8_0& b = whole ? column[block + 1] : a;
      prefetch_stream(&a, 2 * sizeof(a));
      const __m512i weights = _mm512_xor_si512(two_blocks(a.weights, b.weights), offset);
      const __m512 scales = two_scales(widened(a.scale), whole ? widened(b.scale) : 0.0f);
      VEC_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const RowBlock& x = rows[r * blocks + block];
        const RowBlock& y = whole ? (&x)[1] : x;
        const __m512i values = two_blocks(x.values, y.values);
        // The offset's share is subtracted lane by lane: in floats, the lanes' sums would cancel and lose their last
        // bits.
        const __m512i products = _mm512_sub_epi32(_mm512_dpbusd_epi32(__m512i{}, weights, values),
                                                  _mm512_dpbusd_epi32(__m512i{}, offset, values));
        sums[r] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), _mm512_mul_ps(scales, two_scales(x.scale, y.scale)), sums[r]);
      }
    }
    VEC_UNROLL
    for (int r = 0; r < Rows; ++r) output[r * row_stride] = _mm512_reduce_add_ps(sums[r]);
  }
};

}  // namespace

constexpr IntegerProducts integer_products = all_of(kProducts<stream<Q8_0Column>>);

}  // namespace executorch_ggml::kernels::KERNEL_ISA
