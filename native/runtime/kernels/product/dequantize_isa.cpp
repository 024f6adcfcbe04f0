#include "kernels/product/dequantize.h"

#include <cstring>

#include "ggml.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {
namespace {

// 256 weights of 6 bits, as ggml lays them out: the lower four and the upper two apart, a scale for each 16.
struct Q6Block {
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t scale;  // f16
};
static_assert(sizeof(Q6Block) == 210, "as in ggml");

// 32 weights of 8 bits.
struct Q8Block {
  uint16_t scale;  // f16
  int8_t weights[32];
};
static_assert(sizeof(Q8Block) == 34, "as in ggml");

// 16 weights: 4 bits from low_shift on and 2 bits from high_shift on.
VEC_INLINE void dequantize_16(const uint8_t* low, const uint8_t* high, int low_shift, int high_shift, float scale,
                              float* __restrict to) {
  for (int i = 0; i < 16; ++i) {
    const int weight = ((low[i] >> low_shift) & 15) | (((high[i] >> high_shift) & 3) << 4);
    to[i] = scale * static_cast<float>(weight - 32);
  }
}

}  // namespace

void floats_from_q6_k(const void* from, int64_t n, float* to) {
  const auto* block = static_cast<const Q6Block*>(from);
  for (int64_t i = 0; i < n; i += 256, ++block) {
    const float scale = ggml_fp16_to_fp32(block->scale);
    for (int half = 0; half < 2; ++half) {
      const uint8_t* low = block->low + 64 * half;
      const uint8_t* high = block->high + 32 * half;
      for (int part = 0; part < 8; ++part, to += 16) {
        const int quarter = part / 2;  // of the half: 32 weights
        const int offset = part % 2 * 16;
        dequantize_16(low + quarter % 2 * 32 + offset, high + offset, quarter / 2 * 4, quarter * 2,
                      scale * static_cast<float>(block->scales[8 * half + part]), to);
      }
    }
  }
}

void floats_from_q8_0(const void* from, int64_t n, float* to) {
  const auto* block = static_cast<const Q8Block*>(from);
  for (int64_t i = 0; i < n; i += 32, ++block) {
    const float scale = ggml_fp16_to_fp32(block->scale);
    for (int k = 0; k < 32; ++k) to[i + k] = scale * static_cast<float>(block->weights[k]);
  }
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
