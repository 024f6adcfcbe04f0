// How a thread's tiles are configured (simd/tiles.h).
#pragma once

#include <cstdint>

namespace executorch_ggml::kernels {

// As `sttilecfg` stores it. The first byte is 0 where they are not. Kernels put back what they find: ggml's own AMX
// kernels configure a thread's tiles once and rely on that ever after.
struct alignas(64) TileState {
  uint8_t bytes[64];
};

}  // namespace executorch_ggml::kernels
