// The arithmetic of conv_2d on bf16, by instructions that add two products to each sum of floats.
#include "kernels/convolution/conv_2d_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct BfloatProducts : UnpackedWeights {
  using Element = uint16_t;
  static constexpr int kAdjacent = 2;
  static constexpr bool kByLane = false;
  static constexpr bool kPrefetches = true;

  template <class V>
  static VEC_INLINE V input(const uint16_t* from) {
    int32_t pair;
    std::memcpy(&pair, from, sizeof(pair));
    return reinterpret_cast<V>(Vec<int32_t, kLanesOf<V>>{} + pair);
  }

  static VEC_INLINE Vec<float, 16> plus(Vec<float, 16> sum, Vec<float, 16> x, Vec<float, 16> weights) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(weights));
  }

  static VEC_INLINE Vec<float, 8> plus(Vec<float, 8> sum, Vec<float, 8> x, Vec<float, 8> weights) {
    return _mm256_dpbf16_ps(sum, reinterpret_cast<__m256bh>(x), reinterpret_cast<__m256bh>(weights));
  }
};

template <int Rows, int Lanes, int Vectors>
using BfloatTileOf = Tile<BfloatProducts, Rows, Lanes, Vectors>;

// n floats, of which load(i, lanes) has those from i on.
template <class Load>
VEC_INLINE void round_loaded(const Load& load, int64_t n, uint16_t* y) {
  constexpr __mmask16 kAll = 0xffff;
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(load(i + 16, kAll), load(i, kAll));
    _mm512_storeu_si512(y + i, reinterpret_cast<__m512i>(rounded));
  }
  for (; i < n; i += 16) {
    const auto lanes = static_cast<__mmask16>(n - i >= 16 ? kAll : (1u << (n - i)) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(load(i, lanes));
    _mm256_mask_storeu_epi16(y + i, lanes, reinterpret_cast<__m256i>(rounded));
  }
}

}  // namespace

const BfloatTiles& bfloat_tiles() {
  static constexpr BfloatTiles tiles = make_tiles<BfloatTileOf>();
  return tiles;
}

void round_to_bfloats(const float* x, int64_t n, uint16_t* y) {
  round_loaded([x](int64_t i, __mmask16 lanes) { return _mm512_maskz_loadu_ps(lanes, x + i); }, n, y);
}

void round_scaled_to_bfloats(const float* x, const float* factors, int64_t n, uint16_t* y) {
  const auto product = [x, factors](int64_t i, __mmask16 lanes) {
    return _mm512_maskz_loadu_ps(lanes, x + i) * _mm512_maskz_loadu_ps(lanes, factors + i);
  };
  round_loaded(product, n, y);
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
