// The arithmetic of depthwise layers of integers without dot products of bytes: two input rows at a time are
// interleaved as int16 less the zero point.
#include "kernels/quantized/depthwise_loops.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

struct Pairs {
  static constexpr int kRows = 2;

  template <class Byte>
  static VEC_INLINE void interleave(const Bytes<Byte> (&rows)[kRows], int32_t zero, char* to) {
    using Wide = Vec<int16_t, kChannels>;
    const auto less = static_cast<int16_t>(zero);
    store(to, __builtin_convertvector(interleave_low(rows[0], rows[1]), Wide) - less);
    store(to + sizeof(Wide), __builtin_convertvector(interleave_high(rows[0], rows[1]), Wide) - less);
  }

  static VEC_INLINE void pack(const Bytes<int8_t> (&taps)[kRows], char* to) { interleave<int8_t>(taps, 0, to); }

  static int outside(const QuantizedDepthwise&) { return 0; }
  static int32_t zero(const QuantizedDepthwise&) { return 0; }

  static VEC_INLINE Int plus_products(Int sum, Int x, Int weights) {
    return sum + pair_products(reinterpret_cast<Words>(x), reinterpret_cast<Words>(weights));
  }
};

}  // namespace

const QuantizedDepthwiseLoops& quantized_depthwise_loops() { return Depthwise<Pairs>::kLoops; }

}  // namespace executorch_ggml::kernels::KERNEL_ISA
