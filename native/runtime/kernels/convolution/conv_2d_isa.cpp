// The arithmetic of conv_2d on floats.
#include "kernels/convolution/activation.h"
#include "kernels/convolution/conv_2d_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct FloatProducts : UnpackedWeights {
  using Element = float;
  static constexpr int kAdjacent = 1;
  static constexpr bool kByLane = kHasLaneProducts;
  static constexpr bool kPrefetches = !kByLane;

  template <class V>
  static VEC_INLINE V input(const float* from) {
    return splat<V>(*from);
  }

  template <class V>
  static VEC_INLINE V plus(V sum, V x, V weights) {
    return sum + x * weights;
  }

  template <int Lane>
  static VEC_INLINE Float plus_lane(Float sum, Float x, Float weights) {
    return sum + weights * x[Lane];
  }
};

template <int Rows, int Lanes, int Vectors>
using FloatTile = Tile<FloatProducts, Rows, Lanes, Vectors>;

#if defined(__AVX2__) && !defined(__AVX512F__)
// Weights of bf16 in pairs of rows, each pair in the bits of a float: the first row's in the lower half. With AVX-512
// the ports that would widen them multiply too, and each tile would widen them again.
struct WidenedProducts : FloatProducts {
  static constexpr int kRowsPerElement = 2;

  // A shuffle of bytes, where a shift would take a port that multiplies on CPUs of Intel.
  template <int Row>
  static VEC_INLINE Float weights(Float pair) {
    if constexpr (Row == 1) return from_bits(bits(pair) & ~0xffff);
    const __m128i upper = _mm_setr_epi32(0x01008080, 0x05048080, 0x09088080, 0x0d0c8080);
    return reinterpret_cast<Float>(
        _mm256_shuffle_epi8(reinterpret_cast<__m256i>(pair), _mm256_broadcastsi128_si256(upper)));
  }
};

template <int Rows, int Lanes, int Vectors>
using WidenedTile = Tile<WidenedProducts, Rows, Lanes, Vectors>;

constexpr ConvTiles widening(ConvTiles tiles) {
  tiles.widens_pairs = true;
  return tiles;
}
#endif

}  // namespace

const ConvTiles& conv_tiles() {
  static constexpr ConvTiles tiles = make_tiles<FloatTile>();
  return tiles;
}

const ConvTiles* widening_conv_tiles() {
#if defined(__AVX2__) && !defined(__AVX512F__)
  static constexpr ConvTiles tiles = widening(make_tiles<WidenedTile>());
  return is_built(DType::Bf16) ? &tiles : nullptr;
#else
  return nullptr;
#endif
}

void apply_stored_epilogue(float* y, int64_t n, const StoredEpilogue& epilogue) { apply_in_place(y, n, epilogue); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
