// The arithmetic of conv_2d on bf16, by instructions that add two products to each sum of floats. CPUs without EBF16
// round the sum of the two, and then the result, to odd instead of to nearest.
#include "kernels/convolution/conv_2d_tiles.h"
#include "kernels/convolution/neonbf16/bfloats.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct BfloatProducts {
  using Element = uint16_t;
  static constexpr int kAdjacent = 2;

  template <class V>
  static VEC_INLINE V input(const uint16_t* from) {
    return reinterpret_cast<V>(Uint{} + load<uint32_t>(from));
  }

  static VEC_INLINE Float plus(Float sum, Float x, Float weights) {
    return reinterpret_cast<Float>(vbfdotq_f32(reinterpret_cast<float32x4_t>(sum), reinterpret_cast<bfloat16x8_t>(x),
                                               reinterpret_cast<bfloat16x8_t>(weights)));
  }
};

}  // namespace

const BfloatTiles& bfloat_tiles() {
  static const BfloatTiles tiles = make_tiles<BfloatProducts, kLanes>();
  return tiles;
}

void round_to_bfloats(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, rounded_bfloats(load<Float>(x + i)));
  if (i == n) return;
  const bfloat16x4_t last = rounded_bfloats(load_first(x + i, n - i));
  std::memcpy(y + i, &last, static_cast<size_t>(n - i) * sizeof(uint16_t));
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
