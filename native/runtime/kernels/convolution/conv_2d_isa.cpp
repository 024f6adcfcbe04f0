// The arithmetic of conv_2d on floats.
#include "kernels/convolution/activation.h"
#include "kernels/convolution/conv_2d_tiles.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct FloatProducts {
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

}  // namespace

const ConvTiles& conv_tiles() {
  static constexpr ConvTiles tiles = make_tiles<FloatTile>();
  return tiles;
}

void finish(float* y, int64_t n, const StoredEpilogue& epilogue) { finish_in_place(y, n, epilogue); }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
