// Copies between tensors whose dims lie in memory in different orders.
#pragma once

#include <cstdint>

namespace executorch_ggml {

// Copies a tensor of `rank` dims, 16 at most, whose elements have `item` bytes (1, 2, 4 or 8). Strides are in elements.
void copy_strided(void* to, const int64_t* to_strides, const void* from, const int64_t* from_strides,
                  const int64_t* sizes, int rank, int64_t item);

}  // namespace executorch_ggml
