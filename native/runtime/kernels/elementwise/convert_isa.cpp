// The 16-bit floats, for which CPUs have instructions.
#include <cstdint>

#include "ggml.h"
#include "kernels/simd/vec.h"

namespace executorch_ggml::kernels::KERNEL_ISA {

void halves_from_floats(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_halves(y + i, load<Float>(x + i));
  for (; i < n; ++i) {
    y[i] = ggml_fp32_to_fp16(x[i]);
  }
}

void floats_from_halves(const uint16_t* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load_halves(x + i));
  for (; i < n; ++i) {
    y[i] = ggml_fp16_to_fp32(x[i]);
  }
}

// Rounds half to even: the lower half carries into the upper one.
void bfloats_from_floats(const float* x, int64_t n, uint16_t* __restrict y) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t u;
    std::memcpy(&u, x + i, sizeof(u));
    const uint32_t kept = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t quiet = (u >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : kept);
  }
}

void floats_from_bfloats(const uint16_t* x, int64_t n, float* __restrict y) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = static_cast<uint32_t>(x[i]) << 16;
    std::memcpy(y + i, &u, sizeof(u));
  }
}

}  // namespace executorch_ggml::kernels::KERNEL_ISA
