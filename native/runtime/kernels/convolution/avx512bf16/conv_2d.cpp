// The arithmetic of conv_2d on bf16, by instructions that add two products to each sum of floats.
#include "kernels/convolution/conv_2d_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct BfloatProducts {
  using Element = uint16_t;
  static constexpr int kAdjacent = 2;

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

}  // namespace

const BfloatTiles& bfloat_tiles() {
  static const BfloatTiles tiles = make_tiles<BfloatProducts, kLanes>();
  return tiles;
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
